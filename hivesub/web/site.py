"""The HTTP server's own limits: how much of a request is kept, how long one may take, what is logged of it.

Leaves to `hivesub.web.tree` what a request means, its size included: a body past the limit is thrown away as it comes
and only marked, so that the refusal comes in its place in the order of checks.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import re
from io import BytesIO
from typing import Any, cast

from twisted.internet.abstract import FileDescriptor
from twisted.internet.interfaces import IDelayedCall, IPushProducer, IReactorTime, ITCPTransport
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel, datetimeToString, parse_qs
from twisted.web.http import Request as HTTPRequest
from twisted.web.resource import IResource
from twisted.web.server import Request, Site

MAX_BODY_BYTES = 4 * 1024 * 1024
MAX_DISCARD_BYTES = 64 * 1024 * 1024
MAX_AHEAD_BYTES = 16 * 1024
IDLE_TIMEOUT_S = 60.0
REQUEST_DEADLINE_S = 60.0

_SIGNAL_TAIL = re.compile(r"(/signal/mcp/).*")
# As long as a token, however it is spelled: a path that missed its route by a letter would still hold one.
_TOKEN_LIKE = re.compile(r"[A-Za-z0-9_%-]{32,}")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_NON_ASCII = re.compile(rb"[\x80-\xff]")
_UNPRINTABLE = re.compile(r"[^!-~]")

_log = Logger()


def cut(transport: object) -> None:
    """End a connection now, whatever waits to be written."""
    cast(ITCPTransport, transport).abortConnection()


def loggable_path(path: bytes) -> str:
    """A request's path as the access log may show it: without anything that is or may be a signal token."""
    text = _UNPRINTABLE.sub("?", path[:2048].decode("latin-1"))
    return _TOKEN_LIKE.sub("…", _SIGNAL_TAIL.sub(r"\1…", text))


class BoundedRequest(Request):
    """A request of which at most the site's `max_body_bytes` are kept; `too_large` says that there were more."""

    channel: BoundedChannel
    content: BytesIO

    # An answer without a body has no type; ours that have one say which.
    defaultContentType = None
    body_bytes = 0
    too_large = False
    _left = False

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()
        if length is not None and length > self.channel.site.max_body_bytes:
            self.too_large = True
            if length > self.channel.site.max_discard_bytes:
                cut(self.transport)

    def handleContentChunk(self, data: bytes) -> None:
        self.body_bytes += len(data)
        if self.body_bytes > self.channel.site.max_body_bytes and not self.too_large:
            self.too_large = True
            self.content = BytesIO()
        if not self.too_large:
            self.content.write(data)
        elif self.body_bytes > self.channel.site.max_discard_bytes:
            cut(self.transport)

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        """As twisted.web's, but a body is never parsed as a form: no route takes one, and a hostile one costs."""
        self.content.seek(0)
        absolute = _ABSOLUTE.match(path)
        if absolute is not None:
            # As to a proxy, and to be served (RFC 9112, 3.2.2): what it names stands in for any `Host`.
            self.requestHeaders.setRawHeaders(b"host", [absolute[1]])
            path = path[absolute.end() :]
            if not path.startswith(b"/"):
                path = b"/" + path
        self.method, self.uri, self.clientproto = command, path, version
        self.path, _, query = path.partition(b"?")
        self.args = parse_qs(query, 1) if query else {}
        self.process()

    def process(self) -> None:
        """As twisted.web's, but the site's resource is asked itself, without a walk, and no product is named."""
        self.site = self.channel.site
        self.prepath = []
        self.postpath = self.path[1:].split(b"/")
        self.responseHeaders.setRawHeaders(b"Date", [datetimeToString()])
        try:
            self.render(self.site.resource)
        except BaseException:
            self.processingFailed(Failure())

    def connectionLost(self, reason: Failure) -> None:
        self._left = True
        super().connectionLost(reason)

    def close_after(self) -> None:
        """Have the connection end with this request's answer, and say so in it. To be called before the answer."""
        self.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        self.channel.persistent = False

    def finish(self) -> None:
        channel = self.channel
        super().finish()
        channel.flush()

    def processingFailed(self, reason: Failure) -> Failure:
        """Log it, and answer with a plain 500 when nothing has been said yet."""
        _log.failure("a request could not be answered", failure=reason)
        if self.startedWriting:
            cut(self.transport)
        elif not (self.finished or self._left):
            body = b"internal error\n"
            self.setResponseCode(500)
            self.responseHeaders.setRawHeaders(b"Content-Type", [b"text/plain; charset=utf-8"])
            self.responseHeaders.setRawHeaders(b"Content-Length", [b"%d" % len(body)])
            self.write(body)
            self.finish()
        return reason

    def __repr__(self) -> str:
        # twisted.web's has the URI in it, and logs the whole request in places: a signal token must not get there.
        return f"<{type(self).__name__} at 0x{id(self):x}>"


