"""A factory on a free TCP port of loopback, in the process of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IListeningPort


def listen(factory: object, port: int = 0) -> tuple[IListeningPort, int]:
    """The listener, and the port that it got.

    :param port: one to take again, after a stop.
    """
    from twisted.internet import reactor

    # A server's factory is no `ServerFactory` by Twisted's annotations, and an address has no port.
    untyped: Any = reactor
    listener = untyped.listenTCP(port, factory, interface="127.0.0.1")
    return listener, listener.getHost().port


def stopped(listener: IListeningPort) -> Deferred[None]:
    """Stop listening. Fires once no connection is taken any more."""
    return listener.stopListening() or succeed(None)


@asynccontextmanager
async def listening(factory: object, port: int = 0) -> AsyncIterator[int]:
    """The port, for as long as the block lasts."""
    listener, number = listen(factory, port)
    try:
        yield number
    finally:
        await stopped(listener)
