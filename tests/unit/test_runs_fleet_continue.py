"""What `continue` means: the hold until the turn is under way, misses, and what an earlier record survives (3.2)."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, succeed

from hivesub.errors import (
    AlreadyRunning,
    BadRequest,
    ContinueFailed,
    HivesubError,
    RequestKeyReused,
    SpawnError,
    UnknownName,
)
from hivesub.records import Outcome, SignalKind, TurnSpec
from hivesub.shapes import RunAnswer
from hivesub.testing import FakeTurn
from tests.support.runfakes import SECRET, TOOLS, FleetCase, init, session, turn_end, unborn, used

MISS = f"No conversation found with session ID: {session(1)}"


class TheHold(FleetCase):
    def test_it_is_answered_at_init(self) -> None:
        self.ended_run()
        answer = self.continuing()
        self.clock.advance(0.3)
        self.assertNoResult(answer)
        self.turn.begin(init(session_id=session(1)))
        self.assertEqual(self.successResultOf(answer)["subagent"]["state"], "running")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_it_is_answered_at_an_exit_after_init_that_came_at_once(self) -> None:
        self.ended_run()
        answer = self.continuing()
        self.turn.begin(init())
        self.end()
        self.assertEqual(self.successResultOf(answer)["subagent"]["session_id"], session(1))

    def test_a_child_that_began_and_ended_before_anybody_looked_is_an_answer_and_not_a_miss(self) -> None:
        turn = FakeTurn(
            TurnSpec(name="alpha", prompt=b"", dir=self.dir, tools=TOOLS, resume="alpha"), self.no_signal, 1
        )
        turn.begin(init(session_id=session(3)))
        turn.end(turn_end(Outcome.FAILED, init=turn.init, detail="exit code 1: overloaded"))
        self.patch(self.source, "spawn", lambda spec, signalled: succeed(turn))
        told = self.successResultOf(self.continuing())["subagent"]
        self.assertEqual((told["state"], told["session_id"], len(self.outbox.todos)), ("failed", session(3), 1))

    def no_signal(self, kind: SignalKind, message: str, path: str | None) -> Deferred[str]:
        raise AssertionError("nothing is signalled here")

    def test_a_child_that_does_neither_is_reported_as_started_after_5_s_and_its_todo_tells_the_rest(self) -> None:
        answer = self.continuing()
        self.clock.advance(4.99)
        self.assertNoResult(answer)
        self.clock.advance(0.01)
        told = self.successResultOf(answer)["subagent"]
        self.assertEqual((told["state"], told["pid"]), ("running", self.turn.pid))
        self.turn.end(unborn(MISS))
        self.assertEqual((self.record()["state"], len(self.outbox.todos)), ("failed", 1))
        self.assertIn(MISS, self.outbox.todos[0]["body"])

    def test_the_run_is_visible_as_running_meanwhile(self) -> None:
        self.ended_run()
        self.continuing()
        self.assertEqual((self.record()["state"], self.fleet.running), ("running", 1))

    def test_two_continues_10_ms_apart_are_one_child(self) -> None:
        self.ended_run()
        first = self.continuing()
        self.clock.advance(0.01)
        self.assertIn("alpha is running", self.refused(self.continuing(), AlreadyRunning))
        self.assertEqual(len(self.source.turns), 2)
        self.turn.begin(init())
        self.successResultOf(first)

    def test_a_caller_who_gives_up_leaves_a_run_that_is_visible_and_whose_end_a_todo_tells(self) -> None:
        self.ended_run()
        answer = self.continuing()
        answer.cancel()
        self.failureResultOf(answer, CancelledError)
        self.assertEqual((self.record()["state"], self.clock.getDelayedCalls()), ("running", []))
        self.turn.end(unborn(MISS))
        self.assertEqual((self.record()["state"], len(self.outbox.todos)), ("failed", 2))

    def test_a_process_that_cannot_be_made_is_the_calls_error_and_the_record_stays(self) -> None:
        self.ended_run()
        before = self.record()
        self.source.error = SpawnError("the directory /gone is not there")
        self.assertEqual(self.refused(self.continuing(), SpawnError), "the directory /gone is not there")
        self.assertEqual((self.record(), len(self.outbox.todos), self.fleet.running), (before, 1, 0))

    def test_an_interrupt_during_the_hold_is_the_calls_error_and_the_end_of_a_run(self) -> None:
        self.ended_run(outcome=Outcome.FAILED)
        answer = self.continuing(report_file="r.md")
        interrupted = self.fleet.interrupt("alpha")
        self.assertEqual(self.turn.stopped, ["interrupted by the agent"])
        self.end(Outcome.KILLED, under_way=False, detail="interrupted by the agent")
        self.assertIn("interrupted by the agent", self.refused(answer, ContinueFailed))
        self.assertEqual(self.successResultOf(interrupted)["subagent"]["state"], "killed")
        self.assertEqual((self.record()["state"], self.record()["session_id"]), ("killed", session(1)))
        self.assertEqual((len(self.outbox.todos), len(self.report.appended)), (2, 1))

    def test_an_answer_after_the_cap_says_that_claude_has_said_nothing(self) -> None:
        self.ended_run()
        answer = self.continuing(request_key="k")
        self.clock.advance(5)
        self.assertIs(self.successResultOf(answer)["under_way"], False)
        again = self.continuing(request_key="k")
        self.turn.begin(init())
        self.assertNotIn("under_way", self.successResultOf(again))

    def test_an_interrupt_before_its_process_exists_ends_it(self) -> None:
        self.source.hold = True
        answer = self.continuing()
        self.successResultOf(self.fleet.interrupt("alpha"))
        self.assertIn("before it had a process", self.refused(answer, HivesubError))
        self.assertEqual((self.record()["state"], len(self.outbox.todos)), ("killed", 1))
        self.assertIn("stopped before its first turn", self.outbox.todos[0]["title"])


class AnEndBeforeInit(FleetCase):
    """A run that ended, a miss apart: the call's own error says it, and so do record, report and todo."""

    def test_a_daemon_that_stops_meanwhile_announces_it(self) -> None:
        self.ended_run()
        answer = self.continuing()
        stopped = self.fleet.stop()
        self.end(Outcome.KILLED, under_way=False, detail="the daemon stopped; exit code 143", signal="SIGTERM")
        self.successResultOf(stopped)
        self.assertIn("the daemon stopped", self.refused(answer, ContinueFailed))
        self.assertIn("the daemon stopped", self.outbox.todos[-1]["body"])

    def test_claudes_own_error_is_the_end_of_the_run(self) -> None:
        self.ended_run()
        answer = self.continuing(report_file="r.md")
        self.turn.end(unborn("Not logged in"))
        self.assertEqual(self.refused(answer, ContinueFailed), "claude error: Not logged in")
        told = self.record()
        self.assertEqual((told["state"], told["session_id"]), ("failed", session(1)))
        self.assertIn("Not logged in", told["last_turn"]["detail"])
        self.assertEqual(self.outbox.todos[-1]["subagent"]["last_turn"], told["last_turn"])
        self.assertEqual(len(self.report.appended), 1)

    def test_what_the_error_said_is_no_news(self) -> None:
        self.ended_run()
        self.successResultOf(self.fleet.news(()))
        answer = self.continuing()
        self.turn.end(unborn("Not logged in"))
        self.refused(answer, ContinueFailed)
        self.assertEqual(self.successResultOf(self.fleet.news(())), [])

    def test_its_error_does_not_use_up_the_request_key(self) -> None:
        self.ended_run()
        answer = self.continuing(request_key="k")
        self.turn.end(unborn("Not logged in"))
        self.refused(answer, ContinueFailed)
        self.resume(request_key="k")
        self.assertEqual(len(self.source.turns), 3)

    def test_a_kill_before_it_is_still_told(self) -> None:
        self.start()
        self.end(Outcome.KILLED, signal="SIGKILL")
        answer = self.continuing()
        self.turn.end(unborn("Not logged in"))
        self.refused(answer, ContinueFailed)
        self.assertEqual(self.resume()["previous_signal"], "SIGKILL")
        self.end()
        self.assertNotIn("previous_signal", self.resume())

    def test_a_miss_that_claude_had_no_time_to_exit_by_is_a_kill(self) -> None:
        self.ended_run()
        answer = self.continuing()
        self.fleet.interrupt("alpha")
        self.end(Outcome.KILLED, under_way=False, detail=f"interrupted by the agent; {MISS}", error=MISS)
        self.refused(answer, ContinueFailed)
        self.assertEqual((self.record()["state"], len(self.outbox.todos)), ("killed", 2))


