"""A resource served on a loopback port of its own, and a socket that speaks bytes to it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from hivesub.web.site import BoundedSite
from tests.support.listening import listen, stopped

Scenario = Callable[..., Coroutine[Any, Any, None]]


def on_the_loop(scenario: Scenario, limit_s: float = 20) -> Scenario:
    """Run a test written for asyncio on the reactor's loop, for at most `limit_s` seconds."""

    @functools.wraps(scenario)
    async def test(*args: Any, **kwargs: Any) -> None:
        ended = Deferred.fromFuture(asyncio.ensure_future(scenario(*args, **kwargs)))
        await ended.addTimeout(limit_s, reactor)

    return test


def twisted(deferred: Deferred[Any]) -> asyncio.Future[Any]:
    return deferred.asFuture(asyncio.get_running_loop())


@asynccontextmanager
async def served(resource: Any, bound: Callable[[str, int], None] | None = None, **options: Any) -> AsyncIterator[int]:
    """Gives the port."""
    site = BoundedSite(resource, reactor, **options)
    port, number = listen(site)
    if bound is not None:
        bound("127.0.0.1", number)
    try:
        yield number
    finally:
        await twisted(stopped(port))


class Client:
    """One connection, by bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    def request(self, method: str, path: str, port: int, body: bytes = b"", headers: str = "") -> None:
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        self.write(head.encode() + body)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split(" ")[1]), headers

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        if headers.get("transfer-encoding") == "chunked":
            pieces = []
            while piece := await self.piece():
                pieces.append(piece)
            return status, headers, b"".join(pieces)
        return status, headers, await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def piece(self) -> bytes:
        """The next chunk of a chunked body; empty for its end."""
        size = int(await self.reader.readline(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]


@asynccontextmanager
async def connected(port: int, **options: Any) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
    try:
        yield Client(reader, writer)
    finally:
        writer.transport.abort()
        await asyncio.wait([asyncio.ensure_future(_closed(writer))])


async def _closed(writer: asyncio.StreamWriter) -> None:
    try:
        await writer.wait_closed()
    except OSError:
        pass
