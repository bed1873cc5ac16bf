"""Where todos go: a URL that takes a POST, or a file that takes lines.

Owns one attempt, and what its failure means: to be tried again, or never. When to try again is the lane's.

A sink's URL is a secret, since it may carry a token anywhere in it: logs and errors know a sink by its `label`, files
by its `key`.
"""

from __future__ import annotations

import os
from base64 import b64encode
from enum import Enum
from hashlib import sha256
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit, urlunsplit

from attrs import field, frozen
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.error import ConnectError, DNSLookupError
from twisted.internet.interfaces import IReactorTime
from twisted.internet.protocol import Protocol as TwistedProtocol
from twisted.python.failure import Failure
from twisted.web.iweb import UNKNOWN_LENGTH, IResponse
from zope.interface import Attribute, Interface, implementer

from hivesub.errors import AppendError, ConfigError
from hivesub.shapes import Todo
from hivesub.system.appendfile import InThread, append_whole
from hivesub.system.rotation import rotate
from hivesub.todos.backoff import retry_after_s
from hivesub.todos.inorder import InOrder
from hivesub.todos.todo import todo_bytes

TIMEOUT_S = 30.0
"""From the start of a POST to the receiver's status line and headers."""

_BODY_TIMEOUT_S = 5.0
_BODY_BYTES = 64 * 1024
_RETRIED = frozenset({408, 409, 425, 429})
"""409 is what a receiver that knows the `Idempotency-Key` answers while its first delivery is still under way."""


class Verdict(Enum):
    """What came of one attempt."""

    DELIVERED = "delivered"
    REFUSED = "refused"
    """Not to be tried again: the todo is undelivered at this sink."""
    UNREACHABLE = "unreachable"
    """Nobody saw the todo; it says nothing about the todo itself."""
    FAILED = "failed"
    """The receiver, or the way to it, failed while it had the todo; another todo may fare better."""


@frozen(kw_only=True)
class Attempt:
    """One attempt's end. `why`: a clause for the log, free of secrets. `retry_after_s`: what the receiver asked for,
    in seconds."""

    verdict: Verdict
    why: str = ""
    retry_after_s: float | None = None


class ISink(Interface):
    """Takes todos."""

    key: str = Attribute("Names the sink in the state directory: the same at each start, and no secret.")
    label: str = Attribute("Names the sink in logs: no secret.")
    at_once: int = Attribute("How many attempts may be in flight while none fails.")

    def deliver(todo: Todo) -> Deferred[Attempt]:
        """Try once.

        :returns: fires with what came of it. Cancelling gives the attempt up: it is unknown then whether the todo
            arrived, unless that was known already.
        """


class PostClient(Protocol):
    """What is used of `treq.client.HTTPClient`."""

    def post(
        self,
        url: str,
        /,
        *,
        data: bytes,
        headers: dict[bytes | str, bytes | str],
        allow_redirects: bool,
        unbuffered: bool,
        reactor: Any,
    ) -> Deferred[Any]: ...


def make_sink(
    target: str,
    *,
    base_dir: str,
    client: PostClient,
    clock: IReactorTime,
    in_thread: InThread,
    most_bytes: int | None = None,
) -> UrlSink | FileSink:
    """The sink that one `--todo` names.

    :param base_dir: what a relative path is relative to.
    :param most_bytes: a file is rotated before it grows past it.
    :raises ConfigError: without the target's text in it, when that looks like a URL.
    """
    if "://" in target.partition("?")[0]:
        return UrlSink(target, client=client, clock=clock)
    if not target.strip() or "\0" in target:
        raise ConfigError("--todo: give an http(s) URL, or a path")
    path = os.path.join(os.path.abspath(base_dir), os.path.expanduser(target))
    return FileSink(path, in_thread=in_thread, most_bytes=most_bytes)


@implementer(ISink)
@frozen
class UrlSink:
    """POSTs each todo as JSON. 2xx delivers, whatever the body; redirects are not followed, since the body would go
    where nobody said.

    :raises ConfigError: on a URL that cannot be used.
    """

    at_once = 1
    _url: str = field(repr=False)
    _client: PostClient = field(kw_only=True, repr=False)
    _clock: IReactorTime = field(kw_only=True, repr=False)
    _timeout_s: float = field(kw_only=True, default=TIMEOUT_S)
    label: str = field(init=False)
    _target: str = field(init=False, repr=False)
    _credentials: str | None = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        label, target, credentials = _parse(self._url)
        object.__setattr__(self, "label", label)
        object.__setattr__(self, "_target", target)
        object.__setattr__(self, "_credentials", credentials)

    @property
    def key(self) -> str:
        return f"url-{sha256(self._url.encode()).hexdigest()[:16]}"

    def deliver(self, todo: Todo) -> Deferred[Attempt]:
        return Deferred.fromCoroutine(self._deliver(todo))

    async def _deliver(self, todo: Todo) -> Attempt:
        headers: dict[bytes | str, bytes | str] = {
            "Content-Type": "application/json",
            "Idempotency-Key": str(todo["id"]),
            "User-Agent": "hivesub",
        }
        if self._credentials:
            headers["Authorization"] = self._credentials
        try:
            response: IResponse = await self._client.post(
                self._target,
                data=todo_bytes(todo),
                headers=headers,
                allow_redirects=False,
                unbuffered=True,
                reactor=self._clock,
            ).addTimeout(self._timeout_s, self._clock)
        except CancelledError:
            raise
        except TimeoutError:
            return Attempt(verdict=Verdict.FAILED, why=f"no answer within {self._timeout_s:g} s")
        except Exception as e:
            return _connection_failure(e)
        attempt = _judge(response)
        await _read_out(response, self._clock)
        return attempt


