"""An MCP server of the official SDK as an ASGI application with a beginning and an end.

Owns the life of the SDK's session managers, and which of them answers a request: with JSON, or as an event stream.
Protocol, framing and both protocol eras are the SDK's; the tools are `hivesub.tools`'.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http import check_accept_headers
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.requests import Request
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed

from hivesub.interfaces import SENT_ARGUMENTS_KEY, STREAMED_KEY
from hivesub.web.site import MAX_BODY_BYTES
from hivesub.web.surrogates import mended

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from hivesub.web.asgi import Message, Receive, Scope, Send

# No call that asks to wait needs more: one with a long prompt is not read twice.
_LOOK_BYTES = 64 * 1024


class McpApp(Service):
    """Answers MCP requests for a server: stateless, so that a client outlives a restart of the daemon.

    The answer is JSON. A call that may take long is answered as an event stream, which carries its progress
    notifications as they come, where it has a progress token and its client accepts a stream: the scope then has
    `hivesub.interfaces.STREAMED_KEY`, and the tool sends them with the session's `report_progress`.

    As a service it starts once; the same object does not start again (the SDK's session managers do not).

    :param long_calls: names of tools, each with the argument that makes a call of it a long one, when it is given and
        neither zero nor null.
    """

    def __init__(self, server: Server[Any], long_calls: Mapping[str, str] | None = None) -> None:
        self._long_calls = dict(long_calls or {})
        self._plain = self._manager(server, json_response=True)
        # With JSON the SDK drops notifications; without it every answer to a client of the handshake era is a stream.
        self._streaming = self._manager(server, json_response=False) if self._long_calls else None
        self._task: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()

    @staticmethod
    def _manager(server: Server[Any], *, json_response: bool) -> StreamableHTTPSessionManager:
        return StreamableHTTPSessionManager(
            server, stateless=True, json_response=json_response, max_request_body_size=MAX_BODY_BYTES
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await _whole_body(receive)
        manager = self._plain
        if self._streaming is not None and self._is_long(scope, body):
            manager = self._streaming
            scope[STREAMED_KEY] = True
        if (mendable := mended(body)) is not None:
            body, scope[SENT_ARGUMENTS_KEY] = mendable
        await manager.handle_request(scope, _given(body, receive), send)

    def _is_long(self, scope: Scope, body: bytes) -> bool:
        if len(body) > _LOOK_BYTES or b'"progressToken"' not in body or not all(check_accept_headers(Request(scope))):
            return False
        try:
            params = json.loads(body)["params"]
            argument = self._long_calls.get(params["name"])
            return params["_meta"]["progressToken"] is not None and bool(params["arguments"][argument])
        except (ValueError, TypeError, LookupError, RecursionError):
            return False  # whatever is wrong with it is the SDK's to say

    def startService(self) -> None:
        """Begin; the reactor need not run yet, requests that come once it does are served."""
        super().startService()
        self.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self.stop()

    def start(self) -> Deferred[None]:
        """Enter the SDK's session managers.

        :returns: fires with None once requests are served; fails with what the server's lifespan raised.
        """
        loop = asyncio.get_event_loop()
        entered: asyncio.Future[None] = loop.create_future()
        # Entered and left in one task: anyio's scopes do not cross tasks.
        self._task = loop.create_task(self._live(entered))
        return Deferred.fromFuture(entered)

    def stop(self) -> Deferred[None]:
        """Leave it: calls in flight of handshake-era clients are cancelled.

        :returns: fires with None once all of it has ended; at once when it never began.
        """
        if self._task is None:
            return succeed(None)
        self._leave.set()
        return Deferred.fromFuture(asyncio.ensure_future(_ended(self._task)))

    async def _live(self, entered: asyncio.Future[None]) -> None:
        try:
            async with AsyncExitStack() as running:
                for manager in (self._plain, self._streaming):
                    if manager is not None:
                        await running.enter_async_context(manager.run())
                if not entered.done():
                    entered.set_result(None)
                await self._leave.wait()
        except Exception as error:
            if entered.done():
                raise
            entered.set_exception(error)


async def _whole_body(receive: Receive) -> bytes:
    """The body of a request; what there was of it when its client has left."""
    pieces: list[bytes] = []
    more = True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


def _given(body: bytes, receive: Receive) -> Receive:
    """A `receive` that begins with a body that has been read."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> Message:
        return first.pop() if first else await receive()

    return given


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
