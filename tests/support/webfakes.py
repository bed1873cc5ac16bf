"""What the tests of the web face share: targets and tokens that note what they are asked, apps that are never reached,
a site spoken to by bytes.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.testing import StringTransport
from zope.interface import implementer

from hivesub.interfaces import ISignalTarget, ITokens
from hivesub.records import SignalKind
from hivesub.web.site import BoundedSite

LIVING = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"
"""The one token that `FakeTokens` mints."""


@implementer(ISignalTarget)
class FakeTarget:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def request_began(self) -> None:
        self.told.append("began")

    def request_ended(self) -> None:
        self.told.append("ended")

    def signal(self, kind: SignalKind, message: str, report_file: str | None) -> Deferred[str]:
        self.told.append(f"{kind.value}: {message}")
        return succeed("noted")


@implementer(ITokens)
class FakeTokens:
    """Mints `LIVING`; notes in `asked` each token that it is to resolve."""

    def __init__(self, target: FakeTarget | None = None) -> None:
        self.living: dict[str, FakeTarget] = {} if target is None else {LIVING: target}
        self.asked: list[str] = []

    def mint(self, target: Any) -> str:
        self.living[LIVING] = target
        return LIVING

    def resolve(self, token: str) -> FakeTarget | None:
        self.asked.append(token)
        return self.living.get(token)

    def revoke(self, token: str) -> None:
        self.living.pop(token, None)


async def never(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI app for requests that must not get as far as the SDK."""
    raise AssertionError("nothing here gets as far as the SDK")


def connection(site: BoundedSite, transport: StringTransport | None = None) -> tuple[Any, StringTransport]:
    """A connection to a site by an in-memory transport: the protocol, and what it writes to."""
    transport = StringTransport() if transport is None else transport
    # Its methods are Twisted's, which have no annotations.
    untyped: Any = site
    channel = untyped.buildProtocol(None)
    channel.makeConnection(transport)
    return channel, transport