class BoundedChannel(HTTPChannel):
    """One connection. A request has to be whole `request_deadline_s` after its beginning, however its bytes dribble; of
    requests sent ahead, the next is answered once the client has taken the answers before, and no more are read than
    `MAX_AHEAD_BYTES` and what one read brings.
    """

    site: BoundedSite

    # Since when a request is coming in, whose beginning is here and whose end is not.
    _begun_s: float | None = None
    _answering = False
    _full = False
    # What twisted.web keeps of requests that came before the answer to this one; the rest of its own piece not counted.
    _ahead_bytes = 0
    _replaying = False
    _held: BoundedRequest | None = None
    _late_abort: IDelayedCall | None = None

    def lineReceived(self, line: bytes) -> None:
        if not line.isascii() and not self._mid_request():
            # No URL, strictly, and a 400 to twisted.web; here a path like any other, that leads nowhere.
            line = _NON_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line)
        super().lineReceived(line)

    def _mid_request(self) -> bool:
        return bool(self.requests) and self.requests[-1].path is None

    def dataReceived(self, data: bytes) -> None:
        # What comes during an answer is kept by twisted.web, and comes here again after it.
        if self._answering or self._replaying:
            self._ahead_bytes += len(data)
        if self._begun_s is None and not self._answering:
            self._begun_s = self.site.reactor.seconds()
        super().dataReceived(data)
        if self._crowded():
            cast(IPushProducer, self.transport).pauseProducing()
        # No timer per request: who sends nothing meets the idle timeout, who sends something passes here.
        if self._begun_s is not None and self.site.reactor.seconds() - self._begun_s > self.site.request_deadline_s:
            cut(self.transport)

    def _crowded(self) -> bool:
        return self._answering and self._ahead_bytes > MAX_AHEAD_BYTES

    def allContentReceived(self) -> None:
        # A next request whose beginning came in the same piece is timed from its next piece.
        self._begun_s = None
        self._answering = True
        super().allContentReceived()

    def pauseProducing(self) -> None:
        self._full = True
        super().pauseProducing()
        # Also while a request is answered, when twisted.web's would keep all that comes meanwhile.
        cast(IPushProducer, self.transport).pauseProducing()

    def resumeProducing(self) -> None:
        self._full = False
        super().resumeProducing()
        held, self._held = self._held, None
        if held is not None:
            self._done(held)
        elif not self._crowded():
            cast(IPushProducer, self.transport).resumeProducing()

    def requestDone(self, request: HTTPRequest) -> None:
        """As twisted.web's, but the request after it waits while the transport is full: who sends requests and reads no
        answers would have them all in our memory.
        """
        if self._full and self.persistent:
            self._held = cast(BoundedRequest, request)
            self.setTimeout(self.site.timeOut)
        else:
            self._done(request)

    def _done(self, request: HTTPRequest) -> None:
        # Lets the transport read on, and hands back all that was sent ahead.
        self._answering, self._ahead_bytes, self._replaying = False, 0, True
        super().requestDone(request)
        self._replaying = False

    def flush(self) -> None:
        """Send what was written now, where the transport can, without another round of the reactor (60 µs, measured).

        What the socket does not take, and every error, is left to the reactor, as is a connection that is to be closed.
        """
        transport: Any = self.transport
        if isinstance(transport, FileDescriptor) and transport.connected and not transport.disconnecting:
            transport.doWrite()

    def timeoutConnection(self) -> None:
        """As twisted.web's, without a log line for each connection that a client kept open and no longer needs."""
        self._late_abort = self.site.reactor.callLater(self.abortTimeout, cut, self.transport)
        self.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self._late_abort is not None and self._late_abort.active():
            self._late_abort.cancel()
        super().connectionLost(reason)


class BoundedSite(Site):
    """The server of one resource, without an access log unless asked for.

    :param resource: a leaf; it gets every request.
    :param access_log: log a line a request, without query or headers, the token of a signal URL replaced by `…`.
    """

    protocol = BoundedChannel  # type: ignore[assignment]
    requestFactory = BoundedRequest
    _access_log = Logger(namespace="hivesub.access")

    def __init__(
        self,
        resource: IResource,
        reactor: IReactorTime,
        *,
        access_log: bool = False,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        request_deadline_s: float = REQUEST_DEADLINE_S,
        max_body_bytes: int = MAX_BODY_BYTES,
        max_discard_bytes: int = MAX_DISCARD_BYTES,
    ) -> None:
        super().__init__(resource, timeout=idle_timeout_s, reactor=reactor)
        self.access_log = access_log
        self.request_deadline_s = request_deadline_s
        self.max_body_bytes = max_body_bytes
        self.max_discard_bytes = max_discard_bytes

    def startFactory(self) -> None:
        """Nothing: twisted.web's opens its log and wakes once a second to know the date for it."""

    def stopFactory(self) -> None:
        """Nothing, as `startFactory`."""

    def log(self, request: HTTPRequest) -> None:
        if self.access_log:
            self._access_log.info(
                "{method} {path} {status} {length}",
                method=_UNPRINTABLE.sub("?", request.method[:32].decode("latin-1")),
                path=loggable_path(request.path),
                status=request.code,
                length=request.sentLength,
            )
