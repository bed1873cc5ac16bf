"""The record of a run, built from what is known of it and nothing else; its shape is `hivesub.shapes`'."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeAlias

from twisted.logger import Logger

from hivesub.records import Control
from hivesub.turns.events import MARGIN, TEXT_LIMIT
from hivesub.wording import internal_error, rfc3339, valid_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from hivesub.records import Result
    from hivesub.runs.run import Run
    from hivesub.shapes import LastTurnRecord, Record

StillThere: TypeAlias = "Callable[[str, Iterable[int]], set[int]]"

_log = Logger()


def record(
    run: Run,
    *,
    seconds: float,
    redact: Callable[[str], str],
    identifier: Callable[[str], str] | None = None,
    goal_limit: int | None = None,
    result: bool = False,
    still_there: StillThere | None = None,
) -> Record:
    """The record of a run.

    :param seconds: the monotonic time now.
    :param identifier: redacts what names something, as `redact` does texts; the same by default.
    :param goal_limit: cut the goal at so many characters, and say so.
    :param result: add `result`, the text of the last result event or null.
    :param still_there: gives, of the processes that a run's turns left, by its mark and their ids, those that live.
    """
    turn, reason, identifier = run.turn, run.stop_reason, identifier or redact
    if turn is not None:
        run.read_init(turn.init)
    made = _without_texts(run)
    # Both follow what the child said of itself, so that they are its words like any other.
    made["session_id"] = None if run.session_id is None else valid_text(identifier(run.session_id))
    made["dir"] = valid_text(identifier(str(run.dir)))  # its name may be no UTF-8
    made["goal"] = _cut(run.goal, goal_limit)
    made["last_event_age_s"] = _age(run, seconds)
    if run.last_turn is not None and made["last_turn"] is not None:
        made["last_turn"]["detail"] = run.last_turn.detail
    if reason is not None and made["stop_reason"] is not None:
        made["stop_reason"]["message"] = valid_text(redact(reason.message))
    made["signals"] = [
        {"kind": signal.kind, "message": signal.message, "at": rfc3339(signal.at)} for signal in run.signals
    ]
    made["report_file"] = None if run.report_file is None else valid_text(identifier(run.report_file))
    made["report_error"] = None if run.report_error is None else valid_text(run.report_error)
    made["transcript"] = None if run.transcript is None else valid_text(identifier(run.transcript))
    made["missing_tools"] = list(run.missing_tools)
    if turn is not None and turn.control is not Control.UNKNOWN:
        made["control"] = turn.control
    if turn is not None and turn.retrying is not None:
        retry = turn.retrying.retry
        made["retrying"] = {
            "error": None if retry.error is None else redact(retry.error),
            "status": retry.status,
            "attempt": retry.attempt,
            "max_attempts": retry.max_attempts,
            "since": rfc3339(turn.retrying.since),
        }
    if run.last_check is not None:
        made["check"] = {
            "name": run.last_check.name,
            "exit_code": run.last_check.exit_code,
            "outcome": run.last_check.outcome,
            "detail": redact(run.last_check.detail),
            "tail": redact(run.last_check.tail),
            "ended_at": rfc3339(run.last_check.ended_at),
        }
    if run.checking is not None and run.checking_since is not None:
        made["checking"] = {"name": run.checking.name, "since": rfc3339(run.checking_since)}
    if run.waiting_until is not None:
        made["waiting_until"] = rfc3339(run.waiting_until)
    if run.left and run.mark is not None and still_there is not None:
        left = len(still_there(run.mark, [process.pid for process in run.left]))
        if left:
            made["left_running"] = left
    if run.signals_left_out:
        made["signals_left_out"] = run.signals_left_out
    if not run.over:
        made["pid"] = turn.pid if turn is not None else None
    if result:
        in_flight = shown_result(turn.result, redact) if turn is not None else None
        made["result"] = run.said if in_flight is None else in_flight
        if run.options.result_schema is not None:
            made["structured_output"] = None if run.structured is None else json.loads(redact(run.structured))
    return made


def minimal_record(run: Run, error: Exception) -> Record:
    """A record in place of one that could not be built, with what no text has to be read for.

    :param error: why, which is logged here. Called where it is caught.
    """
    _log.failure("no record could be built of {name}", name=run.name)
    made = _without_texts(run)
    if made["stop_reason"] is not None:
        made["stop_reason"]["message"] = internal_error(error)
    else:
        made["pid"] = None
    return made


def _without_texts(run: Run) -> Record:
    """The fields of any record, without those that need a text read, redacted or asked of the turn in flight."""
    return {
        "name": run.name,
        "session_id": None,
        "dir": "",
        "state": run.state,
        "turn": run.turn_number if run.goal is not None else None,
        "max_turns": run.max_turns if run.goal is not None else None,
        "goal": None,
        "last_event_age_s": None,
        "started_at": rfc3339(run.started_at),
        "ended_at": None if run.ended_at is None else rfc3339(run.ended_at),
        "last_turn": _last_turn(run),
        "stop_reason": None if run.stop_reason is None else {"kind": run.stop_reason.kind, "message": ""},
        "signals": [],
        "transcript": None,
        "report_file": None,
        "report_error": None,
        "usage": {
            "cost_usd": run.usage.cost_usd,
            "claude_turns": run.usage.claude_turns,
            "input_tokens": run.usage.input_tokens,
            "output_tokens": run.usage.output_tokens,
        },
        "control": run.control,
        "retrying": None,
        "check": None,
        "missing_tools": [],
        "todo": run.todo,
    }


def _last_turn(run: Run) -> LastTurnRecord | None:
    end = run.last_turn
    if end is None:
        return None
    return {
        "outcome": end.outcome,
        "signal": end.signal,
        "exit_code": end.exit_code,
        "detail": "",
        "ended_at": rfc3339(end.ended_at),
    }


def _cut(goal: str | None, limit: int | None) -> str | None:
    if goal is None or limit is None or len(goal) <= limit:
        return goal
    return f"{goal[:limit]}… [cut: {len(goal)} characters]"


def _age(run: Run, seconds: float) -> float | None:
    if run.turn is None or run.turn.last_event_at is None:
        return None
    return round(max(0.0, seconds - run.turn.last_event_at), 1)


def shown_result(said: Result | None, redact: Callable[[str], str]) -> str | None:
    """What a subagent said last, as it may be shown: its word, not an observation. None where there was no result."""
    if said is None:
        return None
    text = redact(said.text + said.text_after)
    # Where there was more than is kept, the last of that may be half of a secret.
    safe = len(text) - MARGIN // 2 if len(said.text_after) == MARGIN else len(text)
    end = min(TEXT_LIMIT, safe)
    return text[:end] + (" [cut at 100,000 characters]" if end < len(text) else "")
