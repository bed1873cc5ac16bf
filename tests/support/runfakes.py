"""What the tests of the runs layer share: a fleet on a `Clock` whose turns a test ends; a report and an outbox that
keep what they are given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from hivesub.interfaces import (
    ICheck,
    IChecks,
    IHeard,
    IOutbox,
    IRedactor,
    IReport,
    ITranscripts,
    ITurnSpawner,
)
from hivesub.records import (
    CheckEnd,
    CheckOutcome,
    ContinueRequest,
    Init,
    Outcome,
    Result,
    StartRequest,
    TodoState,
    TurnEnd,
    TurnSpec,
    TurnUsage,
)
from hivesub.runs.announcement import Announcer
from hivesub.runs.fleet import Fleet
from hivesub.runs.machine import Limits
from hivesub.runs.run import Run
from hivesub.shapes import RunAnswer, StepRecord, Steps, Todo
from hivesub.testing import FakeTurn, FakeTurnSpawner
from hivesub.waiters import OneShot
from tests.support.options import grouped

NOW = datetime(2031, 5, 6, 7, 8, 9, 123000, tzinfo=UTC)
TOOLS = ("Read", "Write")
CONFIG_DIR = "/home/op/.claude"
SECRET = "s3cret-token"


def session(number: int) -> str:
    """The id of the nth session that the fleet makes up."""
    return f"00000000-0000-4000-8000-{number:012d}"


def init(**changes: Any) -> Init:
    """An `init` event that gives what was asked for and names neither session nor directory."""
    return Init(**{"session_id": None, "cwd": None, "tools": TOOLS, "mcp_servers": {}, **changes})


def turn_end(outcome: Outcome = Outcome.FINISHED, **changes: Any) -> TurnEnd:
    """The end of a turn that was under way; finished unless told otherwise."""
    fields: dict[str, Any] = {
        "outcome": outcome,
        "signal": "SIGINT" if outcome is Outcome.KILLED else None,
        "exit_code": 1 if outcome is Outcome.FAILED else 0,
        "detail": "",
        "ended_at": NOW,
        "under_way": True,
    }
    return TurnEnd(**{**fields, **changes})


def unborn(error: str, **changes: Any) -> TurnEnd:
    """The end of a child that exited before `init`, with claude's message."""
    detail = f"exit code 1: {error}"
    return turn_end(Outcome.FAILED, **{"detail": detail, "error": error, "under_way": False, **changes})


def used(total: float | None, since: float | None = None, turns: int = 1) -> TurnUsage:
    """What the results of a turn said of its use."""
    return TurnUsage(total_cost_usd=total, since_usd=since, claude_turns=turns, input_tokens=10, output_tokens=3)


def said(text: str, **changes: Any) -> Result:
    """A good `result` event."""
    return Result(is_error=False, subtype="success", text=text, **changes)


def run_of(**fields: Any) -> Run:
    """A run of `alpha` that no fleet knows."""
    plan: dict[str, Any] = {"name": "alpha", "prompt": "p", "dir": Path("/srv/work"), "tools": TOOLS, "started_at": NOW}
    return Run(**grouped({**plan, **fields}))


def a_turn() -> FakeTurn:
    """A first turn of it."""
    spec = TurnSpec(name="alpha", prompt=b"p", dir=Path("/srv/work"), tools=TOOLS, session_id=session(1))
    return FakeTurn(spec, lambda kind, message, path: succeed(""), 1)


@implementer(IRedactor)
class FakeRedactor:
    """Knows one secret."""

    def redact(self, text: str) -> str:
        return text.replace(SECRET, "[redacted]")

    redact_identifier = redact


