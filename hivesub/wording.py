"""How a run and its end are put into sentences, in one place: status, the todo and the report file say the same.

Pure. The words of each kind of end are in `hivesub.endings`. Outcome and stop reason stay two sentences; what a
subagent claims is quoted and labelled as a claim on every surface. Owns no layout: who shows a sentence decides where
it stands.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from hivesub.endings import CHECKS, ENDINGS, OUTCOMES, SIGNALS, Ending
from hivesub.records import CheckOutcome, Outcome, StopKind
from hivesub.shapes import Record, StopReasonRecord

_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")

CONTROL_FAILED = "Its signal route failed to connect, so it could not have reported anything."
"""What is said of a run whose `control` is `failed`."""


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


def turn_phrase(record: Record) -> str:
    """``Turn 2 of 5``, or "" for a run without a budget of turns."""
    if record["max_turns"] is None:
        return ""
    return f"Turn {record['turn']} of {record['max_turns']}"


def outcome_sentence(record: Record) -> str:
    """What was observed of the last turn, whatever was claimed; "" while no turn of the run has ended."""
    last = record["last_turn"]
    if last is None:
        return ""
    phrase = turn_phrase(record)
    if _ended_outside_turn(record):
        # The number may be that of a turn that never had a process.
        subject = f"{phrase}: the last turn" if phrase else "The last turn"
    else:
        subject = phrase or "The turn"
    notes = [_one_line(last["detail"])]
    if last["outcome"] == Outcome.KILLED:
        notes.insert(0, last["signal"] or "")
    # The detail often begins with the exit code already: it is said once.
    code = last["exit_code"]
    if last["outcome"] == Outcome.FAILED and code is not None and f"exit code {code}" not in notes[0]:
        notes.insert(0, f"exit code {code}")
    return _sentence(f"{subject} {OUTCOMES[Outcome(last['outcome'])]}", notes)


def stop_sentence(record: Record) -> str:
    """Why no further turn follows; "" while the run goes on."""
    reason = record["stop_reason"]
    if reason is None:
        return ""
    row, message = ending_of(reason), valid_text(reason["message"]).strip()
    if row.claim:
        return _quoting(row.sentence, _claimed(record, reason, message))
    if row.is_turn_outcome:
        return _sentence(_cut_short(row, record, reason), [_news(message, record)])
    return _with_full_stop(message[0].upper() + message[1:] if message else row.sentence.format(turns=_turns(record)))


def claims_sentence(record: Record) -> str:
    """The signals that are not in the stop sentence, each labelled as a claim; "" when there are none."""
    signals = list(record["signals"])
    if signals and (deciding := record["stop_reason"]) and SIGNALS[signals[-1]["kind"]].stop == deciding["kind"]:
        signals.pop()
    claims = []
    for signal in signals:
        label, message = SIGNALS[signal["kind"]].label, signal["message"]
        claims.append(f"{label}: {quoted(message)}" if message.strip() else label)
    left_out = record.get("signals_left_out")
    if left_out:
        claims.insert(0, f"{left_out} time{'' if left_out == 1 else 's'} what is not kept")
    return f"During the run it also signalled {'; then '.join(claims)}." if claims else ""


def title_words(record: Record) -> str:
    """How a run ended in a few words that follow the subagent's name, such as ``is blocked and asks for help``."""
    reason = record["stop_reason"]
    if reason is None:
        return "has not ended"
    row = ending_of(reason)
    if row.title_outside_turn and _last_outcome(record) != reason["kind"]:
        where = "between two turns" if record["last_turn"] else "before its first turn"
        return row.title_outside_turn.format(where=where)
    return row.title.format(turns=_turns(record))


def report_sentence(record: Record) -> str:
    """Where the report is and what went wrong with it; "" when no report was asked for and nothing went wrong."""
    path, error = visible(record["report_file"] or ""), _one_line(record["report_error"])
    parts = [f"Report file: {path}"] if path else []
    if error:
        parts.append(_with_full_stop(f"Report error: {error}"))
    return "\n".join(parts)


