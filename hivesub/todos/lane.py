"""The way to one sink: which todo is tried next, and when. Each sink has its own, so that a dead one holds up no other.

Runs as many attempts at once as the sink allows; after a failure only one, until the sink takes or refuses a todo, so
that a receiver that is down is not asked by a thousand. Todos go oldest first, and keep that order while nobody can be
reached. A todo that a receiver had and did not take (a 5xx, half an answer) goes behind those that failed less often,
so that one that it can never take holds up none; its own wait grows besides the lane's. Which failure is final is the
sink's to say; how many todos may wait is the outbox's.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from hivesub.shapes import Todo
from hivesub.todos.backoff import Backoff
from hivesub.todos.sinks import Attempt, ISink, Verdict


@define(eq=False)
class _Waiting:
    todo: Todo
    age: str
    failures: int = 0
    due_at: float = 0.0


@define(eq=False)
class Lane:
    """Tries each todo until the sink has taken or refused it.

    `ended`: called with the todo's id and what came of it, after each attempt, once the lane has taken note of it.
    """

    sink: ISink
    _clock: IReactorTime
    _backoff: Backoff
    _ended: Callable[[str, Attempt], None]
    _waiting: dict[str, _Waiting] = field(init=False, factory=dict)
    _failures: int = field(init=False, default=0)
    _not_before: float = field(init=False, default=0.0)
    _in_flight: dict[str, Deferred[Attempt]] = field(init=False, factory=dict)
    _timer: IDelayedCall | None = field(init=False, default=None)
    _choosing: bool = field(init=False, default=False)
    _closed: bool = field(init=False, default=False)

    _log = Logger()

    @property
    def busy(self) -> bool:
        """Whether an attempt is in flight or could be begun now."""
        return bool(self._in_flight) or (not self._closed and self._due() is not None)

    def push(self, todo: Todo, age: str) -> None:
        """Line a todo up.

        :param age: sorts todos, the oldest first.
        """
        if not self._closed:
            self._waiting[todo["id"]] = _Waiting(todo, age)
            self._go_on()

    def drop(self, todo_id: str) -> None:
        """Forget a todo. Its attempt in flight goes on."""
        self._waiting.pop(todo_id, None)

    def close(self) -> None:
        """Begin no attempt any more, and give up those in flight."""
        self._closed = True
        self._set_timer(None)
        for attempt in list(self._in_flight.values()):
            attempt.cancel()

    @property
    def _room(self) -> bool:
        return len(self._in_flight) < (1 if self._failures else self.sink.at_once)

    def _due(self) -> _Waiting | None:
        now = self._clock.seconds()
        if now < self._not_before:
            return None
        due = (each for key, each in self._waiting.items() if each.due_at <= now and key not in self._in_flight)
        return min(due, key=lambda each: (each.failures, each.age), default=None)

    def _go_on(self) -> None:
        if self._choosing:
            return  # an attempt that ended at once comes back here: the loop below goes on, instead of the stack
        self._choosing = True
        try:
            while not self._closed and self._room and (due := self._due()) is not None:
                self._try(due)
        finally:
            self._choosing = False
        if not self._closed and not self._in_flight and self._waiting:
            next_due = min(each.due_at for each in self._waiting.values())
            self._set_timer(max(0.0, self._not_before - self._clock.seconds(), next_due - self._clock.seconds()))
        else:
            self._set_timer(None)

    def _set_timer(self, seconds: float | None) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = None if seconds is None else self._clock.callLater(seconds, self._go_on)

    def _try(self, waiting: _Waiting) -> None:
        attempt = self._in_flight[waiting.todo["id"]] = maybeDeferred(self.sink.deliver, waiting.todo)
        attempt.addBoth(self._tried, waiting).addErrback(self._unexpected)

    def _tried(self, result: Attempt | Failure, waiting: _Waiting) -> None:
        del self._in_flight[waiting.todo["id"]]
        if isinstance(result, Failure):
            if result.check(CancelledError):  # only `close` cancels; the todo is on disk
                return
            self._unexpected(result)
            result = Attempt(verdict=Verdict.FAILED, why=type(result.value).__name__)
        if result.verdict in (Verdict.DELIVERED, Verdict.REFUSED):
            self._settled(waiting, result)
        else:
            self._postpone(waiting, result)
        try:
            self._ended(waiting.todo["id"], result)
        finally:
            self._go_on()

    def _settled(self, waiting: _Waiting, attempt: Attempt) -> None:
        if self._failures:
            self._log.info("todo sink {label} answers again", label=self.sink.label)
        self._failures, self._not_before = 0, 0.0
        self.drop(waiting.todo["id"])

    def _postpone(self, waiting: _Waiting, attempt: Attempt) -> None:
        now = self._clock.seconds()
        if now >= self._not_before:  # else it is one of several that failed together
            self._failures += 1
            self._not_before = now + self._backoff.wait_s(self._failures, attempt.retry_after_s)
        wait_s = self._not_before - now
        if attempt.verdict is Verdict.FAILED:
            waiting.failures += 1
            waiting.due_at = now + self._backoff.wait_s(waiting.failures, attempt.retry_after_s)
        self._log.warn(
            "todo {todo_id} did not reach {label}: {why}; next attempt there in {wait_s:.1f} s, {count} waiting",
            todo_id=waiting.todo["id"], label=self.sink.label, why=attempt.why, wait_s=wait_s, count=len(self._waiting),
        )  # fmt: skip

    def _unexpected(self, failure: Failure) -> None:
        self._log.failure("a todo's attempt at {label} broke", failure=failure, label=self.sink.label)
