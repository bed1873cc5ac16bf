"""A `subagent_control` of the official SDK, in a thread: what both claudes connect to in the contract tests.

It records each request as it comes, with the time of its arrival, and each call of its two tools.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from typing import Any

import attrs
import uvicorn
from mcp.server.mcpserver import MCPServer
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@attrs.frozen
class Arrival:
    """One HTTP request. Units: `at` is `time.monotonic()` in seconds."""

    at: float
    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class SignalServer:
    """The signal tools on a loopback port of their own, at `/signal/mcp/<any token>`.

    Shape: `calls` are `(tool, message)` in order; `arrivals` the requests that brought them and all others.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.arrivals: list[Arrival] = []
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._serving = uvicorn.Server(uvicorn.Config(self._app(), log_level="error", lifespan="on"))
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serving.serve(sockets=[self._listener])), daemon=True
        )

    @property
    def url(self) -> str:
        """The URL to put in an MCP config."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/signal/mcp/token-of-a-test"

    def __enter__(self) -> SignalServer:
        self._listener.listen(64)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._serving.should_exit = True
        self._thread.join(10)
        self._listener.close()

    def _app(self) -> ASGIApp:
        server = MCPServer("subagent_control")

        @server.tool()
        def goal_reached(message: str = "") -> str:
            """Say that the goal is reached."""
            self.calls.append(("goal_reached", message))
            return "recorded"

        @server.tool()
        def need_help(reason: str) -> str:
            """Say that you are stuck."""
            self.calls.append(("need_help", reason))
            return "recorded"

        inner = server.streamable_http_app(
            streamable_http_path="/signal/mcp/token-of-a-test", json_response=True, stateless_http=True
        )

        async def recording(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            at = time.monotonic()
            body = b""
            while (message := await receive())["type"] == "http.request":
                body += message.get("body", b"")
                if not message.get("more_body"):
                    break
            headers = {key.decode(): value.decode() for key, value in scope["headers"]}
            parsed = json.loads(body) if body else {}
            self.arrivals.append(Arrival(at, scope["method"], scope["path"], headers, parsed))
            pending = [{"type": "http.request", "body": body, "more_body": False}]

            async def replayed() -> Message:
                return pending.pop() if pending else await receive()

            await inner(scope, replayed, send)

        return recording
