"""What the tools answer: the sentences that an agent's model reads. Pure.

What it must know comes first, what it can do next comes last, nothing twice. The sentences about how a turn ended and
why a run stopped are `hivesub.wording`'s, shared with the todo and the report.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from hivesub.endings import GOING_ON
from hivesub.records import CheckOutcome, Control, Outcome, State, StopKind, TodoState
from hivesub.shapes import Record, RunAnswer, SignalRecord, StatusAnswer
from hivesub.wording import (
    CONTROL_FAILED,
    check_sentence,
    claims_sentence,
    ending_of,
    held_up_sentence,
    outcome_sentence,
    quoted,
    report_sentence,
    stop_sentence,
    title_words,
    turn_phrase,
    visible,
)

MAX_CHARS = 20_000
"""Of an answer; one that holds what a subagent said may be twice as long."""
MAX_CHARS_WITH_RESULT = 40_000
_MESSAGE_CHARS = 4_000
_LISTED_MESSAGE_CHARS = 120
_OTHER_MESSAGE_CHARS = 500
_OTHER_MESSAGES = 5
_NEWS_NAMES = 20
_TAIL_CHARS = 600

_BY_ITSELF = "It works by itself: go on with other work."
_NOTIFIED = "You are notified when the run ends: do not poll."
_ASK = "`status` with `wait_s` 3600 waits for its end."
_ASK_AGAIN = "Nothing has ended within 50 s, the longest that this client can wait in one call: ask again."
_NO_GOAL = "No goal is remembered: a single turn; give `goal` to work toward one"
_NOT_TAKEN_UP = "Claude has not said yet that it resumed the session: `status` will show whether it could."
# Claude connects to its signal route before it keeps a session: one killed before that leaves none (measured, 2.1.332).
_NO_SESSION = "Claude had not kept the session yet, so that `continue` will find none: `start` it anew."
_NEXT_UNBORN = "Claude had hardly begun: where `continue` finds no session to resume, `start` it anew."


def start_text(answer: RunAnswer, *, notified: bool = False) -> str:
    """The text of `start`'s answer.

    :param notified: the agent hears of the end without asking.
    """
    record = answer["subagent"]
    return _fit(_sentences(_begun(answer, "started"), _replaced(answer), _how_to_hear(record, notified)))


def continue_text(answer: RunAnswer, *, notified: bool = False) -> str:
    """The text of `continue`'s answer, as `start_text`. Says first where the previous turn was killed: its work may be
    cut off.
    """
    record, signal = answer["subagent"], answer.get("previous_signal")
    taken_up = answer.get("under_way", True)
    return _fit(
        _sentences(
            _begun(answer, "continued" if taken_up else "started"),
            f"Its previous turn was killed by {signal}, not finished: its work may be cut off in the middle. "
            "Have that checked before anything builds on it."
            if signal
            else "",
            "" if taken_up else _NOT_TAKEN_UP,
            _how_to_hear(record, notified),
        )
    )


def interrupt_text(answer: RunAnswer) -> str:
    """The text of `interrupt`'s answer."""
    record = answer["subagent"]
    last = record["last_turn"]
    return _fit(
        _sentences(
            _state(record),
            _stop(turn_phrase(record)),
            "The run is over: no further turn follows.",
            "It did not go at the first signal; stronger ones had to follow." if answer.get("escalated") else "",
            f"Detail: {_stop(last['detail'])}" if last and last["detail"] else "",
            _after_interrupt(answer),
        )
    )


def status_text(answer: StatusAnswer, *, ask_again: bool = False) -> str:
    """The text of `status`: all that is known of one subagent, or a line for each of several after a line of counts.

    :param ask_again: the wait that was asked for was cut short.
    """
    records = answer["subagents"]
    more = [_ASK_AGAIN] if ask_again else []
    if "counts" not in answer and len(records) == 1:
        return _with_results([_whole(records[0]), *more], records)
    if not records:
        return "No subagent has been started since the daemon came up; `start` makes one."
    counts = answer.get("counts") or Counter(str(record["state"]) for record in records)
    return _with_results([_counts(counts, len(records)), *map(_line, records), *more], records)


def news_text(records: Sequence[Record]) -> str:
    """The line that names the runs that have ended since the agent last heard of ends; "" where none has."""
    if not records:
        return ""
    alike: dict[str, list[str]] = {}
    for record in records[:_NEWS_NAMES]:
        alike.setdefault(title_words(record), []).append(record["name"])
    said = [f"{', '.join(names)}{': each' if names[1:] else ''} {words}" for words, names in alike.items()]
    more = f"; and {len(records) - _NEWS_NAMES} more" if len(records) > _NEWS_NAMES else ""
    return f"Ended meanwhile: {'; '.join(said)}{more}. `status` has the details."


