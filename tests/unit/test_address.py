"""Where a subagent reaches the daemon."""

from __future__ import annotations

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.trial.unittest import SynchronousTestCase

from hivesub.address import Address, address_of, is_loopback


class Addresses(SynchronousTestCase):
    def test_the_bound_address_is_the_base_url(self) -> None:
        for host, url in (
            ("127.0.0.1", "http://127.0.0.1:8787"),
            ("192.0.2.7", "http://192.0.2.7:8787"),
            ("::1", "http://[::1]:8787"),
        ):
            address = Address(None)
            address.bind(host, 8787)
            self.assertEqual(address.base_url, url)

    def test_a_wildcard_is_reached_by_its_loopback_address_and_is_not_loopback(self) -> None:
        for host, url in (
            ("0.0.0.0", "http://127.0.0.1:1"),
            ("", "http://127.0.0.1:1"),
            ("::", "http://[::1]:1"),
        ):
            address = Address(None)
            self.assertFalse(address.bind(host, 1), host)
            self.assertEqual(address.base_url, url)

    def test_the_public_url_wins_before_and_after_the_binding(self) -> None:
        address = Address("https://hive.example:444")
        self.assertEqual(address.base_url, "https://hive.example:444")
        address.bind("127.0.0.1", 8787)
        self.assertEqual(address.base_url, "https://hive.example:444")

    def test_unbound_and_without_a_public_url_there_is_no_base_url(self) -> None:
        with self.assertRaises(RuntimeError):
            _ = Address(None).base_url

    def test_only_loopback_addresses_count_as_loopback(self) -> None:
        for host, loopback in (
            ("127.0.0.1", True),
            ("127.8.9.1", True),
            ("::1", True),
            ("::1%lo", True),
            ("0.0.0.0", False),
            ("::", False),
            ("192.0.2.7", False),
            ("fe80::1%eth0", False),
            ("", False),
            ("loopback.example", False),
        ):
            self.assertIs(is_loopback(host), loopback, host)

    def test_host_and_port_are_those_of_tcp_alone(self) -> None:
        self.assertEqual(address_of(IPv4Address("TCP", "127.0.0.1", 5)), ("127.0.0.1", 5))
        self.assertEqual(address_of(IPv6Address("TCP", "::1", 6)), ("::1", 6))
        self.assertEqual(address_of(UNIXAddress("/run/x")), (None, None))
