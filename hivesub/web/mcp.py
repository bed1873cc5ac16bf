"""An MCP server of the official SDK as an ASGI application with a beginning and an end.

Owns the life of the SDK's session manager. Protocol, framing and both protocol eras are the SDK's; the tools are
`hivesub.tools`'.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from twisted.application.service import Service
from twisted.internet.defer import Deferred, succeed

from hivesub.web.site import MAX_BODY_BYTES

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from hivesub.web.asgi import Receive, Scope, Send


class McpApp(Service):
    """Answers MCP requests for a server: stateless, with JSON, so that a client outlives a restart of the daemon.

    As a service it starts once; the same object does not start again (the SDK's session manager does not).
    """

    def __init__(self, server: Server[Any]) -> None:
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, json_response=True, max_request_body_size=MAX_BODY_BYTES
        )
        self._task: asyncio.Task[None] | None = None
        self._leave = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request(scope, receive, send)

    def startService(self) -> None:
        """Begin; the reactor need not run yet, requests that come once it does are served."""
        super().startService()
        self.start()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return self.stop()

    def start(self) -> Deferred[None]:
        """Enter the SDK's session manager.

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
            async with self._manager.run():
                if not entered.done():
                    entered.set_result(None)
                await self._leave.wait()
        except Exception as error:
            if entered.done():
                raise
            entered.set_exception(error)


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
