"""The kill ladder: SIGINT, SIGTERM, SIGKILL, 3 s apart, on a turn's child and on what it started (spec 3.4).

One ladder a turn, begun at most once. It is climbed until nothing is left, so that what a killed child leaves behind
is ended by the same steps. It decides nothing about the outcome.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from twisted.internet.interfaces import IDelayedCall, IReactorTime

RUNGS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
RUNG_S = 3.0
"""Seconds between two rungs."""
LOOK_S = 0.1
"""Seconds between two looks for what the child left behind."""


class SignalsKin(Protocol):
    """What a ladder needs of `hivesub.turns.processes.Kin`."""

    def others(self) -> Sized: ...

    def send(self, number: int, *, child: bool) -> int: ...


class Ladder:
    """Climbs the rungs until the child and its kin are gone.

    :param clear: called once, when the child has exited and nothing that it started is left, or when even SIGKILL left
        some.
    """

    def __init__(self, clock: IReactorTime, kin: SignalsKin, clear: Callable[[], None]) -> None:
        self._clock = clock
        self._kin = kin
        self._clear = clear
        self._rung = -1
        self._call: IDelayedCall | None = None
        self._looks: IDelayedCall | None = None
        self._child = True
        self._done = False
        self.last_sent: int | None = None
        """The number of the last signal sent to a living child, or None."""
        self.survivors = 0
        """How many processes outlived SIGKILL, known once clear."""

    @property
    def begun(self) -> bool:
        """Whether a signal was sent."""
        return self._rung >= 0

    @property
    def escalated(self) -> bool:
        """Whether the child needed more than the first signal."""
        return self.last_sent is not None and self.last_sent != RUNGS[0]

    def begin(self) -> None:
        """Send the first signal to a living child. Does nothing once begun."""
        if not self.begun and not self._done:
            self._climb()

    def child_exited(self, *, sweep: bool) -> None:
        """Note the child's exit: from now on its id is not signalled.

        :param sweep: whether what it left running is to be ended; else the ladder is clear at once.
        """
        self._child = False
        if not (sweep or self.begun) or not self._kin.others():
            self._finish()
            return
        # They had their SIGINT with the child, if any: background jobs of a shell ignore it, so go on without a wait.
        if self._rung < 1:
            self._rung = 0
            self._climb()
        self._look()

    def _climb(self) -> None:
        self._cancel(self._call)
        self._call = None
        self._rung += 1
        number = RUNGS[self._rung]
        if self._child:
            self.last_sent = number
        self._kin.send(number, child=self._child)
        if self._rung + 1 < len(RUNGS):
            self._call = self._clock.callLater(RUNG_S, self._climb)
        elif not self._child:
            self._call = self._clock.callLater(RUNG_S, self._give_up)

    def _look(self) -> None:
        self._looks = None
        if not self._kin.others():
            self._finish()
        elif not self._done:
            if self._rung + 1 == len(RUNGS):
                # What was forked while the last round of signals went out.
                self._kin.send(RUNGS[-1], child=False)
            self._looks = self._clock.callLater(LOOK_S, self._look)
            if self._call is None or not self._call.active():
                self._call = self._clock.callLater(RUNG_S, self._give_up)

    def _give_up(self) -> None:
        self.survivors = len(self._kin.others())
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
