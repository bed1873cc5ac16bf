"""What `status` means: one or all, waiting for an end, and what is remembered."""

from __future__ import annotations

from typing import Any
from unittest import mock

from twisted.internet.defer import CancelledError, Deferred

from hivesub.errors import ContinueFailed, UnknownName
from hivesub.records import Outcome, SignalKind
from hivesub.runs import roster
from hivesub.runs.roster import CUT_RESULT_CHARS, KEPT_RESULTS_BYTES, RESULT_CUT
from hivesub.shapes import TaskState
from tests.support.runfakes import FleetCase, said, session, turn_end, unborn, used


class OfOne(FleetCase):
    def test_an_unknown_name_lists_the_known_ones(self) -> None:
        self.assertIn(
            "none yet",
            self.refused(self.fleet.status("nope", wait_s=0.0, wait_for_all=False, result=False), UnknownName),
        )
        self.ended_run("beta")
        self.start("alpha")
        error = self.refused(self.fleet.status("nope", wait_s=50.0, wait_for_all=False, result=False), UnknownName)
        self.assertIn("'nope'", error)
        self.assertIn("known: alpha, beta", error)

    def test_there_are_no_counts(self) -> None:
        self.start()
        answer = self.successResultOf(self.fleet.status("alpha", wait_s=0.0, wait_for_all=False, result=False))
        self.assertEqual(set(answer), {"subagents"})

    def test_its_goal_is_whole(self) -> None:
        self.start(goal="g" * 300)
        self.assertEqual(self.record()["goal"], "g" * 300)

    def test_the_age_is_that_of_this_turns_child(self) -> None:
        self.start(goal="g")
        self.clock.advance(20)
        self.assertEqual(self.record()["last_event_age_s"], 20.0)
        self.end()
        self.turn.last_event_at = self.clock.seconds()
        self.clock.advance(2)
        self.assertEqual(self.record()["last_event_age_s"], 2.0)
        self.end(Outcome.FAILED)
        self.assertIsNone(self.record()["last_event_age_s"])

    def test_the_usage_of_a_goal_run_is_summed(self) -> None:
        self.start(goal="g", max_turns=2)
        self.end(usage=used(0.25, turns=3))
        self.end(usage=used(0.375, turns=2))
        usage = self.record()["usage"]
        self.assertEqual(usage, {"cost_usd": 0.375, "claude_turns": 5, "input_tokens": 20, "output_tokens": 6})


class WhatIsKeptOfResults(FleetCase):
    max_running = 100

    def test_the_latest_are_kept_whole_and_earlier_ones_cut_and_said_to_be(self) -> None:
        for number in range(40):
            self.start(f"agent-{number}")
            self.end(result=said("w" * 100_000))
        kept = [self.record(f"agent-{number}", result=True)["result"] or "" for number in range(40)]
        self.assertEqual(kept[-1], "w" * 100_000)
        self.assertEqual(kept[0], "w" * CUT_RESULT_CHARS + RESULT_CUT)
        self.assertLess(sum(map(len, kept)), KEPT_RESULTS_BYTES + 40 * 300)


class News(FleetCase):
    def names(self, *told: str) -> list[str]:
        return [record["name"] for record in self.successResultOf(self.fleet.news(told))]

    def test_each_run_that_ended_is_given_once(self) -> None:
        self.start("alpha")
        self.assertEqual(self.names(), [])
        self.end()
        self.ended_run("beta", Outcome.FAILED)
        self.assertEqual(self.names(), ["alpha", "beta"])
        self.assertEqual(self.names(), [])

    def test_one_that_is_told_otherwise_is_left_out_for_good(self) -> None:
        self.ended_run("alpha")
        self.ended_run("beta")
        self.assertEqual(self.names("alpha"), ["beta"])
        self.assertEqual(self.names(), [])

    def test_what_is_given_is_noted_for_others_and_what_others_noted_is_not_given(self) -> None:
        self.ended_run("alpha")
        self.ended_run("beta")
        self.ended_run("gamma")
        self.heard.elsewhere = {"todo-2"}
        self.assertEqual(self.names("gamma"), ["alpha"])
        self.assertEqual(sorted(self.heard.noted), ["todo-1", "todo-3"])

    def test_an_end_that_is_heard_of_before_its_todo_is_made_is_noted_with_it(self) -> None:
        self.report.hold = True
        self.start("alpha", report_file="r.md")
        self.end()
        self.assertEqual(self.names("alpha"), [])
        self.assertEqual(self.heard.noted, [])
        self.report.held[0].callback(None)
        self.assertEqual(self.heard.noted, ["todo-1"])

    def test_who_is_started_anew_has_no_earlier_end_to_tell(self) -> None:
        self.ended_run("alpha")
        self.start("alpha")
        self.assertEqual(self.names(), [])


