"""What the tests of todos and of the sentences about a run's end share: records of ended runs, claims, todos."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from hivesub.records import SignalKind
from hivesub.shapes import Record, SignalRecord, Todo

WHEN = datetime(2031, 5, 6, 7, 8, 9, 123456, tzinfo=UTC)


def record(
    state: str = "idle",
    outcome: str | None = "finished",
    kind: str | None = "turn_ended",
    message: str = "",
    *,
    turns: tuple[int | None, int | None] = (2, 5),
    signal: str | None = None,
    exit_code: int | None = 0,
    detail: str = "",
    **fields: Any,
) -> Record:
    """A record of `alpha` with the parts that sentences are made of."""
    ended = "2031-05-06T07:08:09.000Z"
    last = {"outcome": outcome, "signal": signal, "exit_code": exit_code, "detail": detail, "ended_at": ended}
    made = {
        "name": "alpha",
        "session_id": "4c1e",
        "dir": "/srv/work",
        "state": state,
        "turn": turns[0],
        "max_turns": turns[1],
        "goal": "all tests pass" if turns[1] else None,
        "last_turn": last if outcome else None,
        "stop_reason": {"kind": kind, "message": message} if kind else None,
        "signals": [],
        "report_file": None,
        "report_error": None,
        "control": "connected",
        "retrying": None,
        "check": None,
        "missing_tools": [],
        "todo": "pending",
        **fields,
    }
    return cast(Record, made)


def claim(kind: str, message: str = "") -> SignalRecord:
    """What a subagent reported."""
    return {"kind": SignalKind(kind), "message": message, "at": "2031-05-06T07:00:00.000Z"}


def todo(todo_id: str = "t-1", created_at: str = "2031-05-06T07:08:09.123Z") -> Todo:
    """A todo with what stores and sinks look at."""
    return cast(Todo, {"id": todo_id, "created_at": created_at, "title": "é"})
