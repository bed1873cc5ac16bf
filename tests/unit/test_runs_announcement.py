"""What is told when a run ends, and in which order."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.errors import AppendError
from hivesub.interfaces import IOutbox, IRedactor, IReport
from hivesub.records import Outcome, SignalKind, TodoState
from tests.support.runfakes import SECRET, FakeOutbox, FakeRedactor, FakeReport, FleetCase, said, turn_end


class TheFakes(SynchronousTestCase):
    def test_they_provide_what_they_stand_for(self) -> None:
        verifyObject(IReport, FakeReport([]))
        verifyObject(IOutbox, FakeOutbox([]))
        verifyObject(IRedactor, FakeRedactor())


class TheEnd(FleetCase):
    def test_a_run_without_a_report_pushes_its_todo_alone(self) -> None:
        self.ended_run()
        self.assertEqual(self.told, ["todo"])
        (todo,) = self.outbox.todos
        self.assertEqual((todo["id"], todo["subagent"]["name"]), ("todo-1", "alpha"))

    def test_nothing_is_told_while_the_run_goes_on(self) -> None:
        self.start(goal="g", report_file="r.md")
        self.end()
        self.turn.signalled(SignalKind.NEED_HELP, "help", None)
        self.assertEqual(self.told, [])
        self.end()
        self.assertEqual(self.told, ["report", "todo"])

    def test_the_report_is_appended_once_at_the_end_where_the_parent_said(self) -> None:
        self.start(goal="g", max_turns=2, report_file="r.md")
        self.end()
        self.end()
        ((path, text, within),) = self.report.appended
        self.assertEqual((path, within), (str(self.dir / "r.md"), None))
        self.assertIn("subagent alpha, 2031-05-06T07:08:09.123Z, Turn 2 of 2", text)

    def test_the_todo_waits_for_the_report(self) -> None:
        self.report.hold = True
        self.ended_run(report_file="r.md")
        self.assertEqual((self.record()["todo"], self.outbox.todos), ("pending", []))
        self.assertEqual(self.record()["state"], "idle")
        self.report.held[0].errback(AppendError("cannot append: the disk is full"))
        (todo,) = self.outbox.todos
        self.assertEqual(todo["subagent"]["report_error"], "cannot append: the disk is full")
        self.assertIn("cannot append: the disk is full", todo["body"])

    def test_an_error_of_the_report_is_told_in_status_and_todo_without_secrets(self) -> None:
        self.start(report_file="r.md")
        self.report.error = AppendError(f"cannot append to /x/{SECRET}: it is a directory")
        self.end()
        self.assertEqual(self.record()["report_error"], "cannot append to /x/[redacted]: it is a directory")
        self.assertIn("it is a directory", self.outbox.todos[0]["body"])
        self.assertNotIn(SECRET, str(self.outbox.todos))

    def test_a_report_that_breaks_is_logged_and_told_and_hurts_no_other_run(self) -> None:
        self.start("alpha", report_file="r.md")
        self.start("beta", report_file="r.md")
        self.report.error = ZeroDivisionError("oops")
        self.source.turns[0].end(turn_end())
        self.source.turns[1].end(turn_end())
        self.assertIn("internal error", self.record("alpha")["report_error"])
        self.assertIsNone(self.record("beta")["report_error"])
        self.assertEqual([todo["subagent"]["name"] for todo in self.outbox.todos], ["alpha", "beta"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_an_outbox_that_breaks_is_logged_and_told_and_hurts_no_other_run(self) -> None:
        self.start("alpha")
        self.start("beta")
        self.outbox.error = ZeroDivisionError("oops")
        waiting = self.fleet.status("alpha", wait_s=50.0, wait_for_all=False, result=False)
        self.source.turns[0].end(turn_end())
        self.assertEqual(self.successResultOf(waiting)["subagents"][0]["todo"], "undelivered")
        self.source.turns[1].end(turn_end())
        self.assertEqual([todo["subagent"]["name"] for todo in self.outbox.todos], ["beta"])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.start("alpha")

    def test_status_tells_what_became_of_the_todo(self) -> None:
        self.assertEqual(self.start()["subagent"]["todo"], "none")
        self.end()
        self.assertEqual(self.record()["todo"], "pending")
        for state in (TodoState.UNDELIVERED, TodoState.DELIVERED):
            self.outbox.changed[0](state)
            self.assertEqual(self.record()["todo"], state.value)

    def test_a_todo_of_an_earlier_run_changes_nothing_of_the_next(self) -> None:
        self.ended_run()
        self.resume()
        self.outbox.changed[0](TodoState.DELIVERED)
        self.assertEqual(self.record()["todo"], "none")

    def test_a_killed_turn_is_told_as_killed_mid_turn(self) -> None:
        self.ended_run(outcome=Outcome.KILLED)
        self.assertIn("killed mid-turn, not finished", self.outbox.todos[0]["body"])

    def test_what_the_subagent_said_is_not_in_the_todo(self) -> None:
        self.start()
        self.end(result=said("my private answer"))
        self.assertNotIn("my private answer", str(self.outbox.todos))
        self.assertEqual(self.record(result=True)["result"], "my private answer")
