"""What `interrupt` and the daemon's own stop mean for runs."""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, fail

from hivesub.errors import ContinueFailed, HivesubError, NotRunning, StillRunning, Stopping, UnknownName
from hivesub.interfaces import ITurn
from hivesub.records import Control, Outcome, SignalKind
from hivesub.runs.active import OVER_S, REPORT_S, ActiveRun
from hivesub.tools.texts import interrupt_text
from tests.support.runfakes import FleetCase, session, turn_end


def cannot_stop(reason: str) -> None:
    raise OSError(24, "Too many open files")


class Stuck(Deferred[ITurn]):
    """A spawn that does not hear that it is given up."""

    def cancel(self) -> None: ...


class AnInterrupt(FleetCase):
    def killed(self) -> None:
        self.end(Outcome.KILLED, signal="SIGINT", detail="interrupted by the agent; exit code 0")

    def test_it_is_answered_when_the_child_has_gone(self) -> None:
        self.start(goal="g")
        answer = self.fleet.interrupt("alpha")
        self.assertEqual(self.turn.stopped, ["interrupted by the agent"])
        self.clock.advance(2)
        self.assertNoResult(answer)
        self.killed()
        told: Any = self.successResultOf(answer)
        self.assertEqual((told["subagent"]["state"], told["escalated"]), ("killed", False))
        self.assertEqual(told["subagent"]["last_turn"]["signal"], "SIGINT")
        self.assertEqual((len(self.source.turns), self.clock.getDelayedCalls()), (1, []))

    def test_it_says_whether_claude_has_kept_the_session(self) -> None:
        for paths, kept in (({}, False), ({session(1): f"/c/projects/x/{session(1)}.jsonl"}, True)):
            self.setUp()
            self.transcripts.paths = paths
            self.start()
            answer = self.fleet.interrupt("alpha")
            self.killed()
            told = self.successResultOf(answer)
            self.assertIs(told["session_kept"], kept)
            self.assertEqual("will find none: `start` it anew" in interrupt_text(told), not kept)

    def test_a_session_that_was_to_be_resumed_is_not_said_to_be_lost(self) -> None:
        self.ended_run()
        held = self.continuing()
        answer = self.fleet.interrupt("alpha")
        self.end(Outcome.KILLED, under_way=False)
        self.refused(held, ContinueFailed)
        self.assertNotIn("session_kept", self.successResultOf(answer))

    def test_a_session_that_is_not_found_here_although_claude_was_at_work_is_not_said_to_be_lost(self) -> None:
        self.start()
        self.turn.control = Control.CONNECTED
        answer = self.fleet.interrupt("alpha")
        self.killed()
        self.assertNotIn("session_kept", self.successResultOf(answer))

    def test_what_earlier_turns_of_the_run_left_is_ended_before_it_is_answered(self) -> None:
        self.start(goal="g")
        mark = self.turn.mark
        self.end()
        self.assertEqual(self.turn.spec.run_mark, mark)
        gone: Deferred[int] = Deferred()
        self.patch(self.source, "end_left", lambda run_mark: gone if run_mark == mark else fail(KeyError(run_mark)))
        answer = self.fleet.interrupt("alpha")
        self.killed()
        self.assertNoResult(answer)
        gone.callback(1)
        self.assertEqual(self.successResultOf(answer)["subagent"]["state"], "killed")

    def test_what_they_left_and_does_not_go_holds_the_answer_up_for_10_s_at_most(self) -> None:
        self.start()
        self.patch(self.source, "end_left", lambda run_mark: Deferred())
        answer = self.fleet.interrupt("alpha")
        self.clock.advance(6)
        self.killed()
        self.assertNoResult(answer)
        self.clock.advance(3.5)
        self.successResultOf(answer)

    def test_looking_for_what_they_left_may_fail_and_is_logged(self) -> None:
        self.start()
        self.patch(self.source, "end_left", lambda run_mark: fail(OSError("no /proc")))
        answer = self.fleet.interrupt("alpha")
        self.killed()
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.successResultOf(answer)

    def test_what_they_left_is_ended_when_the_run_ends_although_the_caller_has_given_up(self) -> None:
        self.start(goal="g")
        mark = self.turn.mark
        self.end()
        answer = self.fleet.interrupt("alpha")
        answer.cancel()
        self.failureResultOf(answer)
        self.assertEqual(self.source.swept, [])
        self.killed()
        self.assertEqual(self.source.swept, [mark])

    def test_what_they_left_is_ended_although_the_run_ends_after_the_answer(self) -> None:
        self.start(goal="g")
        mark = self.turn.mark
        self.end()
        answer = self.fleet.interrupt("alpha")
        self.clock.advance(9.6)
        self.refused(answer, StillRunning)
        self.killed()
        self.assertEqual(self.source.swept, [mark])

    def test_what_a_run_left_that_nobody_interrupted_is_not_looked_for(self) -> None:
        self.ended_run(outcome=Outcome.KILLED)
        self.assertEqual(self.source.swept, [])

    def test_a_process_that_is_gone_is_not_said_to_live(self) -> None:
        self.start()
        answer = self.fleet.interrupt("alpha")
        self.turn.pid = None
        self.clock.advance(9.6)
        self.assertIn("its process is gone, but its output is still being read", self.refused(answer, StillRunning))

    def test_a_turn_that_cannot_be_stopped_is_told_as_such(self) -> None:
        self.start()
        self.patch(self.turn, "stop", cannot_stop)
        answer = self.fleet.interrupt("alpha")
        self.clock.advance(9.6)
        self.assertIn("no signal could be sent to it", self.refused(answer, StillRunning))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def test_it_says_that_it_escalated(self) -> None:
        self.start()
        answer = self.fleet.interrupt("alpha")
        self.turn.escalated = True
        self.end(Outcome.KILLED, signal="SIGKILL", exit_code=None)
        self.assertIs(self.successResultOf(answer)["escalated"], True)

    def test_two_at_once_are_one_kill_and_two_answers(self) -> None:
        self.start()
        answers = [self.fleet.interrupt("alpha"), self.fleet.interrupt("alpha")]
        self.assertEqual(len(self.turn.stopped), 1)
        self.killed()
        for answer in answers:
            self.assertEqual(self.successResultOf(answer)["subagent"]["state"], "killed")
        self.assertEqual(len(self.outbox.todos), 1)

    def test_within_10_s_it_says_that_the_child_has_not_gone(self) -> None:
        self.start()
        pid, self.turn.signals_sent = self.turn.pid, (2,)
        answer = self.fleet.interrupt("alpha")
        self.clock.advance(9)
        self.assertNoResult(answer)
        self.clock.advance(0.99)
        error = self.refused(answer, StillRunning)
        self.assertEqual(error, f"alpha has not ended yet: pid {pid} has not gone after SIGINT. Ask `status` again")
        self.assertEqual((self.record()["state"], self.record()["pid"]), ("running", pid))

    def test_one_that_comes_after_that_waits_anew_and_kills_no_second_time(self) -> None:
        self.start()
        first = self.fleet.interrupt("alpha")
        self.clock.advance(10)
        self.refused(first, StillRunning)
        second = self.fleet.interrupt("alpha")
        self.assertEqual(len(self.turn.stopped), 1)
        self.killed()
        self.assertEqual(self.successResultOf(second)["subagent"]["state"], "killed")

    def test_a_subagent_that_is_not_running_is_an_error_that_says_what_it_is(self) -> None:
        self.ended_run()
        error = self.refused(self.fleet.interrupt("alpha"), NotRunning)
        self.assertIn("alpha is not running: it is idle, its last turn finished", error)
        self.start("beta")
        self.turn.signalled(SignalKind.NEED_HELP, "help", None)
        self.end()
        self.assertIn("it is blocked", self.refused(self.fleet.interrupt("beta"), NotRunning))
        self.assertEqual(self.source.turns[0].stopped, [])

    def test_an_unknown_name_is_an_error_that_lists_the_known_ones(self) -> None:
        self.start()
        self.assertIn("known: alpha", self.refused(self.fleet.interrupt("nope"), UnknownName))

    def test_between_two_turns_it_stops_the_run(self) -> None:
        self.start(goal="g", max_turns=5)
        self.source.hold = True
        self.end()
        told: Any = self.successResultOf(self.fleet.interrupt("alpha"))["subagent"]
        self.assertEqual((told["state"], told["stop_reason"]["kind"]), ("killed", "killed"))
        self.assertEqual((told["last_turn"]["outcome"], told["turn"], told["max_turns"]), ("finished", 1, 5))
        self.source.release()
        self.assertEqual((len(self.source.turns), len(self.outbox.todos), self.fleet.running), (1, 1, 0))

    def test_the_run_it_stopped_can_be_continued_at_once_toward_its_goal(self) -> None:
        self.start(goal="g", max_turns=5)
        answer = self.fleet.interrupt("alpha")
        self.killed()
        self.successResultOf(answer)
        told = self.resume()
        self.assertEqual((told["previous_signal"], told["subagent"]["goal"]), ("SIGINT", "g"))

    def test_a_caller_who_gives_up_stops_the_run_all_the_same(self) -> None:
        self.start()
        answer = self.fleet.interrupt("alpha")
        answer.cancel()
        self.failureResultOf(answer)
        self.killed()
        self.assertEqual((self.record()["state"], len(self.outbox.todos)), ("killed", 1))

    def test_it_stops_no_other_run(self) -> None:
        self.start("alpha")
        self.start("beta")
        self.fleet.interrupt("beta")
        self.assertEqual([len(turn.stopped) for turn in self.source.turns], [0, 1])


