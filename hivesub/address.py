"""Where the daemon is reached: the address it is bound to, or the public URL that stands for it."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from twisted.internet.address import IPv4Address, IPv6Address

if TYPE_CHECKING:
    from twisted.internet.interfaces import IAddress


def address_of(where: IAddress) -> tuple[str | None, int | None]:
    """Host and port of a TCP address; (None, None) for a unix socket."""
    if isinstance(where, IPv4Address | IPv6Address):
        return where.host, where.port
    return None, None


def is_loopback(host: str) -> bool:
    """Whether a bound host is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


class Address:
    """The base URL by which clients on this machine, subagents above all, reach the daemon.

    :param public_url: `scheme://host[:port]`; it wins over the bound address.
    """

    def __init__(self, public_url: str | None) -> None:
        self._public_url = public_url
        self._bound: str | None = None

    def bind(self, host: str, port: int | None) -> bool:
        """Note the bound address; whether it is loopback. A wildcard address is reached by its loopback one."""
        reached = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)
        self._bound = f"http://[{reached}]:{port}" if ":" in reached else f"http://{reached}:{port}"
        return is_loopback(host)

    @property
    def base_url(self) -> str:
        """Without a slash at the end.

        :raises RuntimeError: before anything is bound, when there is no public URL.
        """
        url = self._public_url or self._bound
        if url is None:
            raise RuntimeError("the daemon is not bound yet")
        return url
