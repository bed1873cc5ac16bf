"""The output schemas of the tools: what `structuredContent` holds.

Objects are left open (no `additionalProperties: false`), so that a client with an older list of tools can read a newer
answer. No `$schema` is named: 2020-12 is what MCP assumes, and validators of older drafts still read these.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from hivesub.records import Control, Outcome, SignalKind, State, StopKind, TodoState

_TEXT = {"type": "string"}
_TEXT_OR_NULL = {"type": ["string", "null"]}
_COUNT = {"type": "integer", "minimum": 0}
_COUNT_OR_NULL = {"type": ["integer", "null"]}
_TIME = {"type": "string", "format": "date-time"}
_TIME_OR_NULL = {"type": ["string", "null"], "format": "date-time"}
_ABSENT_AT_TIMES = frozenset({"last_event_age_s", "pid", "result", "signals_left_out"})
"""The fields of a record that only some answers have; null says the same as absence."""


def _one_of(values: type[Enum]) -> dict[str, Any]:
    return {"enum": [value.value for value in values]}


def _object(
    properties: dict[str, Any], *, nullable: bool = False, optional: frozenset[str] = frozenset()
) -> dict[str, Any]:
    return {
        "type": ["object", "null"] if nullable else "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
    }


RECORD = _object(
    {
        "name": _TEXT,
        "session_id": _TEXT_OR_NULL,
        "dir": _TEXT,
        "state": _one_of(State),
        "turn": _COUNT_OR_NULL,
        "max_turns": _COUNT_OR_NULL,
        "goal": _TEXT_OR_NULL,
        "last_event_age_s": {"type": ["number", "null"]},
        "started_at": _TIME,
        "ended_at": _TIME_OR_NULL,
        "last_turn": _object(
            {
                "outcome": _one_of(Outcome),
                "signal": _TEXT_OR_NULL,
                "exit_code": _COUNT_OR_NULL,
                "detail": _TEXT_OR_NULL,
                "ended_at": _TIME,
            },
            nullable=True,
        ),
        "stop_reason": _object({"kind": _one_of(StopKind), "message": _TEXT}, nullable=True),
        "signals": {
            "type": "array",
            "items": _object({"kind": _one_of(SignalKind), "message": _TEXT, "at": _TIME}),
        },
        "signals_left_out": _COUNT,
        "report_file": _TEXT_OR_NULL,
        "report_error": _TEXT_OR_NULL,
        "usage": _object(
            {
                "cost_usd": {"type": ["number", "null"]},
                "claude_turns": _COUNT,
                "input_tokens": _COUNT,
                "output_tokens": _COUNT,
            }
        ),
        "control": _one_of(Control),
        "missing_tools": {"type": "array", "items": _TEXT},
        "todo": _one_of(TodoState),
        "pid": _COUNT_OR_NULL,
        "result": _TEXT_OR_NULL,
    },
    optional=_ABSENT_AT_TIMES,
)
"""A record."""

_SUBAGENT = {"subagent": {"$ref": "#/$defs/record"}}


def _answer(properties: dict[str, Any], *optional: str) -> dict[str, Any]:
    return {**_object(properties, optional=frozenset(optional)), "$defs": {"record": RECORD}}


START_ANSWER = _answer({**_SUBAGENT, "replaced_session_id": _TEXT_OR_NULL}, "replaced_session_id")
CONTINUE_ANSWER = _answer(
    {**_SUBAGENT, "previous_signal": _TEXT_OR_NULL, "under_way": {"const": False}}, "previous_signal", "under_way"
)
STATUS_ANSWER = _answer(
    {
        "subagents": {"type": "array", "items": {"$ref": "#/$defs/record"}},
        "counts": {"type": "object", "additionalProperties": _COUNT},
    },
    "counts",
)
INTERRUPT_ANSWER = _answer({**_SUBAGENT, "escalated": {"type": "boolean"}}, "escalated")
SIGNAL_ANSWER = _object({"recorded": {"const": True}, "note": _TEXT})