def ended_names(answer: Mapping[str, object]) -> list[str]:
    """The subagents whose end an answer shows."""
    shown = cast("list[Record]", answer["subagents"] if "subagents" in answer else [answer["subagent"]])
    return [record["name"] for record in shown if not _runs(record)]


def _whole(full: Record) -> str:
    record = _shortened(full)
    running, missing = _runs(record), ", ".join(record["missing_tools"])
    turn, ending = _stop(turn_phrase(record)), "" if running else outcome_sentence(record)
    said = _sentences(
        _state(record),
        # The sentence about the outcome begins with the turn where there is a budget: once is enough.
        "" if ending.startswith(turn[:-1]) else turn,
        _age(record) if running else _sentences(ending, stop_sentence(record)),
        check_sentence(record, datetime.now(UTC)),
        claims_sentence(record),
        "" if running else _cost(record),
        CONTROL_FAILED
        if record["control"] == Control.FAILED and _stopped_by(record) is not StopKind.NO_CONTROL
        else "",
        f"Tools asked for that it did not get: {missing}." if missing else "",
        _left_running(record),
        _todo(record),
        "" if running else _next(record),
    )
    check = record["check"]
    tail = f"The end of the check's output:\n{check['tail'][-_TAIL_CHARS:]}" if check and check["tail"].strip() else ""
    if check and check["outcome"] == CheckOutcome.PASSED:
        tail = ""
    # Paths on lines of their own: a full stop after one could be read as part of it.
    session = f"Session {visible(record['session_id'] or 'not known')} in {visible(record['dir'])}"
    return _lines(said, "" if running else session, report_sentence(record), tail)


def _line(full: Record) -> str:
    record = _shortened(full, _LISTED_MESSAGE_CHARS)
    reason = record["stop_reason"]
    if reason is None:
        checking = check_sentence(record, datetime.now(UTC)) if "checking" in record else ""
        return _sentences(_state(record), _stop(turn_phrase(record)), _age(record), checking)
    row, kind, last = ending_of(reason), StopKind(reason["kind"]), record["last_turn"]
    said = title_words(record)
    if kind is StopKind.NEED_HELP:
        said = "asks for help"
    if row.claim:
        message = record["signals"][-1]["message"] if record["signals"] else reason["message"]
        said = f"{said}: {quoted(message)}" if message.strip() else said
    elif row.is_turn_outcome:
        message = " ".join(((last and last["detail"]) or reason["message"]).split())
        said = _cut(message, _LISTED_MESSAGE_CHARS)
    said = f"{said[:1].upper()}{said[1:]}"
    return _sentences(_state(record), _stop(turn_phrase(record)), _stop(said), _left_running(record), _todo(record))


def _state(record: Record) -> str:
    last = record["last_turn"]
    by = f" by {last['signal']}" if record["state"] == State.KILLED and last and last["signal"] else ""
    return f"{record['name']}: {record['state']}{by}."


def _begun(answer: RunAnswer, verb: str) -> str:
    record = answer["subagent"]
    if not _runs(record):
        return f"{record['name']}: {verb}, and its run has ended already. {_whole(record)}"
    session = f"session {visible(record['session_id'])}" if record["session_id"] else "session not known yet"
    return _sentences(
        f"{record['name']}: {verb} ({session}) in {_stop(_cut(visible(record['dir']), 1000))}", _budget(answer)
    )


def _how_to_hear(record: Record, notified: bool) -> str:
    return f"{_BY_ITSELF} {_NOTIFIED if notified else _ASK}" if _runs(record) else ""


def _budget(answer: RunAnswer) -> str:
    """How far the run goes, and how much of that was not asked for now but kept from the run before."""
    turn, money = turn_phrase(answer["subagent"]), answer.get("budget_anew_usd")
    whose = "the same" if answer.get("same_goal") else "its"
    words = f"{turn} toward {whose} goal" if turn else "A single turn, without a goal"
    if not turn and answer.get("no_goal_remembered"):
        words = _NO_GOAL
    return f"{words}{'' if money is None else f', with up to {_dollars(money)} US dollars anew'}."


def _dollars(amount: float) -> str:
    """To the cent, and below that as exactly as it was given."""
    return f"{amount:.2f}" if round(amount, 2) == amount else f"{amount:g}"


