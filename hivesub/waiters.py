"""Waits that several callers share: each has a Deferred of its own, so that one can give up without the others
noticing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from twisted.internet.interfaces import IReactorTime


class Waiters:
    """Those who wait for one thing to happen."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._waiting: list[Deferred[None]] = []

    def wait(self, seconds: float | None = None) -> Deferred[None]:
        """Wait for the next `fire`.

        :param seconds: give up after so long, without an error; None waits for ever.
        :returns: fires with None; cancelling it forgets this wait alone.
        """
        waiter: Deferred[None] = Deferred(self._forget)
        self._waiting.append(waiter)
        if seconds is not None:
            late = self._clock.callLater(seconds, self._expire, waiter)

            def settled(result: None) -> None:
                if late.active():
                    late.cancel()
                return result

            waiter.addBoth(settled)
        return waiter

    def fire(self) -> None:
        """Wake all who wait now."""
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.called:  # one that was woken before may have cancelled it
                waiter.callback(None)

    def _expire(self, waiter: Deferred[None]) -> None:
        self._forget(waiter)
        waiter.callback(None)

    def _forget(self, waiter: Deferred[None]) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
