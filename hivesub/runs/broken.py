"""Errors of ours in the bookkeeping of one run: the run is told of all the same, and no other run notices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from hivesub.records import RecordDict
from hivesub.wording import rfc3339

if TYPE_CHECKING:
    from hivesub.runs.run import Run

_log = Logger()


def internal_error(error: BaseException | None) -> str:
    """What is told of an error of ours; its traceback is in the log alone."""
    return f"internal error: {type(error).__name__}"


def bare_record(run: Run, error: Exception) -> RecordDict:
    """The record of a run whose own cannot be built: the fields of any other, with what no text has to be read for.

    :param error: why, which is logged here. Called where it is caught.
    """
    _log.failure("{name} cannot be told of", name=run.name)
    last, reason = run.last_turn, run.stop_reason
    told: RecordDict = {
        "name": run.name,
        "session_id": None,
        "dir": "",
        "state": run.state.value,
        "turn": run.turn_number if run.goal is not None else None,
        "max_turns": run.max_turns if run.goal is not None else None,
        "goal": None,
        "last_event_age_s": None,
        "started_at": rfc3339(run.started_at),
        "ended_at": None if run.ended_at is None else rfc3339(run.ended_at),
        "last_turn": None
        if last is None
        else {
            "outcome": last.outcome.value,
            "signal": last.signal,
            "exit_code": last.exit_code,
            "detail": "",
            "ended_at": rfc3339(last.ended_at),
        },
        "stop_reason": None if reason is None else {"kind": reason.kind.value, "message": internal_error(error)},
        "signals": [],
        "report_file": None,
        "report_error": None,
        "usage": {"cost_usd": None, "claude_turns": 0, "input_tokens": 0, "output_tokens": 0},
        "control": run.control.value,
        "missing_tools": [],
        "todo": run.todo.value,
    }
    if reason is None:
        told["pid"] = None
    return told
