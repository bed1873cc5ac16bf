"""How all runs are stopped when the daemon stops: each is told to, and each end is told, whatever the children do.

Owns the bounds of it. The daemon's own bound is `service`'s.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from twisted.internet.interfaces import IReactorTime

    from hivesub.runs.attempt import Attempt
    from hivesub.runs.ending import Ending

OVER_S = 9.6
"""How long the runs may take to end: SIGKILL comes after 6 s, and what outlives it is told 3 s later."""
TOLD_S = 1.0
"""How long a report may take at the least that is begun after that."""
WHY = "the daemon stopped"

_log = Logger()


def stop_all(attempts: Mapping[str, Attempt], ending: Ending, clock: IReactorTime) -> Deferred[None]:
    """Tell all runs to stop.

    :param attempts: what goes on, by name; each leaves it when it is over.
    :returns: fires when every end was handed on to be told, within `OVER_S` and `TOLD_S`: that of a run whose child has
        not gone says so, and a report that is still blocked is given up.
    """
    for name, attempt in list(attempts.items()):
        try:
            attempt.stop(WHY)
        except Exception:
            _log.failure("{name} could not be told to stop", name=name)
    return Deferred.fromCoroutine(_all_told(attempts, ending, clock))


async def _all_told(attempts: Mapping[str, Attempt], ending: Ending, clock: IReactorTime) -> None:
    deadline = clock.seconds() + OVER_S
    while attempts and (left := deadline - clock.seconds()) > 0:
        await next(iter(attempts.values())).over(left)
    for name, attempt in list(attempts.items()):
        try:
            why = attempt.why_not_over()
            _log.warn("{name} is given up: {why}", name=name, why=why)
            attempt.abandon(f"{WHY}, and {why}")
        except Exception:
            _log.failure("the end of {name} could not be told", name=name)
    within_s = max(TOLD_S, deadline - clock.seconds())
    await ending.all_told().addTimeout(within_s, clock, lambda *_: ending.give_up_reports())
