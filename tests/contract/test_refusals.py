"""What claude refuses before it begins: exit 1, a line on stderr, and no event."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.contract.claudes import Claude, Ran, says
from tests.contract.signal_server import SignalServer


def assert_refused(ran: Ran, line: str) -> None:
    assert (ran.code, ran.events) == (1, [])
    assert ran.stderr.startswith(line), ran.stderr


def test_an_empty_prompt_is_refused(claude: Claude) -> None:
    assert_refused(claude.run(None, words=""), "Error: Input must be provided either through stdin or as a prompt")


def test_a_blank_prompt_is_refused(claude: Claude) -> None:
    assert_refused(claude.run(None, words=" \n\t\n"), "Error: Input contained only whitespace.")


def test_an_unknown_flag_is_refused_by_name(claude: Claude) -> None:
    assert_refused(claude.run(says("x"), "--wrong-flag"), "error: unknown option '--wrong-flag'")


def test_a_missing_config_file_is_refused(claude: Claude) -> None:
    ran = claude.run(says("x"), config="/nonexistent/mcp.json")
    assert_refused(ran, "Error: Invalid MCP configuration:\nMCP config file not found: /nonexistent/mcp.json")


def test_a_directory_whose_name_is_no_utf_8_is_one_that_does_not_exist(claude: Claude) -> None:
    place = claude.project / os.fsdecode(b"b\xe9d")
    place.mkdir()
    ran = claude.run(says("x"), cwd=place)
    assert_refused(ran, f"Error: Can't access working directory {claude.project}/b\ufffdd: ")


def test_a_config_file_whose_name_is_no_utf_8_is_one_that_does_not_exist(claude: Claude, tmp_path: Path) -> None:
    config = tmp_path / os.fsdecode(b"b\xe9d.json")
    config.write_text('{"mcpServers": {}}')
    ran = claude.run(says("x"), config=str(config))
    assert_refused(ran, f"Error: Invalid MCP configuration:\nMCP config file not found: {tmp_path}/b\ufffdd.json")


def test_a_config_file_that_is_no_json_is_refused(claude: Claude, tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text("{broken")
    ran = claude.run(says("x"), config=str(tmp_path / "broken.json"))
    assert_refused(ran, "Error: Invalid MCP configuration:\nMCP config is not a valid JSON")


def test_a_prompt_of_more_than_10_mb_is_refused(claude: Claude) -> None:
    ran = claude.run(None, words="x" * 11_000_000)
    assert_refused(ran, "Error: piped stdin input exceeds 10MB.")


def test_a_session_id_that_is_no_uuid_is_refused(claude: Claude) -> None:
    assert_refused(claude.run(says("x"), "--session-id=abc"), "Error: Invalid session ID. Must be a valid UUID.")


def test_a_budget_of_nothing_is_refused(claude: Claude) -> None:
    assert_refused(claude.run(says("x"), "--max-budget-usd=0"), "error: option '--max-budget-usd <amount>'")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root is refused")
@pytest.mark.parametrize("value", ["", "yes", "true", "0"])
def test_root_is_refused_unless_is_sandbox_is_exactly_1(claude: Claude, value: str) -> None:
    ran = claude.run(says("x"), env={"IS_SANDBOX": value})
    assert_refused(ran, "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons")


def test_a_variadic_flag_swallows_the_prompt_after_it_unless_it_is_written_with_an_equals_sign(claude: Claude) -> None:
    """So hivesub writes `--tools=…`, and puts the prompt on stdin."""
    swallowed = claude.run(None, "--add-dir", str(claude.project), "a prompt", words="")
    hint = '"a prompt" was read as a value of --add-dir, not as a prompt'
    assert_refused(swallowed, hint)
    assert "\nError: Input must be provided" in swallowed.stderr
    kept = claude.run(None, f"--add-dir={claude.project}", "a prompt", words="")
    assert (kept.code, kept.result["is_error"]) == (0, False)


def test_help_and_version_tell_what_hivesub_looks_for(claude: Claude) -> None:
    def output(flag: str) -> str:
        done = subprocess.run(
            [claude.binary, flag], env=claude.environment({}), capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    listed = {word.strip(",") for word in output("--help").split()}
    assert {
        "--tools", "--settings", "--strict-mcp-config", "--mcp-config", "--name", "--session-id", "--resume", "--model",
        "--effort", "--max-budget-usd",
    } <= listed  # fmt: skip
    assert output("--version").split()[0] == "2.1.332"


def test_servers_of_project_user_and_plugins_stay_out(claude: Claude, signal_server: SignalServer) -> None:
    other = {"type": "http", "url": signal_server.url.replace("token", "other")}
    (claude.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"projects": other}}))
    settings = claude.home / ".claude"
    settings.mkdir(parents=True)
    (settings / "settings.json").write_text(json.dumps({"enableAllProjectMcpServers": True}))
    (claude.home / ".claude.json").write_text(json.dumps({"mcpServers": {"users": other}}))
    if claude.model is not None:
        _install_plugin(claude, other)
    ran = claude.run(says("hello"))
    assert [one["name"] for one in ran.init["mcp_servers"]] == ["subagent_control"]
    assert [name for name in ran.init["tools"] if not name.startswith("mcp__subagent_control__")] == [
        "Edit", "Glob", "Grep", "Read", "Skill", "Write",
    ]  # fmt: skip


def _install_plugin(claude: Claude, server: dict[str, str]) -> None:
    market = claude.home / "market"
    plugin = market / "p1"
    for directory in (market, plugin):
        (directory / ".claude-plugin").mkdir(parents=True)
    (plugin / ".claude-plugin" / "plugin.json").write_text(
        json.dumps({"name": "p1", "version": "1.0.0", "description": "brings a server"})
    )
    (plugin / ".mcp.json").write_text(json.dumps({"mcpServers": {"plugins": server}}))
    listing = {"name": "local", "owner": {"name": "nobody"}, "plugins": [{"name": "p1", "source": "./p1"}]}
    (market / ".claude-plugin" / "marketplace.json").write_text(json.dumps(listing))
    for words in (["marketplace", "add", str(market)], ["install", "p1@local"]):
        subprocess.run(
            [claude.binary, "plugin", *words],
            env=claude.environment({}),
            cwd=claude.project,
            check=True,
            capture_output=True,
            timeout=60,
        )


def test_settings_that_are_no_json_or_not_there_are_refused(claude: Claude) -> None:
    assert_refused(claude.run(says("x"), "--settings={broken}"), "Error: Invalid JSON provided to --settings")
    assert_refused(claude.run(says("x"), "--settings=/nonexistent/s.json"), "Error: Settings file not found:")
