"""What the daemon has counted since its start, for `/metrics`: plain numbers, so that counting costs nothing and a
daemon that nobody scrapes loads no client library.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from attrs import Factory, define, frozen

from hivesub.records import CheckOutcome, Outcome, StopKind, StopReason, TodoState

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of a histogram's buckets, in seconds; one without a bound follows."""


@define(eq=False)
class Latencies:
    """A histogram. `counts`: by bucket, not cumulative, one more than there are bounds."""

    counts: list[int] = Factory(lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds


@define(eq=False)
class Tally:
    """The counts. `todos` is by what has become of each todo of this daemon so far; all else only grows.

    `spawn`: from a call of `start` or `continue` to the process. `resume`: from a call of `continue` to its answer.
    `bytes_read`: of the turns that ended.
    """

    runs: Counter[StopKind] = Factory(Counter)
    turns: Counter[Outcome] = Factory(Counter)
    todos: Counter[TodoState] = Factory(Counter)
    checks: Counter[CheckOutcome] = Factory(Counter)
    bytes_read: int = 0
    spawn: Latencies = Factory(Latencies)
    resume: Latencies = Factory(Latencies)

    def turn_ended(self, outcome: Outcome, bytes_read: int) -> None:
        self.turns[outcome] += 1
        self.bytes_read += bytes_read

    def run_ended(self, reason: StopReason | None) -> None:
        """A run is over. A `continue` that found no session was none."""
        if reason is not None:
            self.runs[reason.kind] += 1

    def todo_moved(self, old: TodoState, new: TodoState) -> None:
        """A todo is in another state; its first comes from `NONE`, which is not counted."""
        if old is not TodoState.NONE:
            self.todos[old] -= 1
        self.todos[new] += 1


@frozen(kw_only=True)
class Reading:
    """The tally at one moment, a copy that another thread may read.

    `running`: the runs going on. `bytes_read`: those of turns in flight too. The histograms: counts by bucket, and the
    sum in seconds.
    """

    running: int
    max_running: int
    runs: dict[StopKind, int]
    turns: dict[Outcome, int]
    todos: dict[TodoState, int]
    checks: dict[CheckOutcome, int]
    bytes_read: int
    spawn: tuple[tuple[int, ...], float]
    resume: tuple[tuple[int, ...], float]
