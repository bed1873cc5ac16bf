"""How turns begin, what their events say, and how they end by themselves."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from uuid import uuid4

import pytest

from hivesub.turns.confinement import OwnSettings, confine
from tests.contract.claudes import (
    ANSWER_USD,
    Claude,
    fails,
    gives_shape,
    hits_its_limit,
    is_good_result,
    lacks_its_key,
    leaves_background_work_to_be_stopped,
    overflows,
    pauses,
    refuses,
    runs_out_of_tokens,
    says,
    signals,
    spends,
    stays_in_background,
    uses_up_its_turns,
    waits_in_background,
)
from tests.contract.signal_server import SignalServer
from tests.realclaude.sandbox import SUBSCRIBED
from tests.realclaude.steps import hang


def test_a_good_turn_is_a_title_an_init_an_answer_and_a_result(claude: Claude) -> None:
    session_id = str(uuid4())
    ran = claude.run(says("hello"), f"--session-id={session_id}", "--name=alpha")
    assert ran.code == 0
    assert ran.stderr == ""
    assert ran.shapes == ["session_title_changed", "init", "assistant", "result"]
    assert ran.events[0]["title"] == "alpha"
    assert {event["session_id"] for event in ran.events} == {session_id}
    assert ran.result["is_error"] is False
    assert ran.result["subtype"] == "success"
    assert ran.result["result"] == "hello"
    assert ran.result["terminal_reason"] == "completed"
    assert ran.result["num_turns"] == 1
    assert ran.result["total_cost_usd"] == pytest.approx(ANSWER_USD)
    assert (ran.result["usage"]["input_tokens"], ran.result["usage"]["output_tokens"]) == (10, 5)


def test_a_good_result_does_not_name_its_type_first(claude: Claude) -> None:
    ran = claude.run(says("hello"))
    assert next(iter(ran.result)) != "type"
    assert list(ran.result).index("type") > list(ran.result).index("usage")


def test_without_a_name_the_first_event_is_init(claude: Claude) -> None:
    assert claude.run(says("hello")).shapes[0] == "init"


def test_init_tells_the_tools_asked_for_and_the_one_server(claude: Claude) -> None:
    ran = claude.run(says("hello"))
    built_in = [name for name in ran.init["tools"] if not name.startswith("mcp__")]
    assert built_in == ["Edit", "Glob", "Grep", "Read", "Skill", "Write"]
    assert set(ran.init["tools"]) - set(built_in) == {
        "mcp__subagent_control__goal_reached",
        "mcp__subagent_control__need_help",
    }
    assert [(one["name"], one["status"]) for one in ran.init["mcp_servers"]] == [("subagent_control", "connected")]


def test_an_unknown_tool_is_dropped_in_silence(claude: Claude) -> None:
    ran = claude.run(says("hello"), tools="--tools=Nope,Read")
    assert ran.code == 0
    assert [name for name in ran.init["tools"] if not name.startswith("mcp__")] == ["Read"]


def test_init_tells_the_real_path_of_the_working_directory(claude: Claude, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(claude.project)
    ran = claude.run(says("hello"), cwd=link, env={"PWD": str(link)})
    assert ran.init["cwd"] == str(claude.project.resolve())


def test_an_unreachable_server_is_failed_in_init_and_the_turn_goes_on(claude: Claude) -> None:
    ran = claude.run(says("hello"), url="http://127.0.0.1:9/signal/mcp/none")
    assert ran.code == 0
    assert [(one["name"], one["status"]) for one in ran.init["mcp_servers"]] == [("subagent_control", "failed")]
    assert is_good_result(ran.result)


def test_a_signal_tool_is_called_over_the_config_file_s_url(claude: Claude, signal_server: SignalServer) -> None:
    before = len(signal_server.calls)
    ran = claude.run(signals("need_help", "reason", f"which branch {uuid4()}"))
    assert ran.code == 0
    assert [tool for tool, _ in signal_server.calls[before:]] == ["need_help"]
    assert ran.shapes == ["init", "assistant", "user", "assistant", "result"]
    assert ran.result["num_turns"] == 2
    arrival = signal_server.arrivals[-1]
    assert arrival.body["method"] == "tools/call"
    assert arrival.headers["mcp-protocol-version"] == "2026-07-28"
    assert arrival.headers["user-agent"].startswith("claude-code/")


def test_the_signal_url_is_used_before_init(claude: Claude, signal_server: SignalServer) -> None:
    before = len(signal_server.arrivals)
    ran = claude.run(says("hello"))
    methods = [arrival.body.get("method") for arrival in signal_server.arrivals[before:]]
    assert methods[0] == "server/discover"
    assert "tools/list" in methods
    assert ran.init["mcp_servers"][0]["status"] == "connected"


def test_an_api_that_fails_for_good_ends_with_exit_1_and_an_error_result(claude: Claude) -> None:
    ran = claude.run(fails())
    assert ran.code == 1
    assert ran.first("system", "api_retry") is not None
    assert {"attempt", "max_retries", "retry_delay_ms"} <= set(ran.all("system", "api_retry")[0])
    assert (ran.result["subtype"], ran.result["is_error"]) == ("success", True)
    assert ran.result["terminal_reason"] == "api_error"
    assert ran.result["result"].startswith("API Error: 500 boom")
    assert ran.result["total_cost_usd"] == 0


def test_a_context_overflow_is_named_by_its_terminal_reason(claude: Claude) -> None:
    ran = claude.run(overflows())
    assert ran.code == 1
    assert ran.result["is_error"] is True
    assert ran.result["terminal_reason"] == "prompt_too_long"
    assert ran.result["result"].startswith("Prompt is too long")


def test_a_wrong_key_is_tried_again_and_each_wait_says_why(claude: Claude) -> None:
    ran = claude.run(lacks_its_key())
    assert ran.code == 1
    assert ran.shapes == ["init", "api_retry", "assistant", "result"]
    retry = ran.all("system", "api_retry")[0]
    assert (retry["attempt"], retry["error_status"], retry["error"]) == (1, 401, "authentication_failed")
    assert (ran.result["is_error"], ran.result["api_error_status"]) == (True, 401)


def test_a_usage_limit_is_told_with_its_reset_and_not_tried_again(claude: Claude) -> None:
    resets_at = int(time.time()) + 3600
    ran = claude.run(hits_its_limit(resets_at), env=SUBSCRIBED)
    assert ran.code == 1
    assert ran.shapes == ["init", "rate_limit_event", "assistant", "result"]
    told = ran.all("rate_limit_event")[0]["rate_limit_info"]
    assert (told["status"], told["resetsAt"], told["rateLimitType"]) == ("rejected", resets_at, "five_hour")
    assert (ran.result["is_error"], ran.result["api_error_status"]) == (True, 429)
    assert ran.result["terminal_reason"] == "api_error"
    assert ran.result["result"].startswith("You've hit your 5-hour limit · resets ")


def test_a_session_that_a_limit_refused_goes_on_after_it(claude: Claude) -> None:
    session_id = str(uuid4())
    limited = claude.run(hits_its_limit(int(time.time()) + 1), f"--session-id={session_id}", env=SUBSCRIBED)
    again = claude.run(says("hello"), f"--resume={session_id}", env=SUBSCRIBED)
    assert (limited.code, again.code) == (1, 0)
    assert (again.init["session_id"], again.result["result"]) == (session_id, "hello")


def test_a_refusal_is_an_error_whose_stop_reason_says_so(claude: Claude) -> None:
    ran = claude.run(refuses())
    assert ran.code == 1
    assert (ran.result["is_error"], ran.result["stop_reason"]) == (True, "refusal")
    assert ran.result["api_error_status"] is None
    assert "safeguards flagged this message" in ran.result["result"]


def test_answers_that_run_out_of_tokens_end_as_an_api_error(claude: Claude) -> None:
    ran = claude.run(runs_out_of_tokens())
    assert ran.code == 1
    assert (ran.result["is_error"], ran.result["terminal_reason"]) == (True, "api_error")
    assert ran.result["api_error_status"] is None
    assert "response exceeded the 128000 output token maximum" in ran.result["result"]


def test_an_answer_that_was_paused_ends_with_exit_0_and_says_so_in_its_stop_reason_alone(claude: Claude) -> None:
    ran = claude.run(pauses())
    assert ran.code == 0
    assert (ran.result["is_error"], ran.result["subtype"]) == (False, "success")
    assert (ran.result["stop_reason"], ran.result["terminal_reason"]) == ("pause_turn", "completed")


def test_a_typed_result_comes_beside_the_text_by_a_tool_of_its_own(claude: Claude) -> None:
    schema = {"type": "object", "properties": {"passed": {"type": "integer"}}, "required": ["passed"]}
    ran = claude.run(gives_shape({"passed": 42}), f"--json-schema={json.dumps(schema)}")
    assert "StructuredOutput" in ran.init["tools"]
    assert (ran.code, ran.result["subtype"], ran.result["is_error"]) == (0, "success", False)
    assert (ran.result["structured_output"], ran.result["stop_reason"]) == ({"passed": 42}, "tool_use")


def test_claude_s_own_bound_of_turns_is_an_error_of_its_own_kind(claude: Claude) -> None:
    ran = claude.run(uses_up_its_turns(), "--max-turns=2")
    assert ran.code == 1
    assert (ran.result["subtype"], ran.result["is_error"]) == ("error_max_turns", True)
    assert (ran.result["terminal_reason"], ran.result["stop_reason"]) == ("max_turns", "tool_use")
    assert ran.result["errors"] == ["Reached maximum number of turns (2)"]


def test_background_work_that_claude_stops_at_its_exit_is_said_to_be_before_the_result(claude: Claude) -> None:
    marker = f"[child {uuid4().hex}]"
    if claude.model is not None:
        claude.model.script(marker, hang("working"), hang("working"))
    ran = claude.run(
        leaves_background_work_to_be_stopped(marker),
        tools="--tools=Read,Task",
        env={"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "1500"},
    )
    assert ran.code == 0
    assert is_good_result(ran.result)
    shapes = ran.shapes[: ran.shapes.index("result") + 1]
    assert shapes[-4:] == ["task_updated", "task_notification", "background_tasks_changed", "result"]
    # A word of the stopped one may come after the result; it says whose it is.
    assert all(event["parent_tool_use_id"] for event in ran.events[len(shapes) :])
    task = ran.all("system", "background_tasks_changed")[0]["tasks"][0]
    updated, notified = ran.all("system", "task_updated")[-1], ran.all("system", "task_notification")[-1]
    assert task["description"] == "scripted"
    assert (updated["task_id"], updated["patch"]["status"]) == (task["task_id"], "killed")
    assert (notified["task_id"], notified["status"]) == (task["task_id"], "stopped")


def test_the_budget_counts_what_this_process_spends_and_not_its_session(claude: Claude) -> None:
    session_id = str(uuid4())
    dear = claude.run(spends(0.2), f"--session-id={session_id}")
    cheap = claude.run(says("hello"), f"--resume={session_id}", "--max-budget-usd=0.1")
    over = claude.run(spends(0.15), f"--resume={session_id}", "--max-budget-usd=0.1")
    assert dear.code == 0
    assert cheap.code == 0
    assert cheap.result["total_cost_usd"] > 0.2
    assert over.code == 1
    assert (over.result["subtype"], over.result["is_error"]) == ("error_max_budget_usd", True)
    assert over.result["terminal_reason"] == "budget_exhausted"
    assert over.result["stop_reason"] == "end_turn"
    assert over.result["errors"] == ["Reached maximum budget ($0.1)"]
    assert "result" not in over.result
    assert over.result["total_cost_usd"] > 0.35


def test_a_background_task_wakes_the_turn_for_a_second_result(claude: Claude) -> None:
    ran = claude.run(
        waits_in_background("tail -f /dev/null --pid=$$ & read -t 1 < <(tail -f /dev/null); kill %1", 1.0),
        tools="--tools=Bash,Read",
    )
    assert ran.code == 0
    assert [result["result"] for result in ran.all("result")] == ["started it", "it ended"]
    assert len(ran.all("system", "init")) == 2
    listed = [event["tasks"] for event in ran.all("system", "background_tasks_changed")]
    assert [len(tasks) for tasks in listed] == [1, 0]
    assert listed[0][0]["task_id"]
    costs = [result["total_cost_usd"] for result in ran.all("result")]
    assert costs[1] > costs[0]


def test_a_background_task_that_stays_keeps_claude_until_it_is_told_to_stop(claude: Claude) -> None:
    session_id = str(uuid4())
    flags = (f"--session-id={session_id}",)
    ran = claude.run_signalled(stays_in_background(), signal.SIGTERM, is_good_result, *flags, tools="--tools=Bash,Read")
    assert ran.code == 143
    assert is_good_result(ran.result)
    assert len(ran.all("system", "background_tasks_changed")[0]["tasks"]) == 1
    resumed = claude.run(says("hello"), f"--resume={session_id}", tools="--tools=Bash,Read")
    assert [(one["result"], one["num_turns"]) for one in resumed.all("result")] == [("", 0), ("hello", 1)]
    assert resumed.shapes[0] == "task_notification"


def test_sigint_while_only_a_background_task_is_left_writes_no_further_result(claude: Claude) -> None:
    ran = claude.run_signalled(stays_in_background(), signal.SIGINT, is_good_result, tools="--tools=Bash,Read")
    assert ran.code == 0
    assert [result["result"] for result in ran.all("result")] == ["started it"]
    assert ran.user_texts == []
    # What it says of the task it ends is sometimes cut off by its own exit.
    assert set(ran.shapes[ran.shapes.index("result") + 1 :]) <= {
        "task_notification",
        "task_updated",
        "background_tasks_changed",
    }


def test_the_settings_that_confine_a_session_are_taken_without_a_word(claude: Claude, tmp_path: Path) -> None:
    base = {"ANTHROPIC_BASE_URL": claude.model.url} if claude.model else {}
    confined = confine(base, OwnSettings(), hooks=False, signal_url=claude.control_url)
    written = tmp_path / "settings.json"
    written.write_text(confined.settings)
    for settings in (confined.settings, str(written)):
        ran = claude.run(says("hello"), "--settings", settings)
        assert (ran.code, ran.stderr, ran.result["result"]) == (0, "", "hello")
