"""Runs toward a goal with the real claude: what it is told at each turn, what it says, and what is made of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from twisted.internet import reactor

from tests.e2e.scenes import eventually, prompts_to, spawned_by, todos_of, told
from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import hang, say, use
from tests.support.agent import Agent
from tests.support.daemon import Daemon

GOAL = "the file notes.txt\nholds «three» lines"


async def test_a_goal_that_is_never_reported_reached_runs_to_the_cap(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-cap", say("one"), say("two"), say("three"), say("four"))
    await agent.call(
        "start", name="alpha", prompt="marker-cap: write notes", goal=GOAL, max_turns=3, report_file="report.md"
    )
    record = await agent.ended("alpha")
    assert (record["turn"], record["max_turns"], record["state"]) == (3, 3, "idle")
    assert record["stop_reason"]["kind"] == "turn_cap"
    assert record["goal"] == GOAL
    assert record["usage"]["claude_turns"] == 3
    assert "Turn 3 of 3" in agent.texts[-1]
    first, second, third = prompts_to(model, "marker-cap")[-3:]
    assert first.startswith("marker-cap: write notes")
    for number, prompt in enumerate((first, second, third), 1):
        assert GOAL in prompt
        assert f"Turn {number} of 3" in prompt
        assert "mcp__subagent_control__goal_reached" in prompt
        assert str(daemon.work / "report.md") in prompt
    report = (daemon.work / "report.md").read_text()
    assert "harness limit" in report
    assert "Turn 3 of 3" in report
    (todo,) = await todos_of(daemon)
    assert "never reported reached" in todo["body"]


async def test_goal_reached_in_turn_two_stops_the_run_as_a_claim(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script(
        "marker-goal",
        say("not yet"),
        use("mcp__subagent_control__goal_reached", message="notes.txt has three lines"),
        say("ended"),
    )
    await agent.call("start", name="alpha", prompt="marker-goal", goal=GOAL, report_file="report.md")
    record = await agent.ended("alpha")
    assert (record["turn"], record["max_turns"]) == (2, 5)
    assert record["stop_reason"]["kind"] == "goal_reached"
    assert [(signal["kind"], signal["message"]) for signal in record["signals"]] == [
        ("goal_reached", "notes.txt has three lines")
    ]
    assert record["state"] == "idle"
    assert record["control"] == "connected"
    (todo,) = await todos_of(daemon)
    for surface in (agent.texts[-1], todo["body"], (daemon.work / "report.md").read_text()):
        assert "self-reported, not verified" in surface
    continued = await agent.call("continue", name="alpha", prompt="marker-goal: one more thing")
    assert continued["subagent"]["goal"] is None
    assert (await agent.ended("alpha"))["stop_reason"]["kind"] == "turn_ended"


async def test_need_help_blocks_and_a_continue_answers_it_with_a_fresh_budget(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-help", use("mcp__subagent_control__need_help", reason="which branch?"), say("waiting"))
    model.script("marker-answer", use("mcp__subagent_control__goal_reached"), say("ended"))
    await agent.call("start", name="alpha", prompt="marker-help", goal=GOAL, max_turns=2)
    blocked = await agent.ended("alpha")
    assert blocked["state"] == "blocked"
    assert blocked["stop_reason"] == {"kind": "need_help", "message": "which branch?"}
    assert "which branch?" in agent.texts[-1]
    await agent.call("continue", name="alpha", prompt="marker-answer: main")
    record = await agent.ended("alpha")
    assert record["goal"] == GOAL
    assert (record["turn"], record["max_turns"]) == (1, 2)
    assert record["stop_reason"]["kind"] == "goal_reached"
    assert record["session_id"] == blocked["session_id"]
    blocked_todo, done_todo = await todos_of(daemon, 2)
    assert blocked_todo["subagent"]["state"] == "blocked"
    assert done_todo["subagent"]["state"] == "idle"


async def test_a_budget_in_dollars_stops_the_run_without_a_failure(agent: Agent, model: ScriptedModel) -> None:
    model.script("marker-cost", *[say("costly", input_tokens=1000, output_tokens=1000)] * 9)
    await agent.call("start", name="alpha", prompt="marker-cost", goal=GOAL, max_turns=9, max_budget_usd=0.05)
    record = await agent.ended("alpha")
    assert record["stop_reason"]["kind"] == "budget_spent", record
    assert record["state"] == "idle"
    assert record["usage"]["cost_usd"] >= 0.05
    assert 1 < record["turn"] < 9


async def test_a_subagent_reaches_neither_another_ones_config_nor_its_dead_url(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    daemon = Daemon(tmp_path, claude=claude, environ=sandbox, options=["--tools", "Bash"])
    with daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        model.script("marker-victim", hang("working"))
        await agent.call("start", name="victim", prompt="marker-victim", goal=GOAL)
        url = await eventually(lambda: signal_url(daemon, "victim"))
        assert url.startswith(f"{daemon.url}/signal/mcp/")
        await spawned_by(model, "marker-victim")
        assert signal_url(daemon, "victim") == "", "the config file is gone once its URL was used"
        call = (
            "curl -s -o /dev/null -w '%{http_code}' -X POST -H 'Content-Type: application/json' "
            "-H 'Accept: application/json' -H 'MCP-Protocol-Version: 2025-11-25' "
            f"""-d '{{"jsonrpc":"2.0","id":1,"method":"tools/list"}}' {url}"""
        )
        model.script("marker-living", use("Bash", command=call, description="try"), say("tried"))
        await agent.call("start", name="other", prompt="marker-living")
        await agent.ended("other")
        assert "200" in tool_results(model, "marker-living")
        await agent.call("interrupt", name="victim")
        model.script("marker-dead", use("Bash", command=call, description="try"), say("tried"))
        await agent.call("start", name="other", prompt="marker-dead")
        record = await agent.ended("other")
        assert record["signals"] == []
        assert "404" in tool_results(model, "marker-dead")
        assert (await agent.record("victim"))["signals"] == []
        token = url.rpartition("/")[2]
        assert token not in daemon.log_text()
        assert token not in told(await todos_of(daemon, 3))


def signal_url(daemon: Daemon, name: str) -> str:
    """The signal URL in a subagent's config file, "" once there is none."""
    try:
        (path,) = daemon.runtime.glob(f"mcp-*/{name}.mcp.json")
        config = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return ""
    return str(config["mcpServers"]["subagent_control"]["url"])


def tool_results(model: ScriptedModel, marker: str) -> str:
    """What the tools of a conversation gave."""
    return json.dumps(
        [
            block["content"]
            for message in model.requests_for(marker)[-1]["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
    )


@pytest.mark.parametrize("named", ["inside", "outside"])
async def test_a_report_path_that_a_subagent_names_counts_inside_its_dir_only(
    daemon: Daemon, agent: Agent, model: ScriptedModel, tmp_path: Path, named: str
) -> None:
    path = daemon.work / "mine.md" if named == "inside" else tmp_path / "mine.md"
    model.script(
        "marker-path", use("mcp__subagent_control__goal_reached", message="done", report_file=str(path)), say("ended")
    )
    await agent.call("start", name="alpha", prompt="marker-path", goal=GOAL)
    record = await agent.ended("alpha")
    assert record["stop_reason"]["kind"] == "goal_reached"
    assert path.exists() is (named == "inside")
    assert (record["report_error"] is None) is (named == "inside")