def retry_sentence(record: Record, now: datetime) -> str:
    """That claude waits for its API, and for how long already; "" where it does not."""
    retry = record["retrying"]
    if retry is None:
        return ""
    why = retry["error"] or (f"status {retry['status']}" if retry["status"] else "an error")
    for_s = max(0, int((now - datetime.fromisoformat(retry["since"])).total_seconds()))
    length = f"{for_s // 60} min" if for_s >= 120 else f"{for_s} s"
    return f"It waits for the API: {visible(why)}, attempt {retry['attempt']} of {retry['max_attempts']}, for {length}."


def check_sentence(record: Record, now: datetime | None = None) -> str:
    """What was observed of the run's check, "" where there is none; a check that passed is the stop reason's to say.

    :param now: for how long one that runs has been running; None leaves that out.
    """
    checking, check = record.get("checking"), record["check"]
    if checking is not None:
        for_s = 0 if now is None else max(0, int((now - datetime.fromisoformat(checking["since"])).total_seconds()))
        return f"Checking `{checking['name']}`{'' if now is None else f', {for_s} s'}."
    if check is None or _stop_kind(record) is StopKind.CHECK_PASSED:
        return ""
    code = "" if check["exit_code"] is None else f"exit {check['exit_code']}"
    notes = ", ".join(filter(None, (code, _one_line(check["detail"]))))
    verb = CHECKS[CheckOutcome(check["outcome"])]
    return _with_full_stop(f"Check `{check['name']}` {verb}{f', {notes}' if notes else ''}")


def _stop_kind(record: Record) -> StopKind | None:
    reason = record["stop_reason"]
    return None if reason is None else StopKind(reason["kind"])


def held_up_sentence(record: Record, now: datetime) -> str:
    """What holds up a run that goes on: a usage limit, or its API; "" where nothing is known to."""
    until = record.get("waiting_until")
    if until is not None:
        return f"A usage limit of the account holds it up: the turn is run again at {until[:16].replace('T', ' ')} UTC."
    return retry_sentence(record, now)


def ending_of(reason: StopReasonRecord) -> Ending:
    """The row of a stop reason, as a record has it."""
    return ENDINGS[StopKind(reason["kind"])]


def _cut_short(row: Ending, record: Record, reason: StopReasonRecord) -> str:
    if _last_outcome(record) == reason["kind"]:
        return row.sentence
    if row is ENDINGS[StopKind.FAILED] and record["last_turn"] and reason["message"].startswith("internal error"):
        return "The run failed after its turn had ended"
    return row.sentence_outside_turn.format(which="next" if record["last_turn"] else "first")


def _claimed(record: Record, reason: StopReasonRecord, message: str) -> str:
    """What the deciding signal said, verbatim; the stop reason's message where the record lists no signal."""
    signals = record["signals"]
    if signals and SIGNALS[signals[-1]["kind"]].stop == reason["kind"]:
        return valid_text(signals[-1]["message"]).strip()
    return message


def _news(message: str, record: Record) -> str:
    """What a stop reason's message adds to the outcome's detail: nothing where it repeats it."""
    last, line = record["last_turn"], _one_line(message)
    known = _one_line(last["detail"] if last else "").casefold()
    words = line.casefold().rstrip(".")
    return "" if words in known or (known and known.rstrip(".") in words) else line


def _ended_outside_turn(record: Record) -> bool:
    """Whether the run was ended by something other than its last turn, whose outcome stands beside it."""
    reason = record["stop_reason"]
    if reason is None or not ending_of(reason).is_turn_outcome:
        return False
    return _last_outcome(record) not in {reason["kind"], None}


def _last_outcome(record: Record) -> str | None:
    last = record["last_turn"]
    return str(last["outcome"]) if last else None


def _turns(record: Record) -> str:
    count = record["max_turns"]
    return "1 turn" if count == 1 else f"{count} turns"


def _one_line(text: str | None) -> str:
    return " ".join(valid_text(text or "").split())


def _sentence(head: str, notes: list[str]) -> str:
    said = "; ".join(note for note in notes if note)
    return _with_full_stop(f"{head}: {said}" if said else head)


def _quoting(head: str, message: str) -> str:
    # Quoted, so that nobody takes the subagent's words for the daemon's.
    return f"{head}: {_quoted(message)}" if message else f"{head}."


def _quoted(message: str) -> str:
    return quoted(message) if message.endswith((".", "!", "?")) else f"{quoted(message)}."


def _with_full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
