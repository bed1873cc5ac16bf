"""Runs as tasks of MCP's tasks extension: the run is the task, and its client hears of the end by asking for it.

Owns the wire's names and errors (the extension's specification of 2026-07-28); which run a task is, and what is said of
its end, is the fleet's. A client is answered with a task only where its request declares the extension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import Field

from hivesub.tools.texts import status_text

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp.server.lowlevel import Server

    from hivesub.interfaces import IFleet
    from hivesub.shapes import TaskState

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 1000
"""How often a client should ask (measured: claude 2.1.332 heeds it)."""
# Claude gives its model this text at once, and the task's result once there is one (measured, 2.1.332).
_AGENT_TASK = "com.anthropic/agent-task"


class TaskParams(types.RequestParams):
    """The parameters of the extension's three methods."""

    task_id: str = Field(alias="taskId", max_length=200)


def declared(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Whether a request declares that its client takes tasks."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and EXTENSION in (capabilities.extensions or {})


def created(state: TaskState, text: str) -> dict[str, Any]:
    """The answer to a call that became a task.

    :param text: what the model reads at once.
    """
    return {**_fields(state), "resultType": "task", "_meta": {_AGENT_TASK: {"modelImmediateResponse": text}}}


def add_methods(server: Server[Any], fleet: IFleet) -> None:
    """Have a server say that it has the extension, and answer its methods."""
    server.extensions[EXTENSION] = {}

    def known(ctx: ServerRequestContext[Any, Any], params: TaskParams) -> TaskState:
        if not declared(ctx):
            raise MCPError(
                code=MISSING_REQUIRED_CLIENT_CAPABILITY,
                message=f"this method needs a client that declares the extension {EXTENSION} in its request",
                data={"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
            )
        state = fleet.task_state(params.task_id)
        if state is None:
            raise MCPError(
                code=types.INVALID_PARAMS,
                message="no such task: it is of an earlier daemon, which stopped its runs, or forgotten since. "
                "`status` lists the subagents that are known; `continue` takes a session up again",
            )
        return state

    async def get(ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        state = known(ctx, params)
        answer = {**_fields(state), "resultType": "complete"}
        if state["announcement"] is not None:
            fleet.told_by_task(params.task_id)
            answer["result"] = {"content": [{"type": "text", "text": state["announcement"]}], "isError": False}
        return answer

    async def cancel(ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        known(ctx, params)
        fleet.cancel_task(params.task_id)
        return {"resultType": "complete"}

    async def update(ctx: ServerRequestContext[Any, Any], params: TaskParams) -> dict[str, Any]:
        # A run never asks for input, so that no response can be to a request of its.
        known(ctx, params)
        return {"resultType": "complete"}

    methods: dict[str, Callable[..., Any]] = {"tasks/get": get, "tasks/update": update, "tasks/cancel": cancel}
    for method, handler in methods.items():
        server.add_request_handler(method, TaskParams, handler)


def _fields(state: TaskState) -> dict[str, Any]:
    return {
        "taskId": state["id"],
        "status": "working" if state["announcement"] is None else "completed",
        "statusMessage": status_text({"subagents": [state["record"]]}),
        "createdAt": state["created_at"],
        "lastUpdatedAt": state["updated_at"],
        "ttlMs": None,
        "pollIntervalMs": POLL_MS,
    }
