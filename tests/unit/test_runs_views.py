"""What the operator sees: records with their history, and the counts."""

from __future__ import annotations

from typing import Any

from twisted.internet.error import ConnectionDone
from zope.interface.verify import verifyObject

from hivesub.interfaces import IOperatorView
from hivesub.records import Outcome, SignalKind, StopKind, TodoState
from hivesub.runs.views import OPERATOR_LISTED, OperatorView
from hivesub.shapes import Steps
from tests.support.runfakes import FakeRedactor, FleetCase, init, session, unborn, used


class OverlookCase(FleetCase):
    def setUp(self) -> None:
        super().setUp()
        self.overlook = OperatorView(
            self.fleet.runs,
            tally=self.fleet._announcer.tally,
            clock=self.clock,
            redactor=FakeRedactor(),
            max_running=16,
            transcripts=self.transcripts,
        )

    def history(self, name: str = "alpha") -> Any:
        told = self.overlook.one(name)
        assert told is not None
        return told["history"]


class TheSteps(OverlookCase):
    def steps(self, after: int = 0) -> Steps | None:
        return self.successResultOf(self.overlook.steps("alpha", after))

    def test_they_are_read_off_the_transcript_once_it_is_there(self) -> None:
        self.start()
        self.assertEqual(self.steps(), {"transcript": None, "steps": [], "offset": 0})
        self.transcripts.paths[session(1)] = f"/c/projects/x/{session(1)}.jsonl"
        found = self.steps(4)
        assert found is not None
        self.assertEqual((found["steps"][0]["text"], found["offset"]), (f"/c/projects/x/{session(1)}.jsonl", 5))
        self.assertEqual(self.record()["transcript"], found["transcript"])

    def test_of_a_name_that_nobody_knows_there_are_none(self) -> None:
        self.assertIsNone(self.steps())


class ThePast(OverlookCase):
    def test_it_provides_what_the_page_needs(self) -> None:
        verifyObject(IOperatorView, self.overlook)

    def test_each_turn_that_ended_is_kept_with_what_it_took_and_cost(self) -> None:
        self.start(goal="g", max_turns=3)
        self.clock.advance(4)
        self.turn.bytes_read = 700
        self.end(usage=used(0.25), ended_at=self.now())
        self.clock.advance(2)
        self.end(Outcome.KILLED, usage=used(0.375), detail="gone", ended_at=self.now())
        first, second = self.history()["turns"]
        self.assertEqual(
            [first[key] for key in ("run", "number", "outcome", "duration_s", "bytes_read", "cost_usd")],
            [1, 1, "finished", 4.0, 700, 0.25],
        )
        self.assertEqual(
            [second[key] for key in ("number", "outcome", "signal", "detail", "duration_s", "cost_usd")],
            [2, "killed", "SIGINT", "gone", 2.0, 0.125],
        )

    def test_the_turn_in_flight_is_told_by_its_start_and_bytes(self) -> None:
        self.start()
        self.turn.bytes_read = 12
        history = self.history()
        self.assertEqual((history["turns"], history["bytes_read"]), ([], 12))
        self.assertEqual(history["turn_started_at"], "2031-05-06T07:08:09.123Z")
        self.end()
        self.assertEqual((self.history()["turn_started_at"], self.history()["bytes_read"]), (None, None))

    def test_output_ends_now_while_it_runs_and_at_its_last_output_after_that(self) -> None:
        self.start(goal="g", max_turns=2)
        self.turn.activity = {0: 5}
        self.end()
        self.turn.activity = {1: 7}
        self.clock.advance(15)
        self.assertEqual(self.history()["activity"]["bytes"][-4:], [5, 7, 0, 0])
        self.end()
        self.clock.advance(1000)
        self.assertEqual(self.history()["activity"]["bytes"][-3:], [0, 5, 7])
        self.assertEqual(len(self.history()["activity"]["bytes"]), 120)

    def test_a_continued_run_goes_on_with_the_past_of_the_one_before(self) -> None:
        self.ended_run(outcome=Outcome.KILLED)
        self.resume()
        self.end()
        self.assertEqual([(turn["run"], turn["number"]) for turn in self.history()["turns"]], [(1, 1), (2, 1)])

    def test_a_continue_that_found_nothing_leaves_the_past_as_it_was(self) -> None:
        self.ended_run()
        answer = self.continuing()
        self.turn.end(unborn("No conversation found with session ID: x"))
        self.failureResultOf(answer)
        self.assertEqual([turn["run"] for turn in self.history()["turns"]], [1])

    def test_a_new_session_of_the_name_begins_without_a_past(self) -> None:
        self.ended_run()
        self.start()
        self.assertEqual(self.history()["turns"], [])