class Tasks(FleetCase):
    def task(self, found: TaskState | None) -> TaskState:
        assert found is not None
        return found

    def test_a_run_that_goes_on_is_one_task_until_its_end_is_announced(self) -> None:
        self.start("alpha", goal="g")
        task = self.fleet.as_task("alpha")
        assert task is not None
        self.assertEqual((task["id"], task["announcement"], task["record"]["state"]), ("task-1", None, "running"))
        self.assertEqual(self.task(self.fleet.as_task("alpha"))["id"], "task-1")
        self.turn.signalled(SignalKind.GOAL_REACHED, "done", None)
        self.report.hold = True
        self.end()
        ended = self.fleet.task_state("task-1")
        assert ended is not None
        self.assertIn(
            "subagent alpha reports its goal reached (self-reported, not verified)", ended["announcement"] or ""
        )

    def test_it_is_not_complete_before_the_report_is_written(self) -> None:
        self.report.hold = True
        self.start("alpha", report_file="r.md")
        self.fleet.as_task("alpha")
        self.end()
        self.assertIsNone(self.task(self.fleet.task_state("task-1"))["announcement"])
        self.report.held[0].callback(None)
        self.assertIsNotNone(self.task(self.fleet.task_state("task-1"))["announcement"])

    def test_it_stays_the_run_that_it_was_when_the_name_goes_on(self) -> None:
        self.start("alpha")
        self.fleet.as_task("alpha")
        self.end()
        self.start("alpha")
        self.assertEqual(self.task(self.fleet.as_task("alpha"))["id"], "task-2")
        self.assertIsNotNone(self.task(self.fleet.task_state("task-1"))["announcement"])
        self.assertIsNone(self.task(self.fleet.task_state("task-2"))["announcement"])

    def test_a_stop_knows_when_the_clients_of_the_tasks_that_it_ended_have_heard_of_it(self) -> None:
        self.start("alpha")
        self.fleet.as_task("alpha")
        self.start("beta")
        self.fleet.stop()
        heard = self.fleet.stopped_tasks_heard()
        for turn in self.source.turns:
            turn.end(turn_end(Outcome.KILLED))
        self.assertNoResult(heard)
        self.fleet.told_by_task("task-1")
        self.successResultOf(heard)

    def test_a_stop_waits_for_no_task_that_had_ended_before_it(self) -> None:
        self.start("alpha")
        self.fleet.as_task("alpha")
        self.end()
        self.fleet.stop()
        self.successResultOf(self.fleet.stopped_tasks_heard())

    def test_an_end_that_a_task_reported_is_no_news_and_is_noted(self) -> None:
        self.start("alpha")
        self.fleet.as_task("alpha")
        self.end()
        self.fleet.told_by_task("task-1")
        self.fleet.told_by_task("task-1")
        self.assertEqual(self.successResultOf(self.fleet.news(())), [])
        self.assertEqual(self.heard.noted, ["todo-1"])

    def test_to_cancel_is_to_interrupt_once(self) -> None:
        self.start("alpha")
        self.fleet.as_task("alpha")
        self.fleet.cancel_task("task-1")
        self.fleet.cancel_task("task-1")
        self.assertEqual(self.turn.stopped, ["interrupted by the agent"])
        self.end(Outcome.KILLED, signal="SIGINT")
        self.fleet.cancel_task("task-1")

    def test_to_cancel_an_earlier_run_leaves_the_name_alone(self) -> None:
        self.start("alpha")
        self.fleet.as_task("alpha")
        self.end()
        self.start("alpha")
        self.fleet.cancel_task("task-1")
        self.assertEqual(self.turn.stopped, [])

    def test_ids_that_are_not_known_are_none(self) -> None:
        self.ended_run("alpha")
        self.assertIsNone(self.fleet.as_task("alpha"))
        self.assertIsNone(self.fleet.as_task("nobody"))
        self.assertIsNone(self.fleet.task_state("task-9"))
        self.fleet.told_by_task("task-9")
        self.fleet.cancel_task("task-9")


