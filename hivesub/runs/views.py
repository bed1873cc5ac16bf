"""How the fleet tells of its runs: one, several, and the answer of the call that made one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from attrs import frozen

from hivesub.runs.record import minimal_record, record

if TYPE_CHECKING:
    from collections.abc import Callable

    from twisted.internet.interfaces import IReactorTime

    from hivesub.records import RecordDict
    from hivesub.runs.run import Run

LISTED = 20
"""How many ended subagents a status without a name lists."""
LISTED_GOAL = 200
"""Characters of a goal in such a list."""


@frozen(kw_only=True)
class Views:
    """Tells of runs as they are now. A run that cannot be told of is told barely, and spoils no other's telling."""

    clock: IReactorTime
    redact: Callable[[str], str]

    def record(self, run: Run, *, result: bool = False, goal_limit: int | None = None) -> RecordDict:
        """The record of a run."""
        try:
            return record(run, seconds=self.clock.seconds(), redact=self.redact, goal_limit=goal_limit, result=result)
        except Exception as error:
            return minimal_record(run, error)

    def made(self, run: Run, beside: RecordDict) -> RecordDict:
        """The answer of the call that made a run; a session that claude has not taken up yet is not called resumed."""
        answer: RecordDict = {"subagent": self.record(run), **beside}
        if run.resume is not None and not run.over and run.turn_number == 1 and run.turn and run.turn.init is None:
            answer["under_way"] = False
        return answer

    def listed(self, runs: list[Run], result: bool) -> RecordDict:
        """All of the runs that go on, the last that ended, and the counts of all by state.

        :param runs: in the order of ending.
        """
        running = [run for run in runs if not run.over]
        ended = [run for run in runs if run.over][-LISTED:]
        counts = Counter(run.state.value for run in runs)
        return {
            "subagents": [
                self.record(run, result=result, goal_limit=LISTED_GOAL) for run in (*running, *reversed(ended))
            ],
            "counts": {state: counts.get(state, 0) for state in ("running", "idle", "blocked", "killed", "failed")},
        }
