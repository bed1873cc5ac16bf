"""Single events of claude's stream: JSON text to facts, whatever the types inside. Pure; which line holds what is
`stream`'s to find.

Each reader leaves out what is of another type than measured (claude 2.1.332) and never raises.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from typing import Any

from hivesub.records import Init, Result, Retry, UsageLimit

TEXT_LIMIT = 100_000
"""Characters kept of any text that claude wrote."""

MARGIN = 8192
"""Characters beyond it that are kept of a result, so that a secret at the limit is seen whole. The second half is never
shown, as it may end in half of a secret; the first takes the place of what a text lost where secrets stood.
"""

ERRORS_LIMIT = 20
"""How many of a result's `errors` are kept."""

ERRORS_CHARACTERS = 16 * 1024
"""Characters kept of them all: several times what is ever shown, as a secret at that limit has to be seen whole."""

_NAME_LIMIT = 1000
_BOM = b"\xef\xbb\xbf"
_SURROGATES = re.compile("[\ud800-\udfff]")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_INTERRUPTED = re.compile(r"\[Request interrupted by user[^\]]{0,100}\]")


def parse_event(line: bytes | bytearray) -> dict[str, Any]:
    """The JSON object that a line is, or an empty one."""
    try:
        event = json.loads(line.removeprefix(_BOM).decode("utf-8", "replace"), parse_int=_integer)
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def read_init(event: dict[str, Any]) -> Init:
    """The facts of an `init` event; fields of another type than expected are left out."""
    servers = event.get("mcp_servers")
    tools = event.get("tools")
    return Init(
        session_id=_session_id(event.get("session_id")),
        cwd=_name(event.get("cwd")),
        tools=tuple(_clean(tool) for tool in tools if isinstance(tool, str)) if isinstance(tools, list) else None,
        mcp_servers={
            _clean(server["name"]): _clean(server["status"])
            for server in servers
            if isinstance(server, dict)
            and isinstance(server.get("name"), str)
            and isinstance(server.get("status"), str)
        }
        if isinstance(servers, list)
        else None,
    )


def _session_id(value: object) -> str | None:
    """Claude's are UUIDs. What is none is not taken: it would come back as the argument of a later `--resume`."""
    return value if isinstance(value, str) and _UUID.fullmatch(value) else None


def read_result(event: dict[str, Any]) -> Result:
    """The facts of a `result` event. One that does not say `is_error` is an error unless its subtype is `success`."""
    subtype, text, errors, usage = (event.get(key) for key in ("subtype", "result", "errors", "usage"))
    said_error = event.get("is_error")
    usage = usage if isinstance(usage, dict) else {}
    return Result(
        is_error=said_error if isinstance(said_error, bool) else subtype != "success",
        subtype=_name(subtype) or "",
        text=_clean(text) if isinstance(text, str) else "",
        text_after=_clean(text[TEXT_LIMIT : TEXT_LIMIT + MARGIN]) if isinstance(text, str) else "",
        errors=_errors(errors),
        terminal_reason=_name(event.get("terminal_reason")),
        stop_reason=_name(event.get("stop_reason")),
        structured=_structured(event),
        api_error_status=_count(event.get("api_error_status")) or None,
        session_id=_name(event.get("session_id")),
        num_turns=_count(event.get("num_turns")),
        total_cost_usd=_cost(event.get("total_cost_usd")),
        input_tokens=_count(usage.get("input_tokens")),
        output_tokens=_count(usage.get("output_tokens")),
    )