class Waiting(FleetCase):
    def waiting(self, name: str | None = "alpha", wait_s: float = 50.0, *, wait_for_all: bool = False) -> Deferred[Any]:
        return self.fleet.status(name, wait_s=wait_s, wait_for_all=wait_for_all, result=False)

    def test_it_answers_when_the_run_ends(self) -> None:
        self.start()
        answer = self.waiting()
        self.clock.advance(10)
        self.assertNoResult(answer)
        self.end()
        self.assertEqual(self.successResultOf(answer)["subagents"][0]["state"], "idle")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_end_of_a_turn_that_another_follows_is_no_end(self) -> None:
        self.start(goal="g", max_turns=2)
        answer = self.waiting()
        self.end()
        self.assertNoResult(answer)
        self.end()
        self.assertEqual(self.successResultOf(answer)["subagents"][0]["turn"], 2)

    def test_the_end_of_another_run_is_no_end(self) -> None:
        self.start("alpha")
        self.start("beta")
        answer = self.waiting("alpha")
        self.end()
        self.assertNoResult(answer)
        self.clock.advance(50)
        self.assertEqual(self.successResultOf(answer)["subagents"][0]["state"], "running")

    def test_for_all_it_answers_once_the_last_has_ended(self) -> None:
        self.start("alpha")
        self.start("beta")
        answer = self.waiting(None, wait_s=3600.0, wait_for_all=True)
        self.source.turns[0].end(turn_end())
        self.assertNoResult(answer)
        self.source.turns[1].end(turn_end())
        self.assertEqual(self.successResultOf(answer)["counts"]["running"], 0)

    def test_it_answers_at_the_deadline(self) -> None:
        self.start()
        answer = self.waiting(wait_s=7.5)
        self.clock.advance(7.4)
        self.assertNoResult(answer)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(answer)["subagents"][0]["state"], "running")

    def test_it_answers_at_once_when_none_of_the_asked_runs(self) -> None:
        self.successResultOf(self.waiting(None))
        self.ended_run()
        self.successResultOf(self.waiting())
        self.successResultOf(self.waiting(None))

    def test_of_all_it_answers_when_any_ends(self) -> None:
        self.start("alpha")
        self.start("beta")
        answer = self.waiting(None)
        self.end()
        self.assertEqual(self.successResultOf(answer)["counts"]["idle"], 1)

    def test_what_it_tells_includes_what_became_of_the_report(self) -> None:
        self.report.hold = True
        self.start(report_file="r.md")
        answer = self.waiting()
        self.end()
        self.assertNoResult(answer)
        self.report.held[0].callback(None)
        self.assertEqual(self.successResultOf(answer)["subagents"][0]["todo"], "pending")

    def test_a_caller_who_gives_up_leaves_the_others_waiting(self) -> None:
        self.start()
        lost, other = self.waiting(), self.waiting()
        lost.cancel()
        self.failureResultOf(lost, CancelledError)
        self.end()
        self.successResultOf(other)

    def test_a_run_that_ends_before_it_was_under_way_wakes_it(self) -> None:
        self.ended_run()
        held = self.continuing()
        answer = self.waiting()
        self.turn.end(unborn("Not logged in"))
        self.refused(held, ContinueFailed)
        self.assertEqual(self.successResultOf(answer)["subagents"][0]["state"], "failed")

    def test_a_miss_wakes_it(self) -> None:
        self.ended_run()
        held = self.continuing()
        answer = self.waiting()
        self.turn.end(unborn("No conversation found with session ID: x"))
        self.refused(held, ContinueFailed)
        self.assertEqual(self.successResultOf(answer)["subagents"][0]["state"], "idle")


