"""The verdict on a turn: each way that claude was seen to end, and each that people were told wrongly."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import Outcome, Result, TurnEnd
from hivesub.turns.outcome import DETAIL_LIMIT, judge, signal_name, signal_of_exit_code
from hivesub.turns.stream import Stream

NOW = datetime(2031, 5, 6, tzinfo=UTC)
INIT = {
    "type": "system",
    "subtype": "init",
    "session_id": "6868ab6d-b404-47a1-8fa8-d5f5a71e3bed",
    "tools": ["Bash", "mcp__x__y"],
    "mcp_servers": [],
}
GOOD = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}
RATE_LIMIT = {"type": "result", "subtype": "success", "is_error": True, "result": "rate limit reached"}
API_ERROR = {"type": "result", "subtype": "success", "is_error": True, "result": "API Error: 500 overloaded"}
WORDLESS = {**API_ERROR, "result": " "}
DURING = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": ["stopped"]}
ABORTED = {**DURING, "terminal_reason": "aborted_streaming"}
OVERFLOW = {**API_ERROR, "result": "Prompt is too long", "terminal_reason": "prompt_too_long"}
OVERFLOW_IN_WORDS = {**API_ERROR, "result": "Prompt is too long"}
BUDGET = {
    "type": "result",
    "subtype": "error_max_budget_usd",
    "is_error": True,
    "errors": ["Reached maximum budget ($1)"],
}
OUT_OF_CONTEXT = {**GOOD, "stop_reason": "model_context_window_exceeded"}
MAX_TURNS = {"type": "result", "subtype": "error_max_turns", "is_error": True, "errors": ["Reached 3 turns"]}
REFUSAL = {**API_ERROR, "result": "I will not", "stop_reason": "refusal"}
LISTED = {
    "type": "system",
    "subtype": "background_tasks_changed",
    "tasks": [{"task_id": "b1", "description": "npm test"}, {"task_id": "b2"}],
}
UPDATED = {"type": "system", "subtype": "task_updated", "task_id": "b1", "patch": {"status": "killed"}}
NOTIFIED = {"type": "system", "subtype": "task_notification", "task_id": "b2", "status": "stopped"}
NOT_FOUND = "No conversation found with session ID: 7"
MISS = {"type": "result", "subtype": "error_during_execution", "is_error": True, "errors": [NOT_FOUND]}
ANSWER = {"type": "assistant", "message": {"content": [{"type": "text", "text": "on it"}]}}
FULL = {**API_ERROR, "result": "API Error: The model has reached its context window limit."}
INTERRUPTED = {"type": "user", "message": {"content": [{"type": "text", "text": "[Request interrupted by user]"}]}}
HALF = b'{"type":"result","subtype":"success","is_error":false,"result":"do'

FINISHED, CUT, FAILED, KILLED = Outcome.FINISHED, Outcome.CUT, Outcome.FAILED, Outcome.KILLED
STOP = "interrupted by the agent"
INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
OUR_INT = {"our_stop": STOP, "last_sent_signal": INT}
OUR_TERM = {"our_stop": STOP, "last_sent_signal": TERM}
OUR_KILL = {"our_stop": STOP, "last_sent_signal": KILL}
LINGERED = {"lingered": True, "last_sent_signal": INT}
LINGERED_ON = {"lingered": True, "signal": 9, "last_sent_signal": KILL}


def end(*events: object, exit_code: int | None = 0, **observed: Any) -> TurnEnd:
    stream = Stream()
    for event in events:
        stream.feed(event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n")
    stream.finish()
    seen: dict[str, Any] = {"signal": None, "ended_at": NOW, "redact": str, **observed}
    return judge(exit_code=None if seen["signal"] else exit_code, stream=stream, **seen)


# name, events, what was observed, outcome, signal, what the detail says
TABLE: list[tuple[str, list[object], dict[str, Any], Outcome, str | None, str]] = [
    ("done", [INIT, GOOD], {}, FINISHED, None, ""),
    ("two results, the second good", [INIT, API_ERROR, GOOD], {}, FINISHED, None, ""),
    ("a good result and stderr chatter", [INIT, GOOD], {"stderr_tail": "warning: x"}, FINISHED, None, ""),
    ("an answer with the words rate limit", [INIT, {**GOOD, "result": "rate limit"}], {}, FINISHED, None, ""),
    ("a rate limit, exit 0", [INIT, RATE_LIMIT], {}, FAILED, None, "exit code 0: rate limit reached"),
    ("two results, the second bad", [INIT, GOOD, API_ERROR], {"exit_code": 1}, FAILED, None, "overloaded"),
    ("an API error", [INIT, API_ERROR], {"exit_code": 1}, FAILED, None, "exit code 1: API Error: 500 overloaded"),
    ("a good result, then exit 1", [INIT, GOOD], {"exit_code": 1}, FAILED, None, "exit code 1 after a good result"),
    ("no result, exit 0", [INIT], {}, FAILED, None, "exit 0 without a result"),
    ("nothing at all, exit 0", [], {}, FAILED, None, "exit 0 without a result"),
    ("a last line cut in the middle", [INIT, HALF], {}, FAILED, None, "exit 0 without a result"),
    ("one line on stderr", [], {"exit_code": 1, "stderr_tail": "Error: x\n"}, FAILED, None, "stderr: Error: x"),
    ("context overflow", [INIT, OVERFLOW], {"exit_code": 1}, FAILED, None, "does not compact"),
    ("context overflow, in words only", [INIT, OVERFLOW_IN_WORDS], {}, FAILED, None, "context overflow:"),
    ("an error without words", [INIT, WORDLESS], {}, FAILED, None, "exit code 0; its result is an error without"),
    ("an exit nobody could tell", [INIT], {"exit_code": None}, FAILED, None, "its exit was not observed"),
    ("exit code 127", [], {"exit_code": 127, "stderr_tail": "gone"}, FAILED, None, "exit code 127; stderr: gone"),
    ("code of a harmless signal", [INIT], {"exit_code": 128 + 17}, FAILED, None, "exit code 145"),
    ("exit code 128", [INIT], {"exit_code": 128}, FAILED, None, "exit code 128"),
    ("exit code 255", [INIT], {"exit_code": 255}, FAILED, None, "exit code 255"),
    ("a result before init and none after it", [GOOD, INIT], {}, FAILED, None, "exit 0 without a result"),
    ("a result and no init at all", [GOOD], {}, FAILED, None, "exit 0 without a result"),
    ("a new init that nothing answered", [INIT, GOOD, INIT], {}, FAILED, None, "exit 0 without a result"),
    ("a last answer that asks for a tool", [INIT, {**GOOD, "stop_reason": "tool_use"}], {}, CUT, None, "never run"),
    ("a last answer cut at its tokens", [INIT, {**GOOD, "stop_reason": "max_tokens"}], {}, CUT, None, "most tokens"),
    ("an answer at the end of the context", [INIT, OUT_OF_CONTEXT], {}, CUT, None, "the model's context"),
    ("a whole last answer", [INIT, {**GOOD, "stop_reason": "end_turn"}], {}, FINISHED, None, ""),
    ("an answer cut before a whole one", [INIT, OUT_OF_CONTEXT, INIT, GOOD], {}, FINISHED, None, ""),
    ("claude's own bound of turns", [INIT, MAX_TURNS], {"exit_code": 1}, CUT, None, "its own bound of turns: "),
    ("an answer that was paused", [INIT, {**GOOD, "stop_reason": "pause_turn"}], {}, CUT, None, "not taken up again"),
    ("a broken off answer, exit 1", [INIT, OUT_OF_CONTEXT], {"exit_code": 1}, FAILED, None, "exit code 1"),
    ("a broken off answer, then SIGKILL", [INIT, OUT_OF_CONTEXT], {"signal": 9}, KILLED, "SIGKILL", "did not send it"),
    ("lingered after a broken off answer", [INIT, OUT_OF_CONTEXT], LINGERED, CUT, None, "stayed after its result"),
    ("lingered after a refusal", [INIT, {**GOOD, "stop_reason": "refusal"}], LINGERED, FAILED, None, "refused: done"),
    ("an answer that filled the context", [INIT, FULL], {"exit_code": 1}, FAILED, None, "context overflow:"),
    ("a refusal with exit 0", [INIT, {**GOOD, "stop_reason": "refusal"}], {}, FAILED, None, "the model refused: done"),
    ("a refusal as an error", [INIT, REFUSAL], {"exit_code": 1}, FAILED, None, "the model refused: I will not"),
    ("SIGINT from elsewhere", [INIT, INTERRUPTED], {}, KILLED, "SIGINT", "did not send"),
    ("SIGINT from elsewhere, mid-stream", [INIT, ABORTED], {}, KILLED, "SIGINT", "did not send"),
    ("SIGINT from elsewhere, in a tool", [INIT, INTERRUPTED, DURING], {}, KILLED, "SIGINT", "did not send"),
    ("SIGINT in the second part", [INIT, GOOD, INIT, INTERRUPTED], {}, KILLED, "SIGINT", "a good result had"),
    ("SIGINT in the second part, mid-stream", [INIT, GOOD, INIT, ABORTED], {}, KILLED, "SIGINT", "did not send"),
    ("an error while working, exit 0", [INIT, DURING], {}, FAILED, None, "exit code 0: stopped"),
    ("an aborted result, exit 1", [INIT, ABORTED], {"exit_code": 1}, FAILED, None, "exit code 1: stopped"),
    ("interrupted, then gone on", [INIT, INTERRUPTED, GOOD], {}, FINISHED, None, ""),
    ("an interruption, then exit 1", [INIT, INTERRUPTED], {"exit_code": 1}, FAILED, None, "exit code 1"),
    ("exit 143 that nobody asked for", [INIT], {"exit_code": 143}, KILLED, "SIGTERM", "did not send it"),
    ("exit 129", [INIT], {"exit_code": 129}, KILLED, "SIGHUP", "exit code 129"),
    ("exit 137 of a wrapper", [INIT], {"exit_code": 137}, KILLED, "SIGKILL", "exit code 137"),
    ("death by 9", [INIT], {"signal": 9}, KILLED, "SIGKILL", "died on SIGKILL"),
    ("death by 9 before init", [], {"signal": 9}, KILLED, "SIGKILL", "died on SIGKILL"),
    ("death by 9 after a good result", [INIT, GOOD], {"signal": 9}, KILLED, "SIGKILL", "a good result had"),
    ("exit 143 after a good result", [INIT, GOOD], {"exit_code": 143}, KILLED, "SIGTERM", "a good result had been"),
    ("a crash", [INIT], {"signal": 11, "stderr_tail": "panic"}, KILLED, "SIGSEGV", "stderr: panic"),
    ("exit 0 after our SIGINT", [INIT, INTERRUPTED], OUR_INT, KILLED, "SIGINT", STOP),
    ("good result, our SIGINT", [INIT, GOOD], OUR_INT, KILLED, "SIGINT", "good result"),
    ("error result on our SIGTERM, exit 1", [INIT, DURING], {"exit_code": 1, **OUR_TERM}, KILLED, "SIGTERM", STOP),
    ("an error result on our SIGTERM, exit 0", [INIT, DURING], OUR_TERM, KILLED, "SIGTERM", STOP),
    ("exit 143 on our SIGTERM", [INIT], {"exit_code": 143, **OUR_TERM}, KILLED, "SIGTERM", STOP),
    ("exit 143, last sent SIGKILL", [INIT], {"exit_code": 143, **OUR_KILL}, KILLED, "SIGTERM", STOP),
    ("death by our SIGKILL", [INIT], {"signal": 9, **OUR_KILL}, KILLED, "SIGKILL", STOP),
    ("an end before our first signal", [INIT, GOOD], {"our_stop": STOP}, KILLED, None, STOP),
    ("lingered, ended by SIGINT", [INIT, GOOD], LINGERED, FINISHED, None, "lingered:"),
    ("lingered, ended by SIGKILL", [INIT, GOOD], LINGERED_ON, FINISHED, None, "lingered:"),
    ("lingered after a bad result", [INIT, API_ERROR], LINGERED_ON, FAILED, None, "overloaded"),
    ("our budget stop", [INIT, BUDGET], {"exit_code": 1, **OUR_INT}, KILLED, "SIGINT", STOP),
]  # fmt: skip


class TableTests(SynchronousTestCase):
    def test_every_known_end_has_its_verdict(self) -> None:
        for name, events, observed, outcome, signal_said, detail in TABLE:
            seen = end(*events, **observed)
            self.assertEqual((name, seen.outcome, seen.signal), (name, outcome, signal_said))
            if detail:
                self.assertIn(detail, seen.detail, name)
            else:
                self.assertEqual(seen.detail, "", name)

    def test_the_exit_code_is_told_as_it_was_seen(self) -> None:
        self.assertEqual(end(INIT, exit_code=143).exit_code, 143)
        self.assertIsNone(end(INIT, signal=9).exit_code)

    def test_a_turn_was_under_way_when_init_was_seen(self) -> None:
        self.assertTrue(end(INIT, GOOD).under_way)
        self.assertFalse(end(MISS, exit_code=1).under_way)

    def test_the_stream_s_facts_are_carried_along(self) -> None:
        seen = end(INIT, {**GOOD, "num_turns": 3, "total_cost_usd": 0.5})
        assert seen.init is not None and seen.result is not None and seen.usage is not None
        self.assertEqual(
            (seen.init.session_id, seen.result.text, seen.ended_at),
            ("6868ab6d-b404-47a1-8fa8-d5f5a71e3bed", "done", NOW),
        )
        self.assertEqual((seen.usage.claude_turns, seen.usage.total_cost_usd), (3, 0.5))


class BackgroundWork(SynchronousTestCase):
    def test_what_claude_stopped_at_its_exit_is_named_and_the_turn_finished(self) -> None:
        ended = end(INIT, LISTED, GOOD, UPDATED, NOTIFIED, {**LISTED, "tasks": []})
        self.assertIs(ended.outcome, FINISHED)
        self.assertEqual(
            ended.detail,
            "claude stopped background work at its exit, which is not done: npm test, one without a name",
        )

    def test_what_was_stopped_before_the_last_answer_was_claudes_own_business(self) -> None:
        self.assertEqual(end(INIT, LISTED, UPDATED, ANSWER, GOOD).detail, "")
        self.assertEqual(end(INIT, LISTED, GOOD, UPDATED, INIT, GOOD).detail, "")

    def test_the_names_are_few_and_cut_once_they_are_redacted(self) -> None:
        tasks = [{"task_id": f"b{n}", "description": "npm test"} for n in range(1, 9)]
        tasks[0]["description"] = "x" * 97 + "s3cret"
        stopped = [{**UPDATED, "task_id": task["task_id"]} for task in tasks]
        ended = end(
            INIT, {**LISTED, "tasks": tasks}, GOOD, *stopped, redact=lambda text: text.replace("s3cret", "[redacted]")
        )
        self.assertNotIn("s3c", ended.detail)
        self.assertEqual(ended.detail.count("npm test"), 4)
        self.assertTrue(ended.detail.endswith(" and 3 more"))

    def test_what_was_stopped_before_a_result_that_came_late_is_named(self) -> None:
        # Claude holds its result back while it waits, in vain, for a subagent of its own (measured, 2.1.332).
        theirs = {**ANSWER, "parent_tool_use_id": "toolu_1"}
        for events in ((UPDATED,), (UPDATED, theirs), (UPDATED, {**LISTED, "tasks": []})):
            self.assertIn("which is not done: npm test", end(INIT, LISTED, ANSWER, *events, GOOD).detail)

    def test_what_ended_by_itself_was_not_stopped(self) -> None:
        self.assertEqual(end(INIT, LISTED, GOOD, {**NOTIFIED, "status": "completed"}).detail, "")


class UsageLimits(SynchronousTestCase):
    LIMIT = {
        "type": "rate_limit_event",
        "rate_limit_info": {"status": "rejected", "resetsAt": 1_900_000_000, "rateLimitType": "five_hour"},
    }
    REFUSED = {**API_ERROR, "result": "You've hit your 5-hour limit", "api_error_status": 429}

    def test_a_turn_that_failed_at_a_limit_knows_when_it_resets(self) -> None:
        ended = end(INIT, self.LIMIT, self.REFUSED, exit_code=1)
        assert ended.limit is not None
        self.assertEqual((ended.outcome, ended.limit.kind), (FAILED, "five_hour"))
        self.assertEqual(ended.limit.resets_at, datetime(2030, 3, 17, 17, 46, 40, tzinfo=UTC))

    def test_a_limit_that_let_the_request_through_is_none(self) -> None:
        for info in ({"status": "allowed", "resetsAt": 1_900_000_000}, {"status": "rejected"}, {}, "x"):
            ended = end(INIT, {**self.LIMIT, "rate_limit_info": info}, self.REFUSED, exit_code=1)
            self.assertIsNone(ended.limit, info)
        for resets_at in (-1, "soon", True, 1e30, None):
            rejected: dict[str, object] = {"status": "rejected", "resetsAt": resets_at}
            self.assertIsNone(end(INIT, {**self.LIMIT, "rate_limit_info": rejected}, self.REFUSED).limit, resets_at)

    def test_a_turn_that_failed_by_something_else_after_one_has_none(self) -> None:
        self.assertIsNone(end(INIT, self.LIMIT, {**API_ERROR, "api_error_status": 500}, exit_code=1).limit)

    def test_a_turn_that_finished_all_the_same_has_none(self) -> None:
        self.assertIsNone(end(INIT, self.LIMIT, GOOD).limit)


class BudgetAndToolTests(SynchronousTestCase):
    def test_claude_s_own_budget_stop_is_no_failure_and_says_so(self) -> None:
        seen = end(INIT, BUDGET, exit_code=1)
        self.assertEqual((seen.outcome, seen.budget_stop, seen.exit_code), (CUT, True, 1))
        self.assertIn("stopped by claude at its --max-budget-usd: Reached maximum budget ($1)", seen.detail)

    def test_one_that_stays_after_its_budget_stop_was_stopped_by_its_budget_all_the_same(self) -> None:
        stayed = end(INIT, BUDGET, **LINGERED)
        self.assertEqual((stayed.outcome, stayed.budget_stop), (CUT, True))

    def test_a_child_killed_after_its_budget_stop_is_killed(self) -> None:
        seen = end(INIT, BUDGET, signal=9)
        self.assertEqual((seen.outcome, seen.budget_stop), (KILLED, False))

    def test_a_turn_that_was_ended_for_what_init_listed_fails_and_says_what_that_was(self) -> None:
        seen = end(INIT, INTERRUPTED, not_as_granted="it has too much", our_stop="it", last_sent_signal=INT)
        self.assertEqual((seen.outcome, seen.signal), (FAILED, None))
        self.assertEqual(seen.detail, "it has too much. The daemon ended the turn")
        self.assertEqual(seen.error, "it has too much")

    def test_what_a_lingering_child_writes_under_our_signals_does_not_count(self) -> None:
        good = Result(is_error=False, subtype="success", text="done")
        seen = end(INIT, GOOD, DURING, lingered=True, lingered_result=good, exit_code=1, last_sent_signal=INT)
        self.assertEqual((seen.outcome, seen.lingered, seen.result), (FINISHED, True, good))


class ErrorTests(SynchronousTestCase):
    def test_claude_s_own_message_is_taken_from_the_result_first(self) -> None:
        seen = end(MISS, exit_code=1, stderr_tail=f"{NOT_FOUND}\n")
        self.assertEqual(seen.error, NOT_FOUND)
        self.assertEqual(seen.detail, f"exit code 1: {NOT_FOUND}")

    def test_without_a_result_the_message_is_stderr_s_from_its_error_line_on(self) -> None:
        tail = "warning\nError: matches 2 sessions:\n  one\n  two\n\n"
        self.assertEqual(end(exit_code=1, stderr_tail=tail).error, "Error: matches 2 sessions:\n  one\n  two")
        self.assertEqual(end(exit_code=1, stderr_tail="a\nnot logged in\n\n").error, "not logged in")

    def test_a_finished_turn_has_no_error(self) -> None:
        self.assertEqual(end(INIT, GOOD, stderr_tail="Error: a hook failed").error, "")


class DetailTests(SynchronousTestCase):
    def test_a_long_detail_is_cut_and_said_to_be(self) -> None:
        seen = end(INIT, {**DURING, "errors": ["x" * 1900]}, exit_code=1, stderr_tail="y" * 5000)
        self.assertLessEqual(len(seen.detail), DETAIL_LIMIT)
        self.assertIn("(cut)", seen.detail)
        self.assertTrue(seen.detail.endswith("y"))
        none = end(INIT, our_stop="z" * 3000, last_sent_signal=INT)
        self.assertEqual(len(none.detail), DETAIL_LIMIT)
        self.assertTrue(none.detail.endswith("(cut)"))

    def test_what_outlived_our_last_signal_is_told_however_long_the_rest_is(self) -> None:
        long = end(INIT, {**API_ERROR, "result": "x" * 5000}, exit_code=1, stderr_tail="y" * 5000, survivors=3)
        self.assertTrue(long.detail.endswith("; 3 processes that it started were still there after SIGKILL"))
        self.assertLessEqual(len(long.detail), DETAIL_LIMIT)
        unseen = end(INIT, GOOD, survivors=None)
        self.assertEqual(unseen.detail, "what it started may still be there: it could not be looked for")
        alone = end(INIT, GOOD, survivors=1)
        self.assertEqual(alone.detail, "1 process that it started was still there after SIGKILL")

    def test_secrets_are_replaced_before_anything_is_cut(self) -> None:
        secret = "hunter2-hunter2"

        def redact(text: str) -> str:
            return text.replace(secret, "***")

        for padding in range(0, 1000 + len(secret), 5):
            words = "p" * padding + secret
            seen = end(INIT, {**DURING, "errors": [words]}, exit_code=1, stderr_tail=secret * 60, redact=redact)
            self.assertNotIn("hunter2", seen.detail + seen.error)
        self.assertNotIn("hunter2", end(exit_code=1, stderr_tail=f"Error: {secret}", redact=redact).error)


class SignalNameTests(SynchronousTestCase):
    def test_exit_codes_speak_of_signals_only_above_128(self) -> None:
        self.assertEqual(signal_of_exit_code(130), "SIGINT")
        self.assertEqual(signal_of_exit_code(143), "SIGTERM")
        for code in (None, 0, 1, 127, 128, 145, 148, 255, 300, -1):
            self.assertIsNone(signal_of_exit_code(code), code)

    def test_a_number_without_a_name_is_told_as_one(self) -> None:
        self.assertEqual(signal_name(9), "SIGKILL")
        self.assertEqual(signal_name(200), "signal 200")