class AMissThatNobodyWaitsFor(FleetCase):
    """The call was answered after 5 s, or its caller had left: the run is told, and the name keeps its session."""

    def miss(self, **fields: str) -> None:
        answer = self.continuing(**fields)
        self.clock.advance(5)
        self.successResultOf(answer)
        self.turn.end(unborn(MISS))

    def test_the_name_keeps_the_session_and_the_directory_that_it_had(self) -> None:
        self.ended_run()
        (self.dir / "other").mkdir()
        self.miss(session_id=session(99), dir=str(self.dir / "other"))
        told = self.record()
        self.assertEqual((told["state"], told["session_id"], told["dir"]), ("failed", session(1), str(self.dir)))
        self.resume()
        self.assertEqual((self.turn.spec.resume, self.turn.spec.dir), (session(1), self.dir))

    def test_the_goal_carries_over_from_the_run_before(self) -> None:
        self.start(goal="all tests pass", max_turns=7)
        self.turn.signalled(SignalKind.NEED_HELP, "which?", None)
        self.end()
        self.miss(session_id=session(99), goal="")
        told = self.resume()["subagent"]
        self.assertEqual((told["goal"], told["max_turns"]), ("all tests pass", 7))

    def test_a_kill_before_it_is_still_told_after_two_of_them(self) -> None:
        self.start()
        self.end(Outcome.KILLED, signal="SIGTERM")
        self.miss(session_id=session(99))
        self.miss(session_id=session(98))
        self.assertEqual(self.resume()["previous_signal"], "SIGTERM")

    def test_a_name_that_nobody_knew_is_looked_for_by_its_title_again(self) -> None:
        self.miss(session_id=session(99))
        self.assertIsNone(self.record()["session_id"])
        self.resume()
        self.assertEqual(self.turn.spec.resume, "alpha")

    def test_another_failure_before_init_keeps_the_session_that_was_asked_for(self) -> None:
        self.ended_run()
        answer = self.continuing(session_id=session(99))
        self.clock.advance(5)
        self.successResultOf(answer)
        self.turn.end(unborn("Not logged in"))
        self.assertEqual(self.record()["session_id"], session(99))


