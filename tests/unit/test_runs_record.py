"""The record of a run as `status` tells it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import Control, Outcome, Result, SignalKind, StopKind, StopReason
from hivesub.runs.record import record, shown_result
from hivesub.runs.run import Run
from hivesub.turns.events import read_result
from tests.support.runfakes import (
    NOW,
    SECRET,
    FakeRedactor,
    a_turn,
    init,
    run_of,
    said,
    session,
    turn_end,
    used,
)

FIELDS = {
    "name",
    "session_id",
    "dir",
    "state",
    "turn",
    "max_turns",
    "goal",
    "last_event_age_s",
    "started_at",
    "ended_at",
    "last_turn",
    "stop_reason",
    "signals",
    "transcript",
    "report_file",
    "report_error",
    "usage",
    "control",
    "retrying",
    "check",
    "missing_tools",
    "todo",
}

REDACT = FakeRedactor().redact


def told(run: Run, seconds: float = 0.0, **options: Any) -> Any:
    return record(run, seconds=seconds, redact=REDACT, **options)


def kept(text: str) -> Result:
    """What is kept of a result with a long text."""
    return read_result({"is_error": False, "result": text})


def over(run: Run, kind: StopKind = StopKind.TURN_ENDED, redact: Callable[[str], str] = REDACT, **end: Any) -> Run:
    run.turn_ended(run.turn or a_turn(), turn_end(**end))
    run.said = shown_result(end.get("result"), redact)
    run.stop_reason = StopReason(kind=kind, message="why")
    run.ended_at = NOW + timedelta(seconds=9)
    return run


class WhileItRuns(SynchronousTestCase):
    def setUp(self) -> None:
        self.run_ = run_of(goal="g", max_turns=5, session_id=session(1))
        self.run_.turn = self.turn = a_turn()

    def test_it_has_the_fields_of_the_contract_and_the_pid(self) -> None:
        self.assertEqual(set(told(self.run_)), FIELDS | {"pid"})
        self.assertEqual(set(told(self.run_, result=True)), FIELDS | {"pid", "result"})
        self.assertEqual((told(self.run_)["pid"], told(self.run_)["state"]), (1, "running"))
        self.assertEqual((told(self.run_)["last_turn"], told(self.run_)["stop_reason"]), (None, None))

    def test_the_age_counts_from_the_last_byte(self) -> None:
        self.turn.last_event_at = 100.0
        self.assertEqual(told(self.run_, seconds=103.25)["last_event_age_s"], 3.2)
        self.assertEqual(told(self.run_, seconds=99.0)["last_event_age_s"], 0.0)

    def test_between_two_turns_there_is_neither_age_nor_pid(self) -> None:
        self.run_.turn_ended(self.turn, turn_end())
        now = told(self.run_)
        self.assertEqual((now["state"], now["last_event_age_s"], now["pid"]), ("running", None, None))
        self.assertEqual(now["last_turn"]["outcome"], "finished")

    def test_it_follows_init_at_once(self) -> None:
        self.turn.begin(init(session_id=session(7), cwd="/srv/else", tools=("Read", "mcp__x__y")))
        self.turn.control = Control.CONNECTED
        now = told(self.run_)
        self.assertEqual((now["session_id"], now["dir"], now["missing_tools"]), (session(7), "/srv/else", ["Write"]))
        self.assertEqual(now["control"], "connected")

    def test_the_control_of_an_earlier_turn_holds_until_this_one_tells(self) -> None:
        self.run_.control = Control.CONNECTED
        self.assertEqual(told(self.run_)["control"], "connected")

    def test_signals_are_listed_while_the_state_stays_running(self) -> None:
        self.run_.claim(SignalKind.NEED_HELP, "which?", NOW)
        now = told(self.run_)
        self.assertEqual(now["signals"], [{"kind": "need_help", "message": "which?", "at": "2031-05-06T07:08:09.123Z"}])
        self.assertEqual((now["state"], now["stop_reason"]), ("running", None))


class WhenItIsOver(SynchronousTestCase):
    def test_it_has_no_pid_and_no_age(self) -> None:
        now = told(over(run_of()), seconds=50)
        self.assertEqual(set(now), FIELDS)
        self.assertEqual((now["last_event_age_s"], now["ended_at"]), (None, "2031-05-06T07:08:18.123Z"))

    def test_the_last_turn_is_told_as_it_was_observed(self) -> None:
        run = over(run_of(), outcome=Outcome.KILLED, signal="SIGKILL", exit_code=None, detail="gone")
        self.assertEqual(
            told(run)["last_turn"],
            {
                "outcome": "killed",
                "signal": "SIGKILL",
                "exit_code": None,
                "detail": "gone",
                "ended_at": "2031-05-06T07:08:09.123Z",
            },
        )

    def test_turn_n_of_m_is_told_in_every_state_with_a_goal_and_in_none_without(self) -> None:
        rows: tuple[tuple[StopKind, dict[str, Any]], ...] = (
            (StopKind.GOAL_REACHED, {}),
            (StopKind.NEED_HELP, {}),
            (StopKind.KILLED, {"outcome": Outcome.KILLED}),
            (StopKind.FAILED, {"outcome": Outcome.FAILED}),
        )
        for kind, end in rows:
            now = told(over(run_of(goal="g", max_turns=5, turn_number=2), kind, **end))
            self.assertEqual((now["turn"], now["max_turns"]), (2, 5), now["state"])
            now = told(over(run_of(), kind, **end))
            self.assertEqual((now["turn"], now["max_turns"], now["goal"]), (None, None, None))

    def test_usage_is_told_and_a_cost_that_is_not_known_is_null(self) -> None:
        now = told(over(run_of(), usage=used(0.25)))
        self.assertEqual(now["usage"], {"cost_usd": 0.25, "claude_turns": 1, "input_tokens": 10, "output_tokens": 3})
        self.assertIsNone(told(over(run_of()))["usage"]["cost_usd"])


class TheTexts(SynchronousTestCase):
    def test_a_goal_is_verbatim_unless_a_limit_is_asked_for(self) -> None:
        goal = "é" * 201
        run = run_of(goal=goal, max_turns=5)
        self.assertEqual(told(run)["goal"], goal)
        self.assertEqual(told(run, goal_limit=200)["goal"], "é" * 200 + "… [cut: 201 characters]")
        self.assertEqual(told(run, goal_limit=201)["goal"], goal)

    def test_the_result_is_what_was_said_last_and_null_where_nothing_was(self) -> None:
        run = run_of()
        run.turn = a_turn()
        self.assertIsNone(told(run, result=True)["result"])
        run.turn.result = said("first")
        self.assertEqual(told(run, result=True)["result"], "first")
        self.assertEqual(told(over(run, result=said("last")), result=True)["result"], "last")
        self.assertNotIn("result", told(run))

    def test_in_a_goal_run_the_last_turns_word_stands_until_this_one_says_something(self) -> None:
        run = run_of(goal="g", max_turns=5)
        run.turn_ended(a_turn(), turn_end())
        run.said = "of turn 1"
        run.turn = a_turn()
        self.assertEqual(told(run, result=True)["result"], "of turn 1")

    def test_a_result_that_was_cut_says_so(self) -> None:
        run = over(run_of(), result=kept("x" * 100_001))
        self.assertEqual(told(run, result=True)["result"], "x" * 100_000 + " [cut at 100,000 characters]")

    def test_one_that_fits_once_its_secrets_are_replaced_does_not(self) -> None:
        def gone(text: str) -> str:
            return text.replace(SECRET, "")

        run = over(run_of(), redact=gone, result=kept("x" * 99_995 + "s" + SECRET * 2))
        self.patch(run, "name", "short")
        now = record(run, seconds=0.0, redact=gone, result=True)
        self.assertEqual(now["result"], "x" * 99_995 + "s")

    def test_a_secret_at_the_limit_goes_whole_and_the_limit_stays(self) -> None:
        for before, after in ((99_995, 2), (99_995, 10_000), (99_970, 10_000)):
            run = over(run_of(), result=kept("x" * before + SECRET + "y" * after))
            whole = "x" * before + "[redacted]" + "y" * after
            self.assertEqual(told(run, result=True)["result"], whole[:100_000] + " [cut at 100,000 characters]")

    def test_half_of_a_secret_at_the_end_of_all_that_is_kept_is_never_shown(self) -> None:
        run = over(run_of(), result=kept(SECRET * 6000 + "x" * 36_187 + SECRET))
        now = told(run, result=True)["result"]
        self.assertNotIn(SECRET[:5], now)
        self.assertTrue(now.endswith("x [cut at 100,000 characters]"), now[-60:])

    def test_a_text_that_grows_past_the_limit_by_what_is_put_in_is_cut_and_says_so(self) -> None:
        run = over(run_of(), redact=lambda text: text + "[redacted]", result=said("a" * 100_000))
        now = record(run, seconds=0.0, redact=str, result=True)
        self.assertEqual(now["result"], "a" * 100_000 + " [cut at 100,000 characters]")

    def test_secrets_are_replaced_in_stop_reason_result_and_report_path(self) -> None:
        run = over(run_of(report_file=f"/srv/work/{SECRET}"), result=said(f"it is {SECRET}"))
        run.stop_reason = StopReason(kind=StopKind.FAILED, message=f"no {SECRET}")
        now = told(run, result=True)
        self.assertNotIn(SECRET, str(now))
        self.assertEqual(now["result"], "it is [redacted]")
