"""Claude's output as hypothesis makes it up: events of the known shapes with fields of any type, junk between them."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import strategies as st

LIMIT = 600
"""The longest line that is read. Far below the real one, so that lines about as long and longer are common."""

# Lone surrogates too: JSON may carry them, and what we write of them has to be valid UTF-8.
text = st.text(max_size=40) | st.sampled_from(["", "\ud83d", "done", "[Request interrupted by user]", '"result"'])
json_value: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**50), 2**50) | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)


def _field(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A field as claude writes it, most of the time."""
    return usual | usual | usual | json_value


def _object(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """An event with any of its fields missing and in any order."""
    return st.fixed_dictionaries({"type": st.just(kind)}, optional=fields).flatmap(
        lambda event: st.permutations(list(event.items())).map(dict)
    )


_name = st.sampled_from(["Read", "Write", "mcp__subagent_control__need_help"]) | text
_server = st.fixed_dictionaries({"name": _field(_name), "status": _field(st.sampled_from(["connected", "failed"]))})
_count = st.integers(0, 10**9)

init = _object(
    "system",
    subtype=st.just("init"),
    session_id=_field(st.uuids().map(str)),
    cwd=_field(st.just("/work")),
    tools=_field(st.lists(_field(_name), max_size=4)),
    mcp_servers=_field(st.lists(_field(_server), max_size=3)),
)
background = _object(
    "system",
    subtype=st.sampled_from(["background_tasks_changed", "status"]),
    tasks=_field(st.lists(st.just({"task_id": "b1"}), max_size=3)),
)
result = _object(
    "result",
    subtype=_field(st.sampled_from(["success", "error_during_execution", "error_max_budget_usd"])),
    is_error=_field(st.booleans()),
    result=_field(text),
    errors=_field(st.lists(_field(text), max_size=3)),
    terminal_reason=_field(st.sampled_from(["completed", "prompt_too_long", "aborted_tools", "api_error"])),
    session_id=_field(st.uuids().map(str)),
    num_turns=_field(_count),
    total_cost_usd=_field(st.floats(0, 100)),
    usage=_field(st.fixed_dictionaries({}, optional={"input_tokens": _field(_count), "output_tokens": _field(_count)})),
    model_usage_since_last_result=_field(
        st.dictionaries(text, _field(st.fixed_dictionaries({"costUSD": _field(st.floats(0, 10))})), max_size=2)
    ),
)
user = _object(
    "user",
    message=_field(
        st.fixed_dictionaries(
            {
                "content": _field(
                    st.lists(
                        _field(
                            st.fixed_dictionaries(
                                {
                                    "type": st.sampled_from(["text", "tool_result"]),
                                    "text": _field(
                                        st.sampled_from(
                                            ["[Request interrupted by user]", "[Request interrupted by user for x]"]
                                        )
                                    ),
                                }
                            )
                        ),
                        max_size=2,
                    )
                )
            }
        )
    ),
    parent_tool_use_id=_field(st.none()),
)
assistant = _object("assistant", message=_field(st.just({"content": [{"type": "text", "text": "on it"}]})))
event = init | background | result | user | assistant | _object("system", subtype=_field(text))


def _written(value: Any, ascii_only: bool, roomy: bool) -> bytes:
    separators = (", ", ": ") if roomy else (",", ":")
    return json.dumps(value, ensure_ascii=ascii_only, separators=separators).encode("utf-8", "surrogatepass")


# As claude writes them: the ones above are bent in so many ways that few are whole.
usual = st.sampled_from(
    [
        {
            "type": "system",
            "subtype": "init",
            "session_id": "6868ab6d-b404-47a1-8fa8-d5f5a71e3bed",
            "cwd": "/work",
            "tools": ["Read"],
        },
        {"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "b1"}]},
        {"type": "system", "subtype": "background_tasks_changed", "tasks": []},
        {"type": "user", "message": {"content": [{"type": "text", "text": "[Request interrupted by user]"}]}},
        {"type": "assistant", "message": {"content": [{"type": "text", "text": "on it"}]}},
        {"subtype": "success", "is_error": False, "result": "done", "total_cost_usd": 0.5, "type": "result"},
        {
            "type": "result",
            "subtype": "success",
            "session_id": "6868ab6d-b404-47a1-8fa8-d5f5a71e3bed",
            "usage": {"input_tokens": 20, "output_tokens": 7},
            "model_usage_since_last_result": {"a": {"costUSD": 0.25}, "b": {"costUSD": 0.5}},
        },
        {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 500", "num_turns": 2},
        {
            "type": "result",
            "subtype": "error_max_budget_usd",
            "is_error": True,
            "errors": ["Reached maximum budget"],
            "usage": {"input_tokens": 3, "output_tokens": 2},
            "model_usage_since_last_result": {"a": {"costUSD": 0.125}},
        },
        {"type": "result", "subtype": "error_during_execution", "terminal_reason": "aborted_tools", "is_error": True},
    ]
)


def _line_of(value: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    return st.builds(_written, value, st.booleans(), st.booleans())


event_line = st.one_of([_line_of(usual), _line_of(event), _line_of(json_value)])
# What a shell, a plugin or a broken pipe may leave between events: none of it has a newline inside.
junk_line = st.binary(max_size=60).map(lambda data: data.replace(b"\n", b"")) | st.sampled_from(
    [b"", b"{broken", b"[]", b"null", b"42", b'{"type":"result"', b"\xff\xfe", b"x" * 700, b'{"a":' * 900, b"\r"]
)
cut_line = st.tuples(event_line, st.integers(0, 200)).map(lambda given: given[0][: given[1]])
bom_line = event_line.map(lambda line: b"\xef\xbb\xbf" + line)
crlf_line = event_line.map(lambda line: line + b"\r")


def _padded(value: dict[str, Any], roomy: bool, in_front: bool, size: int) -> bytes:
    """An event of so many bytes, unless it is longer by itself."""
    missing = size - len(_written({**value, "pad": ""}, True, roomy))
    pad = {"pad": "x" * missing}
    return _written({**pad, **value} if in_front else {**value, **pad}, True, roomy)


padded_line = st.builds(
    _padded,
    usual | event,
    st.booleans(),
    st.booleans(),
    st.sampled_from([LIMIT - 1, LIMIT, LIMIT + 1]) | st.integers(LIMIT + 1, 2 * LIMIT),
)
# No newline between them: what looks like an event is the end of a line that is too long.
glued_line = st.builds(lambda size, event: b"x" * size + event, st.integers(LIMIT + 1, 1300), _line_of(usual))
line = st.one_of(
    [_line_of(usual), _line_of(usual), event_line, bom_line, crlf_line, cut_line, junk_line, padded_line, glued_line]
)

_talk = st.sampled_from(
    [
        b'{"type":"assistant","message":{"content":[{"type":"text","text":"on it"}]}}',
        b'{"type":"user","message":{"content":"hello"}}',
    ]
)


def _crowd(before: list[bytes], talk: bytes, count: int, place: int, fact: bytes, after: list[bytes]) -> list[bytes]:
    place = min(place, count)
    return [*before, *[talk] * place, fact, *[talk] * (count - place), *after]


# One line that matters among many that do not.
crowd = st.builds(
    _crowd,
    st.lists(line, max_size=1),
    _talk,
    st.integers(45, 60),
    st.integers(0, 60),
    _line_of(usual),
    st.lists(line, max_size=2),
)

_lines = st.lists(line, max_size=12)
output = st.tuples(st.one_of(_lines, _lines, crowd), st.sampled_from([b"", b"\n"])).map(
    lambda given: b"\n".join(given[0]) + given[1]
)
"""A turn's whole stdout, its last line with a newline or without."""


@st.composite
def pieces(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """The same bytes, cut anywhere, where lines begin, or where an event begins within a line; some are empty."""
    lines = st.sampled_from([0, *(found.end() for found in re.finditer(rb"\n", data))])
    within = [found.end() for found in re.finditer(rb"x(?={)", data)]
    some = st.lists(st.integers(0, len(data)), max_size=8) | st.lists(lines, max_size=8) | st.just(within)
    cuts = sorted(draw(some))
    return [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
