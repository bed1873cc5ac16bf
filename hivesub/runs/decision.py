"""What follows from the end of a turn or of a check: pure decisions, apart from the machine that carries them out.

Whether the run is being stopped by somebody is the machine's to know, and goes before all of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesub.endings import NEVER_REACHED, SIGNALS
from hivesub.records import CheckOutcome, Control, Outcome, SignalKind, StopKind, StopReason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from hivesub.records import CheckEnd, Signal, TurnEnd, UsageLimit


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


def may_be_waited_out(
    end: TurnEnd, stop: StopReason, *, signals: Sequence[Signal], wait_s: float, left_s: float
) -> bool:
    """Whether a usage limit is all that stopped the run, and resets soon enough to be waited for.

    :param signals: those of the whole run.
    :param wait_s: how long the wait would be, see `limit_wait_s`.
    :param left_s: how long the run may still wait for limits.
    """
    # One that was refused before its `init` may have left no session to go on with.
    return stop.kind is StopKind.FAILED and not signals and end.under_way and wait_s <= left_s


def limit_wait_s(limit: UsageLimit, *, now: datetime, in_a_row: int) -> float:
    """How long to wait for a limit to reset. Where the turn was refused right after such a wait, the reset has not come
    when it was said to, so that each further wait in a row is longer than the one before.

    :param in_a_row: how many such waits came right before this one.
    """
    return max(0.0, (limit.resets_at - now).total_seconds()) + 60.0 * ((1 << in_a_row) - 1)


def is_checked_first(stop: StopReason, *, turn: int, max_turns: int | None) -> bool:
    """Whether a run that has a check is held against it before it stops so: after a claim that the goal is reached, and
    after the last turn of its budget.
    """
    last_was_cut = stop.kind is StopKind.CUT and turn >= (max_turns or 1)
    return last_was_cut or stop.kind in (StopKind.GOAL_REACHED, StopKind.TURN_CAP)


def after_check(end: CheckEnd, pending: StopReason) -> StopReason | None:
    """Why the run stops after its check, or None where the check holds back the claim that would have stopped it.

    A check that says nothing of the work changes nothing.

    :param pending: what the run would have stopped by without a check.
    """
    if end.outcome is CheckOutcome.PASSED:
        return StopReason(kind=StopKind.CHECK_PASSED, message=f"check `{end.name}` passed, exit 0")
    if end.outcome is CheckOutcome.FAILED and pending.kind is StopKind.GOAL_REACHED:
        return None
    return pending


def keeps_goal(stop: StopReason | None) -> bool:
    """Whether a continued run works toward the goal of the run that stopped so: a claimed one too, as a claim is a
    label, not a gate. One that was checked is done with.
    """
    return stop is not None and stop.kind is not StopKind.CHECK_PASSED