@implementer(IReport)
class FakeReport:
    """Keeps what is appended. `error`: what the next append fails with. `hold`: appends wait in `held`."""

    def __init__(self, told: list[str]) -> None:
        self.appended: list[tuple[str, str, str | None]] = []
        self.error: Exception | None = None
        self.hold = False
        self.held: list[Deferred[None]] = []
        self._told = told

    def append(self, path: str, text: str, within: str | None) -> Deferred[None]:
        error, self.error = self.error, None
        if error is not None:
            return fail(error)
        self.appended.append((path, text, within))
        self._told.append("report")
        if self.hold:
            self.held.append(Deferred())
            return self.held[-1]
        return succeed(None)


@implementer(IOutbox)
class FakeOutbox:
    """Keeps what is pushed. `error`: what the next push raises, although none should."""

    def __init__(self, told: list[str]) -> None:
        self.todos: list[Todo] = []
        self.changed: list[Callable[[TodoState], None]] = []
        self.error: Exception | None = None
        self._told = told

    def push(self, todo: Todo, changed: Callable[[TodoState], None]) -> None:
        error, self.error = self.error, None
        if error is not None:
            raise error
        self.todos.append(todo)
        self.changed.append(changed)
        self._told.append("todo")


@implementer(IHeard)
class FakeHeard:
    """Keeps what is noted; `elsewhere`: ids that others have noted."""

    def __init__(self) -> None:
        self.noted: list[str] = []
        self.elsewhere: set[str] = set()

    def note(self, todo_id: str) -> None:
        self.noted.append(todo_id)

    def ids(self) -> Deferred[frozenset[str]]:
        return succeed(frozenset(self.elsewhere))


@implementer(ICheck)
class FakeCheck:
    """A check that a test ends. `stopped`: the reasons that `stop` was called with."""

    def __init__(self, name: str, directory: str, mark: str, began_at: float) -> None:
        self.name, self.directory, self.mark, self.began_at = name, directory, mark, began_at
        self.stopped: list[str] = []
        self.ended: OneShot[CheckEnd] = OneShot()

    def when_ended(self) -> Deferred[CheckEnd]:
        return self.ended.wait()

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)

    def end(self, outcome: CheckOutcome = CheckOutcome.PASSED, code: int | None = 0, **changes: Any) -> None:
        fields: dict[str, Any] = {"detail": "", "tail": "", "ended_at": NOW + timedelta(hours=1), **changes}
        self.ended.fire(CheckEnd(name=self.name, outcome=outcome, exit_code=code, **fields))


@implementer(IChecks)
class FakeChecks:
    """Keeps the checks that were started in `runs`."""

    def __init__(self, clock: IReactorTime, *names: str) -> None:
        self.names = names
        self.runs: list[FakeCheck] = []
        self._clock = clock

    def start(self, name: str, directory: str, mark: str) -> FakeCheck:
        self.runs.append(FakeCheck(name, directory, mark, self._clock.seconds()))
        return self.runs[-1]


