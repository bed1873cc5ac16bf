"""The HTTP client that todos are posted with: a connection a request, bounded in what a receiver may send on it.

twisted.web's client keeps every header that comes, without a bound. Kept apart from `hivesub.todos.sinks`, as importing
it takes long and only a daemon that posts todos needs it.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from attrs import frozen
from treq.client import HTTPClient
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IProtocolFactory, IStreamClientEndpoint
from twisted.internet.protocol import connectionDone
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool
from zope.interface import implementer

MOST_BYTES = 128 * 1024
"""Of an answer with all that comes before it. A sink reads bodies of up to half of it."""


class AnswerTooLong(Exception):
    """The receiver sent more than `MOST_BYTES`."""


def bounded_client(reactor: Any) -> HTTPClient:
    return HTTPClient(Agent(reactor, pool=_Pool(reactor, persistent=False)))


class _Pool(HTTPConnectionPool):
    def getConnection(self, key: Hashable, endpoint: IStreamClientEndpoint) -> Deferred[Any]:
        return super().getConnection(key, _Bounded(endpoint))


@implementer(IStreamClientEndpoint)
@frozen
class _Bounded:
    _endpoint: IStreamClientEndpoint

    def connect(self, factory: IProtocolFactory) -> Deferred[Any]:
        counting: WrappingFactory[_Counted] = WrappingFactory(factory)
        counting.protocol = _Counted
        counting.noisy = False
        connected: Deferred[Any] = self._endpoint.connect(counting)
        return connected.addCallback(lambda counted: counted.wrappedProtocol)


class _Counted(ProtocolWrapper):
    """Cuts the connection once more than `MOST_BYTES` came over it."""

    _received = 0

    def dataReceived(self, data: bytes) -> None:
        self._received += len(data)
        if self._received > MOST_BYTES:
            self.abortConnection()
        else:
            super().dataReceived(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(Failure(AnswerTooLong()) if self._received > MOST_BYTES else reason)
