"""What the tests of the tools share: a record to vary, a fleet that answers as told, a request that bears a target."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from hivesub.interfaces import TARGET_KEY, IFleet, ISignalTarget
from hivesub.records import ContinueRequest, SignalKind, StartRequest
from hivesub.shapes import Record, SignalRecord, TaskState

SESSION = "123e4567-e89b-12d3-a456-426614174000"
OLD_SESSION = "00000000-e89b-12d3-a456-426614174000"


def record(**changes: Any) -> Record:
    """The record of `alpha`, running in turn 2 of 5, unless changed."""
    made = {
        "name": "alpha",
        "session_id": SESSION,
        "dir": "/srv/work",
        "state": "running",
        "turn": 2,
        "max_turns": 5,
        "goal": "All tests pass.",
        "last_event_age_s": 3.4,
        "started_at": "2031-05-06T07:08:09.123Z",
        "ended_at": None,
        "last_turn": None,
        "stop_reason": None,
        "signals": [],
        "transcript": None,
        "report_file": None,
        "report_error": None,
        "usage": {"cost_usd": None, "claude_turns": 0, "input_tokens": 0, "output_tokens": 0},
        "control": "connected",
        "retrying": None,
        "check": None,
        "missing_tools": [],
        "todo": "none",
        "pid": 4711,
    } | changes
    return cast(Record, made)


def ended(state: str, kind: str, outcome: str = "finished", *, message: str = "", **changes: Any) -> Record:
    """The record of `alpha` after its run, without the fields that only a running one has."""
    last = {"outcome": outcome, "signal": None, "exit_code": 0, "detail": "", "ended_at": "2031-05-06T07:09:09.123Z"}
    last.update(changes.pop("last", {}))
    made = record(
        state=state,
        ended_at="2031-05-06T07:09:09.123Z",
        last_turn=last,
        stop_reason={"kind": kind, "message": message},
        todo="delivered",
    )
    del made["pid"]
    made["last_event_age_s"] = None
    return cast(Record, {**made, **changes})


def signal(kind: str, message: str = "") -> SignalRecord:
    """One signal as a record lists it."""
    return {"kind": SignalKind(kind), "message": message, "at": "2031-05-06T07:08:59.123Z"}


@implementer(IFleet)
class FakeFleet:
    """Notes each call in `calls` and gives the Deferred of `answers` that bears the call's name."""

    def __init__(self, **answers: Deferred[Any]) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, ...]] = []
        self.told: list[list[str]] = []
        self.ended: list[Record] = []
        self.tasks: dict[str, TaskState] = {}
        self.cancelled: list[str] = []

    def start(self, request: StartRequest) -> Deferred[Any]:
        self.calls.append(("start", request))
        return self.answers["start"]

    def resume(self, request: ContinueRequest) -> Deferred[Any]:
        self.calls.append(("resume", request))
        return self.answers["resume"]

    def status(self, name: str | None, *, wait_s: float, wait_for_all: bool, result: bool) -> Deferred[Any]:
        self.calls.append(("status", name, wait_s, wait_for_all, result))
        return self.answers["status"]

    def news(self, shown: Iterable[str]) -> Deferred[list[Record]]:
        self.told.append(list(shown))
        return succeed(self.ended)

    def as_task(self, name: str) -> TaskState | None:
        return self.tasks.get(name)

    def task_state(self, task_id: str) -> TaskState | None:
        return next((state for state in self.tasks.values() if state["id"] == task_id), None)

    def told_by_task(self, task_id: str) -> None:
        self.told.append([task_id])

    def cancel_task(self, task_id: str) -> None:
        self.cancelled.append(task_id)

    def interrupt(self, name: str) -> Deferred[Any]:
        self.calls.append(("interrupt", name))
        return self.answers["interrupt"]


@implementer(ISignalTarget)
class FakeTarget:
    """Notes each signal; gives `note`, or raises it where it is an error."""

    def __init__(self, note: str | Exception = "End your turn now.") -> None:
        self.note = note
        self.signals: list[tuple[SignalKind, str, str | None]] = []

    def request_began(self) -> None:
        raise AssertionError("the web face notes this, not the tools")

    def request_ended(self) -> None:
        raise AssertionError("the web face notes this, not the tools")

    def signal(self, kind: SignalKind, message: str, report_file: str | None) -> Deferred[str]:
        if isinstance(self.note, Exception):
            return fail(self.note)
        self.signals.append((kind, message, report_file))
        return succeed(self.note)


def request_by(target: FakeTarget | None) -> Any:
    """The SDK's context of a request that came by the target's URL, as far as the tools look at it."""
    return SimpleNamespace(request=SimpleNamespace(scope={} if target is None else {TARGET_KEY: target}))
