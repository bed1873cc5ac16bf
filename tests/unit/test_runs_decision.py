"""What follows from a turn's end, state by state and reason by reason."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import Control, Outcome, Signal, SignalKind, StopKind, StopReason
from hivesub.runs.decision import after_turn, keeps_goal
from tests.support.runfakes import NOW, turn_end

REACHED = Signal(kind=SignalKind.GOAL_REACHED, message="done", at=NOW)
HELP = Signal(kind=SignalKind.NEED_HELP, message="which one?", at=NOW)


def follows(outcome: Outcome = Outcome.FINISHED, end: dict[str, Any] | None = None, **known: Any) -> StopReason | None:
    """What follows from the end of turn 2 of 3."""
    facts: dict[str, Any] = {
        "signals": [],
        "goal": "all tests pass",
        "turn": 2,
        "max_turns": 3,
        "control": Control.CONNECTED,
        "spent_usd": 0.0,
        "cost_unknown": False,
        "max_budget_usd": None,
    }
    return after_turn(turn_end(outcome, **(end or {})), **{**facts, **known})


def kind(*args: Any, **known: Any) -> StopKind | None:
    reason = follows(*args, **known)
    return None if reason is None else reason.kind


class WhyNoTurnFollows(SynchronousTestCase):
    def test_nothing_says_to_stop_below_the_cap(self) -> None:
        self.assertIsNone(kind())
        self.assertIsNone(kind(spent_usd=0.1, max_budget_usd=0.2))
        self.assertIsNone(kind(control=Control.UNKNOWN))

    def test_the_outcomes_kind_comes_before_all_else(self) -> None:
        for outcome, expected in ((Outcome.KILLED, StopKind.KILLED), (Outcome.FAILED, StopKind.FAILED)):
            for known in ({}, {"signals": [REACHED]}, {"signals": [HELP]}, {"turn": 3}, {"goal": None}):
                self.assertEqual(kind(outcome, **known), expected)

    def test_then_the_last_signals(self) -> None:
        spent = {"spent_usd": 1.0, "max_budget_usd": 0.5}
        self.assertEqual(kind(signals=[HELP, REACHED], turn=3, **spent), StopKind.GOAL_REACHED)
        self.assertEqual(kind(signals=[REACHED, HELP], control=Control.FAILED), StopKind.NEED_HELP)
        self.assertEqual(kind(signals=[HELP], goal=None, max_turns=None), StopKind.NEED_HELP)
        self.assertEqual(kind(Outcome.CUT, {"budget_stop": True}, signals=[REACHED]), StopKind.BUDGET_SPENT)

    def test_a_run_without_a_goal_ends_with_its_turn(self) -> None:
        single = {"goal": None, "max_turns": None, "turn": 1}
        self.assertEqual(kind(**single), StopKind.TURN_ENDED)
        self.assertEqual(kind(**single, control=Control.FAILED), StopKind.TURN_ENDED)
        self.assertEqual(kind(Outcome.CUT, {"budget_stop": True}, **single), StopKind.BUDGET_SPENT)

    def test_the_budget_is_spent_when_all_of_it_is(self) -> None:
        self.assertEqual(kind(spent_usd=0.2, max_budget_usd=0.2), StopKind.BUDGET_SPENT)
        self.assertEqual(kind(Outcome.CUT, {"budget_stop": True}), StopKind.BUDGET_SPENT)

    def test_a_cost_that_is_known_in_part_is_told_as_the_least(self) -> None:
        reason = follows(spent_usd=0.31, max_budget_usd=0.3, cost_unknown=True)
        assert reason is not None
        self.assertIn("the run cost at least 0.3100 USD of its max_budget_usd 0.3", reason.message)

    def test_the_cap_is_reached_with_its_last_turn(self) -> None:
        self.assertEqual(kind(turn=3), StopKind.TURN_CAP)
        self.assertEqual(kind(turn=1, max_turns=1), StopKind.TURN_CAP)

    def test_a_signal_route_that_failed_ends_a_goal_run(self) -> None:
        self.assertEqual(kind(control=Control.FAILED), StopKind.NO_CONTROL)

    def test_a_cap_says_that_it_is_the_harnesss_and_the_goal_was_never_reported(self) -> None:
        reason = follows(turn=3)
        assert reason is not None
        self.assertEqual(
            reason.message,
            "the harness limit of 3 turns was reached; the goal was never reported reached, "
            "and the work stopped where it had got to",
        )

    def test_either_budget_stop_of_a_goal_run_says_that_the_goal_was_never_reported(self) -> None:
        for reason in (follows(Outcome.CUT, {"budget_stop": True}), follows(spent_usd=0.31, max_budget_usd=0.3)):
            assert reason is not None
            self.assertIn("max_budget_usd", reason.message)
            self.assertIn("the goal was never reported reached", reason.message)
        single = follows(Outcome.CUT, {"budget_stop": True}, goal=None, max_turns=None)
        self.assertNotIn("goal", single.message if single else "goal")

    def test_a_reached_goal_is_labelled_as_a_claim(self) -> None:
        reason = follows(signals=[REACHED])
        assert reason is not None
        self.assertIn("self-reported, not verified", reason.message)
        self.assertIn("done", reason.message)


class ATurnThatWasCut(SynchronousTestCase):
    def test_the_next_turn_follows_while_there_is_one(self) -> None:
        self.assertIsNone(kind(Outcome.CUT))
        self.assertEqual(kind(Outcome.CUT, spent_usd=0.3, max_budget_usd=0.2), StopKind.BUDGET_SPENT)
        self.assertEqual(kind(Outcome.CUT, control=Control.FAILED), StopKind.NO_CONTROL)

    def test_at_the_cap_and_without_a_goal_it_is_why_the_run_stopped(self) -> None:
        self.assertEqual(kind(Outcome.CUT, turn=3), StopKind.CUT)
        self.assertEqual(kind(Outcome.CUT, goal=None, max_turns=None), StopKind.CUT)

    def test_a_claim_made_in_it_does_not_decide_and_a_call_for_help_does(self) -> None:
        self.assertEqual(kind(Outcome.CUT, signals=[REACHED]), StopKind.CUT)
        self.assertEqual(kind(Outcome.CUT, signals=[REACHED, HELP]), StopKind.NEED_HELP)

    def test_a_budget_stop_after_a_claim_does_not_say_that_nothing_was_claimed(self) -> None:
        reason = follows(Outcome.CUT, {"budget_stop": True}, signals=[REACHED])
        self.assertNotIn("never", reason.message if reason else "never")


class TheState(SynchronousTestCase):
    def test_every_stop_keeps_the_goal_a_claim_too_unless_a_check_has_passed(self) -> None:
        for stop in StopKind:
            kept = keeps_goal(StopReason(kind=stop, message=""))
            self.assertEqual(kept, stop is not StopKind.CHECK_PASSED, stop)
