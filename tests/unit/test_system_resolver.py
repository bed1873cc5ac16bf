"""Host names are looked up in threads that nobody waits for."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any
from unittest import mock

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IHostnameResolver, IHostResolution, IResolutionReceiver
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from hivesub.system.resolver import BOUND_S, ThreadResolver

V4 = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))
V6 = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("2001:db8::1", 80, 0, 0))
OTHER = (socket.AF_UNIX, socket.SOCK_STREAM, 0, "", ("x",))


@implementer(IResolutionReceiver)
class Receiver:
    def __init__(self) -> None:
        self.addresses: list[Any] = []
        self.resolution: Any = None
        self.complete = 0

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None:
        self.resolution = resolutionInProgress

    def addressResolved(self, address: Any) -> None:
        self.addresses.append(address)

    def resolutionComplete(self) -> None:
        self.complete += 1


class Resolving(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.receiver = Receiver()

    def resolve(
        self, getaddrinfo: Callable[..., Any], in_thread: Callable[..., Deferred[Any]] = maybeDeferred, **options: Any
    ) -> None:
        resolver = ThreadResolver(in_thread, self.clock)
        verifyObject(IHostnameResolver, resolver)
        with mock.patch("socket.getaddrinfo", getaddrinfo):
            resolver.resolveHostName(self.receiver, "h.example", 80, **options)

    def test_each_address_is_handed_on_and_then_it_is_complete(self) -> None:
        self.resolve(lambda *asked: [V4, V6, OTHER])
        self.assertEqual(
            self.receiver.addresses,
            [IPv4Address("TCP", "192.0.2.1", 80), IPv6Address("TCP", "2001:db8::1", 80, 0, 0)],
        )
        self.assertEqual((self.receiver.complete, self.receiver.resolution.name), (1, "h.example"))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_only_what_is_wanted_is_asked_for(self) -> None:
        asked: list[Any] = []

        def none(*args: Any) -> list[Any]:
            asked.append(args[2:])
            return []

        for wanted in (None, [IPv4Address], [IPv6Address], [IPv4Address, IPv6Address]):
            self.resolve(none, addressTypes=wanted)
        stream, both = socket.SOCK_STREAM, socket.AF_UNSPEC
        self.assertEqual(asked, [(both, stream), (socket.AF_INET, stream), (socket.AF_INET6, stream), (both, stream)])

    def test_a_name_that_is_not_found_has_no_address(self) -> None:
        for error in (socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")):

            def fails(*asked: Any, error: Exception = error) -> None:
                raise error

            self.resolve(fails)
            self.assertEqual(self.receiver.addresses, [])
        self.assertEqual(self.receiver.complete, 2)

    def test_name_servers_that_do_not_answer_are_not_waited_for(self) -> None:
        self.resolve(lambda *asked: [], lambda *call: Deferred())
        self.clock.advance(BOUND_S - 0.1)
        self.assertEqual(self.receiver.complete, 0)
        self.clock.advance(0.2)
        self.assertEqual((self.receiver.complete, self.receiver.addresses), (1, []))

    def test_a_lookup_may_be_given_up(self) -> None:
        self.resolve(lambda *asked: [], lambda *call: Deferred())
        self.receiver.resolution.cancel()
        self.assertEqual((self.receiver.complete, self.clock.getDelayedCalls()), (1, []))
