"""An ASGI 3 application as a twisted.web resource, on the asyncio reactor.

Owns the exchange of one request: body pieces in, response pieces out, back-pressure, the client's leaving. Leaves to
`hivesub.web.site` the size and the deadlines of what comes in (twisted.web hands over a request once its body is
complete), to `hivesub.web.tree` who may come in. HTTP only: no websockets, no lifespan (`hivesub.web.mcp` runs that for
the SDK).
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import IO, Any
from urllib.parse import unquote_to_bytes

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET
from zope.interface import implementer

from hivesub.web.site import BoundedRequest, cut

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

PIECE_BYTES = 256 * 1024
STALL_S = 30.0
LEAVE_S = 1.0

_VERSIONS = {"version": "3.0", "spec_version": "2.4"}
# The server's own business on a connection, never the application's (RFC 9110, 7.6.1).
_HOP_BY_HOP = frozenset({b"connection", b"keep-alive", b"transfer-encoding", b"upgrade"})

_log = Logger()


class ClientGone(OSError):
    """Raised by `send` once the client has left: nothing is written any more."""


class ASGIResource(Resource):
    """Serves each request with one call of an ASGI application, in an asyncio task of its own.

    When the client leaves, a `receive()` that waits gets `http.disconnect`, and the task is cancelled: at once when
    nothing waits in `receive()`, else after `LEAVE_S` seconds, should it still run.

    :param clock: times the two limits; the asyncio reactor, except in tests.
    :param extra_scope: more keys for a request's scope; they win over our own.
    :param withheld: lower-case names of request headers that the application never sees.
    :param stall_s: a client that takes nothing of a streamed response for this many seconds is cut off.
    """

    isLeaf = True

    def __init__(
        self,
        app: ASGIApp,
        *,
        clock: IReactorTime,
        extra_scope: Callable[[BoundedRequest], Mapping[str, Any]] | None = None,
        withheld: frozenset[bytes] = frozenset(),
        stall_s: float = STALL_S,
    ) -> None:
        super().__init__()
        self._app = app
        self._clock = clock
        self._extra_scope = extra_scope
        self._withheld = withheld
        self._stall_s = stall_s
        self._exchanges: set[_Exchange] = set()

    def render(self, request: BoundedRequest) -> int:
        return self.serve(request, self._extra_scope(request) if self._extra_scope is not None else {})

    def serve(self, request: BoundedRequest, extra: Mapping[str, Any]) -> int:
        """As `render`, with the extra keys of the scope given."""
        scope = _scope(request, self._withheld)
        scope.update(extra)
        exchange = _Exchange(request, self._clock, self._stall_s, self._exchanges.discard)
        self._exchanges.add(exchange)
        exchange.start(self._app(scope, exchange.receive, exchange.send))
        return NOT_DONE_YET

    @property
    def in_flight(self) -> int:
        """The number of requests whose application call has not ended."""
        return len(self._exchanges)

    def stop(self) -> None:
        """Cancel every call in flight. Who waits gets a 503, or the end of the connection when an answer had begun."""
        for exchange in tuple(self._exchanges):
            exchange.cancel()


@implementer(IPushProducer)
class _Exchange:
    """One request and its response."""

    def __init__(
        self, request: BoundedRequest, clock: IReactorTime, stall_s: float, ended: Callable[[_Exchange], None]
    ) -> None:
        self._request = request
        self._content: IO[bytes] = request.content
        self._clock = clock
        self._stall_s = stall_s
        self._ended = ended
        self._task: asyncio.Task[None] | None = None
        self._head: Message | None = None
        self._body_read = False
        self._head_written = False
        self._producing = False
        self._finished = False
        self._gone = False
        self._over: asyncio.Event | None = None
        self._flowing: asyncio.Event | None = None
        self._limit: IDelayedCall | None = None

    def start(self, call: Awaitable[None]) -> None:
        self._request.notifyFinish().addErrback(self._client_left)
        self._task = asyncio.ensure_future(call)
        self._task.add_done_callback(self._app_ended)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    # what the application calls

    async def receive(self) -> Message:
        if not (self._body_read or self._finished or self._gone):
            piece = self._content.read(PIECE_BYTES)
            more = len(piece) == PIECE_BYTES
            self._body_read = not more
            return {"type": "http.request", "body": piece, "more_body": more}
        if not (self._finished or self._gone):
            if self._over is None:
                self._over = asyncio.Event()
            await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if self._gone:
            raise ClientGone("the client has left")
        kind = message["type"]
        if kind == "http.response.start" and self._head is None:
            # Held until the first piece: an application that fails before it has said anything gets a clean 500.
            self._head = message
        elif kind == "http.response.body" and self._head is not None and not self._finished:
            more = message.get("more_body", False)
            if not self._head_written:
                self._prepare_head(self._head)
            if more and not self._producing:
                self._producing = True
                self._request.registerProducer(self, True)
            self._request.write(bytes(message.get("body", b"")))
            if not more:
                self._finish()
            elif self._flowing is not None:
                await self._flowing.wait()
                if self._gone:
                    raise ClientGone("the client has left")
        else:
            raise RuntimeError(f"{kind} is out of place in this response")

    def _prepare_head(self, head: Message) -> None:
        self._head_written = True
        self._request.setResponseCode(head["status"])
        headers = self._request.responseHeaders
        replaced = set()
        for name, value in head.get("headers", ()):
            if name.lower() in _HOP_BY_HOP:
                continue
            if name not in replaced:
                replaced.add(name)
                headers.removeHeader(name)
            headers.addRawHeader(name, value)

    def _finish(self) -> None:
        self._finished = True
        self._stop_limit()
        if self._producing:
            self._producing = False
            self._request.unregisterProducer()
        self._request.finish()
        if self._over is not None:
            self._over.set()

    # what the connection calls

    def pauseProducing(self) -> None:
        self._flowing = asyncio.Event()
        self._stop_limit()
        self._limit = self._clock.callLater(self._stall_s, self._cut_off)

    def resumeProducing(self) -> None:
        self._stop_limit()
        if self._flowing is not None:
            self._flowing.set()
            self._flowing = None

    def stopProducing(self) -> None:
        """Nothing: `notifyFinish` reports the end of the connection."""

    def _client_left(self, _reason: Failure) -> None:
        self._gone = True
        self._stop_limit()
        if self._flowing is not None:
            self._flowing.set()
        if self._over is None:
            self.cancel()
        else:
            self._over.set()
            self._limit = self._clock.callLater(LEAVE_S, self.cancel)

    # the end

    def _app_ended(self, task: asyncio.Task[None]) -> None:
        self._ended(self)
        if self._gone:
            self._stop_limit()
        if task.cancelled():
            if not self._gone:
                self._request.close_after()
                self._give_up(503, b"the daemon is stopping: try again when it is back\n")
        elif (error := task.exception()) is not None:
            if not isinstance(error, ClientGone):
                _log.failure("an application failed while it answered a request", failure=Failure(error))
            if not self._gone:
                self._give_up(500, b"internal error\n")
        elif not (self._finished or self._gone):
            _log.error("an application ended without ending its response")
            self._give_up(500, b"internal error\n")

    def _give_up(self, status: int, text: bytes) -> None:
        if self._finished:
            return
        if self._head_written:
            # What is on the wire cannot be taken back: a cut connection is the only way to say that it is not whole.
            self._cut_off()
            return
        self._prepare_head(
            {
                "status": status,
                "headers": [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(text))],
            }
        )
        self._request.write(text)
        self._finish()

    def _cut_off(self) -> None:
        cut(self._request.transport)

    def _stop_limit(self) -> None:
        limit, self._limit = self._limit, None
        if limit is not None and limit.active():
            limit.cancel()


def _scope(request: BoundedRequest, withheld: frozenset[bytes]) -> Scope:
    raw_path: bytes = request.path
    path = unquote_to_bytes(raw_path) if b"%" in raw_path else raw_path
    host = request.getHost()
    client = request.getClientAddress()
    return {
        "type": "http",
        "asgi": _VERSIONS,
        "http_version": request.clientproto[5:].decode("ascii", "replace"),
        "method": request.method.decode("ascii", "replace"),
        "scheme": "https" if request.isSecure() else "http",
        "path": path.decode("utf-8", "replace"),
        "raw_path": raw_path,
        "query_string": request.uri.partition(b"?")[2],
        "root_path": "",
        "headers": [
            (name, value)
            for given, values in request.requestHeaders.getAllRawHeaders()
            if (name := given.lower()) not in withheld
            for value in values
        ],
        "client": (client.host, client.port) if isinstance(client, IPv4Address | IPv6Address) else None,
        "server": (host.host, host.port) if isinstance(host, IPv4Address | IPv6Address) else None,
    }
