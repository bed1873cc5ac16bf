"""What the tools say to the model: every fact that it needs to act on, and claims labelled as claims."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.shapes import Record
from hivesub.tools.texts import continue_text, ended_names, interrupt_text, news_text, start_text, status_text
from tests.support.toolfakes import OLD_SESSION, SESSION, ended, record, signal


def told(one: Record) -> str:
    return status_text({"subagents": [one]})


class StartTextTests(SynchronousTestCase):
    def test_a_start_says_session_directory_budget_and_how_to_wait(self) -> None:
        self.assertEqual(
            start_text({"subagent": record(turn=1)}),
            f"alpha: started (session {SESSION}) in /srv/work. Turn 1 of 5 toward its goal. "
            "It works by itself: go on with other work. `status` with `wait_s` 3600 waits for its end.",
        )

    def test_a_start_without_a_goal_says_that_it_is_a_single_turn(self) -> None:
        text = start_text({"subagent": record(turn=None, max_turns=None, goal=None)})
        self.assertIn("A single turn, without a goal.", text)
        self.assertNotIn("Turn ", text)

    def test_a_start_that_replaces_a_session_names_the_old_one_and_how_to_resume_it(self) -> None:
        text = start_text({"subagent": record(), "replaced_session_id": OLD_SESSION})
        self.assertIn(f"This is a new session; it replaces the one that bore the name before, {OLD_SESSION}", text)
        self.assertIn("`continue` with that `session_id`", text)

    def test_a_start_answered_by_its_request_key_after_the_end_tells_the_end(self) -> None:
        text = start_text({"subagent": ended("idle", "turn_ended", turn=None, max_turns=None, goal=None)})
        self.assertIn("its run has ended already", text)
        self.assertNotIn("waits for its end", text)


class ContinueTextTests(SynchronousTestCase):
    def test_a_continue_tells_what_a_start_tells(self) -> None:
        text = continue_text({"subagent": record(turn=1)})
        self.assertIn(f"alpha: continued (session {SESSION}) in /srv/work. Turn 1 of 5 toward its goal.", text)
        self.assertNotIn("killed", text)

    def test_a_killed_previous_turn_is_said_plainly_with_its_signal(self) -> None:
        text = continue_text({"subagent": record(), "previous_signal": "SIGKILL"})
        self.assertIn("Its previous turn was killed by SIGKILL, not finished", text)
        self.assertIn("may be cut off in the middle", text)

    def test_a_session_that_claude_has_not_taken_up_yet_is_not_called_continued(self) -> None:
        text = continue_text({"subagent": record(turn=1), "under_way": False})
        self.assertIn(f"alpha: started (session {SESSION}) in /srv/work.", text)
        self.assertIn("Claude has not said yet that it resumed the session", text)
        self.assertNotIn("continued", text)

    def test_a_goal_that_was_kept_is_said_to_be_with_its_turns_and_money(self) -> None:
        text = continue_text({"subagent": record(turn=1), "same_goal": True, "budget_anew_usd": 1.0})
        self.assertIn("Turn 1 of 5 toward the same goal, with up to 1.00 US dollars anew.", text)
        text = continue_text({"subagent": record(turn=1), "same_goal": True, "budget_anew_usd": 0.0125})
        self.assertIn("with up to 0.0125 US dollars anew.", text)

    def test_money_that_was_kept_without_a_goal_is_said_to_be(self) -> None:
        single = record(turn=None, max_turns=None, goal=None)
        text = continue_text({"subagent": single, "budget_anew_usd": 2.5})
        self.assertIn("A single turn, without a goal, with up to 2.50 US dollars anew.", text)

    def test_a_name_of_which_no_goal_is_remembered_is_said_to_get_a_single_turn(self) -> None:
        single = record(turn=None, max_turns=None, goal=None)
        text = continue_text({"subagent": single, "no_goal_remembered": True})
        self.assertIn("No goal is remembered: a single turn; give `goal` to work toward one.", text)

    def test_a_session_that_is_not_known_yet_is_said_to_be(self) -> None:
        self.assertIn("(session not known yet)", continue_text({"subagent": record(session_id=None)}))


class StatusTextTests(SynchronousTestCase):
    def test_a_running_subagent_is_told_in_three_short_sentences(self) -> None:
        self.assertEqual(told(record()), "alpha: running. Turn 2 of 5. Last event 3 s ago.")

    def test_a_run_without_a_goal_has_no_turn_phrase(self) -> None:
        self.assertEqual(told(record(turn=None, max_turns=None, goal=None)), "alpha: running. Last event 3 s ago.")

    def test_the_turn_of_the_budget_is_told_once_in_every_state(self) -> None:
        for one in (
            record(),
            ended("idle", "turn_cap"),
            ended("idle", "goal_reached"),
            ended("blocked", "need_help"),
            ended("killed", "killed", "killed"),
            ended("failed", "failed", "failed"),
            record(state="killed", last_turn=None, stop_reason={"kind": "killed", "message": ""}),
        ):
            self.assertEqual(told(one).count("Turn 2 of 5"), 1, told(one))

    def test_goal_reached_is_labelled_as_the_subagents_own_claim(self) -> None:
        one = ended("idle", "goal_reached", message="42 tests pass", signals=[signal("goal_reached", "42 tests pass")])
        for text in (told(one), status_text({"subagents": [one], "counts": {"idle": 1}})):
            self.assertIn("self-reported, not verified", text)
        self.assertIn("42 tests pass", told(one))
        self.assertIn("Check the work", told(one))

    def test_a_claim_made_while_running_is_told_and_labelled(self) -> None:
        text = told(record(signals=[signal("goal_reached", "done")]))
        self.assertIn("alpha: running. Turn 2 of 5. Last event 3 s ago.", text)
        self.assertIn("goal_reached (self-reported, not verified)", text)

    def test_a_blocked_subagent_tells_its_reason_and_how_to_answer(self) -> None:
        text = told(
            ended("blocked", "need_help", message="Which database?", signals=[signal("need_help", "Which database?")])
        )
        self.assertTrue(text.startswith("alpha: blocked."), text)
        self.assertIn("Which database?", text)
        self.assertIn("Answer it with `continue`.", text)

    def test_outcome_and_stop_reason_stand_as_two_facts(self) -> None:
        text = told(ended("killed", "killed", "killed", last={"signal": "SIGTERM", "exit_code": None}))
        self.assertIn("Turn 2 of 5 was killed mid-turn, not finished: SIGTERM.", text)
        self.assertIn("The run stopped because its turn was killed.", text)
        self.assertIn("`continue` resumes its session.", text)

    def test_every_stop_reason_tells_what_can_be_done_next(self) -> None:
        for kind in (
            "turn_ended",
            "goal_reached",
            "need_help",
            "turn_cap",
            "budget_spent",
            "no_control",
            "killed",
            "failed",
        ):
            self.assertIn("`continue`", told(ended("idle", kind)), kind)

    def test_trouble_is_told(self) -> None:
        text = told(
            ended(
                "idle",
                "turn_ended",
                control="failed",
                missing_tools=["WebFetch", "WebSearch"],
                report_file="/srv/work/r.md",
                report_error="no such folder",
                todo="undelivered",
            )
        )
        self.assertIn("Its signal route failed to connect", text)
        self.assertIn("Tools asked for that it did not get: WebFetch, WebSearch.", text)
        self.assertIn("\nReport file: /srv/work/r.md\nReport error: no such folder.", text)
        self.assertIn("Its todo could not be delivered.", text)

    def test_an_ended_one_tells_its_session_directory_and_cost(self) -> None:
        usage = {"cost_usd": 0.01234, "claude_turns": 3, "input_tokens": 10, "output_tokens": 20}
        text = told(ended("idle", "turn_ended", usage=usage))
        self.assertIn(f"\nSession {SESSION} in /srv/work", text)
        self.assertIn("Cost 0.0123 US dollars.", text)

    def test_what_is_in_order_is_not_told(self) -> None:
        text = told(ended("idle", "turn_ended"))
        for word in ("todo", "Tools asked", "Report", "signal route", "said last"):
            self.assertNotIn(word, text)

    def test_the_result_comes_last_and_as_the_subagents_own_words(self) -> None:
        text = told(ended("idle", "turn_ended", result="All done.\nReally."))
        self.assertTrue(text.endswith("\nalpha said last, in its own words:\nAll done.\nReally."), text)

    def test_a_missing_result_is_said_to_be_missing(self) -> None:
        self.assertIn("its turn wrote no result", told(ended("failed", "failed", "failed", result=None)))

    def test_an_empty_result_is_no_quotation_of_nothing(self) -> None:
        text = told(ended("killed", "killed", "killed", result=""))
        self.assertTrue(
            text.endswith("\nalpha has said nothing last yet: its turn wrote a result without a text."), text
        )


class WaitingTextTests(SynchronousTestCase):
    def test_a_wait_for_the_api_is_no_work(self) -> None:
        since = (datetime.now(UTC) - timedelta(seconds=185)).isoformat()
        retry = {"error": "authentication_failed", "status": 401, "attempt": 7, "max_attempts": 10, "since": since}
        self.assertEqual(
            told(record(retrying=retry)),
            "alpha: running. Turn 2 of 5. Last event 3 s ago. "
            "It waits for the API: authentication_failed, attempt 7 of 10, for 3 min.",
        )
        self.assertIn(
            "It waits for the API: status 529, attempt", told(record(retrying={**retry, "error": None, "status": 529}))
        )
        self.assertIn(
            "It waits for the API: an error, attempt", told(record(retrying={**retry, "error": None, "status": None}))
        )

    def test_a_wait_for_a_usage_limit_says_until_when(self) -> None:
        one = record(state="waiting", waiting_until="2031-05-06T12:00:07.000Z", last_event_age_s=None)
        self.assertEqual(
            told(one),
            "alpha: waiting. Turn 2 of 5. A usage limit of the account holds it up: the turn is run again at "
            "2031-05-06 12:00 UTC.",
        )

    def test_a_turn_that_was_cut_is_never_called_finished(self) -> None:
        one = ended("idle", "cut", "cut", last={"detail": "its last answer asked for a tool that was never run"})
        text = told(one)
        self.assertIn("Turn 2 of 5 was cut off by claude, not finished: its last answer asked for a tool", text)
        self.assertIn("The run stopped because claude broke its turn off.", text)
        self.assertIn("`continue` takes it up", text)

    def test_a_cost_that_is_not_known_is_said_to_be(self) -> None:
        usage = {"cost_usd": None, "claude_turns": 3, "input_tokens": 1, "output_tokens": 1}
        self.assertIn("What it cost is not known.", told(ended("idle", "turn_ended", usage=usage)))


class CheckTextTests(SynchronousTestCase):
    def check(self, outcome: str, code: int | None, **changes: Any) -> dict[str, Any]:
        return {
            "name": "tests", "exit_code": code, "outcome": outcome, "detail": "", "tail": "",
            "ended_at": "2031-05-06T07:09:09.123Z", **changes,
        }  # fmt: skip

    def test_one_that_passed_is_observed_and_the_claim_beside_it_a_claim(self) -> None:
        one = ended(
            "idle", "check_passed", message="check `tests` passed, exit 0", check=self.check("passed", 0, tail="ok"),
            signals=[signal("goal_reached", "all green")],
        )  # fmt: skip
        text = told(one)
        self.assertEqual(text.count("heck `tests` passed, exit 0."), 1, text)
        self.assertIn("also signalled goal_reached (self-reported, not verified)", text)
        self.assertNotIn("output", text)

    def test_one_that_failed_at_the_cap_is_told_with_the_end_of_its_output(self) -> None:
        text = told(ended("idle", "turn_cap", check=self.check("failed", 2, tail="x" * 5000 + "1 failed")))
        self.assertIn("Check `tests` failed, exit 2.", text)
        self.assertIn("The end of the check's output:\n", text)
        self.assertTrue(text.endswith("1 failed"), text)
        self.assertLess(len(text), 1200)

    def test_one_that_says_nothing_of_the_work_is_no_failing_check(self) -> None:
        for outcome, words in (
            ("timed_out", "ran out of time"),
            ("not_run", "could not be run"),
            ("killed", "was killed"),
        ):
            text = told(ended("idle", "goal_reached", check=self.check(outcome, None, detail="why so")))
            self.assertIn(f"Check `tests` {words}, why so.", text)
            self.assertNotIn("failed", text)

    def test_one_that_runs_is_told_with_how_long(self) -> None:
        since = (datetime.now(UTC) - timedelta(seconds=12)).isoformat()
        one = record(checking={"name": "tests", "since": since}, last_event_age_s=None)
        self.assertIn("Checking `tests`, 12 s.", told(one))
        self.assertIn("Checking `tests`, 12 s.", status_text({"subagents": [one], "counts": {"running": 1}}))

    def test_a_typed_result_is_shown_and_its_absence_said(self) -> None:
        one = ended("idle", "turn_ended", result="done", structured_output={"n": 5})
        self.assertTrue(told(one).endswith('in its own words:\ndone\nIts structured output:\n{"n": 5}'), told(one))
        self.assertTrue(told({**one, "structured_output": None}).endswith("The turn gave no structured output."))


class ListTextTests(SynchronousTestCase):
    def test_several_are_a_line_each_below_the_counts(self) -> None:
        text = status_text(
            {
                "subagents": [
                    record(),
                    ended("blocked", "need_help", name="beta", message="Which\ndatabase?"),
                    ended("idle", "turn_cap", name="gamma", turn=5),
                ],
                "counts": {"running": 1, "idle": 1, "blocked": 1, "killed": 0, "failed": 0},
            }
        )
        self.assertEqual(
            text.splitlines(),
            [
                "3 subagents: 1 running, 1 idle, 1 blocked.",
                "alpha: running. Turn 2 of 5. Last event 3 s ago.",
                r'beta: blocked. Turn 2 of 5. Asks for help: "Which\ndatabase?"',
                "gamma: idle. Turn 5 of 5. Stopped at its limit of 5 turns, goal not reported reached.",
            ],
        )

    def test_the_head_says_when_not_all_are_told_of(self) -> None:
        text = status_text({"subagents": [ended("idle", "turn_ended")], "counts": {"idle": 30}})
        self.assertEqual(text.splitlines()[0], "30 subagents: 30 idle; listed here: 1.")

    def test_a_list_of_one_is_still_a_list(self) -> None:
        text = status_text({"subagents": [record()], "counts": {"running": 1}})
        self.assertEqual(text.splitlines()[0], "1 subagent: 1 running.")

    def test_no_subagents_brings_how_to_make_one(self) -> None:
        self.assertEqual(
            status_text({"subagents": [], "counts": {}}),
            "No subagent has been started since the daemon came up; `start` makes one.",
        )

    def test_the_signal_that_killed_is_named(self) -> None:
        one = ended("killed", "killed", "killed", last={"signal": "SIGKILL", "detail": "died on SIGKILL"})
        text = status_text({"subagents": [one], "counts": {"killed": 1}})
        self.assertEqual(text.splitlines()[1], "alpha: killed by SIGKILL. Turn 2 of 5. Died on SIGKILL.")

    def test_twenty_results_share_the_room_and_are_said_to_be_cut(self) -> None:
        records = [record(name=f"agent-{n}", result="x" * 90_000) for n in range(20)]
        text = status_text({"subagents": records, "counts": {"running": 20}})
        self.assertLess(len(text), 40_000)
        self.assertEqual(text.count("said last, in its own words:"), 20)
        self.assertEqual(text.count("[cut: 90,000 characters]"), 20)

    def test_twenty_that_ended_are_short(self) -> None:
        records = [
            ended(
                "idle", "goal_reached", name=f"a-name-of-usual-length-{n}", message="m" * 4000,
                signals=[signal("goal_reached", "m" * 4000)],
            )
            for n in range(20)
        ]  # fmt: skip
        self.assertLess(len(status_text({"subagents": records, "counts": {"idle": 20}})), 6_000)


class Limits(SynchronousTestCase):
    def test_no_answer_is_above_its_limit_whatever_the_record_holds(self) -> None:
        much = "w" * 300_000
        one = ended(
            "blocked", "need_help", message=much, goal=much, report_error=much, report_file=f"/{much}", dir=f"/{much}",
            signals=[signal("need_help", much)] * 100, missing_tools=[much] * 100, last={"detail": much},
        )  # fmt: skip
        for text in (
            told(one),
            status_text({"subagents": [one] * 20, "counts": {"blocked": 20}}),
            start_text({"subagent": record(dir=f"/{much}")}),
            continue_text({"subagent": one}),
            interrupt_text({"subagent": one, "escalated": False}),
        ):
            self.assertLessEqual(len(text), 20_000)
        self.assertLessEqual(len(told({**one, "result": much})), 40_000)

    def test_a_claim_of_many_keeps_the_last_ones_and_counts_the_rest(self) -> None:
        one = record(signals=[signal("goal_reached", f"claim {n}") for n in range(12)])
        text = told(one)
        self.assertIn("7 times what is not kept", text)
        self.assertIn("claim 11", text)
        self.assertNotIn("claim 6", text)


class NewsTests(SynchronousTestCase):
    def test_those_that_ended_meanwhile_are_named_with_how(self) -> None:
        killed = ended("killed", "killed", "killed", name="beta", last={"signal": "SIGKILL"})
        self.assertEqual(
            news_text([ended("idle", "turn_ended"), killed]),
            "Ended meanwhile: alpha finished its turn; beta was killed mid-turn, not finished. "
            "`status` has the details.",
        )
        self.assertEqual(news_text([]), "")

    def test_those_that_ended_alike_are_named_together(self) -> None:
        text = news_text([ended("idle", "turn_ended", name=f"a{n}") for n in range(3)])
        self.assertEqual(text, "Ended meanwhile: a0, a1, a2: each finished its turn. `status` has the details.")

    def test_very_many_are_counted(self) -> None:
        text = news_text([ended("idle", "turn_ended", name=f"a{n}") for n in range(30)])
        self.assertIn("; and 10 more. ", text)

    def test_an_answer_that_shows_an_end_tells_it(self) -> None:
        self.assertEqual(ended_names({"subagents": [record(), ended("idle", "turn_cap", name="beta")]}), ["beta"])
        self.assertEqual(ended_names({"subagent": ended("idle", "turn_cap")}), ["alpha"])
        self.assertEqual(ended_names({"subagent": record()}), [])


class InterruptTextTests(SynchronousTestCase):
    def test_it_tells_the_signal_and_that_the_run_is_over(self) -> None:
        one = ended("killed", "killed", "killed", last={"signal": "SIGINT"})
        text = interrupt_text({"subagent": one, "escalated": False})
        self.assertTrue(
            text.startswith("alpha: killed by SIGINT. Turn 2 of 5. The run is over: no further turn follows."), text
        )
        self.assertNotIn("stronger", text)

    def test_it_says_when_it_escalated_and_what_was_there_before(self) -> None:
        one = ended(
            "killed", "killed", "killed", last={"signal": "SIGKILL", "detail": "a good result had been written before"}
        )
        text = interrupt_text({"subagent": one, "escalated": True})
        self.assertIn("did not go at the first signal; stronger ones had to follow.", text)
        self.assertIn("Detail: a good result had been written before.", text)

    def test_what_was_killed_before_claude_had_begun_is_not_said_to_be_resumable(self) -> None:
        for control, promised in (("unknown", False), ("connected", True)):
            one = ended("killed", "killed", "killed", last={"signal": "SIGINT"}, control=control)
            for text in (interrupt_text({"subagent": one, "escalated": False}), told(one)):
                self.assertIs("`continue` resumes its session." in text, promised, text)
                self.assertIs("`start` it anew." in text, not promised, text)

    def test_a_run_that_ended_by_itself_meanwhile_is_not_said_to_be_cut_off(self) -> None:
        text = interrupt_text({"subagent": ended("idle", "turn_ended"), "escalated": False})
        self.assertNotIn("cut off", text)

    def test_an_interrupt_between_two_turns_names_no_signal(self) -> None:
        text = interrupt_text({"subagent": ended("killed", "killed", "finished"), "escalated": False})
        self.assertTrue(text.startswith("alpha: killed. "), text)
