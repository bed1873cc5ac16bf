"""Calls made once: a retry that bears the same `request_key` joins its twin in flight, or is answered with the run it
already made.

Owns what is in flight; what a call has made is kept with the record, by the caller of this module.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from attrs import asdict, define, field
from twisted.internet.defer import Deferred

from hivesub.errors import RequestKeyReused

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from twisted.python.failure import Failure

    from hivesub.records import RecordDict, RunRequest


@define(eq=False)
class _Flight:
    digest: bytes
    work: Deferred[RecordDict] | None = None
    waiters: list[Deferred[RecordDict]] = field(factory=list)

    def left(self, waiter: Deferred[RecordDict]) -> None:
        """One caller has gone; with the last of them goes the wait, not the run."""
        if waiter not in self.waiters:  # the answers are being given out
            return
        self.waiters.remove(waiter)
        if not self.waiters and self.work is not None:
            self.work.cancel()

    def landed(self, answer: RecordDict | Failure) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.called:
                waiter.callback(answer)


def digest_of(request: RunRequest) -> bytes:
    """SHA-256 of what a call asks for, its key left out: a prompt of 2 MiB is not kept to know a retry again."""
    asked = asdict(request, filter=lambda attribute, _: attribute.name != "request_key")
    # JSON writes 5 and 5.0 differently, and escapes what UTF-8 cannot carry.
    plain = {name: float(value) if isinstance(value, int) else value for name, value in asked.items()}
    return hashlib.sha256(json.dumps([type(request).__name__, plain], sort_keys=True).encode()).digest()


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


class RequestKeys:
    """Joins twins in flight."""

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight] = {}

    def join(
        self, ident: Hashable, request: RunRequest, work: Callable[[], Deferred[RecordDict]]
    ) -> Deferred[RecordDict]:
        """The answer of the one call under way for this identity, begun now if there is none.

        :returns: a Deferred of the caller's own; cancelling it leaves the call to the twins that still wait.
        :raises RequestKeyReused: when the call under way has other arguments.
        """
        flight = self._flights.get(ident)
        if flight is not None:
            check_same(flight.digest, request)
        fresh = flight is None
        flight = flight or _Flight(digest_of(request))
        waiter: Deferred[RecordDict] = Deferred(flight.left)
        flight.waiters.append(waiter)
        if fresh:
            self._flights[ident] = flight
            flight.work = work()
            flight.work.addBoth(self._landed, ident, flight)
        return waiter

    def _landed(self, answer: RecordDict | Failure, ident: Hashable, flight: _Flight) -> None:
        del self._flights[ident]
        flight.landed(answer)