class TheStopOfTheDaemon(FleetCase):
    def test_all_that_runs_is_interrupted_and_told(self) -> None:
        for name in ("alpha", "beta"):
            self.start(name, goal="g")
        stopped = self.fleet.stop()
        self.assertEqual([turn.stopped for turn in self.source.turns], [["the daemon stopped"]] * 2)
        self.assertNoResult(stopped)
        self.source.turns[0].end(turn_end(Outcome.KILLED, detail="the daemon stopped"))
        self.assertNoResult(stopped)
        self.source.turns[1].end(turn_end(Outcome.KILLED, detail="the daemon stopped"))
        self.successResultOf(stopped)
        self.assertEqual([todo["subagent"]["state"] for todo in self.outbox.todos], ["killed", "killed"])
        self.assertIn("the daemon stopped", self.outbox.todos[0]["body"])
        self.assertEqual((self.fleet.running, len(self.source.turns)), (0, 2))

    def test_no_new_run_is_taken(self) -> None:
        self.ended_run()
        self.successResultOf(self.fleet.stop())
        self.refused(self.starting("beta"), Stopping)
        self.refused(self.continuing("alpha"), Stopping)
        self.assertEqual((self.record()["state"], len(self.source.turns)), ("idle", 1))

    def test_it_waits_for_reports_and_todos(self) -> None:
        self.report.hold = True
        self.ended_run(report_file="r.md")
        stopped = self.fleet.stop()
        self.assertNoResult(stopped)
        self.report.held[0].callback(None)
        self.successResultOf(stopped)
        self.assertEqual(self.told, ["report", "todo"])

    def test_one_that_cannot_be_stopped_keeps_no_other_from_it(self) -> None:
        for name in ("alpha", "beta", "gamma"):
            self.start(name)
        self.patch(self.source.turns[0], "stop", cannot_stop)
        stop = ActiveRun.stop

        def stop_all_but_beta(attempt: ActiveRun, why: str) -> None:
            (cannot_stop if attempt.run.name == "beta" else partial(stop, attempt))(why)

        self.patch(ActiveRun, "stop", stop_all_but_beta)
        self.fleet.stop()
        self.assertEqual(self.source.turns[2].stopped, ["the daemon stopped"])
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 2)

    def test_a_child_that_does_not_go_is_told_as_such_within_10_s(self) -> None:
        self.start(goal="g")
        stopped = self.fleet.stop()
        pid, self.turn.signals_sent = self.turn.pid, (2, 15, 9)
        self.clock.advance(8)
        self.assertEqual((self.outbox.todos, self.record()["state"]), ([], "running"))
        self.clock.advance(OVER_S - 8)
        self.successResultOf(stopped)
        (todo,) = self.outbox.todos
        told: Any = todo["subagent"]
        self.assertEqual((told["state"], told["last_turn"]["outcome"]), ("failed", "failed"))
        self.assertIn(f"the daemon stopped, and pid {pid} has not gone after SIGINT, SIGTERM and SIGKILL", todo["body"])
        self.assertNotIn("killed", todo["body"])

    def test_one_that_has_gone_at_our_signal_is_killed_although_the_rest_of_its_end_is_not_there(self) -> None:
        self.start(goal="g")
        stopped = self.fleet.stop()
        self.turn.pid, self.turn.signals_sent = None, (2, 15)
        self.clock.advance(OVER_S)
        self.successResultOf(stopped)
        told = self.record()
        self.assertEqual((told["state"], told["last_turn"]["signal"]), ("killed", "SIGTERM"))

    def test_one_that_goes_after_that_is_told_no_second_time(self) -> None:
        self.start(goal="g")
        stopped = self.fleet.stop()
        self.clock.advance(OVER_S)
        self.successResultOf(stopped)
        self.end(Outcome.KILLED)
        self.assertEqual((len(self.outbox.todos), len(self.source.turns)), (1, 1))

    def test_a_process_that_is_not_made_in_time_is_told_as_such(self) -> None:
        self.start(goal="g")
        self.patch(self.source, "spawn", lambda spec, signalled: Stuck())
        self.end()
        stopped = self.fleet.stop()
        self.clock.advance(OVER_S)
        self.successResultOf(stopped)
        self.assertEqual(self.outbox.todos[0]["subagent"]["state"], "killed")

    def test_a_report_that_is_still_blocked_is_given_up_and_the_todo_says_so(self) -> None:
        self.report.hold = True
        self.start(report_file="r.md")
        stopped = self.fleet.stop()
        self.clock.advance(6)
        self.end(Outcome.KILLED, detail="the daemon stopped")
        self.assertEqual(self.outbox.todos, [])
        self.clock.advance(OVER_S - 6)
        self.successResultOf(stopped)
        self.assertIn("still blocked when the daemon stopped", self.outbox.todos[0]["subagent"]["report_error"])

    def test_a_report_that_is_begun_at_the_last_moment_has_a_second(self) -> None:
        self.report.hold = True
        self.start(report_file="r.md")
        stopped = self.fleet.stop()
        self.clock.advance(OVER_S)
        self.assertNoResult(stopped)
        self.clock.advance(REPORT_S)
        self.successResultOf(stopped)
        (todo,) = self.outbox.todos
        self.assertIn("has not gone", todo["body"])
        self.assertIn("still blocked when the daemon stopped", todo["body"])

    def test_spawns_that_have_not_come_about_are_given_up(self) -> None:
        self.start("alpha", goal="g")
        self.source.hold = True
        starting = self.starting("beta")
        self.source.turns[0].end(turn_end())
        self.successResultOf(self.fleet.stop())
        self.failureResultOf(starting, HivesubError)
        self.source.release()
        self.assertEqual((len(self.source.turns), self.record("alpha")["state"]), (1, "killed"))

    def test_a_continue_that_is_held_fails(self) -> None:
        answer = self.continuing()
        stopped = self.fleet.stop()
        self.turn.end(turn_end(Outcome.KILLED, under_way=False))
        self.refused(answer, ContinueFailed)
        self.successResultOf(stopped)

    def test_during_an_interrupt_it_is_one_kill_and_a_clear_answer(self) -> None:
        self.start()
        interrupted = self.fleet.interrupt("alpha")
        stopped = self.fleet.stop()
        self.assertEqual(self.turn.stopped, ["interrupted by the agent"])
        self.turn.end(turn_end(Outcome.KILLED, detail="the daemon stopped"))
        self.assertEqual(self.successResultOf(interrupted)["subagent"]["state"], "killed")
        self.successResultOf(stopped)

    def test_a_second_stop_waits_like_the_first(self) -> None:
        self.start()
        stops = [self.fleet.stop(), self.fleet.stop()]
        self.turn.end(turn_end(Outcome.KILLED, detail="the daemon stopped"))
        for stop in stops:
            self.successResultOf(stop)
