"""A run from its call to its end: the machine that moves it, those who wait for it to be launched, under way or over,
and how all of them are stopped at the daemon's shutdown.

What the call means, and what becomes of the name, is `fleet`'s. The daemon's own bound on a shutdown is `service`'s.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from hivesub.runs import logbook
from hivesub.runs.machine import Core, abandon, new_steps
from hivesub.runs.plan import session_taken
from hivesub.waiters import Waiters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from twisted.internet.interfaces import IReactorTime

    from hivesub.interfaces import IChecks, ITurn, ITurnSpawner
    from hivesub.runs.announcement import Announcer
    from hivesub.runs.machine import Limits
    from hivesub.runs.run import Run
    from hivesub.runs.tally import Tally
    from hivesub.system.lookups import Look

CONTINUE_WAIT_S = 5.0
"""How long `continue` waits, once its process exists, for the first `init` or the exit before it answers."""
OVER_S = 9.6
"""How long the runs may take to end: SIGKILL comes after 6 s, and what outlives it is reported 3 s later."""
REPORT_S = 1.0
"""Minimum time given to reports that are still being written once `OVER_S` has passed."""
WHY = "the daemon stopped"

_log = Logger()


class ActiveRun:
    """A run that is going on.

    `awaited`: how many calls wait for it to be under way: they hear of what keeps it from that by their own error.

    :param redact: replaces the daemon's secrets in what a subagent says.
    :param look: looks at the paths that it names.
    :param finished: called once with this object, when the run is over, before anybody who waits for it.
    :param on_first_init: called at the first `init` of each turn, before anybody who waits for it.
    """

    def __init__(
        self,
        run: Run,
        *,
        source: ITurnSpawner,
        clock: IReactorTime,
        now: Callable[[], datetime],
        redact: Callable[[str], str],
        limits: Limits,
        checks: IChecks,
        look: Look,
        finished: Callable[[ActiveRun], None],
        on_first_init: Callable[[], None],
        tally: Tally,
    ) -> None:
        self.run = run
        self.begun = False
        self.awaited = 0
        self._source = source
        self._clock = clock
        self._finished = finished
        self._on_first_init = on_first_init
        self._tally = tally
        self._launched = Waiters(clock)
        self._over = Waiters(clock)
        self._interrupted = False
        self._logged = False
        self._sweeping = False
        self._swept = Waiters(clock)
        self._core = Core(
            run=run,
            source=source,
            now=now,
            redact=redact,
            limits=limits,
            checks=checks,
            look=look,
            began=self._began,
            finished=self._finish,
            tally=tally,
        )
        self._steps = new_steps(self._core)

    def _began(self) -> None:
        turn = self.run.turn
        assert turn is not None
        if not self._logged:  # a first turn that a usage limit refused has several processes
            self._logged = True
            logbook.began(self.run)
        begun = turn.when_under_way().addCallback(lambda _: self._on_first_init() if turn.init is not None else None)
        begun.addErrback(lambda why: _log.failure("the init of {name} was not looked at", why, name=self.run.name))
        self._launched.fire()

    def _finish(self) -> None:
        if self._interrupted:
            self._sweep()
        try:
            self._finished(self)
        except Exception:  # a bug of ours: those who wait are woken all the same
            _log.failure("what follows from the end of {name} failed", name=self.run.name)
        self._launched.fire()
        self._over.fire()

    async def launch(self) -> None:
        """Begin the run, and wait as `launched` does."""
        self.begun = True
        began_at = self._clock.seconds()
        launched = self._launched.wait()
        self._steps.begin()
        await launched
        if self.run.turn is not None or self.run.last_turn is not None:
            self._tally.spawn.observe(self._clock.seconds() - began_at)

    async def launched(self) -> None:
        """Wait until the process exists, or the run is over without one."""
        if self.run.turn is None and not self.run.over:
            await self._launched.wait()

    async def under_way(self) -> None:
        """Wait for `init`, for the exit, or for `CONTINUE_WAIT_S`, whichever comes first; where another run turns out
        to work in the same session, for the end of this one.
        """
        turn = self.run.turn
        if turn is None:
            return
        settled = Waiters(self._clock)
        settling = settled.wait(CONTINUE_WAIT_S)
        over = self.over().addCallback(lambda _: settled.fire())
        begun = turn.when_under_way().addCallback(lambda _: settled.fire() if turn.init is not None else None)
        try:
            await settling
        finally:
            for wait in (over, begun):
                wait.addErrback(lambda failure: failure.trap(CancelledError))
                wait.cancel()
        if self.run.clash is not None and not self.run.over:
            await self.over()

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

    def end_clash(self, other: Run) -> None:
        """Stop the run, as it works in the session of another one."""
        self.run.clash = session_taken(other, self.run.session, "this run was ended")
        why = f"{other.name} was at work in its session, and two claudes would write one transcript"
        self.stop(f"ended by the daemon: {why}")

    async def swept(self, within_s: float) -> None:
        """Wait until what an interrupted run had left is gone, without an error when that takes longer."""
        if self._sweeping:
            await self._swept.wait(within_s)

    def abandon(self, why: str) -> None:
        """Have the run end without its turn, as failed by this; what its child does then is not looked at."""
        abandon(self._steps, self._core, why)

    def why_not_over(self) -> str:
        """What holds up the end of a run that is being stopped."""
        check = self.run.checking
        return why_not_over(self.run.turn) if check is None else f"its check `{check.name}` has not ended"

    def _sweep(self) -> None:
        if self.run.mark is None:
            return
        self._sweeping = True
        sweeping = self._source.end_left(self.run.mark)
        sweeping.addErrback(lambda why: _log.failure("looking for what {name} left failed", why, name=self.run.name))
        sweeping.addCallback(self._has_swept)

    def _has_swept(self, _: object) -> None:
        self._sweeping = False
        self._swept.fire()


def why_not_over(turn: ITurn | None) -> str:
    """What holds up the end of a run.

    :param turn: the one in flight.
    """
    if turn is None:
        return "the process of its next turn is still being made"
    if turn.pid is None:
        return "its process is gone, but its output is still being read, or what it started is still being ended"
    sent = [signal.Signals(number).name for number in turn.signals_sent]
    if not sent:
        return f"pid {turn.pid} has not gone, and no signal could be sent to it"
    *names, last = sent
    after = f"{', '.join(names)} and {last}" if names else last
    return f"pid {turn.pid} has not gone after {after}"


def stop_all(active: Mapping[str, ActiveRun], announcer: Announcer, clock: IReactorTime) -> Deferred[None]:
    """Stop all runs.

    :param active: what goes on, by name; each leaves it when it is over.
    :returns: fires once every end has been announced, within `OVER_S` and `REPORT_S`: that of a run whose child has not
        gone says so, and a report that is still blocked is given up.
    """
    for name, each in list(active.items()):
        try:
            each.stop(WHY)
        except Exception:
            _log.failure("{name} could not be stopped", name=name)
    return Deferred.fromCoroutine(_all_over(active, announcer, clock))


async def _all_over(active: Mapping[str, ActiveRun], announcer: Announcer, clock: IReactorTime) -> None:
    deadline = clock.seconds() + OVER_S
    while active and (left := deadline - clock.seconds()) > 0:
        await next(iter(active.values())).over(left)
    for name, each in list(active.items()):
        try:
            why = each.why_not_over()
            _log.warn("{name} is given up: {why}", name=name, why=why)
            each.abandon(f"{WHY}, and {why}")
        except Exception:
            _log.failure("{name}: its end could not be announced", name=name)
    within_s = max(REPORT_S, deadline - clock.seconds())
    await announcer.settled().addTimeout(within_s, clock, lambda *_: announcer.give_up_reports())
