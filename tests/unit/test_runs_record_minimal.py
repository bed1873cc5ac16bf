"""An error of ours at the end of one run: it is told of all the same, and its neighbour goes on."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from hivesub.errors import ContinueFailed, NotRunning
from hivesub.records import Outcome, StopKind
from hivesub.runs import announcement, decision, machine, views
from hivesub.runs import record as whole_record
from hivesub.runs.run import Run
from hivesub.runs.tally import Tally
from hivesub.testing import FakeTurn
from hivesub.todos import todo
from tests.support.runfakes import FleetCase, init, turn_end


class Oops(Exception):
    """An error of ours."""


def breaks(function: Any, when: Any) -> Any:
    """The function, raising when the predicate holds of its arguments."""

    def broken(*args: Any, **kwargs: Any) -> Any:
        if when(*args, **kwargs):
            raise Oops
        return function(*args, **kwargs)

    return broken


def of_alpha(run: Run, *args: Any, **kwargs: Any) -> bool:
    return run.name == "alpha"


class ARunThatBreaks(FleetCase):
    max_running = 2

    def setUp(self) -> None:
        super().setUp()
        self.start("alpha", goal="g", max_turns=1, report_file="r.md")
        self.start("beta", goal="g", max_turns=1)

    def assert_fails_alone(self) -> None:
        """Both turns end; alpha fails by the error, and only alpha."""
        self.source.turns[0].end(turn_end())
        self.assert_alpha_failed()

    def assert_alpha_failed(self) -> None:
        told = self.record("alpha")
        self.assertEqual(
            (told["state"], told["stop_reason"]), ("failed", {"kind": "failed", "message": "internal error: Oops"})
        )
        self.assert_told_alone()
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 1)

    def assert_ends_alone(self) -> None:
        """Both turns end; alpha's end stays what it was, although it cannot be told whole."""
        self.source.turns[0].end(turn_end())
        told = self.record("alpha")
        self.assertEqual((told["state"], told["stop_reason"]["kind"]), ("idle", "turn_cap"))
        self.assert_told_alone()
        self.assertTrue(self.flushLoggedErrors(Oops))

    def assert_told_alone(self) -> None:
        self.assertEqual([todo["subagent"]["name"] for todo in self.outbox.todos], ["alpha"])
        self.assertIn("nternal error: Oops", self.outbox.todos[0]["body"])
        self.assertIn("alpha is not running", self.refused(self.fleet.interrupt("alpha"), NotRunning))
        self.start("gamma")
        self.assertEqual(self.record("beta")["state"], "running")
        self.source.turns[1].end(turn_end())
        self.assertEqual(self.record("beta")["stop_reason"]["kind"], "turn_cap")
        self.assertEqual(
            len(
                self.successResultOf(self.fleet.status(None, wait_s=0.0, wait_for_all=False, result=False))["subagents"]
            ),
            3,
        )

    def test_taking_the_turns_end_over(self) -> None:
        self.patch(Run, "turn_ended", breaks(Run.turn_ended, of_alpha))
        self.assert_fails_alone()

    def test_deciding_what_follows(self) -> None:
        ends = iter([True])
        self.patch(machine, "after_turn", breaks(decision.after_turn, lambda *args, **kwargs: next(ends, False)))
        self.assert_fails_alone()

    def test_counting_the_turn(self) -> None:
        ends = iter([True])
        self.patch(Tally, "turn_ended", breaks(Tally.turn_ended, lambda *args: next(ends, False)))
        self.assert_fails_alone()

    def test_building_its_record(self) -> None:
        self.patch(views, "record", breaks(whole_record.record, of_alpha))
        self.assert_ends_alone()

    def test_building_its_todo(self) -> None:
        ends = iter([True])
        self.patch(announcement, "build_todo", breaks(todo.build_todo, lambda *args, **kwargs: next(ends, False)))
        self.assert_ends_alone()


