"""A real claude as the agent: it starts a subagent through `/mcp`, and what the daemon lets a subagent have."""

from __future__ import annotations

import json
from pathlib import Path

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import say, use
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.scenes import run_agent, todos_of

BUILT_INS = {"Edit", "Glob", "Grep", "Read", "Skill", "Write"}


async def test_an_agent_starts_a_subagent_follows_it_and_finds_its_todo(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    model.script(
        "marker-agent",
        use("mcp__subagent__start", name="scout", prompt="marker-scout: look around"),
        use("mcp__subagent__status", name="scout", wait_s=30),
        say("my subagent is done"),
    )
    model.script("marker-scout", say("nothing here"))
    said = await run_agent(claude, daemon, sandbox, "marker-agent: have somebody look around")
    assert "my subagent is done" in said
    results = [
        json.dumps(block["content"])
        for message in model.requests_for("marker-agent")[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]
    assert "scout: started" in results[0] or '\\"state\\":\\"running\\"' in results[0]
    assert "finished" in results[1]
    record = await agent.record("scout")
    assert record["state"] == "idle"
    (todo,) = await todos_of(daemon)
    assert todo["subagent"]["name"] == "scout"


async def test_a_subagent_has_exactly_the_tools_asked_for_and_its_signal_server(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    (daemon.work / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"project": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}})
    )
    settings = daemon.home / ".claude"
    settings.mkdir(exist_ok=True)
    (settings / "settings.json").write_text(
        json.dumps({"enableAllProjectMcpServers": True, "permissions": {"allow": ["Bash"]}})
    )
    (daemon.home / ".claude.json").write_text(
        json.dumps({"mcpServers": {"user": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}})
    )
    model.script("marker-tools", say("these"))
    await agent.call("start", name="alpha", prompt="marker-tools")
    record = await agent.ended("alpha")
    assert record["missing_tools"] == []
    names = {tool["name"] for tool in model.requests_for("marker-tools")[0]["tools"]}
    # Claude offers the model a placeholder of its own beside what `init` lists (measured, 2.1.332).
    assert names - {"DeferredToolPlaceholder"} == BUILT_INS | {
        "mcp__subagent_control__goal_reached",
        "mcp__subagent_control__need_help",
    }


async def test_two_runs_at_once_keep_apart(daemon: Daemon, agent: Agent, model: ScriptedModel) -> None:
    for name in ("left", "right"):
        model.script(
            f"marker-{name}", use("mcp__subagent_control__goal_reached", message=f"{name} is done"), say("ended")
        )
        await agent.call("start", name=name, prompt=f"marker-{name}", goal=f"do the {name} part")
    left, right = await agent.ended("left"), await agent.ended("right")
    assert [signal["message"] for signal in left["signals"]] == ["left is done"]
    assert [signal["message"] for signal in right["signals"]] == ["right is done"]
