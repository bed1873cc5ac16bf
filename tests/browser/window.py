"""A browser that tests can wait for: Playwright's blocking interface, in a thread of its own, as the reactor has the
main one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from tests.browser.chromium import find_chromium

WAIT_MS = 20_000
BOUND_S = 90

T = TypeVar("T")


class Window:
    """One Chromium. `noise`: what pages said on the console or asked of other hosts than the daemon; none is right."""

    def __init__(self) -> None:
        self.noise: list[str] = []
        self._thread = ThreadPoolExecutor(1)
        self._playwright: Any = None
        self._browser: Any = None

    def start(self) -> None:
        """Launch it.

        Raises: AssertionError, saying what is missing.
        """
        self._thread.submit(self._start).result(BOUND_S)

    def _start(self) -> None:
        try:
            from playwright.sync_api import sync_playwright
        except ImportError:
            raise AssertionError("playwright is not installed; `tox -e browser` brings it") from None
        path = find_chromium()
        assert path is not None, "no Chromium; `python -m tests.browser.chromium` as root brings it"
        self._playwright = sync_playwright().start()
        # As root Chromium refuses its sandbox; it shows nothing here but our own page.
        self._browser = self._playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])

    def stop(self) -> None:
        def stop() -> None:
            if self._browser is not None:
                self._browser.close()
            if self._playwright is not None:
                self._playwright.stop()

        self._thread.submit(stop).result(BOUND_S)
        self._thread.shutdown()

    @contextmanager
    def _page(self, **context: Any) -> Iterator[Any]:
        opened = self._browser.new_context(**context)
        try:
            page = opened.new_page()
            page.set_default_timeout(WAIT_MS)
            page.on("console", lambda message: self.noise.append(f"{message.type}: {message.text}"))
            page.on("pageerror", lambda error: self.noise.append(f"error: {error}"))
            page.on("request", self._asked)
            yield page
        finally:
            opened.close()

    def _asked(self, request: Any) -> None:
        if not request.url.startswith("http://127.0.0.1:"):
            self.noise.append(f"asked for {request.url}")

    def look(self, work: Callable[[Any], T], **context: Any) -> Deferred[T]:
        """Call `work` with a new page, in the browser's thread; fires with what it gives.

        `context`: of Playwright's `new_context`, such as `color_scheme`.
        """

        # A conftest imports this module, before the reactor is chosen.
        from twisted.internet import reactor

        def working() -> T:
            with self._page(**context) as page:
                return work(page)

        future = asyncio.wrap_future(self._thread.submit(working))
        return Deferred.fromFuture(future).addTimeout(BOUND_S, reactor)