class AMiss(FleetCase):
    def test_it_is_this_calls_error_with_claudes_message_and_the_place_searched(self) -> None:
        self.ended_run()
        answer = self.continuing()
        self.turn.end(unborn(MISS))
        self.assertEqual(
            self.refused(answer, ContinueFailed),
            f"claude error: {MISS} (searched /home/op/.claude for cwd {self.dir}; "
            "if it was started elsewhere, pass the `dir` it was started in)",
        )

    def test_the_earlier_record_is_untouched_and_no_todo_tells_it(self) -> None:
        self.start(goal="g", max_turns=2)
        self.turn.signalled(SignalKind.NEED_HELP, "which?", None)
        self.end(usage=used(0.25))
        before = self.record()
        answer = self.continuing()
        self.turn.end(unborn(MISS, usage=used(0.0)))
        self.refused(answer, ContinueFailed)
        self.assertEqual((self.record(), len(self.outbox.todos), self.fleet.running), (before, 1, 0))

    def test_of_a_name_that_nobody_knows_it_leaves_no_name(self) -> None:
        answer = self.continuing("nope")
        self.turn.end(unborn("it does not match any session title"))
        self.assertIn("searched", self.refused(answer, ContinueFailed))
        error = self.refused(self.fleet.status("nope", wait_s=0.0, wait_for_all=False, result=False), UnknownName)
        self.assertIn("none yet", error)
        self.assertEqual(self.outbox.todos, [])

    def test_the_run_before_can_be_continued_again_afterwards(self) -> None:
        self.ended_run()
        missed = self.continuing(session_id=session(99))
        self.turn.end(unborn(MISS))
        self.refused(missed, ContinueFailed)
        self.resume()
        self.assertEqual(self.turn.spec.resume, session(1))

    def test_an_ambiguous_title_tells_the_candidates_and_a_session_id_picks_one(self) -> None:
        message = f'Multiple sessions match "alpha": {session(1)} (1 hour ago), {session(2)} (2 hours ago)'
        answer = self.continuing()
        self.turn.end(unborn(message))
        self.assertEqual(self.refused(answer, ContinueFailed), f"claude error: {message}")
        self.resume(session_id=session(2))
        self.assertEqual(self.turn.spec.resume, session(2))

    def test_a_death_before_init_is_told_as_one(self) -> None:
        answer = self.continuing()
        self.end(Outcome.KILLED, under_way=False, detail="died on SIGKILL; the daemon did not send it")
        error = self.refused(answer, ContinueFailed)
        self.assertIn("killed before its turn was under way", error)
        self.assertIn("SIGKILL", error)
        self.assertEqual((len(self.outbox.todos), self.record()["state"]), (1, "killed"))

    def test_an_exit_0_before_init_is_an_error_too(self) -> None:
        answer = self.continuing()
        self.end(under_way=False)
        self.assertIn("exited with code 0", self.refused(answer, ContinueFailed))

    def test_the_error_bears_no_secret(self) -> None:
        answer = self.continuing()
        self.turn.end(unborn(f"cannot connect with {SECRET}"))
        self.assertEqual(self.refused(answer, ContinueFailed), "claude error: cannot connect with [redacted]")