class OfAll(FleetCase):
    def listed(self, result: bool = False) -> Any:
        return self.successResultOf(self.fleet.status(None, wait_s=0.0, wait_for_all=False, result=result))

    def names(self) -> list[str]:
        return [told["name"] for told in self.listed()["subagents"]]

    def test_of_nothing_it_is_an_empty_list_and_counts_of_nothing(self) -> None:
        none = {"running": 0, "waiting": 0, "idle": 0, "blocked": 0, "killed": 0, "failed": 0}
        self.assertEqual(self.listed(), {"subagents": [], "counts": none})

    def test_all_that_run_come_first_then_what_ended_last(self) -> None:
        self.start("running1")
        self.ended_run("old")
        self.ended_run("new")
        self.start("running2")
        self.assertEqual(self.names(), ["running1", "running2", "new", "old"])

    def test_a_name_that_ended_again_counts_as_new(self) -> None:
        self.ended_run("alpha")
        self.ended_run("beta")
        self.resume("alpha")
        self.end()
        self.assertEqual(self.names(), ["alpha", "beta"])

    def test_twenty_that_ended_are_listed_and_all_are_counted(self) -> None:
        for number in range(25):
            self.ended_run(f"n{number}")
        self.start("running")
        self.assertEqual(self.names(), ["running", *(f"n{number}" for number in range(24, 4, -1))])
        self.assertEqual(self.listed()["counts"]["idle"], 25)
        self.assertEqual(self.listed()["counts"]["running"], 1)

    def test_they_are_counted_by_state(self) -> None:
        self.ended_run("a")
        self.ended_run("b", Outcome.KILLED)
        self.ended_run("c", Outcome.FAILED)
        self.start("d")
        self.turn.signalled(SignalKind.NEED_HELP, "help", None)
        self.end()
        self.start("e")
        self.assertEqual(
            self.listed()["counts"], {"running": 1, "waiting": 0, "idle": 1, "blocked": 1, "killed": 1, "failed": 1}
        )

    def test_goals_are_cut_at_200_characters(self) -> None:
        self.start(goal="g" * 201)
        self.assertEqual(self.listed()["subagents"][0]["goal"], "g" * 200 + "… [cut: 201 characters]")

    def test_results_are_given_when_asked_for(self) -> None:
        self.start()
        self.end(result=said("the answer"))
        self.assertEqual(self.listed(result=True)["subagents"][0]["result"], "the answer")
        self.assertNotIn("result", self.listed()["subagents"][0])


class WhatIsRemembered(FleetCase):
    max_running = 3000

    def test_a_thousand_and_one_that_ended_are_a_thousand_the_oldest_goes(self) -> None:
        for number in range(1001):
            self.ended_run(f"n{number}")
        self.failureResultOf(self.fleet.status("n0", wait_s=0.0, wait_for_all=False, result=False), UnknownName)
        self.assertEqual(self.record("n1")["session_id"], session(2))
        self.assertEqual(
            self.successResultOf(self.fleet.status(None, wait_s=0.0, wait_for_all=False, result=False))["counts"][
                "idle"
            ],
            1000,
        )

    def test_what_runs_is_never_forgotten_and_the_order_is_that_of_the_ends(self) -> None:
        with mock.patch.object(roster, "REMEMBERED", 2):
            for name in ("long", "a", "b", "c"):
                self.start(name)
            for turn in self.source.turns[1:]:
                turn.end(turn_end())
            self.assertEqual(self.record("long")["state"], "running")
            self.failureResultOf(self.fleet.status("a", wait_s=0.0, wait_for_all=False, result=False), UnknownName)
            self.source.turns[0].end(turn_end())
            self.record("long")
            self.failureResultOf(self.fleet.status("b", wait_s=0.0, wait_for_all=False, result=False), UnknownName)
            self.record("c")

    def test_a_forgotten_ones_end_has_been_told(self) -> None:
        with mock.patch.object(roster, "REMEMBERED", 1):
            self.ended_run("a")
            self.ended_run("b")
        self.assertEqual([todo["subagent"]["name"] for todo in self.outbox.todos], ["a", "b"])
