"""What the tools answer to the model in prose, from the same dicts that go out as `structuredContent`. Pure.

The sentences about how a turn ended and why a run stopped are `hivesub.wording`'s, shared with the todo and the report.
"""

from __future__ import annotations

from collections.abc import Iterable

from hivesub.records import Control, RecordDict, State, StopKind, TodoState
from hivesub.wording import (
    CONTROL_FAILED,
    UNVERIFIED,
    claims_sentence,
    outcome_sentence,
    quoted,
    report_sentence,
    stop_sentence,
    turn_phrase,
    visible,
)

_LISTED_MESSAGE_CHARS = 200
_LISTED_RESULT_CHARS = 2_000
_WATCH = "It works by itself from here: a todo comes when the run ends, and `status` with `wait_s` waits for that."
_NOT_TAKEN_UP = "Claude has not said yet that it resumed the session: whether it could is told when the run ends."

_NEXT_BY_KIND = {
    StopKind.TURN_ENDED: "`continue` gives it another prompt.",
    StopKind.GOAL_REACHED: "Check the work; `continue` asks for more.",
    StopKind.NEED_HELP: "Answer it with `continue`.",
    StopKind.TURN_CAP: "`continue` gives it as many turns again toward the same goal.",
    StopKind.KILLED: "Its work may be cut off in the middle; `continue` resumes its session.",
    StopKind.FAILED: "`continue` resumes its session, once the cause is gone.",
    StopKind.BUDGET_SPENT: "`continue` gives it as much money again.",
    StopKind.NO_CONTROL: "`continue` tries once more.",
}
# Claude connects to its signal route before it keeps a session: one killed before that leaves none (measured, 2.1.332).
_NEXT_UNBORN = "Claude had hardly begun: where `continue` finds no session to resume, `start` it anew."


def start_text(answer: RecordDict) -> str:
    """The text of `start`'s answer."""
    record = answer["subagent"]
    return _sentences(_begun(record, "started"), *_replaced(answer), _WATCH if _runs(record) else "")


def continue_text(answer: RecordDict) -> str:
    """The text of `continue`'s answer. Says so where the previous turn was killed: its work may be cut off."""
    record = answer["subagent"]
    signal = answer.get("previous_signal")
    killed = (
        f"Its previous turn was killed by {signal}: it did not finish, and its work may be cut off in the middle. "
        "Have that checked before anything builds on it."
        if signal
        else ""
    )
    taken_up = answer.get("under_way", True)
    return _sentences(
        _begun(record, "continued" if taken_up else "started"),
        "" if taken_up else _NOT_TAKEN_UP,
        killed,
        _WATCH if _runs(record) else "",
    )


def interrupt_text(answer: RecordDict) -> str:
    """The text of `interrupt`'s answer."""
    record = answer["subagent"]
    name, last = record["name"], record["last_turn"] or {}
    signal, detail = last.get("signal"), last.get("detail")
    return _sentences(
        f"{name}: {record['state']}{f' by {signal}' if signal and record['state'] == State.KILLED.value else ''}.",
        _stop(turn_phrase(record)),
        "The run is over: no further turn follows.",
        "It did not go at the first signal; stronger ones had to follow." if answer.get("escalated") else "",
        f"Detail: {_stop(detail)}" if detail else "",
        _next(record),
    )


def status_text(answer: RecordDict) -> str:
    """The text of `status`: all that is known of one subagent, or a line for each of several after a line of counts."""
    records = answer["subagents"]
    if "counts" not in answer and len(records) == 1:
        return _whole(records[0])
    if not records:
        return "No subagent has been started yet; `start` makes one."
    return "\n".join([_counts(answer.get("counts") or _counted(records), len(records)), *map(_line, records)])


def _whole(record: RecordDict) -> str:
    running, missing = _runs(record), ", ".join(record["missing_tools"])
    turn, ending = _stop(turn_phrase(record)), "" if running else outcome_sentence(record)
    told = _sentences(
        f"{record['name']}: {record['state']}.",
        # The sentence about the outcome begins with the turn where there is a budget: once is enough.
        "" if ending.startswith(turn[:-1]) else turn,
        _age(record) if running else _sentences(ending, stop_sentence(record)),
        claims_sentence(record),
        "" if running else _usage(record),
        CONTROL_FAILED if record["control"] == Control.FAILED.value else "",
        f"Tools asked for that it did not get: {missing}." if missing else "",
        _todo(record),
        "" if running else _next(record),
    )
    # Paths on lines of their own: a full stop after one could be read as part of it.
    return _lines(told, "" if running else _whereabouts(record), report_sentence(record), _said(record, None))


