"""What follows from a turn's end: pure decisions, apart from the machine that carries them out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesub.endings import NEVER_REACHED, SIGNALS
from hivesub.records import Control, Outcome, SignalKind, StopKind, StopReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hivesub.records import Signal, TurnEnd


def after_turn(
    end: TurnEnd,
    *,
    signals: Sequence[Signal],
    goal: str | None,
    turn: int,
    max_turns: int | None,
    control: Control,
    spent_usd: float,
    cost_unknown: bool,
    max_budget_usd: float | None,
) -> StopReason | None:
    """Why no further turn follows this one, or None when one does.

    The outcome's own kind when that is not finished, else the last signal's, else budget, cap or plain end. A turn that
    claude cut off is followed by the next one while turns and money are left and nothing was claimed in it. A call for
    help made in such a turn decides all the same; a claim that the goal is reached does not.

    :param turn: the number of the turn that ended, from 1.
    :param spent_usd: what the run has cost so far, at the least where `cost_unknown`.
    """
    if end.outcome is Outcome.KILLED:
        return StopReason(kind=StopKind.KILLED, message=end.detail or f"killed by {end.signal}")
    if end.outcome is Outcome.FAILED:
        return StopReason(kind=StopKind.FAILED, message=end.detail or "the turn failed")
    if signals and (end.outcome is not Outcome.CUT or signals[-1].kind is SignalKind.NEED_HELP):
        row = SIGNALS[signals[-1].kind]
        return StopReason(kind=row.stop, message=": ".join(filter(None, (row.reason, signals[-1].message))))
    if end.budget_stop:
        short = f"; {NEVER_REACHED}" if goal and not signals else ""
        return StopReason(
            kind=StopKind.BUDGET_SPENT, message=f"claude stopped at what was left of max_budget_usd{short}"
        )
    if end.outcome is Outcome.CUT and (signals or goal is None or turn >= (max_turns or 1)):
        return StopReason(kind=StopKind.CUT, message=end.detail or "claude broke the turn off")
    if goal is None or max_turns is None:
        return StopReason(kind=StopKind.TURN_ENDED, message="the turn ended by itself and nothing was signalled")
    if max_budget_usd is not None and spent_usd >= max_budget_usd:
        least = "at least " if cost_unknown else ""
        return StopReason(
            kind=StopKind.BUDGET_SPENT,
            message=f"the run cost {least}{spent_usd:.4f} USD of its max_budget_usd {max_budget_usd:g}; "
            "the goal was never reported reached",
        )
    if control is Control.FAILED:
        return StopReason(
            kind=StopKind.NO_CONTROL,
            message="claude said that its signal route failed to connect, so that no turn could have reported",
        )
    if turn >= max_turns:
        return StopReason(
            kind=StopKind.TURN_CAP,
            message=f"the harness limit of {max_turns} turns was reached; {NEVER_REACHED}",
        )
    return None


def keeps_goal(stop: StopReason | None) -> bool:
    """Whether a continued run works toward the goal of the run that stopped so: a claimed one too, as a claim is a
    label, not a gate. One that was checked is done with.
    """
    return stop is not None and stop.kind is not StopKind.CHECK_PASSED
