"""The server in a Klein tree, through the daemon's own `web.asgi`, `web.guard` and `web.site`, as a program.

Unlike the daemon's it keeps sessions and answers in event streams, so that the mount is held to all of the protocol:
long streams, GET, DELETE, replay. `python -m tests.conformance.everything.mount` says its URL on stdout and serves
until it gets SIGTERM.
"""

from __future__ import annotations

import asyncio
import sys

from twisted.internet import asyncioreactor

if "twisted.internet.reactor" not in sys.modules:
    asyncioreactor.install()

from klein import Klein
from mcp.server.mcpserver import MCPServer, RequestStateSecurity
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.web.resource import IResource
from twisted.web.server import Request

from hivesub.web.asgi import ASGIResource
from hivesub.web.guard import HostRule
from hivesub.web.site import BoundedSite
from hivesub.web.tree import Plain
from tests.conformance.everything import asking, content, streams
from tests.support.listening import listen

RETRY_MS = 100


def everything() -> MCPServer:
    """The server with all of its features."""
    server = MCPServer(name="everything", version="1", request_state_security=RequestStateSecurity.ephemeral())
    content.add_tools(server)
    content.add_resources(server)
    content.add_prompts(server)
    content.add_requests(server)
    asking.add_requests_to_the_client(server)
    asking.add_missing_inputs(server)
    streams.add_streams(server)
    return server


class Mount:
    """Guarded by Host and Origin as the daemon is."""

    app = Klein()

    def __init__(self, manager: StreamableHTTPSessionManager, hosts: HostRule) -> None:
        self._served = ASGIResource(manager.handle_request, clock=reactor)
        self._hosts = hosts

    @app.route("/mcp")
    def mcp(self, request: Request) -> IResource:
        refusal = self._hosts.refusal(request.requestHeaders)
        return self._served if refusal is None else Plain(refusal.status, refusal.text)


async def serve() -> None:
    """Listen, and go on until cancelled."""
    manager = StreamableHTTPSessionManager(
        everything()._lowlevel_server, event_store=streams.Events(), retry_interval=RETRY_MS
    )
    hosts = HostRule()
    async with manager.run():
        site = BoundedSite(Mount(manager, hosts).app.resource(), reactor)
        _, number = listen(site)
        hosts.bind("127.0.0.1", number)
        print(f"http://127.0.0.1:{number}/mcp", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    serving = asyncio.get_event_loop().create_task(serve())

    def leave() -> Deferred[object]:
        # To its end: worker threads that it started keep the program alive otherwise.
        serving.cancel()
        return Deferred.fromFuture(asyncio.ensure_future(asyncio.wait([serving])))

    reactor.addSystemEventTrigger("before", "shutdown", leave)
    reactor.run()


if __name__ == "__main__":
    main()
