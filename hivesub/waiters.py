"""Waits that several callers share: each has a Deferred of its own, so that one can give up without the others
noticing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from twisted.internet.defer import Deferred

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IReactorTime
    from twisted.python.failure import Failure

T = TypeVar("T")


class OneShot(Generic[T]):
    """Something that happens once, with a value.

    :param given_up: called when the last of those who waited has given up before it happened.
    """

    def __init__(self, given_up: Callable[[], object] | None = None) -> None:
        self._given_up = given_up
        self._waiting: list[Deferred[T]] = []
        self._came: list[T | Failure] = []

    @property
    def happened(self) -> bool:
        return bool(self._came)

    def wait(self) -> Deferred[T]:
        """Wait for it.

        :returns: fires with the value, or fails with the Failure, at once where it has happened already; cancelling it
            forgets this wait alone.
        """
        waiter: Deferred[T] = Deferred(self._forget)
        self._waiting.append(waiter)
        if self._came:
            self._give()
        return waiter

    def fire(self, value: T | Failure) -> None:
        """It happened; what comes after the first time changes nothing."""
        if not self._came:
            self._came.append(value)
        self._give()

    def _give(self) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.called:  # one that was woken before may have cancelled it
                waiter.callback(self._came[0])

    def _forget(self, waiter: Deferred[T]) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
            if not self._waiting and self._given_up is not None:
                self._given_up()


class Waiters:
    """Those who wait for the next time that something happens."""

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._next: OneShot[None] = OneShot()

    def wait(self, seconds: float | None = None) -> Deferred[None]:
        """Wait for the next `fire`.

        :param seconds: give up after so long, without an error; None waits for ever.
        :returns: fires with None; cancelling it forgets this wait alone.
        """
        waiter = self._next.wait()
        return waiter if seconds is None else waiter.addTimeout(seconds, self._clock, lambda *_: None)

    def fire(self) -> None:
        """Wake all who wait now."""
        shot, self._next = self._next, OneShot()
        shot.fire(None)