def _replaced(answer: RunAnswer) -> str:
    old = answer.get("replaced_session_id")
    return (
        f"This is a new session; it replaces the one that bore the name before, {old}, "
        "which `continue` with that `session_id` still resumes."
        if old
        else ""
    )


def _next(record: Record) -> str:
    reason = record["stop_reason"]
    if reason is None:
        return ""
    unborn = _stopped_by(record) is StopKind.KILLED and record["control"] == Control.UNKNOWN
    return _NEXT_UNBORN if unborn else ending_of(reason).next_step


def _left_running(record: Record) -> str:
    count = record.get("left_running", 0)
    if not count:
        return ""
    what = "1 process that its turns started is" if count == 1 else f"{count} processes that its turns started are"
    return f"{what} still running."


def _after_interrupt(answer: RunAnswer) -> str:
    """What `continue` will find of the session."""
    reason, kept = answer["subagent"]["stop_reason"], answer.get("session_kept")
    if reason is None or kept is None:
        return _next(answer["subagent"])
    return ending_of(reason).next_step if kept else _NO_SESSION


def _stopped_by(record: Record) -> StopKind | None:
    reason = record["stop_reason"]
    return None if reason is None else StopKind(reason["kind"])


def _cost(record: Record) -> str:
    usage = record["usage"]
    if usage["cost_usd"] is not None:
        return f"Cost {usage['cost_usd']:.4f} US dollars."
    last = record["last_turn"]
    cut_short = last is not None and last["outcome"] == Outcome.KILLED and record["control"] == Control.CONNECTED
    return "What it cost is not known." if usage["claude_turns"] or cut_short else ""


def _control(record: Record) -> str:
    failed = record["control"] == Control.FAILED and _stopped_by(record) is not StopKind.NO_CONTROL
    return CONTROL_FAILED if failed else ""


def _todo(record: Record) -> str:
    return "Its todo could not be delivered." if record["todo"] == TodoState.UNDELIVERED else ""


def _with_results(parts: list[str], records: Sequence[Record]) -> str:
    """The text, with what each subagent said last where that was asked for: its own words, set apart."""
    said = [record for record in records if "result" in record]
    text = _fit("\n".join(parts))
    if not said:
        return text
    room = (MAX_CHARS_WITH_RESULT - len(text)) // len(said) - 200
    return "\n".join([text, *(_result(record, room) for record in said)])


def _result(record: Record, limit: int) -> str:
    text = record.get("result")
    if not text:
        wrote = "no result" if text is None else "a result without a text"
        return f"{record['name']} has said nothing last yet: its turn wrote {wrote}."
    typed = ""
    if "structured_output" in record:
        given = record["structured_output"]
        typed = "\nThe turn gave no structured output."
        if given is not None:
            typed = f"\nIts structured output:\n{_cut(json.dumps(given, ensure_ascii=False), limit // 2)}"
            limit -= len(typed)
    return f"{record['name']} said last, in its own words:\n{_cut(text, max(0, limit))}{typed}"


def _counts(counts: Mapping[str, int], listed: int) -> str:
    total = sum(counts.values())
    shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    head = f"{total} subagent{'' if total == 1 else 's'}: {shown}"
    return f"{head}; listed here: {listed}." if listed < total else f"{head}."


def _age(record: Record) -> str:
    age = record["last_event_age_s"]
    heard = "" if age is None else f"Last event {int(age)} s ago."
    return _sentences(heard, held_up_sentence(record, datetime.now(UTC)))


def _runs(record: Record) -> bool:
    return record["state"] in GOING_ON


def _shortened(record: Record, message_chars: int = _MESSAGE_CHARS) -> Record:
    """A record whose claims fit: the deciding one up to so many characters, a few of the others before it."""
    kept, left_out = record["signals"][-_OTHER_MESSAGES:], len(record["signals"]) - _OTHER_MESSAGES
    limits = [min(_OTHER_MESSAGE_CHARS, message_chars)] * (len(kept) - 1) + [message_chars]
    signals: list[SignalRecord] = [
        {**signal, "message": _cut(signal["message"], limit)} for signal, limit in zip(kept, limits, strict=False)
    ]
    short: Record = {**record, "signals": signals, "missing_tools": record["missing_tools"][:50]}
    if left_out > 0:
        short["signals_left_out"] = record.get("signals_left_out", 0) + left_out
    return short


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… [cut: {len(text):,} characters]"


def _fit(text: str) -> str:
    return _cut(text, MAX_CHARS - 100) if len(text) > MAX_CHARS else text


def _stop(text: str) -> str:
    text = text.strip()
    return text if not text or text.rstrip('"')[-1:] in ".!?…" else f"{text}."


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)