def _structured(event: dict[str, Any]) -> str | None:
    if "structured_output" not in event:
        return None
    try:
        text = json.dumps(event["structured_output"], ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return _SURROGATES.sub("\ufffd", text) if len(text) <= TEXT_LIMIT else None


def _errors(errors: object) -> tuple[str, ...]:
    """The first texts, within their limits; where some were left out a last one says how many."""
    texts = [text for text in errors if isinstance(text, str)] if isinstance(errors, list) else []
    kept: list[str] = []
    room = ERRORS_CHARACTERS
    for text in texts[:ERRORS_LIMIT]:
        if not room:
            break
        kept.append(_clean(text[:room]))
        room -= len(kept[-1])
    left_out = len(texts) - len(kept)
    return (*kept, f"{left_out} more left out") if left_out else tuple(kept)


def read_retry(event: dict[str, Any]) -> Retry:
    """The facts of an `api_retry` event."""
    status = event.get("error_status")
    return Retry(
        error=_name(event.get("error")),
        status=status if isinstance(status, int) and not isinstance(status, bool) else None,
        attempt=_count(event.get("attempt")),
        max_attempts=_count(event.get("max_retries")),
    )


def read_limit(event: dict[str, Any]) -> UsageLimit | None:
    """The limit that a `rate_limit_event` says has refused a request, with the time of its reset; else None."""
    info = event.get("rate_limit_info")
    if not isinstance(info, dict) or info.get("status") != "rejected":
        return None
    resets_at = info.get("resetsAt")
    if isinstance(resets_at, bool) or not isinstance(resets_at, (int, float)) or not 0 < resets_at < 1e11:
        return None
    kind = _name(info.get("rateLimitType")) or "usage"
    return UsageLimit(kind=kind, resets_at=datetime.fromtimestamp(resets_at, UTC))


def read_tasks(event: dict[str, Any]) -> list[tuple[str | None, str]] | None:
    """Id and description of each living background task that a `background_tasks_changed` event lists, or None."""
    tasks = event.get("tasks")
    return [(_task_id(task), _task_name(task)) for task in tasks] if isinstance(tasks, list) else None


def stopped_task(event: dict[str, Any]) -> tuple[str, str] | None:
    """Id and description of the background task that an event says was stopped, not ended; else None."""
    patch = event.get("patch")
    status = patch.get("status") if isinstance(patch, dict) else event.get("status")
    key = _task_id(event)
    return None if key is None or status not in ("killed", "stopped") else (key, _task_name(event))


def _task_id(task: object) -> str | None:
    return _name(task.get("task_id")) if isinstance(task, dict) else None


def _task_name(task: object) -> str:
    if not isinstance(task, dict):
        return ""
    named = next((task[key] for key in ("description", "command", "summary") if isinstance(task.get(key), str)), "")
    return " ".join(_clean(named).split()) if len(named) <= _NAME_LIMIT else ""


def cost_since_last_result(event: dict[str, Any]) -> float | None:
    """What this process spent since its last result, in dollars over all models; None when a `result` event does not
    tell.
    """
    models = event.get("model_usage_since_last_result")
    if not isinstance(models, dict):
        return None
    costs = (_cost(model.get("costUSD")) for model in models.values() if isinstance(model, dict))
    return sum(cost for cost in costs if cost is not None)


def is_interruption(event: dict[str, Any]) -> bool:
    """Whether a user event is claude's own note; the same words in a tool's output stand deeper and do not count."""
    message = event.get("message")
    if not isinstance(message, dict) or event.get("parent_tool_use_id"):
        return False
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = (block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text")
    return any(isinstance(text, str) and _INTERRUPTED.fullmatch(text.strip()) for text in texts)


def _integer(digits: str) -> int | float:
    # Python refuses to read integers of thousands of digits, and one absurd number must not cost us the whole event.
    return int(digits) if len(digits) < 19 else float(digits)


def _clean(text: str) -> str:
    """Cut to the limit, and valid Unicode: whatever we write of it has to be valid UTF-8."""
    return _SURROGATES.sub("\ufffd", text[:TEXT_LIMIT])


def _name(value: object) -> str | None:
    # Interned: a session's id, "success" and their like come in event after event and are kept with each subagent.
    return sys.intern(_clean(value)) if isinstance(value, str) and 0 < len(value) <= _NAME_LIMIT else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _cost(value: object) -> float | None:
    """Dollars, or None for what is no finite amount."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        return None
    return float(value)