class WhatItResumes(FleetCase):
    def test_the_remembered_session_in_the_remembered_directory(self) -> None:
        self.start()
        self.end(init=init(session_id=session(5), cwd="/srv/else"))
        self.continuing()
        self.assertEqual((self.turn.spec.resume, str(self.turn.spec.dir)), (session(5), "/srv/else"))

    def test_the_title_where_nothing_is_remembered(self) -> None:
        self.resume("beta")
        self.assertEqual((self.turn.spec.resume, self.turn.spec.dir), ("beta", self.dir))

    def test_a_refusal_spawns_nothing(self) -> None:
        self.refused(self.continuing(dir="/nowhere/at/all"), BadRequest)
        self.refused(self.continuing(max_turns=3), BadRequest)
        self.assertEqual((self.source.turns, self.fleet.running), ([], 0))

    def test_nothing_is_looked_at_before_the_spawn(self) -> None:
        self.continuing("any-name-at-all", session_id=session(4711))
        self.assertEqual(self.turn.spec.resume, session(4711))

    def test_a_blocked_run_goes_on_toward_its_goal_with_the_answer_as_its_prompt(self) -> None:
        self.start(goal="all tests pass", max_turns=2)
        self.end()
        self.turn.signalled(SignalKind.NEED_HELP, "which database?", None)
        self.end()
        told = self.resume(prompt="the blue one")["subagent"]
        self.assertEqual((told["turn"], told["max_turns"], told["goal"]), (1, 2, "all tests pass"))
        self.assertEqual((told["signals"], told["stop_reason"], told["last_turn"]), ([], None, None))
        self.assertIn(b"the blue one", self.turn.spec.prompt)
        self.assertIn(b"all tests pass", self.turn.spec.prompt)

    def test_the_cost_of_the_run_is_the_difference_to_the_session_before(self) -> None:
        self.start()
        self.end(usage=used(0.25))
        self.resume()
        self.end(usage=used(0.375))
        self.assertEqual(self.record()["usage"]["cost_usd"], 0.125)

    def test_a_miss_in_between_does_not_disturb_the_cost(self) -> None:
        self.start()
        self.end(usage=used(0.25))
        missed = self.continuing()
        self.turn.end(unborn(MISS, usage=used(0.0)))
        self.refused(missed, ContinueFailed)
        self.resume()
        self.end(usage=used(0.375))
        self.assertEqual(self.record()["usage"]["cost_usd"], 0.125)


