"""How the end of a run is put into words: one place, so that `status`, the todo and the report file say the same.

Pure functions over a record. Outcome and stop reason stay two sentences; what a subagent claims is quoted
and labelled as a claim on every surface. Owns no layout: who shows a sentence decides where it stands.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from hivesub.records import RecordDict

KILLED = "killed mid-turn, not finished"
"""What every surface calls a killed turn."""

UNVERIFIED = "self-reported, not verified"
"""What every surface adds to `goal_reached`."""

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

CONTROL_FAILED = "Its signal route failed to connect, so it could not have reported anything."
"""What is told of a run whose `control` is `failed`."""


def valid_text(text: str) -> str:
    """The text as UTF-8 can carry it: surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def quoted(text: str) -> str:
    """A subagent's words as a JSON string: nothing in them ends the quotation, begins a line or is not seen."""
    return visible(json.dumps(valid_text(text).strip(), ensure_ascii=False))


def visible(text: str) -> str:
    """The text on one line: control characters and such as change the direction of writing are written out."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), valid_text(text))


def rfc3339(when: datetime) -> str:
    """An aware datetime as RFC 3339 in UTC, to the millisecond, such as ``2031-05-06T07:08:09.123Z``."""
    return when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def internal_error(error: BaseException | None) -> str:
    """What is said of an error of the daemon's own; its traceback is in the log alone."""
    return f"internal error: {type(error).__name__}"


def turn_phrase(record: RecordDict) -> str:
    """``Turn 2 of 5``, or "" for a run without a budget of turns."""
    if record.get("max_turns") is None:
        return ""
    return f"Turn {record.get('turn')} of {record['max_turns']}"


def outcome_sentence(record: RecordDict) -> str:
    """What was observed of the last turn, whatever was claimed; "" while no turn of the run has ended."""
    last = record.get("last_turn")
    if not last:
        return ""
    phrase = turn_phrase(record)
    if _between_turns(record):
        # The number may be that of a turn that never had a process.
        subject = f"{phrase}: the last turn" if phrase else "The last turn"
    else:
        subject = phrase or "The turn"
    notes = [_one_line(last.get("detail"))]
    if last["outcome"] == "killed":
        notes.insert(0, last.get("signal") or "")
        return _sentence(f"{subject} was {KILLED}", notes)
    if last["outcome"] == "failed":
        code = last.get("exit_code")
        # The detail often begins with the code already: it is told once.
        if code is not None and f"exit code {code}" not in notes[0]:
            notes.insert(0, f"exit code {code}")
        return _sentence(f"{subject} failed", notes)
    return _sentence(f"{subject} finished", notes)


def stop_sentence(record: RecordDict) -> str:
    """Why no further turn follows; "" while the run goes on."""
    reason = record.get("stop_reason")
    if not reason:
        return ""
    kind, message = reason["kind"], valid_text(reason.get("message") or "").strip()
    if kind == "goal_reached":
        return _quoting(f"The subagent reported its goal reached ({UNVERIFIED})", _claimed(record, message))
    if kind == "need_help":
        return _quoting("The subagent is blocked and asks for help", _claimed(record, message))
    if kind in {"killed", "failed"}:
        return _sentence(_cut_short(kind, record), [_news(message, record)])
    return _stopped(message[0].upper() + message[1:] if message else _default_stop(kind, record))


def claims_sentence(record: RecordDict) -> str:
    """The signals that the stop sentence does not tell, each labelled as a claim; "" when there are none."""
    signals = list(record.get("signals") or ())
    kind = (record.get("stop_reason") or {}).get("kind")
    if signals and signals[-1]["kind"] == kind:
        signals.pop()
    claims = []
    for signal in signals:
        label = f"goal_reached ({UNVERIFIED})" if signal["kind"] == "goal_reached" else str(signal["kind"])
        message = signal.get("message") or ""
        claims.append(f"{label}: {quoted(message)}" if message.strip() else label)
    left_out = record.get("signals_left_out")
    if left_out:
        claims.insert(0, f"{left_out} time{'' if left_out == 1 else 's'} what is not kept")
    return f"During the run it also signalled {'; then '.join(claims)}." if claims else ""


