"""What a headless claude, which takes no MCP tasks, reads of its subagents: it waits in one call, and the answers are
sentences of a bounded size.
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from twisted.internet.defer import Deferred

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import hang, say, use
from tests.support.agent import Agent, pause
from tests.support.daemon import Daemon
from tests.support.scenes import eventually, run_agent, tool_texts

START, CONTINUE, STATUS = (f"mcp__subagent__{tool}" for tool in ("start", "continue", "status"))
WAIT_S = float(os.environ.get("HIVESUB_TEST_WAIT_S", "80"))
"""Longer than claude lets a silent call live."""
CHARS_A_TOKEN = 4


def tokens(text: str) -> float:
    return len(text) / CHARS_A_TOKEN


@pytest.mark.slow
async def test_a_headless_agent_waits_for_minutes_in_one_call_of_status(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    from twisted.internet import reactor

    go = Event()
    model.script("marker-scout", say("nothing here", after=go))
    model.script(
        "marker-agent",
        use(START, name="scout", prompt="marker-scout: look around"),
        use(STATUS, name="scout", wait_s=3600),
        say("it has ended"),
    )
    said: Deferred[str] = run_agent(claude, daemon, sandbox, "marker-agent: find out", within_s=WAIT_S + 60)
    await eventually(lambda: len(model.requests_for("marker-agent")) == 2)
    await pause(WAIT_S, reactor)
    asked = len(model.requests_for("marker-agent"))
    go.set()
    assert "it has ended" in await said
    assert asked == 2, "the model was asked while it waited"
    waited: timedelta = model.arrived[-1] - model.arrived[model.requests.index(model.requests_for("marker-agent")[1])]
    started, ended = tool_texts(model, "marker-agent")
    print(f"one call of {waited.total_seconds():.0f} s; the model read:\n{ended}")
    assert "`status` with `wait_s` 3600 waits for its end." in started
    assert ended.startswith("scout: idle. The turn finished.")


async def test_a_headless_agent_waits_for_all_of_its_subagents(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    go = Event()
    model.script("marker-left", say("nothing here"))
    model.script("marker-right", say("nothing there", after=go))
    model.script(
        "marker-agent",
        use(START, name="left", prompt="marker-left: look"),
        use(START, name="right", prompt="marker-right: look"),
        use(STATUS, wait_s=600, wait_for="all"),
        say("both have ended"),
    )
    said = run_agent(claude, daemon, sandbox, "marker-agent: find out")
    await eventually(lambda: len(model.requests_for("marker-agent")) == 3)
    await agent.ended("left")
    assert (await agent.record("right"))["state"] == "running"
    go.set()
    assert "both have ended" in await said
    (*_, both) = tool_texts(model, "marker-agent")
    print(both)
    assert both.splitlines()[0] == "2 subagents: 2 idle."
    assert "left: idle." in both and "right: idle." in both


async def test_what_the_agents_model_reads_is_sentences_of_a_bounded_size(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    goal = "every test of the suite passes on a clean checkout, and the change is described in the changelog"
    claim = "all 214 tests pass; the report says what was changed and which two questions are left"
    model.script("marker-long", hang("half of"))
    for number in range(20):
        model.script(
            f"marker-scout-{number:02}", use("mcp__subagent_control__goal_reached", message=claim), say("done")
        )
    for number in range(20):
        name = f"scout-{number:02}"
        await agent.call("start", name=name, prompt=f"marker-{name}: go", goal=goal, report_file=f"{name}.md")
        await agent.ended(name)
    model.script(
        "marker-agent",
        use(STATUS),
        use(STATUS, name="scout-07"),
        use(START, name="long", prompt="marker-long: go", goal=goal, max_turns=8, report_file="long.md"),
        use(STATUS, name="long"),
        say("I have seen it"),
    )
    await run_agent(claude, daemon, sandbox, "marker-agent: how are they?")
    all_ended, ended, started, running = tool_texts(model, "marker-agent")
    for what, text in (("ended", ended), ("20 ended", all_ended), ("start", started), ("running", running)):
        print(f"{what}: {tokens(text):.0f} tokens:\n{text}\n")
    assert ended.startswith("scout-07: idle.") and "self-reported, not verified" in ended
    assert tokens(ended) <= 150
    assert all(f"scout-{number:02}: idle." in all_ended for number in range(20))
    assert tokens(all_ended) <= 1_500
    assert started.startswith("long: started")
    assert tokens(started) <= 120
    assert running.startswith("long: running. Turn 1 of 8.")
    assert tokens(running) <= 60
    for text in (ended, all_ended, started, running):
        assert '"session_id"' not in text


async def test_a_model_that_continues_a_killed_subagent_reads_that_it_was_killed_and_by_what(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    model.script("marker-scout", hang("half of"))
    await agent.call("start", name="scout", prompt="marker-scout: go")
    await eventually(lambda: model.requests_for("marker-scout"))
    record = await agent.record("scout")
    # Claude writes its session to disk beside its first request: before the prompt is there, there is none to continue.
    kept = daemon.home / ".claude" / "projects"
    session = f"{record['session_id']}.jsonl"
    await eventually(lambda: any('"type":"user"' in path.read_text() for path in kept.rglob(session)))
    os.kill(record["pid"], signal.SIGKILL)
    assert (await agent.ended("scout"))["state"] == "killed"
    model.script("marker-agent", use(CONTINUE, name="scout", prompt="marker-again: go on"), say("it goes on"))
    await run_agent(claude, daemon, sandbox, "marker-agent: have it go on")
    (read,) = tool_texts(model, "marker-agent")
    print(read)
    assert "scout: continued" in read
    assert "killed by SIGKILL, not finished" in read