class WhatElseMayBreak(FleetCase):
    def test_a_run_that_cannot_be_counted_is_told_and_whoever_waits_for_it_is_answered(self) -> None:
        def run_ended(tally: Tally, reason: Any) -> None:
            raise Oops

        self.patch(Tally, "run_ended", run_ended)
        self.start()
        answer = self.fleet.interrupt("alpha")
        self.end(Outcome.KILLED)
        self.assertEqual(self.successResultOf(answer)["subagent"]["state"], "killed")
        self.assertEqual((len(self.outbox.todos), self.fleet.running), (1, 0))
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 1)

    def test_what_was_killed_stays_killed(self) -> None:
        self.patch(Run, "turn_ended", breaks(Run.turn_ended, of_alpha))
        self.ended_run(outcome=Outcome.KILLED)
        self.assertEqual((self.record()["state"], self.record()["stop_reason"]["kind"]), ("killed", "killed"))
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 1)

    def test_a_run_that_cannot_be_told_of_while_it_goes_on_spoils_no_others_status(self) -> None:
        self.start("alpha")
        self.start("beta")
        self.patch(views, "record", breaks(whole_record.record, of_alpha))
        for _ in range(2):
            told = self.successResultOf(self.fleet.status(None, wait_s=0.0, wait_for_all=False, result=False))[
                "subagents"
            ]
            self.assertEqual(
                [(record["name"], record["state"]) for record in told], [("alpha", "running"), ("beta", "running")]
            )
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 2)

    def test_a_run_that_could_not_be_told_of_once_ended_as_it_did(self) -> None:
        self.start(goal="g", max_turns=1)
        self.end()
        ends = iter([True])
        self.patch(views, "record", breaks(whole_record.record, lambda *args, **kwargs: next(ends, False)))
        self.assertEqual(self.record()["stop_reason"], {"kind": "turn_cap", "message": "internal error: Oops"})
        self.assertIn("harness limit", self.record()["stop_reason"]["message"])
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 1)

    def test_a_minimal_record_has_the_fields_of_any_other(self) -> None:
        self.start("alpha")
        self.ended_run("beta")
        whole = [set(self.record("alpha")), set(self.record("beta"))]
        self.patch(views, "record", breaks(whole_record.record, lambda *args, **kwargs: True))
        self.assertEqual([set(self.record("alpha")), set(self.record("beta"))], whole)
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 2)


class AnEndThatIsNeverHeardOf(FleetCase):
    def setUp(self) -> None:
        super().setUp()
        self.ends: list[Deferred[Any]] = []

        def when_ended(turn: FakeTurn) -> Deferred[Any]:
            self.ends.append(Deferred())
            return self.ends[-1]

        self.patch(FakeTurn, "when_ended", when_ended)

    def test_the_run_fails_and_its_child_is_told_to_stop(self) -> None:
        self.start("alpha", goal="g")
        self.start("beta")
        self.ends[0].errback(Oops())
        self.assertEqual(self.record("alpha")["stop_reason"], {"kind": "failed", "message": "internal error: Oops"})
        self.assertEqual(self.record("alpha")["state"], "failed")
        self.refused(self.fleet.interrupt("alpha"), NotRunning)
        self.assertEqual([len(turn.stopped) for turn in self.source.turns], [1, 0])
        self.ends[1].callback(turn_end())
        self.assertEqual(self.record("beta")["stop_reason"]["kind"], StopKind.TURN_ENDED)
        self.assertEqual([todo["subagent"]["name"] for todo in self.outbox.todos], ["alpha", "beta"])
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 1)

    def test_a_continue_that_is_held_is_answered(self) -> None:
        answer = self.continuing()
        self.ends[0].errback(Oops())
        self.assertIn("internal error: Oops", self.refused(answer, ContinueFailed))
        self.assertEqual((len(self.outbox.todos), self.fleet.running), (1, 0))
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 1)

    def test_what_init_said_of_the_session_is_kept(self) -> None:
        self.start()
        self.turn.begin(init(session_id="s-9"))
        self.ends[0].errback(Oops())
        self.assertEqual(self.record()["session_id"], "s-9")
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 1)
