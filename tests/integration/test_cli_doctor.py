"""`hivesub doctor` on a healthy set-up and on broken ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from hivesub.standin import write_wrapper
from tests.support.cli import hivesub
from tests.support.daemon import Daemon


@frozen
class Machine:
    """A user's machine: what the doctor finds there, by subject."""

    daemon: Daemon
    home: Path
    environ: dict[str, str]

    def findings(self, *argv: str) -> tuple[int, dict[str, tuple[str, str]]]:
        code, out, err = hivesub(self.daemon, "doctor", "--json", *argv, **self.environ)
        assert err == ""
        return code, {each["subject"]: (each["level"], each["text"]) for each in json.loads(out)}

    def wrong(self, *argv: str) -> dict[str, str]:
        """What has to be put right."""
        code, found = self.findings(*argv)
        failed = {subject: text for subject, (level, text) in found.items() if level == "fail"}
        assert code == (5 if failed else 0)
        return failed


@pytest.fixture
def machine(daemon: Daemon, tmp_path: Path) -> Machine:
    home = tmp_path / "home"
    programs = home / ".local" / "bin"
    programs.mkdir(parents=True)
    write_wrapper(programs / "claude", sandboxed=True)
    (home / ".claude").mkdir()
    (home / ".claude" / ".credentials.json").write_text("{}")
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"subagent": {"url": f"{daemon.url}/mcp"}}}))
    environ = {
        "HOME": str(home),
        "PATH": f"{programs}:/usr/bin:/bin",
        "IS_SANDBOX": "1",
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_RUNTIME_DIR": str(tmp_path),
        **dict.fromkeys(("ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME"), ""),
    }
    return Machine(daemon, home, environ)


def test_on_a_healthy_set_up_nothing_is_wrong_and_nothing_is_changed(machine: Machine) -> None:
    before = sorted(machine.home.rglob("*"))
    code, found = machine.findings()
    assert code == 0
    # The stand-in may lack a flag that a subagent can do without.
    assert {subject for subject, (level, _) in found.items() if level != "ok"} <= {"cgroup", "claude"}
    assert "(stand-in for Claude Code)" in found["claude"][1]
    assert "seems logged in" in found["login"][1]
    assert "answers and takes the token" in found["daemon"][1]
    assert sorted(machine.home.rglob("*")) == before


def test_it_prints_a_line_for_each(machine: Machine) -> None:
    code, out, _ = hivesub(machine.daemon, "doctor", **machine.environ)
    assert code == 0
    lines = out.splitlines()
    assert all(line[:4].strip() in ("ok", "warn") for line in lines)
    assert "t0ken" not in out


def test_without_claude_it_says_what_to_install(machine: Machine) -> None:
    (machine.home / ".local/bin/claude").unlink()
    assert "install Claude Code" in machine.wrong()["claude"]


@pytest.mark.parametrize(("script", "words"), [("exit 3", "does not run"), ("echo --name", "lacks --tools")])
def test_a_claude_that_cannot_be_used_is_named(machine: Machine, script: str, words: str) -> None:
    (machine.home / ".local/bin/claude").write_text(f"#!/bin/sh\n{script}\n")
    assert words in machine.wrong()["claude"]
    assert words in machine.wrong("--claude", str(machine.home / ".local/bin/claude"))["claude"]


def test_where_nobody_is_logged_in_it_says_so(machine: Machine) -> None:
    (machine.home / ".claude" / ".credentials.json").unlink()
    assert machine.findings()[1]["login"][0] == "warn"
    for variable in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"):
        machine.environ[variable] = "s3cret"
        level, text = machine.findings()[1]["login"]
        assert (level, "s3cret" in text) == ("ok", False)
        machine.environ[variable] = ""


def test_a_daemon_that_is_down_and_a_wrong_token_are_told_apart(machine: Machine, tmp_path: Path) -> None:
    assert "`hivesub serve`" in machine.wrong("--url", "http://127.0.0.1:1")["daemon"]
    (tmp_path / "wrong").write_text("guess")
    wrong = machine.wrong("--auth-token-file", str(tmp_path / "wrong"))
    assert "asks for another token" in wrong["daemon"]


def test_what_the_agents_hook_could_not_read_or_run_is_wrong(machine: Machine) -> None:
    machine.environ["HIVESUB_TODOS"] = str(machine.home)
    assert "give the daemon a --todo that you can read" in machine.wrong()["todos"]
    python = machine.home / ".local/bin/python3"
    python.write_text("#!/bin/sh\necho no such module >&2; exit 1\n")
    python.chmod(0o755)
    assert "no such module" in machine.wrong()["plugin"]


def test_a_directory_that_others_may_enter_and_a_token_that_is_none_are_wrong(machine: Machine) -> None:
    state = machine.home / "state" / "hivesub"
    state.mkdir(parents=True, mode=0o700)
    state.chmod(0o700)
    (state / "auth-token").write_text("sha256:123\n")
    assert "sha256: without 64 hex digits" in machine.wrong()["state"]
    (state / "auth-token").unlink()
    state.chmod(0o755)
    assert "is open to others" in machine.wrong()["state"]


def test_an_agent_that_is_connected_elsewhere_is_noticed(machine: Machine) -> None:
    def agent(config: Any) -> tuple[str, str]:
        (machine.home / ".claude.json").write_text(json.dumps(config))
        return machine.findings()[1]["agent"]

    assert agent({"mcpServers": {"subagent": {"url": "http://127.0.0.1:9/mcp"}}})[0] == "warn"
    others: list[Any] = [{}, [], {"mcpServers": []}, {"mcpServers": {"subagent": 3}}]
    for config in others:
        assert "hivesub mcp-config" in agent(config)[1]
