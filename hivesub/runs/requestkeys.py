"""Calls made once: a retry that bears the same `request_key` joins its twin in flight, or is answered with the run it
already made.

Owns what is in flight; what a call has made is kept with the record, by the caller of this module.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from attrs import asdict

from hivesub.errors import RequestKeyReused
from hivesub.waiters import OneShot

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from twisted.internet.defer import Deferred
    from twisted.python.failure import Failure

    from hivesub.records import RunRequest
    from hivesub.shapes import RunAnswer


def digest_of(request: RunRequest) -> bytes:
    """SHA-256 of what a call asks for, its key left out: a prompt of 2 MiB is not kept to know a retry again."""
    asked = asdict(request, filter=lambda attribute, _: attribute.name != "request_key")
    # JSON escapes what UTF-8 cannot carry.
    return hashlib.sha256(json.dumps([type(request).__name__, asked], sort_keys=True).encode()).digest()


def check_same(kept: bytes, request: RunRequest) -> None:
    """Compare a retry with the call that its key names.

    :param kept: the digest of that call.
    :raises RequestKeyReused: when they differ.
    """
    if kept != digest_of(request):
        raise RequestKeyReused(
            f"request_key: {request.request_key!r} was already used with other arguments: "
            "repeat the call with the same ones, or take a new key"
        )


class _Flight:
    """A call under way, and those who wait for its answer: with the last of them goes the wait, not the run."""

    def __init__(self, digest: bytes) -> None:
        self.digest = digest
        self.work: Deferred[RunAnswer] | None = None
        self.answer: OneShot[RunAnswer] = OneShot(self._given_up)

    def _given_up(self) -> None:
        if self.work is not None:
            self.work.cancel()


class RequestKeys:
    """Joins twins in flight."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight] = {}

    def join(
        self, ident: Hashable, request: RunRequest, work: Callable[[], Deferred[RunAnswer]]
    ) -> Deferred[RunAnswer]:
        """The answer of the one call under way for this identity, begun now if there is none.

        :returns: a Deferred of the caller's own; cancelling it leaves the call to the twins that still wait.
        :raises RequestKeyReused: when the call under way has other arguments.
        """
        flight = self._flights.get(ident)
        if flight is not None:
            check_same(flight.digest, request)
            return flight.answer.wait()
        flight = self._flights[ident] = _Flight(digest_of(request))
        waiter = flight.answer.wait()
        flight.work = work()
        flight.work.addBoth(self._landed, ident, flight)
        return waiter

    def _landed(self, answer: RunAnswer | Failure, ident: Hashable, flight: _Flight) -> None:
        del self._flights[ident]
        flight.answer.fire(answer)
