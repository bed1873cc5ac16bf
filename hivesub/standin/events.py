"""The shapes of claude's stdout events, with claude's own order of keys (measured, claude 2.1.332)."""

from __future__ import annotations

import time

from hivesub.standin.sessions import fresh_uuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Event = dict[str, Any]

MODEL = "claude-standin"
INTERRUPTED = "[Request interrupted by user]"
INTERRUPTED_TOOL = "[Request interrupted by user for tool use]"
REJECTED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to proceed."
)


def usage(input_tokens: int, output_tokens: int) -> Event:
    """The `usage` of a result, for this process's answers alone."""
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
    }


def system(subtype: str, session_id: str, **fields: Any) -> Event:
    """A `system` event other than init."""
    return {"type": "system", "subtype": subtype, **fields, "uuid": fresh_uuid(), "session_id": session_id}


def init(session_id: str, cwd: str, tools: list[str], servers: list[Event], model: str) -> Event:
    """The event that says a turn is under way."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": cwd,
        "session_id": session_id,
        "tools": tools,
        "mcp_servers": servers,
        "model": model,
        "permissionMode": "bypassPermissions",
        "slash_commands": ["clear", "compact", "cost"],
        "apiKeySource": "none",
        "claude_code_version": "2.1.332",
        "output_style": "default",
        "agents": [],
        "skills": [],
        "plugins": [],
        "uuid": fresh_uuid(),
    }


def assistant(session_id: str, *content: Event, **more: Any) -> Event:
    """What the model said; `content` are text and tool_use blocks."""
    message = {
        "id": f"msg_{fresh_uuid()[:8]}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(content),
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    return {"type": "assistant", "message": message, **_tail(session_id), **more}


def user(session_id: str, *content: Event, **more: Any) -> Event:
    """What was put to the model: tool results, and claude's own notes such as `INTERRUPTED`."""
    return {"type": "user", "message": {"role": "user", "content": list(content)}, **_tail(session_id), **more}


def text(words: str) -> Event:
    """A text block."""
    return {"type": "text", "text": words}


def _tail(session_id: str) -> Event:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return {"parent_tool_use_id": None, "session_id": session_id, "uuid": fresh_uuid(), "timestamp": stamp}


def result(
    session_id: str,
    *,
    subtype: str,
    is_error: bool,
    words: str | None,
    errors: list[str] | None,
    num_turns: int,
    total_cost_usd: float,
    cost_usd: float,
    tokens: tuple[int, int],
    terminal_reason: str | None,
    stop_reason: str | None,
    api_status: int | None,
    index: int,
    structured: Any = None,
) -> Event:
    """The last event of a turn, or of one wake of it. `"type": "result"` stands deep inside, as in claude's."""
    event: Event = {
        "duration_api_ms": 32,
        "stop_reason": stop_reason,
        "session_id": session_id,
        "total_cost_usd": total_cost_usd,
        "usage": usage(*tokens),
        "modelUsage": {MODEL: {"inputTokens": tokens[0], "outputTokens": tokens[1], "costUSD": total_cost_usd}},
        "permission_denials": [],
    }
    if terminal_reason is not None:
        event["terminal_reason"] = terminal_reason
    event["is_error"] = is_error
    event["num_turns"] = num_turns
    event["subtype"] = subtype
    if errors is not None:
        event["errors"] = errors
    if words is not None:
        event["api_error_status"] = api_status
        event["result"] = words
    if structured is not None:
        event["structured_output"] = structured
    event["type"] = "result"
    event["duration_ms"] = 184
    event["uuid"] = fresh_uuid()
    event["queued_turn_count"] = 0
    event["result_index"] = index
    spent = {"inputTokens": tokens[0], "outputTokens": tokens[1], "costUSD": cost_usd}
    event["model_usage_since_last_result"] = {MODEL: spent} if cost_usd else {}
    return event


def limit(session_id: str, status: str, resets_at: int | None = None, kind: str | None = None) -> Event:
    """What is known of a subscription's usage limit: `allowed`, or `rejected` with its reset in Unix seconds."""
    info: Event = {"status": status}
    if resets_at is not None:
        info |= {"resetsAt": resets_at, "rateLimitType": kind}
    info["isUsingOverage"] = False
    return {"type": "rate_limit_event", "rate_limit_info": info, "uuid": fresh_uuid(), "session_id": session_id}


def miss(session_id: str, message: str) -> Event:
    """The one event of a resume that found nothing: its `type` comes first, and no system event before it."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "duration_ms": 0,
        "duration_api_ms": 0,
        "is_error": True,
        "num_turns": 0,
        "stop_reason": None,
        "session_id": session_id,
        "total_cost_usd": 0,
        "usage": usage(0, 0),
        "modelUsage": {},
        "permission_denials": [],
        "uuid": fresh_uuid(),
        "errors": [message],
        "result_index": 0,
    }
