"""An idle, interactive claude hears of the end of its subagents at once, by MCP tasks, and its model is not asked
anything in between.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

import attrs
import pytest

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import Step, hang, refuse, say, use
from tests.realclaude.terminal import Terminal, interactive_claude
from tests.support.agent import Agent, pause
from tests.support.daemon import Daemon
from tests.support.scenes import connected, enter, eventually, shown, todos_of

PLUGIN = Path(__file__).parents[2] / "plugin"
SEVERAL_POLLS_S = 3.5
IDLE = "I am idle from now on"
NOTIFICATION = "<task-notification>"


@contextmanager
def idling(daemon: Daemon, claude: Path, sandbox: dict[str, str]) -> Iterator[Terminal]:
    """An interactive claude with the daemon as its only MCP server."""
    config = daemon.root / "agent.json"
    config.write_text(json.dumps({"mcpServers": {"subagent": {"type": "http", "url": f"{daemon.url}/mcp"}}}))
    with interactive_claude(claude, environ=sandbox, cwd=daemon.work, mcp_config=config) as terminal:
        yield terminal


async def begin(terminal: Terminal, daemon: Daemon, model: ScriptedModel, **arguments: Any) -> str:
    """Have the agent start `scout`, and be idle again; what its model read of the start."""
    model.script(
        "marker-agent",
        use("mcp__subagent__start", name="scout", prompt="marker-scout: look around", **arguments),
        say(IDLE),
        say("so it has ended"),
    )
    await connected(daemon.home)
    await enter(terminal, "marker-agent: have somebody look around")
    await shown(terminal, IDLE)
    return last_read(model)


def last_read(model: ScriptedModel) -> str:
    """What the agent's model read since it last said something."""
    messages = model.requests_for("marker-agent")[-1]["messages"]
    said = [number for number, message in enumerate(messages) if message["role"] == "assistant"]
    read = messages[said[-1] + 1 if said else 0 :]
    return "\n".join(text for message in read for text in texts_in(message["content"]))


def texts_in(content: Any) -> Iterator[str]:
    """The texts of a message, those of tool results among them."""
    if isinstance(content, str):
        yield content
        return
    for block in content:
        if block["type"] == "text":
            yield block["text"]
        elif block["type"] == "tool_result":
            yield from texts_in(block["content"])


async def woken(model: ScriptedModel, asked: int) -> str:
    """What the agent's model read when it was asked for the first time after `asked` requests."""
    await eventually(lambda: len(model.requests_for("marker-agent")) > asked)
    requests = model.requests_for("marker-agent")
    assert len(requests) == asked + 1, f"{len(requests)} requests"
    return last_read(model)


def wake_delay_s(model: ScriptedModel, record: dict[str, Any]) -> float:
    """From the end of a run to the request that it woke its agent to."""
    request = model.requests_for("marker-agent")[-1]
    (number,) = [number for number, body in enumerate(model.requests) if body is request]
    return (model.arrived[number] - datetime.fromisoformat(record["ended_at"])).total_seconds()


@pytest.mark.parametrize(
    ("steps", "arguments", "words"),
    [
        ([say("nothing here")], {}, ["finished its turn", "The turn finished."]),
        (
            [say("half of it")],
            {"goal": "all of it", "max_turns": 1},
            ["stopped at its limit of 1 turn", "harness limit"],
        ),
        (
            [use("mcp__subagent_control__goal_reached", message="all green"), say("done")],
            {"goal": "all green", "max_turns": 3},
            ["reports its goal reached (self-reported, not verified)", "all green"],
        ),
        (
            [use("mcp__subagent_control__need_help", reason="which branch?"), say("waiting")],
            {"goal": "merge it", "max_turns": 3},
            ["is blocked and asks for help", "which branch?", "To answer it, call"],
        ),
        (
            [refuse(400, "no such model here", "invalid_request_error")] * 10,
            {"goal": "g", "max_turns": 3},
            ["subagent scout failed", "no such model here"],
        ),
    ],
    ids=["finished", "turn_cap", "goal_reached", "need_help", "failed"],
)
async def test_an_idle_agent_is_awake_when_its_subagents_run_has_ended_and_reads_how(
    daemon: Daemon,
    agent: Agent,
    model: ScriptedModel,
    claude: Path,
    sandbox: dict[str, str],
    steps: list[Step],
    arguments: dict[str, Any],
    words: list[str],
) -> None:
    go = Event()
    model.script("marker-scout", attrs.evolve(steps[0], after=go), *steps[1:])
    with idling(daemon, claude, sandbox) as terminal:
        assert "You are notified when the run ends: do not poll." in await begin(terminal, daemon, model, **arguments)
        assert (await agent.record("scout"))["state"] == "running"
        asked = len(model.requests_for("marker-agent"))
        go.set()
        read = await woken(model, asked)
        record = await agent.record("scout")
        print(f"awake {wake_delay_s(model, record):.2f} s after the run's end; its model read:\n{read}")
    assert NOTIFICATION in read
    for each in words:
        assert each in read


