"""Commands that the real claude runs in the background: a turn that goes on after a result, and what is left of one."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import Step, say, use
from tests.support.agent import Agent, pause
from tests.support.daemon import Daemon
from tests.support.scenes import LOOK_S, LOOKS, gone, spawned_command, todos_of


@pytest.fixture
def daemon(tmp_path: Path, claude: Path, sandbox: dict[str, str]) -> Iterator[Daemon]:
    with Daemon(tmp_path, claude=claude, environ=sandbox, options=["--tools=Bash"]) as daemon:
        yield daemon


def start_in_background(command: str) -> Step:
    return use("Bash", command=command, description="x", run_in_background=True)


async def with_result(agent: Agent, name: str, text: str) -> Any:
    """The record once claude wrote this result."""
    for _ in range(LOOKS):
        record = await agent.record(name, result=True)
        if record["result"] == text:
            return record
        await pause(LOOK_S, reactor)
    raise AssertionError(f"{name} did not say {text}")


async def test_a_background_command_that_ends_after_a_result_wakes_claude_in_the_same_turn(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    gate = daemon.root / "gate"
    model.script(
        "marker-wait",
        start_in_background(f"until test -e {gate}; do sleep 0.1; done"),
        say("it runs"),
        use("mcp__subagent_control__goal_reached", message="it ended"),
        say("it ended"),
    )
    await agent.call("start", name="alpha", prompt="marker-wait", goal="see it end", max_turns=3)
    assert (await with_result(agent, "alpha", "it runs"))["state"] == "running"
    gate.touch()
    record = await agent.ended("alpha")
    assert (record["turn"], record["state"], record["stop_reason"]["kind"]) == (1, "idle", "goal_reached")
    assert (await agent.record("alpha", result=True))["result"] == "it ended"
    assert len(await todos_of(daemon)) == 1


async def test_a_server_in_the_background_goes_with_the_claude_that_waits_for_it(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    for name, number in (("interrupted", signal.SIGINT), ("killed", signal.SIGKILL)):
        model.script(
            f"marker-{name}",
            start_in_background(f"exec {sys.executable} -m http.server 0 --bind 127.0.0.1"),
            say("it serves"),
        )
        await agent.call("start", name=name, prompt=f"marker-{name}")
        pid = (await with_result(agent, name, "it serves"))["pid"]
        server = await spawned_command(daemon, "http.server")
        if number is signal.SIGINT:
            await agent.call("interrupt", name=name)
        else:
            os.kill(pid, number)
        record = await agent.ended(name)
        assert (record["state"], record["last_turn"]["signal"]) == ("killed", number.name)
        assert "a good result had been written before" in record["last_turn"]["detail"]
        assert await gone([pid, server])
