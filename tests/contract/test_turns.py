"""How turns begin, what their events say, and how they end by themselves."""

from __future__ import annotations

import signal
from pathlib import Path
from uuid import uuid4

import pytest

from hivesub.turns.confinement import OwnSettings, confine
from tests.contract.claudes import (
    ANSWER_USD,
    Claude,
    fails,
    is_good_result,
    overflows,
    says,
    signals,
    spends,
    stays_in_background,
    waits_in_background,
)
from tests.contract.signal_server import SignalServer


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
