"""The stream reader against a reference that reads each whole line with `json.loads` and nothing else."""

from __future__ import annotations

import json
import math
import re
from typing import Any
from uuid import UUID

import pytest
from attrs import fields
from hypothesis import given, settings
from hypothesis import strategies as st

from hivesub.records import Init, Result
from hivesub.turns.stream import Stream, Tail
from tests.properties import events
from tests.properties.events import LIMIT

TEXT_LIMIT = 100_000
MARGIN = 8192
ERRORS_CHARACTERS = 16_384


class Reference:
    """The facts of an output, read the plain way."""

    def __init__(self, data: bytes) -> None:
        self.inits: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        self.answered = self.user_interrupted = False
        self.background_tasks = 0
        self.cost: float | None = None
        self.since: float | None = None
        for line in data.split(b"\n"):
            if len(line) <= LIMIT:
                self._read(line)

    def _read(self, line: bytes) -> None:
        try:
            event = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return
        if not isinstance(event, dict):
            return
        kind, subtype = event.get("type"), event.get("subtype")
        if kind == "system" and subtype == "init":
            self.inits.append(event)
            self.answered = False
        elif kind == "system" and subtype == "background_tasks_changed" and isinstance(event.get("tasks"), list):
            self.background_tasks = len(event["tasks"])
        elif kind == "result":
            self.results.append(event)
            self.answered = bool(self.inits)
            if subtype != "error_during_execution":
                self.user_interrupted = False
            if self.inits and _dollars(event.get("total_cost_usd")):
                self.cost = float(event["total_cost_usd"])
            models = event.get("model_usage_since_last_result")
            if isinstance(models, dict):
                costs = [model.get("costUSD") for model in models.values() if isinstance(model, dict)]
                self.since = math.fsum([self.since or 0.0, *(float(str(cost)) for cost in costs if _dollars(cost))])
        elif kind == "assistant":
            self.user_interrupted = False
        elif kind == "user" and _interrupts(event):
            self.user_interrupted = True


