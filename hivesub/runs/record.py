"""The record of a run as `status` tells it: a JSON object built from what is known, nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from hivesub.records import Control, RecordDict
from hivesub.turns.events import MARGIN, TEXT_LIMIT
from hivesub.wording import internal_error, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesub.runs.run import Run

_log = Logger()


def record(
    run: Run,
    *,
    seconds: float,
    redact: Callable[[str], str],
    goal_limit: int | None = None,
    result: bool = False,
) -> RecordDict:
    """Tell of a run.

    :param seconds: the monotonic time now.
    :param goal_limit: cut the goal at so many characters, and say so.
    :param result: add `result`, the text of the last result event or null.
    """
    turn = run.turn
    if turn is not None:
        run.read_init(turn.init)
    goal = run.goal
    if goal is not None and goal_limit is not None and len(goal) > goal_limit:
        goal = f"{goal[:goal_limit]}… [cut: {len(goal)} characters]"
    told: RecordDict = {
        "name": run.name,
        # Both follow what the child said of itself, so that they are its words like any other.
        "session_id": None if run.session_id is None else redact(run.session_id),
        "dir": redact(str(run.dir)),
        "state": run.state.value,
        "turn": run.turn_number if run.goal is not None else None,
        "max_turns": run.max_turns if run.goal is not None else None,
        "goal": goal,
        "last_event_age_s": _age(run, seconds),
        "started_at": rfc3339(run.started_at),
        "ended_at": None if run.ended_at is None else rfc3339(run.ended_at),
        "last_turn": _last_turn(run),
        "stop_reason": None
        if run.stop_reason is None
        else {"kind": run.stop_reason.kind.value, "message": redact(run.stop_reason.message)},
        "signals": [
            {"kind": signal.kind.value, "message": signal.message, "at": rfc3339(signal.at)} for signal in run.signals
        ],
        "report_file": None if run.report_file is None else redact(run.report_file),
        "report_error": run.report_error,
        "usage": {
            "cost_usd": run.usage.cost_usd,
            "claude_turns": run.usage.claude_turns,
            "input_tokens": run.usage.input_tokens,
            "output_tokens": run.usage.output_tokens,
        },
        "control": (turn.control if turn is not None and turn.control is not Control.UNKNOWN else run.control).value,
        "missing_tools": list(run.missing_tools),
        "todo": run.todo.value,
    }
    if run.signals_left_out:
        told["signals_left_out"] = run.signals_left_out
    if not run.over:
        told["pid"] = turn.pid if turn is not None else None
    if result:
        told["result"] = _result(run, redact)
    return told


def _age(run: Run, seconds: float) -> float | None:
    if run.turn is None or run.turn.last_event_at is None:
        return None
    return round(max(0.0, seconds - run.turn.last_event_at), 1)


def _last_turn(run: Run) -> RecordDict | None:
    end = run.last_turn
    if end is None:
        return None
    return {
        "outcome": end.outcome.value,
        "signal": end.signal,
        "exit_code": end.exit_code,
        "detail": end.detail,
        "ended_at": rfc3339(end.ended_at),
    }


def _result(run: Run, redact: Callable[[str], str]) -> str | None:
    """What the subagent said last; unlike all else here it is its word, not an observation."""
    said = run.turn.result if run.turn is not None else None
    if said is None and run.last_turn is not None:
        said = run.last_turn.result
    if said is None:
        return None
    told = redact(said.text + said.text_after)
    # Where there was more than is kept, the last of that may be half of a secret.
    safe = len(told) - MARGIN // 2 if len(said.text_after) == MARGIN else len(told)
    end = min(TEXT_LIMIT, safe)
    return told[:end] + (" [cut at 100,000 characters]" if end < len(told) else "")


def minimal_record(run: Run, error: Exception) -> RecordDict:
    """The record of a run whose own cannot be built: the fields of any other, with what no text has to be read for.

    :param error: why, which is logged here. Called where it is caught.
    """
    _log.failure("no record could be built of {name}", name=run.name)
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
