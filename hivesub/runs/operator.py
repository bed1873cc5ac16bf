"""The fleet as its operator sees it: records with their history, and the numbers. Reads; changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zope.interface import implementer

from hivesub.interfaces import IOperatorView
from hivesub.records import State
from hivesub.runs.tally import Latencies, Reading
from hivesub.runs.views import Views

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IReactorTime

    from hivesub.records import RecordDict
    from hivesub.runs.run import Run
    from hivesub.runs.tally import Tally

LISTED = 30
"""How many ended subagents are listed."""
LISTED_GOAL = 200
"""Characters of a goal in the list."""


@implementer(IOperatorView)
class OperatorView:
    """Looks at runs.

    :param runs: gives the last run of each name, in the order of ending.
    """

    def __init__(
        self,
        runs: Callable[[], list[Run]],
        *,
        tally: Tally,
        clock: IReactorTime,
        redact: Callable[[str], str],
        max_running: int,
    ) -> None:
        self._runs = runs
        self._tally = tally
        self._clock = clock
        self._views = Views(clock=clock, redact=redact)
        self._max_running = max_running

    def overlook(self) -> RecordDict:
        runs = self._runs()
        running = [run for run in runs if not run.over]
        ended = [run for run in runs if run.over][-LISTED:]
        counts = Counter(run.state for run in runs)
        return {
            "subagents": [self._told(run, LISTED_GOAL) for run in (*running, *reversed(ended))],
            "counts": {state.value: counts[state] for state in State},
        }

    def inspect(self, name: str) -> RecordDict | None:
        for run in self._runs():
            if run.name == name:
                return self._told(run, None)
        return None

    def _told(self, run: Run, goal_limit: int | None) -> RecordDict:
        told = self._views.record(run, goal_limit=goal_limit)
        return {**told, "history": run.history.told(run.turn, self._clock.seconds())}

    def reading(self) -> Reading:
        tally, running = self._tally, [run for run in self._runs() if not run.over]
        in_flight = sum(run.turn.bytes_read for run in running if run.turn is not None)
        return Reading(
            running=len(running),
            max_running=self._max_running,
            runs=dict(tally.runs),
            turns=dict(tally.turns),
            todos=dict(tally.todos),
            bytes_read=tally.bytes_read + in_flight,
            spawn=_copied(tally.spawn),
            resume=_copied(tally.resume),
        )


def _copied(latencies: Latencies) -> tuple[tuple[int, ...], float]:
    return tuple(latencies.counts), latencies.sum_s
