"""Who may come in: the `Host` and `Origin` rule against web pages that aim at loopback, and the bearer token.

Owns the yes or no. Leaves the order of the questions to `hivesub.web.tree`.
"""

from __future__ import annotations

import re
from base64 import b64decode
from hashlib import sha256
from hmac import compare_digest
from urllib.parse import urlsplit

from attrs import frozen
from twisted.web.http_headers import Headers

from hivesub.errors import ConfigError

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")


@frozen
class Refusal:
    """Why a request is turned away: an HTTP status, and a line that says what would work."""

    status: int
    text: str


class HostRule:
    """Which values of `Host` and `Origin` are ours.

    Only the public URL's host is, until `bind` says where the daemon listens.

    :param public_url: how clients reach the daemon when not by its own address.
    :raises ConfigError: when the public URL is not an http or https URL with a host.
    """

    def __init__(self, public_url: str | None = None) -> None:
        self._hosts: set[bytes] = set()
        self._origins: set[bytes] = set()
        if public_url is not None:
            self._allow_url(public_url)

    def bind(self, host: str | None, port: int | None) -> None:
        """Allow the names of one listening address; each call adds to those before.

        :param host: the address that the daemon is bound to; None for a unix socket.
        :param port: None for a unix socket.
        """
        if host is None or port is None:
            self._allow("localhost", None)
            return
        for name in (*_LOOPBACK, f"[{host}]" if ":" in host else host):
            self._allow(name, port)
            if port == _DEFAULT_PORTS["http"]:
                self._allow(name, None)

    def refusal(self, headers: Headers) -> Refusal | None:
        """None for a request that is meant for this daemon and comes from no foreign web page."""
        hosts = headers.getRawHeaders(b"host")
        if hosts is None or len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return Refusal(421, f"Host not served here: use {self._known()}, or name it with --public-url")
        origins = headers.getRawHeaders(b"origin")
        # Absent is fine: only browsers send it, and they cannot leave it out.
        if origins is not None and (len(origins) != 1 or origins[0].lower() not in self._origins):
            return Refusal(403, "Origin not allowed: send none, or the daemon's own")
        return None

    def _known(self) -> str:
        return " or ".join(sorted(host.decode("ascii") for host in self._hosts)) or "another address"

    def _allow_url(self, url: str) -> None:
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(f"--public-url {url!r} cannot be read: {error}") from None
        host = parts.hostname
        if parts.scheme not in _DEFAULT_PORTS or not host or not host.isascii():
            raise ConfigError(f"--public-url {url!r} is not of the form http://host[:port] or https://host[:port]")
        name = f"[{host}]" if ":" in host else host
        default = _DEFAULT_PORTS[parts.scheme]
        self._allow(name, port or default)
        if port in (None, default):
            self._allow(name, None)

    def _allow(self, name: str, port: int | None) -> None:
        host = (name if port is None else f"{name}:{port}").lower().encode("ascii")
        self._hosts.add(host)
        self._origins.update((b"http://" + host, b"https://" + host))


class Bearer:
    """The token that the agent has to show. Only its digest is kept.

    :param text: of the operator's file: the token, or `sha256:` and the hex digest of it.
    :raises ConfigError: when the text is empty or more than one word; it does not repeat the text.
    """

    def __init__(self, text: str) -> None:
        token = text.strip()
        if not token or len(token.split()) != 1:
            raise ConfigError("--auth-token-file must hold one token, or sha256: and its hex digest, on one line")
        hashed = _HASHED.fullmatch(token)
        if hashed is not None:
            self._digest = bytes.fromhex(hashed[1])
        elif token.lower().startswith("sha256:"):
            raise ConfigError("--auth-token-file: what follows sha256: must be 64 hex digits")
        else:
            self._digest = sha256(token.encode()).digest()

    def accepts(self, authorization: bytes | None) -> bool:
        """Whether an `Authorization` header shows the token: `Bearer` with it, or `Basic` with it as the password."""
        scheme, _, value = (authorization or b"").strip().partition(b" ")
        value = value.strip()
        if scheme.lower() == b"basic":
            try:
                value = b64decode(value, validate=True).partition(b":")[2]
            except ValueError:
                return False
        elif scheme.lower() != b"bearer":
            return False
        return bool(value) and compare_digest(sha256(value).digest(), self._digest)

    def __repr__(self) -> str:
        return "<Bearer>"