class WhatIsSaidOfTheBudget(FleetCase):
    def test_a_goal_that_was_claimed_is_worked_toward_again_and_that_is_said(self) -> None:
        self.start(goal="all tests pass", max_turns=7, max_budget_usd=1.5)
        self.turn.signalled(SignalKind.GOAL_REACHED, "done", None)
        self.end()
        answer = self.resume()
        self.assertEqual((answer["subagent"]["goal"], answer["subagent"]["max_turns"]), ("all tests pass", 7))
        self.assertEqual((answer["same_goal"], answer["budget_anew_usd"]), (True, 1.5))

    def test_what_the_call_asks_for_itself_is_not_said_to_be_kept(self) -> None:
        self.start(goal="all tests pass", max_budget_usd=1.5)
        self.end(Outcome.FAILED)
        self.assertEqual(set(self.resume(goal="more", max_budget_usd=2.0)), {"subagent"})

    def test_of_a_name_that_nobody_knows_no_goal_is_remembered(self) -> None:
        self.assertIs(self.resume()["no_goal_remembered"], True)
        self.end()
        self.assertNotIn("no_goal_remembered", self.resume())
        self.assertNotIn("no_goal_remembered", self.resume("beta", goal="g"))


class ThePreviousSignal(FleetCase):
    def test_it_is_told_when_the_previous_turn_was_killed(self) -> None:
        self.start()
        self.end(Outcome.KILLED, signal="SIGKILL")
        self.assertEqual(self.resume()["previous_signal"], "SIGKILL")

    def test_it_is_told_by_a_retry_too(self) -> None:
        self.start()
        self.end(Outcome.KILLED, signal="SIGTERM")
        self.assertEqual(self.resume(request_key="k"), self.successResultOf(self.continuing(request_key="k")))
        self.assertEqual(self.successResultOf(self.continuing(request_key="k"))["previous_signal"], "SIGTERM")

    def test_it_is_absent_when_the_previous_turn_ended_otherwise(self) -> None:
        self.ended_run()
        self.assertNotIn("previous_signal", self.resume())
        self.end(Outcome.FAILED)
        self.assertNotIn("previous_signal", self.resume())
        self.assertNotIn("previous_signal", self.resume("beta"))

    def test_it_outlives_a_miss(self) -> None:
        self.start()
        self.end(Outcome.KILLED, signal="SIGTERM")
        missed = self.continuing()
        self.turn.end(unborn(MISS))
        self.refused(missed, ContinueFailed)
        self.assertEqual(self.resume()["previous_signal"], "SIGTERM")


