"""Releases of claude as the agent: `claude mcp add`, then a session that starts, watches and interrupts a subagent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hivesub.tools import subagent
from hivesub.turns.toolset import DEFAULT_TOOLS
from tests.compat.claudes import NEWEST, OLDER, OLDEST, Claude, asked_protocol, claude, environment, listed, results
from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import say, use
from tests.support.daemon import Daemon
from tests.support.scene import PROMPT, TOOLS, note
from tests.support.table import TABLE
from tests.support.toolfakes import FakeFleet

AT_MOST_CHARS = 8_200
"""What the four tools may take of an agent's context, as JSON: about 2,000 tokens."""


def session(agent: Claude, daemon: Daemon, env: dict[str, str], prompt: str) -> str:
    """What a headless session with the daemon as its server said."""
    added = agent.run("mcp", "add", "--transport", "http", "subagent", f"{daemon.url}/mcp", cwd=daemon.work, env=env)
    assert added.returncode == 0, added.stderr
    done = agent.run("-p", "--dangerously-skip-permissions", cwd=daemon.work, env=env, prompt=prompt)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("version", [NEWEST, *OLDER])
def test_a_session_starts_watches_and_interrupts_a_subagent(
    daemon: Daemon, model: ScriptedModel, version: str, tmp_path: Path
) -> None:
    agent, env = claude(version), environment(tmp_path / "home", model)
    model.script(
        "marker-agent",
        use("mcp__subagent__start", name="scout", prompt=PROMPT),
        use("mcp__subagent__status", name="scout"),
        use("mcp__subagent__interrupt", name="scout"),
        use("mcp__subagent__status", name="nobody"),
        say("that was it"),
    )
    assert session(agent, daemon, env, "marker-agent: try a subagent") == "that was it"
    assert "Connected" in agent.run("mcp", "list", cwd=daemon.work, env=env).stdout

    told = listed(model, "marker-agent")
    assert sorted(told) == sorted(TOOLS)
    for tool in subagent.subagent_tools(FakeFleet(), DEFAULT_TOOLS):
        assert told[tool.name]["description"] == tool.description
        listed_as = told[tool.name]["input_schema"]["properties"]
        assert listed_as.keys() == tool.definition().input_schema["properties"].keys()
        assert not told[tool.name].get("defer_loading")
    if version == NEWEST:
        assert sum(len(json.dumps(tool)) for tool in told.values()) <= AT_MOST_CHARS
        assert subagent.INSTRUCTIONS in _everything_said(model)

    started, running, killed, refused = results(model, "marker-agent")
    assert refused.startswith("status error: no subagent is named 'nobody'; known: scout")
    assert started.startswith("scout: started")
    assert running.startswith("scout: running.")
    assert killed.startswith("scout: killed by SIGINT.")
    note("claude, `mcp add` and a session", version, asked_protocol(agent, daemon.work, env))
    TABLE.add("model", version, "all four, with descriptions and schemas", "text", "text")


def test_the_first_release_knows_servers_of_the_stdio_kind_only(
    daemon: Daemon, model: ScriptedModel, tmp_path: Path
) -> None:
    agent, env = claude(OLDEST), environment(tmp_path / "home", model)
    added = agent.run("mcp", "add", "--transport", "http", "subagent", f"{daemon.url}/mcp", cwd=daemon.work, env=env)
    assert added.returncode != 0
    assert "stdio" in agent.run("mcp", "add", "--help", cwd=daemon.work, env=env).stdout
    TABLE.add("client", "claude", f"{OLDEST}, the first on npm", "stdio servers only", "no", "no", "no", "no")


def _everything_said(model: ScriptedModel) -> str:
    """The texts of the first request, of whatever role."""
    request = model.requests_for("marker-agent")[0]
    texts = []
    for message in [{"content": request.get("system", "")}, *request["messages"]]:
        content = message["content"]
        texts += [content] if isinstance(content, str) else [str(block.get("text", "")) for block in content]
    return "\n".join(texts)