@implementer(ITranscripts)
class FakeTranscripts:
    """`paths`: where the transcript of a session is. `asked`: which were looked for."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.asked: list[str] = []

    def find(self, session_id: str, directory: str, within_s: float = 5.0) -> Deferred[str | None]:
        self.asked.append(session_id)
        return succeed(self.paths.get(session_id))

    def steps(self, path: str, after: int) -> Deferred[Steps]:
        step: StepRecord = {"at": "2031-05-06T07:08:09.123Z", "what": "Read", "text": path}
        return succeed({"transcript": path, "steps": [step], "offset": after + 1})


def a_fleet(
    source: ITurnSpawner,
    clock: IReactorTime,
    *,
    now: Callable[[], datetime],
    report: IReport,
    outbox: FakeOutbox,
    default_dir: Path,
    new_session_id: Callable[[], str],
    max_running: int = 16,
    redactor: IRedactor | None = None,
    heard: IHeard | None = None,
    checks: IChecks | None = None,
    transcripts: ITranscripts | None = None,
) -> Fleet:
    """A fleet of fakes. Its todos are `todo-1` and so on, its tasks `task-1` and so on."""
    tasks = itertools.count(1)
    redactor = FakeRedactor() if redactor is None else redactor
    return Fleet(
        source=source,
        clock=clock,
        now=now,
        redactor=redactor,
        announcer=Announcer(
            report=report,
            outbox=outbox,
            now=now,
            redact=redactor.redact,
            new_id=lambda: f"todo-{len(outbox.todos) + 1}",
        ),
        tools=TOOLS,
        default_dir=default_dir,
        max_running=max_running,
        config_dir=CONFIG_DIR,
        new_session_id=new_session_id,
        new_task_id=lambda: f"task-{next(tasks)}",
        heard=FakeHeard() if heard is None else heard,
        transcripts=FakeTranscripts() if transcripts is None else transcripts,
        checks=FakeChecks(clock) if checks is None else checks,
        limits=Limits(clock=clock, most_s=6 * 3600.0, spread_s=lambda: 7.0),
    )


class FleetCase(SynchronousTestCase):
    """A fleet in a directory of its own. `told`: the order in which reports and todos came."""

    max_running = 16

    def setUp(self) -> None:
        self.clock = Clock()
        self.source = FakeTurnSpawner()
        self.transcripts = FakeTranscripts()
        self.told: list[str] = []
        self.report = FakeReport(self.told)
        self.outbox = FakeOutbox(self.told)
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()
        self.made = 0
        self.heard = FakeHeard()
        self.checks = FakeChecks(self.clock, "tests", "lint")
        self.fleet = a_fleet(
            self.source,
            self.clock,
            now=self.now,
            report=self.report,
            outbox=self.outbox,
            default_dir=self.dir,
            max_running=self.max_running,
            new_session_id=self.new_session_id,
            transcripts=self.transcripts,
            heard=self.heard,
            checks=self.checks,
        )

    def now(self) -> datetime:
        """The wall clock, which goes with the monotonic one."""
        return NOW + timedelta(seconds=self.clock.seconds())

    def new_session_id(self) -> str:
        self.made += 1
        return session(self.made)

    # Calls, with their Deferreds.

    def starting(self, name: str = "alpha", prompt: str = "do it", **fields: Any) -> Deferred[RunAnswer]:
        return self.fleet.start(StartRequest(name=name, prompt=prompt, **grouped(fields)))

    def continuing(self, name: str = "alpha", prompt: str = "go on", **fields: Any) -> Deferred[RunAnswer]:
        return self.fleet.resume(ContinueRequest(name=name, prompt=prompt, **grouped(fields)))

    # Calls that are answered at once.

    def start(self, name: str = "alpha", prompt: str = "do it", **fields: Any) -> RunAnswer:
        return self.successResultOf(self.starting(name, prompt, **fields))

    def resume(self, name: str = "alpha", **fields: Any) -> RunAnswer:
        """Continue, with an `init` that comes at once."""
        answer = self.continuing(name, **fields)
        if len(self.source.turns) > 0 and self.turn.init is None:
            self.turn.begin(init())
        return self.successResultOf(answer)

    def record(self, name: str = "alpha", result: bool = False) -> Any:
        """As JSON: a test reads on into the parts that it knows to be there."""
        answer = self.successResultOf(self.fleet.status(name, wait_s=0.0, wait_for_all=False, result=result))
        (told,) = answer["subagents"]
        return told

    def refused(self, answer: Deferred[Any], kind: type[Exception]) -> str:
        """The text of a call's error."""
        return str(self.failureResultOf(answer, kind).value)

    # The turns.

    @property
    def turn(self) -> FakeTurn:
        """The turn that was spawned last."""
        return self.source.turns[-1]

    def end(self, outcome: Outcome = Outcome.FINISHED, **changes: Any) -> None:
        """End the turn that was spawned last."""
        self.turn.end(turn_end(outcome, **changes))

    def ended_run(self, name: str = "alpha", outcome: Outcome = Outcome.FINISHED, **fields: Any) -> None:
        """A single turn, begun and ended."""
        self.start(name, **fields)
        self.end(outcome)
