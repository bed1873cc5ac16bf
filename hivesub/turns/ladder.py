"""The kill ladder: SIGINT, SIGTERM, SIGKILL, 3 s apart, on a turn's child and on what it started.

One ladder a turn, begun at most once. It is climbed until nothing is left, so that what a killed child leaves behind
is ended by the same steps. It decides nothing about the outcome.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol

from twisted.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Sized

    from twisted.internet.interfaces import IDelayedCall, IReactorTime

    from hivesub.records import LeftProcess

RUNGS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
RUNG_S = 3.0
"""Seconds between two rungs."""
LOOK_S = 0.1
"""Seconds between two looks for what the child left behind."""
SETTLE_S = (0.1, 0.4)
"""Seconds between the looks at what a child that ended by itself has left: what was to end with it has by then."""


class SignalsKin(Protocol):
    """What a ladder needs of `hivesub.turns.processes.Kin`."""

    def others(self) -> Sized: ...

    def named(self) -> tuple[LeftProcess, ...]: ...

    def send(self, number: int, *, child: bool) -> int: ...


class Ladder:
    """Climbs the rungs until the child and its kin are gone, or time is up. Nothing that goes wrong on a rung keeps
    the next from coming.

    :param clear: called once, when the child has exited and nothing that it started is left, or when even SIGKILL left
        some.
    """

    log = Logger()

    def __init__(self, clock: IReactorTime, kin: SignalsKin, clear: Callable[[], None]) -> None:
        self._clock = clock
        self._kin = kin
        self._clear = clear
        self._rung = -1
        self._call: IDelayedCall | None = None
        self._looks: IDelayedCall | None = None
        self._child = True
        self._done = False
        self.sent: list[int] = []
        """The numbers of the signals sent to the living child, in order."""
        self._blind = False
        self.survivors: int | None = 0
        """How many processes outlived SIGKILL, known once clear; None where they could not be looked for."""
        self.remaining: tuple[LeftProcess, ...] = ()
        """What outlived the child, be it left alone or not gone at SIGKILL; known once clear."""

    @property
    def begun(self) -> bool:
        """Whether a signal was sent."""
        return self._rung >= 0

    @property
    def escalated(self) -> bool:
        """Whether the child needed more than the first signal."""
        return len(self.sent) > 1

    def begin(self) -> None:
        """Send the first signal to a living child. Does nothing once begun."""
        if not self.begun and not self._done:
            self._climb()

    def child_exited(self, *, sweep: bool) -> None:
        """Note the child's exit: from now on its id is not signalled.

        :param sweep: whether what it left running is to be ended; else the ladder is clear as soon as that is known.
        """
        self._child = False
        if not (sweep or self.begun):
            self._settle(SETTLE_S)
            return
        if self._left() == 0:
            self._finish()
            return
        # They had their SIGINT with the child, if any: background jobs of a shell ignore it, so go on without a wait.
        if self._rung < 1:
            self._rung = 0
            self._climb()
        self._look()

    def _settle(self, waits: Sequence[float]) -> None:
        self._looks = None
        if self._left() and waits:
            self._looks = self._clock.callLater(waits[0], self._settle, waits[1:])
            return
        self._name_remaining()
        self._finish()

    def _name_remaining(self) -> None:
        try:
            self.remaining = self._kin.named()
        except Exception:
            self.log.failure("what a turn left running could not be looked at")

    def _climb(self) -> None:
        self._cancel(self._call)
        self._call = None
        self._rung += 1
        number = RUNGS[self._rung]
        if self._child:
            self.sent.append(number)
        if self._rung + 1 < len(RUNGS):
            self._call = self._clock.callLater(RUNG_S, self._climb)
        elif not self._child:
            self._call = self._clock.callLater(RUNG_S, self._give_up)
        self._send(number)

    def _send(self, number: int) -> None:
        try:
            self._kin.send(number, child=self._child)
        except Exception:
            self.log.failure("signal {number} may not have reached all that a turn started", number=number)

    def _left(self) -> int | None:
        """How many of the kin are left; None where that cannot be known."""
        try:
            return len(self._kin.others())
        except Exception:
            if not self._blind:
                self.log.failure("what a turn started could not be looked for")
            self._blind = True
            return None

    def _look(self) -> None:
        self._looks = None
        if self._left() == 0:
            self._finish()
        elif not self._done:
            if self._rung + 1 == len(RUNGS):
                # What was forked while the last round of signals went out.
                self._send(RUNGS[-1])
            self._looks = self._clock.callLater(LOOK_S, self._look)
            if self._call is None or not self._call.active():
                self._call = self._clock.callLater(RUNG_S, self._give_up)

    def _give_up(self) -> None:
        self.survivors = self._left()
        if self.survivors:
            self._name_remaining()
        self._finish()

    def _finish(self) -> None:
        if self._done:
            return
        self._done = True
        self._cancel(self._call)
        self._cancel(self._looks)
        self._clear()

    @staticmethod
    def _cancel(call: IDelayedCall | None) -> None:
        if call is not None and call.active():
            call.cancel()