class TheList(OverlookCase):
    def test_those_that_run_come_first_then_those_that_ended_last(self) -> None:
        for name in ("one", "two"):
            self.ended_run(name)
        self.start("three")
        told = self.overlook.all()
        self.assertEqual([record["name"] for record in told["subagents"]], ["three", "two", "one"])
        self.assertEqual(
            told["counts"], {"running": 1, "waiting": 0, "idle": 2, "blocked": 0, "killed": 0, "failed": 0}
        )

    def test_it_is_bounded_and_long_goals_are_cut(self) -> None:
        for number in range(OPERATOR_LISTED + 5):
            self.ended_run(f"n{number}", goal="x" * 300, outcome=Outcome.FAILED)
        told = self.overlook.all()
        self.assertEqual(len(told["subagents"]), OPERATOR_LISTED)
        self.assertEqual(told["counts"]["failed"], OPERATOR_LISTED + 5)
        self.assertIn("[cut: 300 characters]", told["subagents"][0]["goal"] or "")

    def test_who_is_not_known_is_none(self) -> None:
        self.assertIsNone(self.overlook.one("nobody"))


class TheNumbers(OverlookCase):
    def test_runs_and_turns_are_counted_by_how_they_ended(self) -> None:
        self.start(goal="g", max_turns=2)
        self.end()
        self.turn.signalled(SignalKind.NEED_HELP, "which?", None)
        self.end()
        self.ended_run("beta", Outcome.FAILED)
        reading = self.overlook.reading()
        self.assertEqual(reading.runs, {StopKind.NEED_HELP: 1, StopKind.FAILED: 1})
        self.assertEqual(reading.turns, {Outcome.FINISHED: 2, Outcome.FAILED: 1})

    def test_a_continue_that_found_no_session_is_a_turn_but_no_run(self) -> None:
        answer = self.continuing()
        self.turn.end(unborn("No conversation found with session ID: x"))
        self.failureResultOf(answer)
        reading = self.overlook.reading()
        self.assertEqual((reading.runs, reading.turns), ({}, {Outcome.FAILED: 1}))
        self.assertEqual(sum(reading.resume[0]), 0)

    def test_bytes_are_those_of_turns_that_ended_and_of_those_in_flight(self) -> None:
        self.start()
        self.turn.bytes_read = 5
        self.end()
        self.start("beta")
        self.turn.bytes_read = 7
        reading = self.overlook.reading()
        self.assertEqual((reading.bytes_read, reading.running, reading.max_running), (12, 1, 16))

    def test_a_todo_is_counted_once_by_where_it_is(self) -> None:
        self.ended_run()
        self.ended_run("beta")
        self.assertEqual(self.overlook.reading().todos, {TodoState.PENDING: 2})
        self.outbox.changed[0](TodoState.PENDING)
        self.outbox.changed[0](TodoState.DELIVERED)
        self.assertEqual(self.overlook.reading().todos, {TodoState.PENDING: 1, TodoState.DELIVERED: 1})

    def test_a_todo_that_could_not_be_handed_on_is_undelivered(self) -> None:
        self.outbox.error = ConnectionDone()
        self.ended_run()
        self.flushLoggedErrors(ConnectionDone)
        self.assertEqual(
            {state: count for state, count in self.overlook.reading().todos.items() if count},
            {TodoState.UNDELIVERED: 1},
        )

    def test_the_time_from_a_call_to_its_process_and_to_its_answer_is_counted(self) -> None:
        self.source.hold = True
        answer = self.continuing()
        self.clock.advance(0.2)
        self.source.release()
        self.clock.advance(0.5)
        self.turn.begin(init())
        self.successResultOf(answer)
        reading = self.overlook.reading()
        self.assertEqual((sum(reading.spawn[0]), sum(reading.resume[0])), (1, 1))
        self.assertAlmostEqual(reading.spawn[1], 0.2)
        self.assertAlmostEqual(reading.resume[1], 0.7)

    def test_a_reading_is_a_copy_that_does_not_change(self) -> None:
        before = self.overlook.reading()
        self.ended_run()
        empty: dict[Any, Any] = {}
        self.assertEqual((before.runs, before.turns, sum(before.spawn[0])), (empty, empty, 0))