def _parse(url: str) -> tuple[str, str, str | None]:
    """What to call the URL, what to ask for, and the Authorization header of its userinfo."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        ascii_url = url.isascii() and not any(c <= " " or c == "\x7f" for c in url)
    except ValueError:
        raise ConfigError("--todo: the URL cannot be read") from None
    if parts.scheme.lower() not in ("http", "https") or not host:
        raise ConfigError("--todo: a URL has to begin with http:// or https:// and name a host")
    if not ascii_url:
        raise ConfigError("--todo: the URL holds spaces, control or non-ASCII characters; write them as %XX")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None:
        netloc = f"{netloc}:{port}"
    credentials = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        credentials = f"Basic {b64encode(pair.encode()).decode()}"
    target = urlunsplit((parts.scheme.lower(), netloc, parts.path or "/", parts.query, ""))
    return f"{parts.scheme.lower()}://{netloc}", target, credentials


def _judge(response: IResponse) -> Attempt:
    code: int = response.code
    if 200 <= code < 300:
        return Attempt(verdict=Verdict.DELIVERED)
    why = f"it answered {code}"
    if code in _RETRIED or code >= 500:
        asked, date = (_header(response, name) for name in (b"retry-after", b"date"))
        return Attempt(verdict=Verdict.FAILED, why=why, retry_after_s=retry_after_s(asked, date))
    if 300 <= code < 400:
        why += ", and redirects are not followed"
    return Attempt(verdict=Verdict.REFUSED, why=why)


def _header(response: IResponse, name: bytes) -> str | None:
    values: list[bytes] | None = response.headers.getRawHeaders(name)
    return values[0].decode("ascii", "replace") if values else None


def _connection_failure(error: Exception) -> Attempt:
    # Names of types only: a message may quote the URL.
    verdict = Verdict.UNREACHABLE if isinstance(error, (ConnectError, DNSLookupError)) else Verdict.FAILED
    reasons = getattr(error, "reasons", None) or []
    names = [
        type(getattr(reason, "value", reason)).__name__
        for reason in reasons
        if isinstance(reason, (Failure, Exception))
    ]
    return Attempt(verdict=verdict, why=": ".join([type(error).__name__, *names]))


async def _read_out(response: IResponse, clock: IReactorTime) -> None:
    """Read a small body to its end, so that the receiver is not cut off while it writes; close the connection on any
    other. Bounded in bytes and time; never raises, since the verdict does not hang on it."""
    closed: Deferred[None] = Deferred(lambda _: discard.forget())
    discard = _Discard(closed)
    try:
        response.deliverBody(discard)
        # An unknown length may be a compressed body, which is small only on the wire.
        if response.length is UNKNOWN_LENGTH or response.length > _BODY_BYTES:
            discard.close()
        await closed.addTimeout(_BODY_TIMEOUT_S, clock)
    except (TimeoutError, CancelledError):
        pass


class _Discard(TwistedProtocol):
    def __init__(self, closed: Deferred[None]) -> None:
        self._closed: Deferred[None] | None = closed

    def dataReceived(self, data: bytes) -> None:
        pass

    def connectionLost(self, reason: Failure = None) -> None:  # type: ignore[assignment]
        closed, self._closed = self._closed, None
        if closed is not None:
            closed.callback(None)

    def forget(self) -> None:
        self._closed = None
        self.close()

    def close(self) -> None:
        if self.transport is not None:
            self.transport.loseConnection()


@implementer(ISink)
@frozen
class FileSink:
    """Appends each todo as one line of JSON.

    No bound in time: a second append beside one that is blocked would write the todo twice, so the lane waits. Several
    at once share a thread; one by one, each would cost the lane a turn or two of the reactor.
    """

    label: str
    at_once = 20
    _in_thread: InThread = field(kw_only=True, repr=False, converter=InOrder)
    _most_bytes: int | None = field(kw_only=True, default=None)

    @property
    def key(self) -> str:
        return f"file-{sha256(os.fsencode(self.label)).hexdigest()[:16]}"

    def deliver(self, todo: Todo) -> Deferred[Attempt]:
        return Deferred.fromCoroutine(self._deliver(todo))

    async def _deliver(self, todo: Todo) -> Attempt:
        try:
            await self._in_thread(self._append, todo_bytes(todo) + b"\n")
        except (AppendError, OSError) as e:
            return Attempt(verdict=Verdict.UNREACHABLE, why=str(e))
        return Attempt(verdict=Verdict.DELIVERED)

    def _append(self, line: bytes) -> None:
        if self._most_bytes is not None:
            rotate(self.label, len(line), self._most_bytes)
        append_whole(self.label, line)
