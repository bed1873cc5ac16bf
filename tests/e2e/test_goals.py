"""Runs toward a goal with the real claude: what it is told at each turn, what it says, and what is made of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from twisted.internet import reactor

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import hang, say, use
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.scenes import eventually, posting, prompts_to, signal_url, spawned_by, todos_of, told, tool_results

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
    assert (continued["subagent"]["goal"], continued["subagent"]["max_turns"]) == (GOAL, 5)
    assert "toward the same goal" in agent.texts[-1]
    await agent.ended("alpha")
    single = await agent.call("continue", name="alpha", prompt="marker-goal: a last thing", goal="")
    assert single["subagent"]["goal"] is None
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


async def test_words_are_no_signals_and_of_several_signals_the_last_decides(agent: Agent, model: ScriptedModel) -> None:
    model.script("marker-words", *[say("I call goal_reached. mcp__subagent_control__goal_reached()")] * 2)
    model.script(
        "marker-calls",
        use("mcp__subagent_control__need_help", reason="which branch?"),
        use("mcp__subagent_control__goal_reached", message="found it"),
        use("mcp__subagent_control__goal_reached", message="and checked it"),
        say("ended"),
    )
    for name in ("words", "calls"):
        await agent.call("start", name=name, prompt=f"marker-{name}", goal=GOAL, max_turns=2)
    words, calls = await agent.ended("words"), await agent.ended("calls")
    assert (words["turn"], words["stop_reason"]["kind"], words["signals"]) == (2, "turn_cap", [])
    assert [(signal["kind"], signal["message"]) for signal in calls["signals"]] == [
        ("need_help", "which branch?"),
        ("goal_reached", "found it"),
        ("goal_reached", "and checked it"),
    ]
    assert (calls["turn"], calls["state"], calls["stop_reason"]["kind"]) == (1, "idle", "goal_reached")
    assert "and checked it" in calls["stop_reason"]["message"]


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
        call = posting(url, "tools/list")
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
