"""The todo: the one message that the daemon pushes when a run ends. Pure; its delivery is the outbox's."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from hivesub.shapes import Record, Todo
from hivesub.wording import (
    CONTROL_FAILED,
    check_sentence,
    claims_sentence,
    outcome_sentence,
    report_sentence,
    rfc3339,
    stop_sentence,
    title_words,
    turn_phrase,
    valid_text,
)

KIND = "subagent_run_ended"


def build_todo(record: Record, *, todo_id: str, created_at: datetime, redact: Callable[[str], str] = str) -> Todo:
    """The todo of a run that has ended, ready for JSON: a copy, every text in it valid UTF-8.

    :param record: as `status` has it; a `result` in it (what the subagent said) is left out.
    :param redact: replaces the daemon's secrets in every text.
    """
    shown = _shown(record, redact)
    return {
        "id": todo_id,
        "kind": KIND,
        "title": _title(shown),
        "body": _body(shown),
        "subagent": shown,
        "created_at": rfc3339(created_at),
    }


def announcement(record: Record, redact: Callable[[str], str]) -> str:
    """What the todo of a run says, title and body."""
    shown = _shown(record, redact)
    return f"{_title(shown)}\n{_body(shown)}"


def _shown(record: Record, redact: Callable[[str], str]) -> Record:
    shown: Record = _clean({key: value for key, value in record.items() if key != "result"}, redact)
    return shown


def _title(record: Record) -> str:
    return f"subagent {record['name']} {title_words(record)}"


def todo_bytes(todo: Todo) -> bytes:
    """The todo as one line of JSON, without the newline."""
    return valid_text(json.dumps(todo, ensure_ascii=False, separators=(",", ":"))).encode()


def _body(record: Record) -> str:
    phrase = turn_phrase(record)
    outcome = outcome_sentence(record) or f"{phrase + ': no' if phrase else 'No'} turn of this run ended."
    paragraphs = [
        f"{outcome} {stop_sentence(record)}".rstrip(),
        check_sentence(record),
        claims_sentence(record),
        CONTROL_FAILED if record.get("control") == "failed" and _kind(record) != "no_control" else "",
        report_sentence(record),
        _go_on(record),
    ]
    return "\n".join(paragraph for paragraph in paragraphs if paragraph)


def _go_on(record: Record) -> str:
    call = f'`continue` with name "{record["name"]}"'
    if record.get("state") == "blocked":
        return f"To answer it, call {call}."
    if record.get("state") == "killed":
        return f"To go on from the cut-off work, call {call}."
    return f"To go on, call {call}."


def _kind(record: Record) -> str | None:
    reason = record.get("stop_reason")
    return str(reason["kind"]) if reason else None


def _clean(value: Any, redact: Callable[[str], str]) -> Any:
    """A copy of a JSON value whose texts are redacted and valid."""
    if isinstance(value, str):
        return valid_text(redact(value))
    if isinstance(value, dict):
        return {key: _clean(item, redact) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_clean(item, redact) for item in value]
    return value
