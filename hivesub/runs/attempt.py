"""A run from its call to its end: the machine that moves it, and those who wait for it to be launched, under way or
over.

Owns the waiting. What the call means, and what becomes of the name, is `fleet`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from hivesub.errors import HivesubError
from hivesub.runs.lasting import why_not_over
from hivesub.runs.machine import Core, abandon, new_steps
from hivesub.runs.waiting import Waiters

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from twisted.internet.interfaces import IReactorTime

    from hivesub.interfaces import ITurnSource
    from hivesub.records import SignalKind
    from hivesub.runs.run import Run
    from hivesub.runs.tally import Tally

HOLD_S = 5.0
"""How long `continue` waits for a child that neither begins nor exits (spec 3.2)."""


class Attempt:
    """A run that is going on.

    `held`: a `continue` waits for its turn to be under way, so that an exit before is its answer and not a run's end.
    `withdrawn`: the run never got under way, and its name is as it was before.

    :param signalled: called with the turn's number, the kind, the message and a path or None; gives the note for the
        answer.
    :param finished: called once with this attempt, when the run is over, before anybody who waits is told.
    """

    log = Logger()

    def __init__(
        self,
        run: Run,
        *,
        held: bool,
        source: ITurnSource,
        clock: IReactorTime,
        now: Callable[[], datetime],
        signalled: Callable[[int, SignalKind, str, str | None], str],
        finished: Callable[[Attempt], None],
        tally: Tally,
    ) -> None:
        self.run = run
        self.held = held
        self.withdrawn = False
        self._source = source
        self._clock = clock
        self._finished = finished
        self._tally = tally
        self._launched = Waiters(clock)
        self._over = Waiters(clock)
        self._interrupted = False
        self._sweeping = False
        self._swept = Waiters(clock)
        self._core = Core(
            run=run,
            source=source,
            now=now,
            signalled=signalled,
            began=self._launched.fire,
            finished=self._finish,
            tally=tally,
        )
        self._steps = new_steps(self._core)

    def _finish(self) -> None:
        if self._interrupted:
            self._sweep()
        try:
            self._finished(self)
        except Exception:  # a bug of ours: those who wait are told all the same
            self.log.failure("what follows from the end of {name} failed", name=self.run.name)
        self._launched.fire()
        self._over.fire()

    async def launch(self) -> None:
        """Begin the run, and wait as `launched` does."""
        began_at = self._clock.seconds()
        launched = Deferred.fromCoroutine(self.launched())
        self._steps.begin()
        await launched
        self._tally.spawn.observe(self._clock.seconds() - began_at)

    async def launched(self) -> None:
        """Wait until the process exists.

        :raises HivesubError: when none could be made.
        """
        await self._launched.wait()
        if self.withdrawn and self.run.last_turn is None:
            raise self.run.error or HivesubError("the run was stopped before it had a process")

    async def under_way(self) -> None:
        """Wait for `init`, for the exit, or for `HOLD_S`, whichever comes first."""
        turn = self.run.turn
        if turn is None:
            return
        settled = Waiters(self._clock)
        settling = settled.wait(HOLD_S)
        over = self.over().addCallback(lambda _: settled.fire())
        begun = turn.when_under_way().addCallback(lambda _: settled.fire() if turn.init is not None else None)
        try:
            await settling
        finally:
            for wait in (over, begun):
                wait.addErrback(lambda failure: failure.trap(CancelledError))
                wait.cancel()

    def over(self, within_s: float | None = None) -> Deferred[None]:
        """Wait for the end of the run, without an error when it has not come within so many seconds."""
        return self._over.wait(within_s)

    def stop(self, why: str) -> None:
        """Stop the run, the turn in flight included; later calls change nothing."""
        self._steps.stop(why)

    def interrupt(self, why: str) -> None:
        """Stop the run, and end what its turns have left once it is over: an interrupt leaves nothing behind."""
        self._interrupted = True
        self.stop(why)

    async def swept(self, within_s: float) -> None:
        """Wait until what an interrupted run had left is gone, without an error when that takes longer."""
        if self._sweeping:
            await self._swept.wait(within_s)

    def abandon(self, why: str) -> None:
        """Have the run end without its turn, as failed by this; what its child does then is not looked at."""
        abandon(self._steps, self._core, why)

    def why_not_over(self) -> str:
        """What holds up the end of the run, which was told to stop."""
        return why_not_over(self.run.turn)

    def _sweep(self) -> None:
        if self.run.mark is None:
            return
        self._sweeping = True
        sweeping = self._source.end_left(self.run.mark)
        sweeping.addErrback(
            lambda why: self.log.failure("looking for what {name} left failed", why, name=self.run.name)
        )
        sweeping.addCallback(self._has_swept)

    def _has_swept(self, _: object) -> None:
        self._sweeping = False
        self._swept.fire()
