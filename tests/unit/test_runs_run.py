"""What is known of a run: its costs, its claims, what `init` told."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import Control, Outcome, SignalKind, State, StopKind, StopReason, TurnUsage
from hivesub.runs.run import MAX_SIGNALS, Run
from tests.support.runfakes import NOW, a_turn, init, run_of, session, turn_end, used


def after(run: Run, **end: Any) -> Run:
    """The run, one turn later."""
    run.turn_ended(a_turn(), turn_end(**end))
    return run


class TheCost(SynchronousTestCase):
    def test_a_new_session_costs_what_claude_says(self) -> None:
        run = after(run_of(), usage=used(0.25))
        self.assertEqual(run.usage.cost_usd, 0.25)

    def test_it_is_the_difference_that_the_run_made_to_its_session(self) -> None:
        run = run_of(session_cost=0.5)
        self.assertEqual(after(run, usage=used(0.625)).usage.cost_usd, 0.125)
        self.assertEqual(after(run, usage=used(0.75)).usage.cost_usd, 0.25)
        self.assertEqual(run.session_cost, 0.75)

    def test_where_the_session_cost_before_is_not_known_the_processs_own_cost_tells(self) -> None:
        run = run_of(session_cost=None)
        self.assertEqual(after(run, usage=used(4.0, since=0.5)).usage.cost_usd, 0.5)
        self.assertEqual(after(run, usage=used(4.25, since=0.25)).usage.cost_usd, 0.75)
        self.assertEqual(run.session_cost, 4.25)

    def test_where_nothing_tells_it_stays_unknown_and_is_not_guessed(self) -> None:
        run = after(run_of(session_cost=None), usage=used(4.0))
        self.assertIsNone(run.usage.cost_usd)
        self.assertEqual(run.session_cost, 4.0)
        self.assertIsNone(after(run, usage=used(4.25)).usage.cost_usd)
        self.assertIsNone(after(run_of(), usage=used(None)).usage.cost_usd)

    def test_a_turn_without_a_result_leaves_the_cost_unknown_and_what_is_known_spent(self) -> None:
        run = after(run_of(), usage=used(0.25))
        after(run, outcome=Outcome.KILLED, usage=None)
        self.assertEqual((run.usage.cost_usd, run.session_cost, run.spent_usd), (None, 0.25, 0.25))

    def test_the_result_of_a_resume_that_found_nothing_takes_nothing_back(self) -> None:
        run = run_of(session_cost=0.5)
        after(run, outcome=Outcome.FAILED, usage=used(0.0, turns=0), under_way=False)
        self.assertEqual((run.usage.cost_usd, run.session_cost), (None, 0.5))

    def test_what_a_killed_claude_never_kept_is_not_counted_off_the_next_turn(self) -> None:
        run = after(run_of(session_cost=0.5), usage=used(0.75, since=0.25), outcome=Outcome.KILLED)
        after(run, usage=used(0.625, since=0.125))
        self.assertEqual((run.usage.cost_usd, run.session_cost), (0.375, 0.625))

    def test_a_total_below_the_last_one_is_that_of_a_new_counter(self) -> None:
        run = after(run_of(session_cost=0.25), usage=used(0.03))
        self.assertEqual((run.usage.cost_usd, run.session_cost), (0.03, 0.03))

    def test_a_counter_that_began_anew_once_does_so_in_each_process(self) -> None:
        run = after(run_of(), usage=used(0.25))
        for total in (0.03, 0.03, 0.5):
            after(run, usage=used(total))
        self.assertEqual((run.usage.cost_usd, run.session_cost), (0.25 + 0.03 + 0.03 + 0.5, 0.5))

    def test_the_same_total_for_another_answer_is_that_of_a_new_counter(self) -> None:
        run = after(after(run_of(), usage=used(0.25)), usage=used(0.25))
        self.assertEqual(run.usage.cost_usd, 0.5)

    def test_the_same_total_without_an_answer_is_no_cost(self) -> None:
        unanswered = TurnUsage(total_cost_usd=0.25)
        run = after(after(run_of(), usage=used(0.25)), usage=unanswered, outcome=Outcome.FAILED)
        self.assertEqual((run.usage.cost_usd, run.cost_restarts), (0.25, False))

    def test_what_claude_says_of_this_answer_alone_wins_over_any_total(self) -> None:
        run = after(run_of(session_cost=0.25), usage=used(0.03, since=0.01))
        self.assertEqual(run.usage.cost_usd, 0.01)

    def test_turns_and_tokens_are_summed(self) -> None:
        run = run_of()
        for turns in (2, 3):
            after(run, usage=used(0.1, turns=turns))
        self.assertEqual((run.usage.claude_turns, run.usage.input_tokens, run.usage.output_tokens), (5, 20, 6))


class WhatATurnTells(SynchronousTestCase):
    def test_the_record_follows_init(self) -> None:
        run = after(run_of(session_id=session(1)), init=init(session_id=session(2), cwd="/srv/else", tools=("Write",)))
        self.assertEqual((run.session_id, run.dir, run.missing_tools), (session(2), Path("/srv/else"), ("Read",)))

    def test_what_init_leaves_out_stays_as_it_was(self) -> None:
        run = after(run_of(session_id=session(1)), init=init())
        self.assertEqual((run.session_id, run.dir, run.missing_tools), (session(1), Path("/srv/work"), ()))

    def test_a_later_turn_that_tells_nothing_of_its_signal_route_changes_nothing(self) -> None:
        run, connected = run_of(), a_turn()
        connected.control = Control.CONNECTED
        run.turn_ended(connected, turn_end())
        self.assertEqual(after(run).control, Control.CONNECTED)


class ManyClaims(SynchronousTestCase):
    def test_the_last_are_kept_and_the_others_counted(self) -> None:
        for count, message, kept in ((500, "x", MAX_SIGNALS), (50, "y" * 5000, 9)):
            run = run_of()
            for number in range(count):
                run.claim(SignalKind.NEED_HELP, f"{number} {message}", NOW)
            self.assertEqual((len(run.signals), run.signals_left_out), (kept, count - kept))
            self.assertTrue(run.signals[-1].message.startswith(f"{count - 1} "))


class AClaim(SynchronousTestCase):
    def test_its_message_is_cut_at_4000_characters_and_said_to_be(self) -> None:
        run = run_of()
        self.assertEqual(run.claim(SignalKind.NEED_HELP, "é" * 4000, NOW).message, "é" * 4000)
        self.assertEqual(
            run.claim(SignalKind.NEED_HELP, "é" * 4001, NOW).message, "é" * 4000 + " [cut: 4001 characters]"
        )

    def test_claims_are_kept_in_order(self) -> None:
        run = run_of()
        run.claim(SignalKind.NEED_HELP, "a", NOW)
        run.claim(SignalKind.GOAL_REACHED, "b", NOW)
        run.claim(SignalKind.GOAL_REACHED, "c", NOW)
        self.assertEqual([signal.message for signal in run.signals], ["a", "b", "c"])


class TheState(SynchronousTestCase):
    def test_it_is_running_while_nothing_stopped_the_run_signals_or_not(self) -> None:
        run = run_of()
        run.claim(SignalKind.NEED_HELP, "help", NOW)
        self.assertEqual((run.state, run.over), (State.RUNNING, False))

    def test_it_is_told_by_outcome_and_stop_reason_afterwards(self) -> None:
        run = after(run_of())
        run.stop_reason = StopReason(kind=StopKind.NEED_HELP, message="help")
        self.assertEqual((run.state, run.over), (State.BLOCKED, True))

    def test_errors_of_the_report_add_up(self) -> None:
        run = run_of()
        run.add_report_error("the path was dropped")
        run.add_report_error("the disk is full")
        self.assertEqual(run.report_error, "the path was dropped; the disk is full")


class WhatIsRemembered(SynchronousTestCase):
    def test_of_a_turn_that_ended_the_init_event_is_not_kept(self) -> None:
        run = after(run_of(), init=init())
        assert run.last_turn is not None
        self.assertIsNone(run.last_turn.init)
        self.assertEqual(run.session_id, init().session_id)

    def test_the_directory_stays_the_one_that_others_share_where_init_names_no_other(self) -> None:
        shared = Path("/srv/work")
        self.assertIs(after(run_of(dir=shared), init=init(cwd="/srv/work")).dir, shared)
        self.assertEqual(after(run_of(dir=shared), init=init(cwd="/srv/else")).dir, Path("/srv/else"))

    def test_a_directory_that_no_json_can_name_stays_what_it_is(self) -> None:
        place = Path(os.fsdecode(b"/srv/b\xe9d"))
        for cwd in ("/srv/b\ufffdd", str(place)):
            self.assertIs(after(run_of(dir=place), init=init(cwd=cwd)).dir, place)
