"""The outbox: takes todos, keeps each on disk before its first attempt, and reports what became of it.

At least once to each sink, by the todo's id: a daemon that dies between a delivery and its note on disk sends again.
Owns what is owed to whom; the attempts are the lanes', the files the store's, which is called in threads, one call at
a time and in order.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from attrs import define, evolve
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from hivesub.errors import AppendError
from hivesub.interfaces import IOutbox
from hivesub.records import TodoState
from hivesub.shapes import Todo
from hivesub.system.appendfile import InThread
from hivesub.todos.backoff import Backoff
from hivesub.todos.inorder import InOrder
from hivesub.todos.lane import Lane
from hivesub.todos.sinks import Attempt, ISink, Verdict
from hivesub.todos.store import Kept, TodoStore

WAITING_LIMIT = 1000
"""Todos that wait at most; past it the oldest go to the dead-letter file."""

_KEEP_WAIT_S = 5.0
_FLUSH_WAIT_S = 1.0


@define(eq=False)
class _Entry:
    kept: Kept
    changed: Callable[[TodoState], None]
    owed: set[str]
    refused: bool = False
    reported: TodoState = TodoState.NONE


@implementer(IOutbox)
class Outbox(Service):
    """Pushes todos to all sinks.

    :param random: gives floats in [0, 1), for the jitter.
    :param stop_wait_s: how long `stopService` lets attempts in flight go on; what is not delivered then stays on disk
        for the next start.
    """

    _log = Logger()

    def __init__(
        self,
        *,
        store: TodoStore,
        sinks: Sequence[ISink],
        clock: IReactorTime,
        in_thread: InThread,
        random: Callable[[], float],
        stop_wait_s: float = 2.0,
        waiting_limit: int = WAITING_LIMIT,
    ) -> None:
        self._store = store
        self._clock = clock
        self._stop_wait_s = stop_wait_s
        self._waiting_limit = waiting_limit
        self._entries: dict[str, _Entry] = {}
        self._disk = InOrder(in_thread)
        self._disk_calls = 0
        self._arriving = 0
        self._waiters: list[tuple[Callable[[], bool], Deferred[None]]] = []
        backoff = Backoff(random=random)
        # By key, so that a sink that was named twice is one.
        self._lanes = {sink.key: Lane(sink, clock, backoff, partial(self._attempted, sink.key)) for sink in sinks}

    @property
    def waiting(self) -> int:
        """Todos that some sink is still owed."""
        return len(self._entries)

    def startService(self) -> None:
        """Begin, with what an earlier daemon left in the state directory."""
        super().startService()  # type: ignore[no-untyped-call]
        self._in_background(self._send_leftovers())

    def stopService(self) -> Deferred[None]:
        """Stop within `stop_wait_s` and a second; todos pushed meanwhile are kept on disk at the least.

        :returns: fires with None when nothing is in flight any more.
        """
        super().stopService()  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(self._stop())

    def push(self, todo: Todo, changed: Callable[[TodoState], None]) -> None:
        entry = _Entry(Kept(todo=todo), changed, set(self._lanes))
        self._entries[todo["id"]] = entry
        self._report(entry, TodoState.PENDING)
        self._in_background(self._keep_then_send(entry))
        self._bury_the_oldest()

    async def _send_leftovers(self) -> None:
        loaded: list[Kept] = await self._on_disk("read the waiting todos", self._store.load) or []
        for kept in loaded:
            if kept.todo["id"] in self._entries:
                continue
            entry = _Entry(kept, _nobody, set(self._lanes) - kept.settled)
            if entry.owed:
                self._entries[kept.todo["id"]] = entry
            else:
                self._dropped(self._store.remove, kept)
        if loaded:
            self._log.info("{count} todos were waiting in {folder}", count=len(loaded), folder=str(self._store.pending))
        self._bury_the_oldest()
        for kept in loaded:
            if (entry_now := self._entries.get(kept.todo["id"])) is not None and entry_now.kept is kept:
                self._line_up(entry_now)

    async def _keep_then_send(self, entry: _Entry) -> None:
        # A disk that is full is logged and one that is blocked is not waited for: news that may be lost in a crash is
        # better than none.
        await _at_most(self._on_disk("keep a todo", self._store.write, entry.kept), _KEEP_WAIT_S, self._clock)
        self._line_up(entry)

    def _line_up(self, entry: _Entry) -> None:
        if self._entries.get(entry.kept.todo["id"]) is entry:
            for key in sorted(entry.owed):
                self._lanes[key].push(entry.kept.todo, entry.kept.file_name)

    def _attempted(self, key: str, todo_id: str, attempt: Attempt) -> None:
        entry = self._entries.get(todo_id)
        if entry is not None and attempt.verdict in (Verdict.DELIVERED, Verdict.REFUSED):
            self._settle(entry, key, attempt)
        self._look_around()

    def _settle(self, entry: _Entry, key: str, attempt: Attempt) -> None:
        entry.owed.discard(key)
        entry.kept = evolve(entry.kept, settled=entry.kept.settled | {key})
        why = ""
        if attempt.verdict is Verdict.REFUSED:
            entry.refused = True
            label = self._lanes[key].sink.label
            why = f"{label}: {attempt.why}"
            self._log.error(
                "todo {todo_id} is undelivered: {label}: {why}; it goes to the dead-letter file",
                todo_id=entry.kept.todo["id"], label=label, why=attempt.why,
            )  # fmt: skip
        if not entry.owed:
            del self._entries[entry.kept.todo["id"]]
        note = self._store.write if entry.owed else self._store.remove
        if why:
            self._dropped(self._bury_then, note, entry.kept, why)
        else:
            self._dropped(note, entry.kept)
        if entry.refused:
            self._report(entry, TodoState.UNDELIVERED)
        elif not entry.owed:
            self._report(entry, TodoState.DELIVERED)

    def _bury_the_oldest(self) -> None:
        while len(self._entries) > self._waiting_limit:
            entry = min(self._entries.values(), key=lambda each: each.kept.file_name)
            todo_id = entry.kept.todo["id"]
            del self._entries[todo_id]
            for lane in self._lanes.values():
                lane.drop(todo_id)
            self._log.error(
                "more than {limit} todos wait: the oldest, {todo_id}, goes undelivered to the dead-letter file",
                limit=self._waiting_limit, todo_id=todo_id,
            )  # fmt: skip
            why = f"more than {self._waiting_limit} todos were waiting"
            self._dropped(self._bury_then, self._store.remove, entry.kept, why)
            self._report(entry, TodoState.UNDELIVERED)

    def _bury_then(self, note: Callable[[Kept], None], kept: Kept, why: str) -> None:
        """In a thread. When there is no room for the dead letter the todo stays among the waiting, for the next
        start."""
        self._store.bury(kept.todo, why)
        note(kept)

    def _report(self, entry: _Entry, state: TodoState) -> None:
        if entry.reported is state:
            return
        entry.reported = state
        try:
            entry.changed(state)
        except Exception:
            self._log.failure("todo state callback failed for {state}", state=state.value)

    def _dropped(self, function: Callable[..., Any], *args: object) -> None:
        """Do something on disk that nobody waits for; `_on_disk` logs what goes wrong."""
        self._on_disk("note what became of a todo", function, *args)

    def _on_disk(self, purpose: str, function: Callable[..., Any], *args: object) -> Deferred[Any]:
        """Call a method of the store when those before it are done. Fires with what it gives, or None and a line in
        the log."""
        self._disk_calls += 1
        return self._disk(function, *args).addErrback(self._disk_failed, purpose).addBoth(self._disk_done)

    def _disk_failed(self, failure: Failure, purpose: str) -> None:
        if failure.check(OSError, AppendError):
            self._log.error("could not {purpose}: {why}", purpose=purpose, why=failure.getErrorMessage())
        else:
            self._log.failure("could not {purpose}", failure=failure, purpose=purpose)

    def _disk_done(self, result: Any) -> Any:
        self._disk_calls -= 1
        self._look_around()
        return result

    async def _stop(self) -> None:
        await _at_most(self._once(self._is_quiet), self._stop_wait_s, self._clock)
        for lane in self._lanes.values():
            lane.close()
        await _at_most(self._once(lambda: not self._disk_calls), _FLUSH_WAIT_S, self._clock)
        if self._entries:
            self._log.info(
                "{count} todos stay in {folder} for the next start",
                count=len(self._entries),
                folder=str(self._store.pending),
            )

    def _is_quiet(self) -> bool:
        return not (self._disk_calls or self._arriving or any(lane.busy for lane in self._lanes.values()))

    def _once(self, condition: Callable[[], bool]) -> Deferred[None]:
        met: Deferred[None] = Deferred()
        self._waiters.append((condition, met))
        self._look_around()
        return met

    def _look_around(self) -> None:
        for waiter in [each for each in self._waiters if each[0]()]:
            self._waiters.remove(waiter)
            waiter[1].callback(None)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        self._arriving += 1

        def over(result: object) -> None:
            self._arriving -= 1
            if isinstance(result, Failure):
                self._log.failure("the outbox broke", failure=result)
            self._look_around()

        Deferred.fromCoroutine(work).addBoth(over)


def _nobody(state: TodoState) -> None:
    """Nobody asks any more for a todo of an earlier daemon."""


def _at_most(done: Deferred[Any], seconds: float, clock: IReactorTime) -> Deferred[None]:
    """Wait for a Deferred that never fails, but no longer; it is left alone."""
    either: Deferred[None] = Deferred()
    timer = clock.callLater(seconds, either.callback, None)

    def came(result: object) -> object:
        if timer.active():
            timer.cancel()
            either.callback(None)
        return result

    done.addBoth(came)
    return either