def _line(record: RecordDict) -> str:
    head = (f"{record['name']}: {record['state']}.", _stop(turn_phrase(record)))
    if _runs(record):
        return _lines(_sentences(*head, _age(record)), _said(record, _LISTED_RESULT_CHARS))
    reason = record["stop_reason"]
    stopped = ""
    if reason is not None:
        kind = reason["kind"]
        label = f" ({UNVERIFIED})" if kind == StopKind.GOAL_REACHED.value else ""
        asked = f": {quoted(_cut(reason['message']))}" if kind == StopKind.NEED_HELP.value else ""
        stopped = _stop(f"Stopped: {kind}{label}{asked}")
    return _lines(_sentences(*head, stopped, _todo(record)), _said(record, _LISTED_RESULT_CHARS))


def _begun(record: RecordDict, verb: str) -> str:
    if not _runs(record):
        return f"{record['name']}: {verb}, and its run has ended already. {_whole(record)}"
    session = f"session {visible(record['session_id'])}" if record["session_id"] else "session not known yet"
    pid = f", pid {record['pid']}" if record.get("pid") else ""
    turn = turn_phrase(record)
    return _sentences(
        f"{record['name']}: {verb} ({session}{pid}) in {_stop(visible(record['dir']))}",
        f"{turn} toward its goal." if turn else "A single turn, without a goal.",
    )


def _replaced(answer: RecordDict) -> Iterable[str]:
    old = answer.get("replaced_session_id")
    if old:
        yield (
            f"This is a new session; it replaces the one that bore the name before, {old}, "
            "which `continue` with that `session_id` still resumes."
        )


def _next(record: RecordDict) -> str:
    reason = record["stop_reason"]
    if reason is None:
        return ""
    kind = StopKind(reason["kind"])
    return _NEXT_UNBORN if kind is StopKind.KILLED and record["control"] == Control.UNKNOWN else _NEXT_BY_KIND[kind]


def _usage(record: RecordDict) -> str:
    usage = record["usage"]
    if usage["cost_usd"] is None:
        return ""
    tokens = f"{usage['input_tokens']} input and {usage['output_tokens']} output tokens"
    return f"Used {usage['cost_usd']:.4f} US dollars, {usage['claude_turns']} claude turns, {tokens}."


def _whereabouts(record: RecordDict) -> str:
    return f"Session {visible(record['session_id'] or 'not known')} in {visible(record['dir'])}"


def _todo(record: RecordDict) -> str:
    if record["todo"] == TodoState.UNDELIVERED.value:
        return "Its todo could not be delivered."
    if record["todo"] == TodoState.PENDING.value:
        return "Its todo is not delivered yet."
    return ""


def _said(record: RecordDict, limit: int | None) -> str:
    """What the subagent said, where it was asked for: set apart, since it is nobody's word but the subagent's."""
    if "result" not in record:
        return ""
    text = record["result"]
    if not text:
        wrote = "no result" if text is None else "a result without a text"
        return f"{record['name']} has said nothing last yet: its turn wrote {wrote}."
    if limit is not None and len(text) > limit:
        text = f"{text[:limit]}… (cut here; ask with its `name` for the whole)"
    return f"{record['name']} said last, in its own words:\n{text}"


def _counted(records: Iterable[RecordDict]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in records:
        counts[record["state"]] = counts.get(record["state"], 0) + 1
    return counts


def _counts(counts: dict[str, int], listed: int) -> str:
    total = sum(counts.values())
    told = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    head = f"{total} subagent{'' if total == 1 else 's'}: {told}"
    return f"{head}; told of here: {listed}." if listed < total else f"{head}."


def _age(record: RecordDict) -> str:
    age = record.get("last_event_age_s")
    return "" if age is None else f"Last event {int(age)} s ago."


def _runs(record: RecordDict) -> bool:
    return bool(record["state"] == State.RUNNING.value)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LISTED_MESSAGE_CHARS else f"{line[:_LISTED_MESSAGE_CHARS]}…"


def _stop(text: str) -> str:
    text = text.strip()
    return text if not text or text.rstrip('"')[-1:] in ".!?…" else f"{text}."


def _lines(*parts: str) -> str:
    return "\n".join(part for part in parts if part)


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)