def title_words(record: RecordDict) -> str:
    """How a run ended in a few words that follow the subagent's name, such as ``is blocked and asks for help``."""
    kind = (record.get("stop_reason") or {}).get("kind")
    if record.get("state") == "killed":
        words = {"killed": f"was {KILLED}", None: "was stopped before its first turn"}
        return words.get(_last_outcome(record), "was stopped between two turns")
    if record.get("state") == "failed":
        return "failed"
    if record.get("state") == "blocked":
        return "is blocked and asks for help"
    return {
        "goal_reached": f"reports its goal reached ({UNVERIFIED})",
        "turn_cap": f"stopped at its limit of {_turns(record)}, goal not reported reached",
        "budget_spent": "stopped, its budget spent",
        "no_control": "stopped, its signal route did not connect",
    }.get(str(kind), "finished its turn")


def report_sentence(record: RecordDict) -> str:
    """Where the report is and what went wrong with it; "" when no report was asked for and nothing went wrong."""
    path, error = visible(record.get("report_file") or ""), _one_line(record.get("report_error"))
    parts = [f"Report file: {path}"] if path else []
    if error:
        parts.append(_stopped(f"Report error: {error}"))
    return "\n".join(parts)


def _cut_short(kind: str, record: RecordDict) -> str:
    if _last_outcome(record) == kind:
        return (
            "The run stopped because its turn was killed"
            if kind == "killed"
            else "The run stopped because its turn failed"
        )
    if kind == "failed" and record.get("last_turn") and record["stop_reason"]["message"].startswith("internal error"):
        return "The run failed after its turn had ended"
    which = "next" if record.get("last_turn") else "first"
    return f"The run was stopped before its {which} turn" if kind == "killed" else f"The {which} turn could not be run"


def _default_stop(kind: str, record: RecordDict) -> str:
    """A stop reason whose run gave no message of its own."""
    short = "the goal was never reported reached, and the work stopped where it had got to"
    if kind == "turn_cap":
        return f"The harness limit of {_turns(record)} was reached; {short}"
    if kind == "budget_spent":
        return f"The run's budget in dollars is spent; {short}"
    if kind == "no_control":
        return "Claude could not connect to the signal route of this run: no turn could have reported its goal reached"
    return "The turn ended by itself and nothing was signalled"


def _claimed(record: RecordDict, message: str) -> str:
    """What the deciding signal said, verbatim; the stop reason's message where the record lists no signal."""
    signals = record.get("signals") or ()
    if signals and signals[-1]["kind"] == record["stop_reason"]["kind"]:
        return valid_text(signals[-1].get("message") or "").strip()
    return message


def _news(message: str, record: RecordDict) -> str:
    """What a stop reason's message adds to the outcome's detail: nothing where it repeats it."""
    line = _one_line(message)
    known = _one_line((record.get("last_turn") or {}).get("detail")).casefold()
    words = line.casefold().rstrip(".")
    return "" if words in known or (known and known.rstrip(".") in words) else line


def _between_turns(record: RecordDict) -> bool:
    """Whether the run was ended by something other than its last turn, whose outcome stands beside it."""
    kind = (record.get("stop_reason") or {}).get("kind")
    return kind in {"killed", "failed"} and _last_outcome(record) not in {kind, None}


def _last_outcome(record: RecordDict) -> str | None:
    last = record.get("last_turn")
    return str(last["outcome"]) if last else None


def _turns(record: RecordDict) -> str:
    count = record.get("max_turns")
    return "1 turn" if count == 1 else f"{count} turns"


def _one_line(text: object) -> str:
    return " ".join(valid_text(str(text or "")).split())


def _sentence(head: str, notes: list[str]) -> str:
    told = "; ".join(note for note in notes if note)
    return _stopped(f"{head}: {told}" if told else head)


def _quoting(head: str, message: str) -> str:
    # Quoted, so that nobody takes the subagent's words for the daemon's.
    return f"{head}: {_quoted(message)}" if message else f"{head}."


def _quoted(message: str) -> str:
    return quoted(message) if message.endswith((".", "!", "?")) else f"{quoted(message)}."


def _stopped(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
