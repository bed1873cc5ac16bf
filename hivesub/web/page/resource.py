"""Answers for the page and its files. Who may ask is `hivesub.web.tree`'s question; nothing here changes anything."""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import IResource, Resource
from twisted.web.server import NOT_DONE_YET

if TYPE_CHECKING:
    from datetime import datetime

    from twisted.internet.interfaces import IReactorTime
    from twisted.web.template import Element

    from hivesub.interfaces import IOperatorView
    from hivesub.shapes import Steps
    from hivesub.web.site import BoundedRequest

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
FILES = {
    "/page.css": "text/css; charset=utf-8",
    "/page.js": "text/javascript; charset=utf-8",
    "/icon.svg": "image/svg+xml",
}

_log = Logger()


class _ReadOnly(Resource):
    """Answers GET and HEAD with a whole body."""

    isLeaf = True

    def render(self, request: BoundedRequest) -> int:
        for name, value in HEADERS.items():
            request.setHeader(name, value)
        if request.method not in (b"GET", b"HEAD"):
            request.setResponseCode(405)
            request.setHeader("Allow", "GET, HEAD")
            self._answer(
                request, "text/plain; charset=utf-8", b"method not allowed: use GET; the MCP server is at /mcp\n"
            )
        else:
            self._get(request)
        return NOT_DONE_YET

    def _get(self, request: BoundedRequest) -> None:
        raise NotImplementedError

    def _answer(self, request: BoundedRequest, content_type: str, body: bytes) -> None:
        request.setHeader("Content-Type", content_type)
        request.setHeader("Content-Length", str(len(body)))
        request.write(body)
        request.finish()


class PackageFile(_ReadOnly):
    """A file of this package."""

    def __init__(self, name: str, content_type: str) -> None:
        super().__init__()
        self._name = name
        self._content_type = content_type
        self._body: bytes | None = None

    def _get(self, request: BoundedRequest) -> None:
        if self._body is None:
            self._body = (files(__package__) / self._name).read_bytes()
        self._answer(request, self._content_type, self._body)


class Page(_ReadOnly):
    """`/` is all subagents, `/?name=NAME` one of them.

    :param now: the wall clock.
    """

    def __init__(self, view: IOperatorView, now: Callable[[], datetime], clock: IReactorTime) -> None:
        super().__init__()
        self._view = view
        self._now = now
        self._clock = clock

    def _get(self, request: BoundedRequest) -> None:
        # Only now: a daemon at whose page nobody looks loads no templates.
        from twisted.web.template import flattenString

        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)

        def made(body: bytes) -> None:
            if not gone:
                self._answer(request, "text/html; charset=utf-8", b"<!DOCTYPE html>\n" + body)

        element = Deferred.fromCoroutine(self._element(request))
        flattening = element.addCallback(lambda found: flattenString(request, found))
        flattening.addCallback(made)
        flattening.addErrback(self._failed, request, gone)

    def _pause(self) -> Deferred[str]:
        return deferLater(self._clock, 0, lambda: "")

    async def _element(self, request: BoundedRequest) -> Element:
        from hivesub.web.page.elements import overview_page, subagent_page, unknown_page

        listed = self._view.all()
        asked = request.args.get(b"name")
        if asked is None:
            return overview_page(listed, self._now(), self._pause)
        name = asked[0].decode("utf-8", "replace")
        steps = await self._view.steps(name, 0)
        record = self._view.one(name)
        if record is None or steps is None:
            request.setResponseCode(404)
            return unknown_page(listed["counts"])
        return subagent_page(record, listed["counts"], self._now(), steps["steps"])

    def _failed(self, failure: Failure, request: BoundedRequest, gone: list[Failure]) -> None:
        _log.failure("the page could not be made", failure=failure)
        if gone:
            return
        request.setResponseCode(500)
        self._answer(request, "text/plain; charset=utf-8", b"internal error; see the daemon's log\n")


class LastSteps(_ReadOnly):
    """`/steps?name=NAME&after=OFFSET`: what a subagent did last, as JSON, for `hivesub logs`."""

    def __init__(self, view: IOperatorView) -> None:
        super().__init__()
        self._view = view

    def _get(self, request: BoundedRequest) -> None:
        gone: list[Failure] = []
        request.notifyFinish().addErrback(gone.append)
        name = request.args.get(b"name", [b""])[0].decode("utf-8", "replace")
        after = request.args.get(b"after", [b"0"])[0]

        def found(steps: Steps | None) -> None:
            if gone:
                return
            if steps is None:
                request.setResponseCode(404)
            answer = {"error": "no subagent of that name is known"} if steps is None else steps
            self._answer(request, "application/json", json.dumps(answer).encode() + b"\n")

        looking = self._view.steps(name, int(after) if after.isdigit() and len(after) < 16 else 0)
        looking.addCallback(found).addErrback(self._failed, request, gone)

    def _failed(self, failure: Failure, request: BoundedRequest, gone: list[Failure]) -> None:
        _log.failure("the last steps could not be given", failure=failure)
        if not gone:
            request.setResponseCode(500)
            self._answer(request, "text/plain; charset=utf-8", b"internal error; see the daemon's log\n")


def page_resources(view: IOperatorView, now: Callable[[], datetime], clock: IReactorTime) -> Mapping[str, IResource]:
    """The page and its files, by path, for `hivesub.web.tree.Tree`."""
    return {
        "/": Page(view, now, clock),
        "/steps": LastSteps(view),
        **{path: PackageFile(path[1:], content_type) for path, content_type in FILES.items()},
    }
