"""Names and their subagents: what `start`, `continue`, `status` and `interrupt` mean.

Owns who runs, and passes each end on to those who announce, remember and count it. All of it lives in memory, as long
as the daemon.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger
from zope.interface import implementer

from hivesub.errors import (
    AlreadyRunning,
    NotRunning,
    StillRunning,
    Stopping,
    TooManyRunning,
)
from hivesub.interfaces import IFleet
from hivesub.records import Control, State, TodoState
from hivesub.runs import logbook
from hivesub.runs.active import ActiveRun, stop_all
from hivesub.runs.earlyend import early_end, is_miss
from hivesub.runs.plan import (
    carried_over,
    check_session_free,
    find_clash,
    find_dir,
    plan_continue,
    plan_start,
)
from hivesub.runs.requestkeys import RequestKeys, check_same, digest_of
from hivesub.runs.roster import REMEMBERED, KeptCall, Roster
from hivesub.runs.views import Views, find_transcript_of
from hivesub.system.lookups import at_once
from hivesub.todos.todo import announcement
from hivesub.waiters import Waiters
from hivesub.wording import rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from datetime import datetime
    from pathlib import Path

    from twisted.internet.interfaces import IReactorTime

    from hivesub.interfaces import IChecks, IHeard, IRedactor, ITranscripts, ITurnSpawner
    from hivesub.records import ContinueRequest, RunRequest, StartRequest
    from hivesub.runs.announcement import Announcer
    from hivesub.runs.machine import Limits
    from hivesub.runs.roster import Subagent
    from hivesub.runs.run import Run
    from hivesub.shapes import AnswerExtras, Record, RunAnswer, StatusAnswer, TaskState
    from hivesub.system.lookups import Look

INTERRUPTED = "interrupted by the agent"
LOOK_S = 0.4
"""Minimum time allowed for finding the session that an interrupted run has left."""
INTERRUPT_S = 9.5
"""How long `interrupt` waits for the child to go: its answer comes within 10 s."""


@implementer(IFleet)
class Fleet:
    """The subagents of one daemon.

    :param tools: what each subagent is given, never empty.
    :param config_dir: where claude keeps its sessions, for the error of a miss.
    :param new_session_id: gives a fresh UUID as text.
    :param new_task_id: gives a fresh id that cannot be guessed.
    :param limits: how usage limits are waited out.
    :param checks: the operator's.
    :param transcripts: finds claude's own record of a session.
    :param heard: where it is kept of which ends the agent has heard.
    :param look: looks at the paths that an agent or a subagent names.
    """

    log = Logger()

    def __init__(
        self,
        *,
        source: ITurnSpawner,
        clock: IReactorTime,
        now: Callable[[], datetime],
        redactor: IRedactor,
        announcer: Announcer,
        tools: tuple[str, ...],
        default_dir: Path,
        max_running: int,
        config_dir: str,
        new_session_id: Callable[[], str],
        new_task_id: Callable[[], str],
        heard: IHeard,
        limits: Limits,
        checks: IChecks,
        look: Look = at_once,
        transcripts: ITranscripts,
    ) -> None:
        self._source = source
        self._clock = clock
        self._now = now
        self._redact = redactor.redact
        self._redact_identifier = redactor.redact_identifier
        self._views = Views(clock=clock, redactor=redactor, still_there=source.still_there)
        self._announcer = announcer
        self._tally = announcer.tally
        self._tools = tools
        self._default_dir = default_dir
        self._max_running = max_running
        self._config_dir = config_dir
        self._new_session_id = new_session_id
        self._new_task_id = new_task_id
        self._heard = heard
        self._limits = limits
        self._checks = checks
        self._look = look
        self._transcripts = transcripts
        self._tasks: dict[str, Run] = {}
        self._told = Waiters(clock)
        self._stopped_tasks: list[Run] = []
        self._roster = Roster()
        self._active: dict[str, ActiveRun] = {}
        self._ended = Waiters(clock)
        self._keys = RequestKeys()
        self._stopping = False
        self._unreported_ends: dict[str, Run] = {}

    # The four tools.

    def start(self, request: StartRequest) -> Deferred[RunAnswer]:
        return self._once("start", request, partial(self._start, request))

    def resume(self, request: ContinueRequest) -> Deferred[RunAnswer]:
        return self._once("continue", request, partial(self._continue, request))

    def status(self, name: str | None, *, wait_s: float, wait_for_all: bool, result: bool) -> Deferred[StatusAnswer]:
        return Deferred.fromCoroutine(self._status(name, wait_s, wait_for_all, result))

    def interrupt(self, name: str) -> Deferred[RunAnswer]:
        return Deferred.fromCoroutine(self._interrupt(name))

    async def _find_dir(self, request: RunRequest) -> Path | None:
        """The directory that a call names. Before all else, as others may be admitted meanwhile."""
        if request.dir is None:
            return None
        found: Path = await self._look(f"dir: {request.dir!r}", find_dir, request.dir)
        return found

    async def _start(self, request: StartRequest) -> RunAnswer:
        self._admit(request.name)
        found = await self._find_dir(request)
        self._admit(request.name)
        run = plan_start(
            request,
            found,
            default_dir=self._default_dir,
            tools=self._tools,
            checks=self._checks.names,
            session_id=self._new_session_id(),
            now=self._now(),
        )
        earlier = self._last(request.name)
        extras: AnswerExtras = {}
        if earlier is not None and earlier.session_id is not None:
            extras["replaced_session_id"] = self._redact_identifier(earlier.session_id)
        return await self._answer_when_started(self._begin(run), self._keep("start", request, run, extras))

    async def _continue(self, request: ContinueRequest) -> RunAnswer:
        called_at = self._clock.seconds()
        self._admit(request.name)
        found = await self._find_dir(request)
        self._admit(request.name)
        earlier = self._continued_from(self._last(request.name))
        run = plan_continue(
            request,
            found,
            earlier,
            default_dir=self._default_dir,
            tools=self._tools,
            checks=self._checks.names,
            now=self._now(),
        )
        check_session_free(run, [active.run for active in self._active.values()])
        extras = carried_over(request, earlier, run)
        made = await self._answer_when_started(self._begin(run), self._keep("continue", request, run, extras))
        self._tally.resume.observe(self._clock.seconds() - called_at)
        return made

    async def _status(self, name: str | None, wait_s: float, wait_for_all: bool, result: bool) -> StatusAnswer:
        asked = [self._roster.known(name).run] if name is not None else self._roster.runs()
        watched = [run for run in asked if not run.over]
        enough = all if wait_for_all else any
        deadline = self._clock.seconds() + wait_s
        while watched and not enough(run.over for run in watched) and (left := deadline - self._clock.seconds()) > 0:
            await self._ended.wait(left)
        if name is not None:
            return {"subagents": [self._views.record(self._roster.known(name).run, result=result)]}
        return self._views.listed(self._roster.runs(), result)

    async def _interrupt(self, name: str) -> RunAnswer:
        run = self._roster.known(name).run
        active = self._active.get(name)
        if active is None:
            last = "" if run.last_turn is None else f", its last turn {run.last_turn.outcome.value}"
            raise NotRunning(
                f"{name} is not running: it is {run.state.value}{last}. Nothing to interrupt; `continue` resumes it"
            )
        deadline = self._clock.seconds() + INTERRUPT_S
        over = active.over(within_s=INTERRUPT_S)
        active.interrupt(INTERRUPTED)
        await over
        if not run.over:
            raise StillRunning(f"{name} has not ended yet: {active.why_not_over()}. Ask `status` again")
        await active.swept(max(0.0, deadline - self._clock.seconds()))
        answer: RunAnswer = {"subagent": self._views.record(run), "escalated": run.escalated}
        await find_transcript_of(run, self._transcripts, max(LOOK_S, deadline - self._clock.seconds()))
        # A claude that has not reached its signal route yet keeps no new session (measured, 2.1.332).
        if run.transcript is not None or (run.resume is None and run.control is Control.UNKNOWN):
            answer["session_kept"] = run.transcript is not None
        return answer

    # What the agent has heard of.

    def news(self, shown: Iterable[str]) -> Deferred[list[Record]]:
        return Deferred.fromCoroutine(self._take_unreported(tuple(shown)))

    async def _take_unreported(self, shown: tuple[str, ...]) -> list[Record]:
        news, self._unreported_ends = self._unreported_ends, {}
        for name in shown:
            if name in news:
                self._note_told(news.pop(name))
        heard = await self._heard.ids() if news else frozenset()
        fresh = [run for run in news.values() if run.todo_id not in heard]
        for run in fresh:
            self._note_told(run)
        return [self._views.record(run, goal_limit=0) for run in fresh]

    def _note_told(self, run: Run) -> None:
        self._unreported_ends.pop(run.name, None)
        run.heard = True
        if run.todo_id is not None:
            self._heard.note(run.todo_id)

    def as_task(self, name: str) -> TaskState | None:
        known = self._roster.get(name)
        if known is None or known.run.over:
            return None
        run = known.run
        if run.task_id is None:
            run.task_id = self._new_task_id()
            self._tasks[run.task_id] = run
            over = [task_id for task_id, other in self._tasks.items() if other.over]
            for old in over[:-REMEMBERED]:
                del self._tasks[old]
        return self.task_state(run.task_id)

    def task_state(self, task_id: str) -> TaskState | None:
        run = self._tasks.get(task_id)
        if run is None:
            return None
        record = self._views.record(run)
        return {
            "id": task_id,
            "record": record,
            "created_at": record["started_at"],
            "updated_at": record["ended_at"] or rfc3339(self._now()),
            "announcement": announcement(record, self._redact_identifier) if run.announced else None,
        }

    def told_by_task(self, task_id: str) -> None:
        run = self._tasks.get(task_id)
        if run is not None and self._unreported_ends.get(run.name) is run:
            self._note_told(run)
            self._told.fire()

    def cancel_task(self, task_id: str) -> None:
        run = self._tasks.get(task_id)
        active = self._active.get(run.name) if run is not None else None
        if active is not None and active.run is run:
            active.interrupt(INTERRUPTED)

    # Admission.

    def _last(self, name: str) -> Run | None:
        known = self._roster.get(name)
        return known.run if known is not None else None

    @staticmethod
    def _continued_from(last: Run | None) -> Run | None:
        return last.before_miss if last is not None and last.missed else last

    def _admit(self, name: str) -> None:
        if self._stopping:
            raise Stopping("the daemon is stopping and takes no new runs; call again when it is back")
        if name in self._active:
            run = self._active[name].run
            age = run.turn.last_event_at if run.turn is not None else None
            heard = "" if age is None else f", last event {self._clock.seconds() - age:.0f} s ago"
            raise AlreadyRunning(
                f"{name} is running (turn {run.turn_number}{heard}): nothing was queued. "
                "Wait with `status`, stop it with `interrupt`, or take another name"
            )
        if len(self._active) >= self._max_running:
            raise TooManyRunning(
                f"{len(self._active)} runs are going on, the daemon's limit (--max-running): nothing was queued. "
                "Wait with `status` until one ends, or `interrupt` one"
            )

    def _once(
        self, tool: str, request: RunRequest, work: Callable[[], Coroutine[Any, Any, RunAnswer]]
    ) -> Deferred[RunAnswer]:
        """Do a call's work, unless one with the same key is doing it or has done it."""
        key = request.request_key
        if key is None:
            return Deferred.fromCoroutine(work())

        def made_or_new() -> Deferred[RunAnswer]:
            known = self._roster.get(request.name)
            kept = known.calls.get((tool, key)) if known is not None else None
            return Deferred.fromCoroutine(work() if kept is None else self._repeat(kept, request))

        return maybeDeferred(self._keys.join, (tool, request.name, key), request, made_or_new)

    async def _repeat(self, kept: KeptCall, request: RunRequest) -> RunAnswer:
        """Answer with the run already made; where its first caller left before the answer, as that one would have been
        answered.
        """
        check_same(kept.digest, request)
        active = self._active.get(request.name)
        return await self._answer_when_started(active if active is not None and active.run is kept.run else None, kept)

    def _keep(self, tool: str, request: RunRequest, run: Run, extras: AnswerExtras) -> KeptCall:
        """Keep a call that bears a key from the first: its caller may give up before the answer, and come again."""
        call = KeptCall(digest_of(request), run, extras)
        if request.request_key is not None:
            self._roster.known(run.name).keep(tool, request.request_key, call)
        return call

    async def _answer_when_started(self, active: ActiveRun | None, call: KeptCall) -> RunAnswer:
        """Answer a call, once its run has a process, and once that is under way where it resumes a session.

        :param active: the run, begun by the first who waits; None where it is over.
        :raises HivesubError: what ended the run before that.
        """
        run = call.run
        if active is not None and run.last_turn is None:
            active.awaited += 1
            try:
                await (active.launched() if active.begun else active.launch())
                if run.resume is not None:
                    await active.under_way()
            finally:
                active.awaited -= 1
        error = None if call.answered else early_end(run, self._config_dir)
        if error is not None:
            known = self._roster.get(run.name)
            if known is not None:
                known.forget(call)
            if self._unreported_ends.get(run.name) is run:
                self._note_told(run)
            raise type(error)(self._redact_identifier(str(error)))
        call.answered = True
        return self._views.made(run, call.extras)

    # The life of a run.

    def _begin(self, run: Run) -> ActiveRun:
        earlier = self._roster.place(run)
        self._unreported_ends.pop(run.name, None)  # who starts it anew has no use for the end before
        active = self._active[run.name] = ActiveRun(
            run,
            source=self._source,
            clock=self._clock,
            now=self._now,
            redact=self._redact,
            limits=self._limits,
            checks=self._checks,
            look=self._look,
            finished=partial(self._finished, earlier),
            on_first_init=partial(self._on_first_init, run),
            tally=self._tally,
        )
        return active

    def _on_first_init(self, run: Run) -> None:
        self._check_sessions()
        self._find_transcript(run)

    def _find_transcript(self, run: Run) -> Deferred[None]:
        finding = Deferred.fromCoroutine(find_transcript_of(run, self._transcripts))
        return finding.addErrback(lambda why: self.log.failure("no transcript of {name}", why, name=run.name))

    def _check_sessions(self) -> None:
        """End whichever run turns out to work in the session of an earlier one."""
        going = [active.run for active in self._active.values() if active.run.clash is None]
        clash = find_clash(going)
        if clash is not None:
            later, other = clash
            self._active[later.name].end_clash(other)

    def _finished(self, earlier: Subagent | None, active: ActiveRun) -> None:
        run = active.run
        del self._active[run.name]
        end, resumes = run.last_turn, run.resume is not None
        missed = end is not None and resumes and run.turn_number == 1 and is_miss(end)
        refused = end is None and not (resumes and run.state is State.KILLED)
        if active.awaited and (missed or refused):
            # Nothing was run, and the call's own error says why.
            logbook.came_to_nothing(run)
            self._roster.put_back(run.name, earlier)
            self._ended.fire()
            return
        if missed:
            run.note_miss(self._continued_from(earlier.run if earlier is not None else None))
        self._remember(run)

    def _remember(self, run: Run) -> None:
        self._roster.ended(run.name, self._active)
        self._unreported_ends[run.name] = run
        if len(self._unreported_ends) > REMEMBERED:
            del self._unreported_ends[next(iter(self._unreported_ends))]
        old, run.todo = run.todo, TodoState.PENDING
        announcing = self._announcer.announce(run, lambda: self._views.record(run))
        announcing.addErrback(
            lambda failure: self.log.failure("{name}: its end was not announced", failure, name=run.name)
        )
        announcing.addCallback(lambda _: self._announced(run))
        # Last: an end that cannot be counted is announced all the same.
        self._tally.todo_moved(old, TodoState.PENDING)
        self._tally.run_ended(run.stop_reason)
        self._find_transcript(run)
        logbook.ended(self._views.record(run))

    def _announced(self, run: Run) -> None:
        run.announced = True
        if run.heard and run.todo_id is not None:
            self._heard.note(run.todo_id)
        self._ended.fire()

    # For those who look at all.

    @property
    def running(self) -> int:
        """How many runs are going on."""
        return len(self._active)

    def runs(self) -> list[Run]:
        """The last run of each name, in the order of ending."""
        return self._roster.runs()

    def stop(self) -> Deferred[None]:
        """Take no new runs, interrupt what runs, and announce the ends.

        :returns: fires when the todo of every run was handed on, within 10 s.
        """
        self._stopping = True
        self._stopped_tasks = [active.run for active in self._active.values() if active.run.task_id is not None]
        return stop_all(self._active, self._announcer, self._clock)

    def stopped_tasks_heard(self) -> Deferred[None]:
        """Fires once the clients of the tasks that `stop` has ended have heard of it."""
        return Deferred.fromCoroutine(self._stopped_tasks_heard())

    async def _stopped_tasks_heard(self) -> None:
        while any(not run.heard for run in self._stopped_tasks):
            await self._told.wait()