async def test_an_idle_agent_reads_that_its_subagent_was_killed_and_by_which_signal(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    from twisted.internet import reactor

    model.script("marker-scout", hang("half of"))
    with idling(daemon, claude, sandbox) as terminal:
        await begin(terminal, daemon, model, goal="all of it", max_turns=3)
        await eventually(lambda: len(model.requests) == 3)
        asked, everything_asked = len(model.requests_for("marker-agent")), model.asked
        await pause(SEVERAL_POLLS_S, reactor)
        os.kill((await agent.record("scout"))["pid"], signal.SIGKILL)
        read = await woken(model, asked)
        record = await agent.record("scout")
        print(f"awake {wake_delay_s(model, record):.2f} s after the run's end; its model read:\n{read}")
    assert "was killed mid-turn, not finished" in read
    assert "SIGKILL" in read
    # Not one question, of claude's own neither, while the agent was idle.
    assert model.asked == everything_asked + 1


async def test_an_agent_that_stops_the_task_interrupts_the_run(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    model.script("marker-scout", hang("half of"))
    with idling(daemon, claude, sandbox) as terminal:
        found = re.search(r'task_id "(\w+)', await begin(terminal, daemon, model, goal="g", max_turns=3))
        assert found
        model.script(
            "marker-stop",
            use("ToolSearch", query="select:TaskStop", max_results=1),
            use("TaskStop", task_id=found[1]),
            say("it is stopped"),
        )
        await enter(terminal, "marker-stop: stop that")
        await shown(terminal, "it is stopped")
        record = await agent.ended("scout")
        print(last_read(model))
    assert (record["state"], record["last_turn"]["signal"]) == ("killed", "SIGINT")


async def test_an_agent_is_woken_by_a_restart_of_the_daemon_in_the_middle_of_a_run(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    from twisted.internet.threads import deferToThread

    model.script("marker-scout", hang("half of"))
    with idling(daemon, claude, sandbox) as terminal:
        await begin(terminal, daemon, model, goal="g", max_turns=3)
        await deferToThread(daemon.stop)
        await deferToThread(daemon.start)
        read = await woken(model, 2)
        print(read)
    assert NOTIFICATION in read
    assert "was killed mid-turn, not finished" in read
    assert "the daemon stopped" in read
    assert "`continue`" in read


async def test_an_end_that_a_task_reported_is_not_reported_by_the_plugins_hook_too(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    go = Event()
    environ = {**sandbox, "HIVESUB_URL": daemon.url, "HIVESUB_TODOS": str(daemon.todos)}
    model.script("marker-scout", say("nothing here", after=go))
    plugin = ["--plugin-dir", str(PLUGIN)]
    with interactive_claude(claude, *plugin, environ=environ, cwd=daemon.work) as terminal:
        model.script(
            "marker-agent",
            use("mcp__plugin_hivesub_subagent__start", name="scout", prompt="marker-scout: look around"),
            say(IDLE),
            say("so it has ended"),
        )
        await connected(daemon.home)
        await enter(terminal, "marker-agent: have somebody look around")
        await shown(terminal, IDLE)
        go.set()
        assert NOTIFICATION in await woken(model, 2)
        (todo,) = await todos_of(daemon)
        await enter(terminal, "marker-second: and now?")
        await eventually(lambda: model.requests_for("marker-second"))
    (request,) = model.requests_for("marker-second")
    assert json.dumps(request["messages"]).count(todo["title"]) == 1