class ASessionThatAnotherRunWorksIn(FleetCase):
    def test_it_is_refused_with_the_name_of_that_run(self) -> None:
        self.start("alpha")
        error = self.refused(self.continuing("beta", session_id=session(1)), AlreadyRunning)
        self.assertIn(f"the session {session(1)} is that of alpha, which is running (turn 1)", error)
        self.assertIn("Wait for alpha with `status` or stop it with `interrupt`", error)
        self.assertEqual((len(self.source.turns), self.outbox.todos), (1, []))
        self.assertEqual(set(self.fleet_names()), {"alpha"})
        self.end()
        self.assertEqual(self.resume("beta", session_id=session(1))["subagent"]["session_id"], session(1))

    def test_a_remembered_session_is_refused_too(self) -> None:
        self.ended_run("alpha")
        self.resume("beta", session_id=session(1))
        self.assertIn("is that of beta", self.refused(self.continuing("alpha"), AlreadyRunning))
        self.end()
        self.resume("alpha")

    def test_the_session_is_the_one_that_init_says(self) -> None:
        self.start("alpha")
        self.turn.begin(init(session_id=session(7)))
        self.refused(self.continuing("beta", session_id=session(7)), AlreadyRunning)

    def at_the_same_moment(self, *inits: str) -> dict[str, Deferred[RunAnswer]]:
        """`alpha` by its title and `beta` by the id, of one session; `init` comes to those named, in that order."""
        answers = {"alpha": self.continuing("alpha"), "beta": self.continuing("beta", session_id=session(7))}
        turns = dict(zip(answers, self.source.turns, strict=True))
        for name in inits:
            turns[name].begin(init(session_id=session(7)))
        return answers

    def end_of(self, number: int, outcome: Outcome, **changes: Any) -> None:
        turn = self.source.turns[number]
        turn.end(turn_end(outcome, init=turn.init, **changes))

    def test_of_two_that_turn_out_to_be_in_one_session_the_later_is_ended_and_its_call_says_why(self) -> None:
        for order in (("alpha", "beta"), ("beta", "alpha")):
            self.setUp()
            answers = self.at_the_same_moment(*order)
            first, second = self.source.turns
            self.assertEqual((len(first.stopped), len(second.stopped)), (0, 1))
            self.assertIn("alpha was at work in its session", second.stopped[0])
            self.assertEqual(self.successResultOf(answers["alpha"])["subagent"]["state"], "running")
            if order[0] == "alpha":
                self.assertNoResult(answers["beta"])
                self.end_of(1, Outcome.KILLED, detail=second.stopped[0])
                error = self.refused(answers["beta"], AlreadyRunning)
                self.assertIn(f"the session {session(7)} is that of alpha, which is running (turn 1): this run", error)
            else:
                self.successResultOf(answers["beta"])  # it was under way before anybody could know
                self.end_of(1, Outcome.KILLED, detail=second.stopped[0])
            self.assertEqual(self.record("beta")["state"], "killed")
            self.assertIn("alpha was at work in its session", self.outbox.todos[0]["body"])

    def test_of_three_two_are_ended(self) -> None:
        answers = self.at_the_same_moment()
        answers["gamma"] = self.continuing("gamma")
        for turn in self.source.turns[::2]:
            turn.begin(init(session_id=session(7)))
        self.source.turns[1].begin(init(session_id=session(7)))
        self.assertEqual([len(turn.stopped) for turn in self.source.turns], [0, 1, 1])

    def test_sessions_of_their_own_are_left_alone(self) -> None:
        for number, name in ((8, "alpha"), (9, "beta")):
            self.continuing(name)
            self.turn.begin(init(session_id=session(number)))
        self.start("gamma")
        self.turn.begin(init())
        self.assertEqual([turn.stopped for turn in self.source.turns], [[], [], []])

    def test_a_later_turn_that_goes_to_another_session_is_looked_at_too(self) -> None:
        self.start("alpha")
        self.turn.begin(init())
        self.start("beta", goal="g")
        self.end()
        self.turn.begin(init(session_id=session(1)))
        self.assertEqual([len(turn.stopped) for turn in self.source.turns], [0, 0, 1])

    def fleet_names(self) -> list[str]:
        return [run.name for run in self.fleet.runs()]


