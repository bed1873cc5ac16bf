"""What sends something before its answer: progress, log lines, a stream that is closed and taken up again, changes of
the lists; and the store of events that the last is replayed from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import Prompt
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult, JSONRPCMessage

APART_S = 0.05
"""Between two messages of a stream, so that they arrive apart."""
AWAY_S = 0.3
"""How long a call goes on without a stream: its client comes back after the retry interval."""


class Events(EventStore):
    """Every event of every stream, for as long as the server lives."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._events: dict[int, tuple[str, JSONRPCMessage | None]] = {}

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        number = next(self._numbers)
        self._events[number] = (stream_id, message)
        return str(number)

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        last = int(last_event_id) if last_event_id.isdigit() else 0
        if last not in self._events:
            return None
        stream, _ = self._events[last]
        for number, (its_stream, message) in list(self._events.items()):
            if number > last and its_stream == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def add_streams(server: MCPServer) -> None:
    """The tools of this module."""

    @server.tool()
    async def test_tool_with_progress(ctx: Context) -> str:
        """Tells its progress three times"""
        for done in (0, 50, 100):
            await ctx.report_progress(progress=done, total=100, message=f"{done} of 100")
            await asyncio.sleep(APART_S)
        return "done"

    async def log_three_lines(ctx: Context) -> str:
        for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.info(line)
            await asyncio.sleep(APART_S)
        return "done"

    for name in ("test_tool_with_logging", "test_logging_tool"):
        server.add_tool(log_three_lines, name=name, description="Logs three lines")

    @server.tool()
    async def test_streaming_elicitation(ctx: Context) -> str | InputRequiredResult:
        """Tells its progress, then asks the user"""
        await ctx.report_progress(progress=1, total=2)
        if ctx.input_responses:
            return "answered"
        schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
        question = ElicitRequest(params=ElicitRequestFormParams(message="Who?", requested_schema=schema))
        return InputRequiredResult(input_requests={"who": question})

    @server.tool()
    async def test_reconnection(ctx: Context) -> str:
        """Closes its stream and goes on"""
        await ctx.info("the stream is about to close")
        await ctx.close_sse_stream()
        await asyncio.sleep(AWAY_S)
        await ctx.info("the stream is open again")
        return "Reconnection test completed"

    _add_changes(server)


def _add_changes(server: MCPServer) -> None:
    def passing() -> str:
        return "gone in a moment"

    def changes(name: str, change: Callable[[], None], tell: Callable[[Context], Any]) -> None:
        async def trigger(ctx: Context) -> str:
            change()
            await tell(ctx)
            return "changed"

        server.add_tool(trigger, name=name, description="Changes a list and tells who listens")

    def of_tools() -> None:
        server.add_tool(passing, name="test_passing_tool")
        server.remove_tool("test_passing_tool")

    def of_prompts() -> None:
        server.add_prompt(Prompt.from_function(passing, name="test_passing_prompt", description="passing"))
        server.remove_prompt("test_passing_prompt")

    changes("test_trigger_tool_change", of_tools, lambda ctx: ctx.notify_tools_changed())
    changes("test_trigger_prompt_change", of_prompts, lambda ctx: ctx.notify_prompts_changed())
