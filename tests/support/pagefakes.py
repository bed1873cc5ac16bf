"""A fleet to look at, made up: records with histories, as `IOperatorView` gives them."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from hivesub.interfaces import IOperatorView
from hivesub.records import State
from hivesub.runs.tally import BOUNDS_S, Reading
from hivesub.shapes import OperatorList, OperatorRecord, PastTurnRecord, Steps
from tests.support.toolfakes import record


def a_turn(number: int, outcome: str = "finished", **changes: Any) -> PastTurnRecord:
    made = {
        "run": 1, "number": number, "outcome": outcome, "signal": None, "exit_code": 0, "detail": "",
        "started_at": "2031-05-06T07:08:09.000Z", "ended_at": "2031-05-06T07:08:13.000Z", "duration_s": 4.0,
        "bytes_read": 700, "cost_usd": 0.25, "check": None, **changes,
    }  # fmt: skip
    return cast(PastTurnRecord, made)


def a_record(name: str = "alpha", **changes: Any) -> Any:
    """A running goal run in its second turn, as the page has it: an `OperatorRecord` to change at will."""
    history = {
        "run": 1, "turns": [a_turn(1)], "turn_started_at": "2031-05-06T07:08:13.000Z", "bytes_read": 1200,
        "activity": {"slot_s": 5, "bytes": [0] * 118 + [1000, 0]},
    }  # fmt: skip
    usage = {"cost_usd": 0.25, "claude_turns": 3, "input_tokens": 20, "output_tokens": 6}
    usual = {"session_id": "s-1", "goal": "all tests pass", "last_event_age_s": 3.25, "pid": 4242}
    return {**record(name=name, **usual, usage=usage), "history": history, **changes}


def a_blocked_record(name: str, question: str) -> Any:
    """A run that stopped to ask something."""
    signal = {"kind": "need_help", "message": question, "at": "2031-05-06T07:08:12.000Z"}
    last = {"outcome": "finished", "signal": None, "exit_code": 0, "detail": "", "ended_at": "2031-05-06T07:08:13.000Z"}
    blocked = a_record(
        name, state="blocked", last_event_age_s=None, ended_at="2031-05-06T07:08:13.000Z", signals=[signal],
        stop_reason={"kind": "need_help", "message": question}, last_turn=last, todo="delivered",
    )  # fmt: skip
    del blocked["pid"]
    blocked["history"] |= {"turn_started_at": None, "bytes_read": None}
    return blocked


def a_reading(**changes: Any) -> Reading:
    empty = ((0,) * (len(BOUNDS_S) + 1), 0.0)
    fields: dict[str, Any] = {
        "running": 0, "max_running": 16, "runs": {}, "turns": {}, "todos": {}, "checks": {}, "bytes_read": 0,
        "spawn": empty, "resume": empty,
    }  # fmt: skip
    return Reading(**{**fields, **changes})


@implementer(IOperatorView)
class FakeOperatorView:
    """Gives the records that a test puts into `records`, and the reading in `numbers`, the steps in `did`."""

    def __init__(self, *records: OperatorRecord) -> None:
        self.records = list(records)
        self.numbers = a_reading()
        self.did: Steps = {"transcript": None, "steps": [], "offset": 0}

    def all(self) -> OperatorList:
        counts = Counter(record["state"] for record in self.records)
        states = list(State)
        return {"subagents": self.records, "counts": {state.value: counts[state] for state in states}}

    def one(self, name: str) -> OperatorRecord | None:
        return next((record for record in self.records if record["name"] == name), None)

    def steps(self, name: str, after: int) -> Deferred[Steps | None]:
        return succeed(self.did if self.one(name) is not None else None)

    def reading(self) -> Reading:
        return self.numbers