class TheRequestKey(FleetCase):
    def test_a_twin_joins_the_hold(self) -> None:
        twins = [self.continuing(request_key="k"), self.continuing(request_key="k")]
        self.assertEqual(len(self.source.turns), 1)
        self.turn.begin(init())
        first, second = map(self.successResultOf, twins)
        self.assertEqual(first, second)

    def test_twins_of_a_miss_are_both_told_and_a_retry_tries_again(self) -> None:
        twins = [self.continuing(request_key="k"), self.continuing(request_key="k")]
        self.turn.end(unborn(MISS))
        for twin in twins:
            self.assertIn("searched", self.refused(twin, ContinueFailed))
        self.resume(request_key="k")
        self.assertEqual(len(self.source.turns), 2)

    def test_one_twin_who_gives_up_leaves_the_other_its_answer(self) -> None:
        lost, other = self.continuing(request_key="k"), self.continuing(request_key="k")
        lost.cancel()
        self.failureResultOf(lost, CancelledError)
        self.turn.end(unborn(MISS))
        self.refused(other, ContinueFailed)
        self.assertEqual(self.outbox.todos, [])

    def test_a_retry_after_its_caller_gave_up_waits_for_the_run_it_made(self) -> None:
        lost = self.continuing(request_key="k")
        lost.cancel()
        self.failureResultOf(lost, CancelledError)
        retry = self.continuing(request_key="k")
        self.assertNoResult(retry)
        self.turn.begin(init(session_id=session(3)))
        self.assertEqual(self.successResultOf(retry)["subagent"]["session_id"], session(3))
        self.assertEqual(len(self.source.turns), 1)

    def lost(self, **fields: str) -> None:
        lost = self.continuing(request_key="k", **fields)
        lost.cancel()
        self.failureResultOf(lost, CancelledError)

    def test_a_retry_that_waits_when_the_miss_comes_gets_it_and_no_todo_does(self) -> None:
        self.lost()
        retry = self.continuing(request_key="k")
        self.turn.end(unborn(MISS))
        self.assertIn("searched", self.refused(retry, ContinueFailed))
        self.failureResultOf(self.fleet.status("alpha", wait_s=0.0, wait_for_all=False, result=False), UnknownName)
        self.assertEqual(self.outbox.todos, [])

    def test_a_retry_after_the_miss_gets_it_and_the_next_one_tries_again(self) -> None:
        self.lost()
        self.turn.end(unborn(MISS))
        self.assertIn("searched", self.refused(self.continuing(request_key="k"), ContinueFailed))
        self.assertEqual(len(self.source.turns), 1)
        self.resume(request_key="k")
        self.assertEqual(len(self.source.turns), 2)

    def test_a_retry_after_another_early_end_gets_that(self) -> None:
        self.lost()
        self.end(Outcome.KILLED, under_way=False, detail="died on SIGKILL")
        self.assertIn("died on SIGKILL", self.refused(self.continuing(request_key="k"), ContinueFailed))

    def test_a_retry_after_a_spawn_that_failed_gets_that_and_a_todo_has_said_it(self) -> None:
        self.source.hold = True
        self.lost()
        self.fleet.interrupt("alpha")
        self.assertEqual(len(self.outbox.todos), 1)
        self.assertIn("before it had a process", self.refused(self.continuing(request_key="k"), HivesubError))

    def test_a_retry_of_a_call_that_was_answered_gets_the_run_although_it_ended_early(self) -> None:
        answer = self.continuing(request_key="k")
        self.clock.advance(5)
        self.successResultOf(answer)
        self.turn.end(unborn(MISS))
        retry = self.successResultOf(self.continuing(request_key="k"))
        self.assertEqual(retry["subagent"]["state"], "failed")

    def test_other_arguments_are_refused_in_flight_and_afterwards(self) -> None:
        first = self.continuing(request_key="k")
        self.refused(self.continuing(prompt="other", request_key="k"), RequestKeyReused)
        self.turn.begin(init())
        self.successResultOf(first)
        self.refused(self.continuing(prompt="other", request_key="k"), RequestKeyReused)
        self.turn.end(turn_end())
        self.refused(self.continuing(prompt="other", request_key="k"), RequestKeyReused)
        self.assertEqual(len(self.source.turns), 1)
