"""The routes, and the order in which a request is asked its questions.

Host and Origin, then the route (a dead signal token has none), then authorisation, then method, then size. Leaves each
question's answer to `hivesub.web.guard`, `hivesub.web.site` and `ITokens`, and what an MCP request means to the SDK.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from klein import Klein
from twisted.web.http_headers import Headers
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET
from werkzeug.exceptions import HTTPException

from hivesub.interfaces import TARGET_KEY
from hivesub.web.asgi import ASGIApp, ASGIResource
from hivesub.web.site import MAX_BODY_BYTES, BoundedRequest

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime
    from twisted.python.failure import Failure
    from twisted.web.iweb import IRequest

    from hivesub.interfaces import ISignalTarget, ITokens
    from hivesub.web.guard import Bearer, HostRule

SIGNAL_SCOPE = {"path": "/signal/mcp", "raw_path": b"/signal/mcp"}
"""What the SDK sees of the path of a signal request: all but the token."""

# Every route is made of these letters alone, so no spelling but the plain one leads anywhere.
_PLAIN_PATH = re.compile(rb"(/[A-Za-z0-9._~-]+)+|/")


class Plain(Resource):
    """One short fixed text, for every method; HEAD gets all but the text."""

    isLeaf = True

    def __init__(self, status: int, text: str, headers: Mapping[bytes, list[bytes]] | None = None) -> None:
        super().__init__()
        self._status = status
        # Twisted has no words for 421.
        self._phrase = HTTPStatus(status).phrase.encode("ascii")
        self._body = text.encode() + b"\n"
        self._headers = {
            b"Content-Type": [b"text/plain; charset=utf-8"],
            b"Content-Length": [b"%d" % len(self._body)],
            **(headers or {}),
        }

    def render(self, request: BoundedRequest) -> int:
        request.setResponseCode(self._status, self._phrase)
        self._set_headers(request.responseHeaders)
        request.write(self._body)
        request.finish()
        return NOT_DONE_YET

    def _set_headers(self, headers: Headers) -> None:
        for name, values in self._headers.items():
            headers.setRawHeaders(name, values)


class _Nothing(Plain):
    """The 404. Without a date: two of them are the same to the byte, whatever was asked for and when."""

    def _set_headers(self, headers: Headers) -> None:
        headers.removeHeader(b"Date")
        super()._set_headers(headers)


class _Last(Plain):
    """Ends the connection too."""

    def render(self, request: BoundedRequest) -> int:
        request.close_after()
        return super().render(request)


NOT_FOUND = _Nothing(404, "not found")
# Where an agent without a token ends up: after the 401 it looks for a sign-in, and shows its user the answer of the
# last place that it asks, and not the 401's (measured, claude 2.1.332).
NO_SIGN_IN = _Nothing(
    404,
    "not found: there is no sign-in here. Give the daemon's token as a header: "
    'claude mcp add --transport http --scope user subagent URL --header "Authorization: Bearer TOKEN"',
)
SIGN_IN_NAME = "register"
HEALTHY = Plain(200, "ok")
USE_POST = Plain(405, "method not allowed: use POST", {b"Allow": [b"POST"]})
USE_GET = Plain(405, "method not allowed: use GET", {b"Allow": [b"GET, HEAD"]})
TOO_LARGE = Plain(
    413,
    f"body too large: a whole request may have {MAX_BODY_BYTES} bytes, whatever its fields may hold. "
    "Letters that JSON escapes as \\uXXXX take up to three times the bytes of UTF-8: send the text unescaped",
)
STOPPING = _Last(503, "the daemon is stopping: try again when it is back")
UNAUTHORIZED = Plain(
    401,
    "authorization required: send the daemon's token as `Authorization: Bearer <token>`",
    {b"WWW-Authenticate": [b'Bearer realm="hivesub"', b'Basic realm="hivesub", charset="UTF-8"']},
)


class _Signal(Resource):
    """The control server, as one turn reaches it."""

    isLeaf = True

    def __init__(self, control: ASGIResource, target: ISignalTarget) -> None:
        super().__init__()
        self._control = control
        self._target = target

    def render(self, request: BoundedRequest) -> int:
        return self._control.serve(request, {**SIGNAL_SCOPE, TARGET_KEY: self._target})


class Tree:
    """The daemon's routes. Each route's method gives the resource that is to answer.

    :param agent: the ASGI app of the `subagent` server.
    :param control: the ASGI app of the `subagent_control` server; its tools find the turn in the scope, at
        `hivesub.target`.
    :param bearer: what the agent has to show; None asks nobody.
    :param clock: the asyncio reactor, except in tests.
    :param pages: more routes, such as `/metrics`, by path of at most one segment; they ask for the bearer token too.
    """

    app = Klein()

    def __init__(
        self,
        *,
        agent: ASGIApp,
        control: ASGIApp,
        tokens: ITokens,
        hosts: HostRule,
        bearer: Bearer | None,
        clock: IReactorTime,
        pages: Mapping[str, IResource] | None = None,
    ) -> None:
        # The SDK has no use for credentials, so it gets none to let slip.
        withheld = frozenset({b"authorization", b"cookie"})
        self._agent = ASGIResource(agent, clock=clock, withheld=withheld)
        self._control = ASGIResource(control, clock=clock, withheld=withheld)
        self._tokens = tokens
        self._hosts = hosts
        self._bearer = bearer
        self._pages = dict(pages or {})
        self.stopped = False

    def resource(self) -> IResource:
        """The root, for `hivesub.web.site.BoundedSite`."""
        return _Entrance(self, self._hosts, self.app.resource())

    @property
    def in_flight(self) -> int:
        """The number of MCP requests that are being answered."""
        return self._agent.in_flight + self._control.in_flight

    def stop(self) -> None:
        """Let go of every request in flight, at the daemon's stop; each that comes later is answered with a 503."""
        self.stopped = True
        self._agent.stop()
        self._control.stop()

    @app.route("/mcp")
    def mcp(self, request: BoundedRequest) -> IResource:
        return self._locked(request) or self._posted(request) or self._agent

    @app.route("/signal/mcp/<token>")
    def signal(self, request: BoundedRequest, token: str) -> IResource:
        target = self._tokens.resolve(token)
        if target is None:
            return NOT_FOUND
        target.request_began()
        request.notifyFinish().addBoth(lambda _: target.request_ended())
        return self._posted(request) or _Signal(self._control, target)

    @app.route("/healthz")
    def healthz(self, request: BoundedRequest) -> IResource:
        return HEALTHY if request.method in (b"GET", b"HEAD") else USE_GET

    @app.route("/")
    @app.route("/<name>")
    def page(self, request: BoundedRequest, name: str = "") -> IResource:
        if name == SIGN_IN_NAME and self._bearer is not None:
            return NO_SIGN_IN
        page = self._pages.get("/" + name)
        return NOT_FOUND if page is None else self._locked(request) or page

    @app.handle_errors(HTTPException)
    def elsewhere(self, request: IRequest, failure: Failure) -> IResource:
        return NOT_FOUND

    def _locked(self, request: BoundedRequest) -> IResource | None:
        if self._bearer is None or self._bearer.accepts(request.getHeader(b"authorization")):
            return None
        return UNAUTHORIZED

    def _posted(self, request: BoundedRequest) -> IResource | None:
        if request.method != b"POST":
            return USE_POST
        return TOO_LARGE if request.too_large else None


class _Entrance(Resource):
    """Asks for Host and Origin before anything else. Klein finds the route, of a path that is spelled plainly."""

    isLeaf = True

    def __init__(self, tree: Tree, hosts: HostRule, routes: IResource) -> None:
        super().__init__()
        self._tree = tree
        self._hosts = hosts
        self._routes = routes

    def render(self, request: BoundedRequest) -> int:
        refusal = self._hosts.refusal(request.requestHeaders)
        found: IResource = self._routes
        if self._tree.stopped:
            found = STOPPING
        elif refusal is not None:
            found = Plain(refusal.status, refusal.text)
        elif _PLAIN_PATH.fullmatch(request.path) is None:
            found = NOT_FOUND
        found.render(request)
        return NOT_DONE_YET
