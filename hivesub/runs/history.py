"""What is remembered of a subagent beside the record of its run: each turn that ended, and its output over time.

For the operator's page alone: no tool shows it. A run that continues another begins with that one's past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define, evolve, frozen

from hivesub.records import CheckOutcome, Outcome
from hivesub.turns.activity import SLOT_S, SLOTS, merged, strip
from hivesub.wording import rfc3339

if TYPE_CHECKING:
    from datetime import datetime

    from hivesub.interfaces import ITurn
    from hivesub.records import TurnEnd
    from hivesub.shapes import HistoryRecord, PastTurnRecord

KEPT_TURNS = 100
"""As many as one run may have turns; the oldest go first."""


@frozen(kw_only=True)
class PastTurn:
    """A turn that ended: the nth of the nth run. `detail` is as in the record; `cost_usd` is None when not known."""

    run: int
    number: int
    outcome: Outcome
    signal: str | None
    exit_code: int | None
    detail: str
    started_at: datetime
    ended_at: datetime
    bytes_read: int
    cost_usd: float | None
    check: CheckOutcome | None = None


@define(eq=False)
class History:
    """The past of a subagent.

    `run`: which of its runs this is, since it was started. `turn_started_at`: when the process of the turn in flight
    came to be; None between turns.
    """

    run: int = 1
    turns: list[PastTurn] = Factory(list)
    turn_started_at: datetime | None = None
    _slots: dict[int, int] = Factory(dict)

    def continued(self) -> History:
        """The past of a run that continues this one."""
        return History(run=self.run + 1, turns=list(self.turns), slots=dict(self._slots))

    def turn_began(self, at: datetime) -> None:
        self.turn_started_at = at

    def turn_ended(self, number: int, turn: ITurn, end: TurnEnd, cost_usd: float | None) -> None:
        """Keep what a turn leaves behind.

        :param cost_usd: US dollars that it added to the run's.
        """
        past = PastTurn(
            run=self.run,
            number=number,
            outcome=end.outcome,
            signal=end.signal,
            exit_code=end.exit_code,
            detail=end.detail,
            started_at=self.turn_started_at or end.ended_at,
            ended_at=end.ended_at,
            bytes_read=turn.bytes_read,
            cost_usd=cost_usd,
        )
        self.turns = [*self.turns, past][-KEPT_TURNS:]
        self._slots = merged(self._slots, turn.activity)
        self.turn_started_at = None

    def checked(self, outcome: CheckOutcome) -> None:
        """The turn that ended last was checked."""
        if self.turns:
            self.turns = [*self.turns[:-1], evolve(self.turns[-1], check=outcome)]

    def record(self, turn: ITurn | None, seconds: float) -> HistoryRecord:
        """The history as JSON can carry it; of the activity the last slot is now, or once all is over that of the last
        output.

        :param turn: the one in flight.
        :param seconds: the monotonic time now.
        """
        slots = self._slots if turn is None else merged(self._slots, turn.activity)
        last = int(seconds) // SLOT_S if turn is not None else next(reversed(slots), 0)
        return {
            "run": self.run,
            "turns": [_turn(past) for past in self.turns],
            "turn_started_at": None if self.turn_started_at is None else rfc3339(self.turn_started_at),
            "bytes_read": None if turn is None else turn.bytes_read,
            "activity": {"slot_s": SLOT_S, "bytes": strip(slots, last, SLOTS)},
        }


def _turn(past: PastTurn) -> PastTurnRecord:
    return {
        "run": past.run,
        "number": past.number,
        "outcome": past.outcome,
        "signal": past.signal,
        "exit_code": past.exit_code,
        "detail": past.detail,
        "started_at": rfc3339(past.started_at),
        "ended_at": rfc3339(past.ended_at),
        "duration_s": round((past.ended_at - past.started_at).total_seconds(), 3),
        "bytes_read": past.bytes_read,
        "cost_usd": past.cost_usd,
        "check": past.check,
    }
