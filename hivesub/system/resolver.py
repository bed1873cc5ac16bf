"""Host names to addresses, in threads that never hold up the daemon's exit.

The reactor's own resolver asks in its thread pool, whose threads are waited for when the process ends: name servers
that do not answer would hold up a stop for as long as `getaddrinfo` does.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.defer import TimeoutError as DeferredTimeout
from twisted.internet.interfaces import (
    IAddress,
    IHostnameResolver,
    IHostResolution,
    IReactorTime,
    IResolutionReceiver,
)
from twisted.logger import Logger
from zope.interface import implementer

from hivesub.system.appendfile import InThread

BOUND_S = 10.0
"""After which a name counts as one that cannot be found; the thread is left behind."""

_log = Logger()
_FAMILIES = {IPv4Address: socket.AF_INET, IPv6Address: socket.AF_INET6}
_TYPES = {socket.AF_INET: IPv4Address, socket.AF_INET6: IPv6Address}
_KINDS = {"TCP": socket.SOCK_STREAM, "UDP": socket.SOCK_DGRAM}


@implementer(IHostResolution)
@define(eq=False)
class _Resolution:
    name: str
    asked: Deferred[Any] | None = field(default=None, init=False)

    def cancel(self) -> None:
        if self.asked is not None:
            self.asked.cancel()


@implementer(IHostnameResolver)
@define(eq=False)
class ThreadResolver:
    """Asks the system's resolver."""

    _in_thread: InThread
    _clock: IReactorTime
    _bound_s: float = BOUND_S

    def resolveHostName(
        self,
        resolutionReceiver: IResolutionReceiver,
        hostName: str,
        portNumber: int = 0,
        addressTypes: Sequence[type[IAddress]] | None = None,
        transportSemantics: str = "TCP",
    ) -> IHostResolution:
        wanted = {_FAMILIES[kind] for kind in addressTypes or _FAMILIES if kind in _FAMILIES}
        family = wanted.pop() if len(wanted) == 1 else socket.AF_UNSPEC
        resolution = _Resolution(hostName)
        resolutionReceiver.resolutionBegan(resolution)
        resolution.asked = self._in_thread(
            socket.getaddrinfo, hostName, portNumber, family, _KINDS[transportSemantics]
        ).addTimeout(self._bound_s, self._clock)

        def found(entries: Any) -> None:
            for kind, _, _, _, address in entries:
                if kind in _TYPES:
                    resolutionReceiver.addressResolved(_TYPES[kind](transportSemantics, *address))

        def not_found(failure: Any) -> None:
            # A receiver that gets no address takes the name for one that does not exist.
            if failure.check(DeferredTimeout):
                _log.warn("no name server answered within {seconds:g} s", seconds=self._bound_s)
            elif not failure.check(OSError, UnicodeError, CancelledError):
                _log.failure("looking a host name up broke", failure=failure)

        resolution.asked.addCallback(found).addErrback(not_found)
        resolution.asked.addCallback(lambda _: resolutionReceiver.resolutionComplete())
        return resolution