def _dollars(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e9


def _interrupts(event: dict[str, Any]) -> bool:
    message = event.get("message")
    if event.get("parent_tool_use_id") or not isinstance(message, dict):
        return False
    content = message.get("content")
    said = [content] if isinstance(content, str) else []
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
            said.append(block["text"])
    return any(re.fullmatch(r"\[Request interrupted by user[^\]]*\]", text.strip()) for text in said)


def _valid(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text[:TEXT_LIMIT])


def _text(value: object) -> str | None:
    return _valid(value) if isinstance(value, str) and value else None


def _session(value: object) -> str | None:
    """What reads as a UUID in its one usual spelling."""
    try:
        return value if isinstance(value, str) and str(UUID(value)) == value.lower() else None
    except ValueError:
        return None


def _init(event: dict[str, Any]) -> Init:
    tools: Any = event.get("tools")
    servers: Any = event.get("mcp_servers")
    pairs = [(one.get("name"), one.get("status")) for one in servers if isinstance(one, dict)] if _many(servers) else []
    return Init(
        session_id=_session(event.get("session_id")),
        cwd=_text(event.get("cwd")),
        tools=tuple(_valid(tool) for tool in tools if isinstance(tool, str)) if _many(tools) else None,
        mcp_servers={
            _valid(name): _valid(status) for name, status in pairs if isinstance(name, str) and isinstance(status, str)
        }
        if _many(servers)
        else None,
    )


def _many(value: object) -> Any:
    return isinstance(value, list)


def _same_result(read: Result, event: dict[str, Any]) -> None:
    said, subtype, errors, text = (event.get(key) for key in ("is_error", "subtype", "errors", "result"))
    assert read.is_error == (said if isinstance(said, bool) else subtype != "success")
    assert read.subtype == (_text(subtype) or "")
    assert read.text == (_text(text) or "")
    assert read.text_after == (_valid(text[TEXT_LIMIT:][:MARGIN]) if isinstance(text, str) else "")
    texts = [_valid(e) for e in errors if isinstance(e, str)] if isinstance(errors, list) else []
    assert read.errors == tuple(text[:ERRORS_CHARACTERS] for text in texts)
    assert read.terminal_reason == _text(event.get("terminal_reason"))
    assert read.session_id == _text(event.get("session_id"))
    assert read.num_turns == _count(event.get("num_turns"))
    assert (read.input_tokens, read.output_tokens) == _tokens(event)


def _tokens(event: dict[str, Any]) -> tuple[int, int]:
    usage = event.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    return _count(usage.get("input_tokens")), _count(usage.get("output_tokens"))


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


@given(data=events.output, draw=st.data())
def test_it_reads_the_facts_that_the_reference_reads_however_the_output_is_cut(
    data: bytes, draw: st.DataObject
) -> None:
    stream = Stream(line_limit_bytes=LIMIT)
    for piece in draw.draw(events.pieces(data)):
        stream.feed(piece)
        assert len(stream._open_line) <= LIMIT
    stream.finish()
    reference = Reference(data)
    assert stream.bytes_read == len(data)
    assert (stream.inits, stream.results) == (len(reference.inits), len(reference.results))
    assert stream.init == (_init(reference.inits[-1]) if reference.inits else None)
    if reference.results:
        assert stream.result is not None
        _same_result(stream.result, reference.results[-1])
    else:
        assert stream.result is None
    assert stream.answered == reference.answered
    assert stream.background_tasks == reference.background_tasks
    assert stream.user_interrupted == reference.user_interrupted
    usage = stream.usage
    assert usage.total_cost_usd == reference.cost
    assert usage.since_usd == (None if reference.since is None else pytest.approx(reference.since))
    assert usage.claude_turns == sum(_count(event.get("num_turns")) for event in reference.results)
    assert usage.input_tokens == sum(_tokens(event)[0] for event in reference.results)
    assert usage.output_tokens == sum(_tokens(event)[1] for event in reference.results)


@settings(max_examples=20)
@given(letter=st.sampled_from(["x", "é", "\U0001f600", "\ud83d"]), size=st.integers(TEXT_LIMIT - 1, TEXT_LIMIT + 2))
def test_a_long_text_is_read_up_to_its_limit_and_said_to_be_cut(letter: str, size: int) -> None:
    event = {"type": "result", "is_error": True, "result": letter * size, "errors": [letter * size]}
    stream = Stream()
    stream.feed(json.dumps(event).encode())
    stream.finish()
    assert stream.result is not None
    _same_result(stream.result, event)


@given(data=events.output, draw=st.data())
def test_what_it_tells_is_valid_unicode(data: bytes, draw: st.DataObject) -> None:
    stream = Stream()
    for piece in draw.draw(events.pieces(data)):
        stream.feed(piece)
    stream.finish()
    for told in (stream.init, stream.result):
        if told is not None:
            for text in _texts(told):
                text.encode()


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in _texts(each)]
    if isinstance(value, tuple):
        return [text for each in value for text in _texts(each)]
    if isinstance(value, (Init, Result)):
        return [text for each in fields(type(value)) for text in _texts(getattr(value, each.name))]
    return []


@given(st.lists(st.binary(max_size=300) | st.just(b"x" * LIMIT), max_size=20))
def test_bytes_of_any_kind_never_make_it_raise_or_hold_more_than_its_bound(written: list[bytes]) -> None:
    stream = Stream(line_limit_bytes=LIMIT)
    for piece in written:
        stream.feed(piece)
        assert len(stream._open_line) <= LIMIT
    stream.finish()
    assert stream.bytes_read == len(b"".join(written))


@given(st.lists(st.binary(max_size=100), max_size=20), st.integers(1, 50))
def test_the_tail_is_the_end_of_all_that_came_within_its_bound(written: list[bytes], limit: int) -> None:
    tail = Tail(limit)
    for piece in written:
        tail.feed(piece)
        assert len(tail._kept) <= 3 * limit
    whole = b"".join(written)
    most = min(limit, len(whole))
    least = most if len(whole) <= limit else limit - limit // 2
    assert tail.text() in {whole[len(whole) - size :].decode("utf-8", "replace") for size in range(least, most + 1)}
    assert tail.bytes_read == len(whole)
