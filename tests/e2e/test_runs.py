"""Runs of one turn with the real claude: how each ends is told as it was seen."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest
from twisted.internet import reactor

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import hang, overflow, refuse, say, use
from tests.support.agent import Agent, ToolError
from tests.support.daemon import Daemon
from tests.support.scenes import STAYS, gone, spawned_by, spawned_command, todos_of


async def test_a_started_subagent_finishes_and_its_todo_is_in_the_file(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-plain", say("the answer is 4"))
    started = await agent.call("start", name="alpha", prompt="marker-plain: what is 2 + 2?")
    assert started["subagent"]["state"] == "running"
    record = await agent.ended("alpha")
    assert record["state"] == "idle"
    assert record["session_id"] == started["subagent"]["session_id"]
    assert record["last_turn"]["outcome"] == "finished"
    assert record["last_turn"]["exit_code"] == 0
    assert record["stop_reason"]["kind"] == "turn_ended"
    assert record["control"] == "connected"
    assert record["missing_tools"] == []
    assert record["usage"]["claude_turns"] == 1
    assert record["usage"]["cost_usd"] > 0
    said = await agent.record("alpha", result=True)
    assert said["result"] == "the answer is 4"
    (todo,) = await todos_of(daemon)
    assert todo["kind"] == "subagent_run_ended"
    assert todo["subagent"]["last_turn"]["outcome"] == "finished"


async def test_an_interrupted_run_is_killed_and_its_continue_names_the_signal(
    agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-hang", hang("thinking about"))
    model.script("marker-again", say("done now"))
    await agent.call("start", name="alpha", prompt="marker-hang")
    await spawned_by(model, "marker-hang")
    interrupted = await agent.call("interrupt", name="alpha")
    assert interrupted["subagent"]["state"] == "killed"
    assert interrupted["subagent"]["last_turn"]["signal"] == "SIGINT"
    assert interrupted["escalated"] is False
    continued = await agent.call("continue", name="alpha", prompt="marker-again")
    assert continued["previous_signal"] == "SIGINT"
    assert continued["subagent"]["session_id"] == interrupted["subagent"]["session_id"]
    record = await agent.ended("alpha")
    assert record["last_turn"]["outcome"] == "finished"


async def test_a_continue_that_finds_no_session_says_where_it_searched_and_leaves_no_todo(
    daemon: Daemon, agent: Agent
) -> None:
    with pytest.raises(ToolError) as refused:
        await agent.call("continue", name="nobody", prompt="go on")
    text = str(refused.value)
    assert text.startswith("continue error: claude error: ")
    assert "does not match any session title" in text
    home = daemon.root / "home"
    assert f"(searched {home}/.claude for cwd {daemon.work}; if it was started elsewhere, pass the `dir`" in text
    with pytest.raises(ToolError, match="no subagent is named 'nobody'"):
        await agent.record("nobody")
    assert not daemon.todos.exists()


async def test_a_session_is_found_by_its_name_after_a_restart_in_the_dir_that_is_given(
    daemon: Daemon, agent: Agent, model: ScriptedModel, tmp_path: Path
) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    model.script("marker-one", say("one"))
    model.script("marker-two", say("two"))
    await agent.call("start", name="alpha", prompt="marker-one", dir=str(place))
    before = await agent.ended("alpha")
    assert daemon.stop() == 0
    daemon.start()
    with pytest.raises(ToolError, match="does not match any session title"):
        await agent.call("continue", name="alpha", prompt="marker-two")
    continued = await agent.call("continue", name="alpha", prompt="marker-two", dir=str(place))
    assert continued["subagent"]["session_id"] == before["session_id"]
    record = await agent.ended("alpha")
    assert record["last_turn"]["outcome"] == "finished"
    assert record["usage"]["cost_usd"] == pytest.approx(before["usage"]["cost_usd"])


async def test_an_ambiguous_title_lists_its_candidates_and_a_session_id_picks_one(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-one", say("one"))
    ids = []
    for _ in range(2):
        await agent.call("start", name="twice", prompt="marker-one")
        ids.append((await agent.ended("twice"))["session_id"])
    assert daemon.stop() == 0
    daemon.start()
    with pytest.raises(ToolError) as refused:
        await agent.call("continue", name="twice", prompt="marker-one")
    assert all(session_id in str(refused.value) for session_id in ids)
    continued = await agent.call("continue", name="twice", prompt="marker-one", session_id=ids[0])
    assert continued["subagent"]["session_id"] == ids[0]
    await agent.ended("twice")


async def test_a_kill_from_elsewhere_is_told_with_its_signal(agent: Agent, model: ScriptedModel) -> None:
    model.script("marker-hang", *[hang("thinking")] * 3)
    for name, number in (("by-term", signal.SIGTERM), ("by-kill", signal.SIGKILL), ("by-int", signal.SIGINT)):
        started = await agent.call("start", name=name, prompt=f"marker-hang {name}")
        await spawned_by(model, name)
        os.kill(started["subagent"]["pid"], number)
        record = await agent.ended(name)
        assert record["state"] == "killed", record
        assert record["last_turn"]["signal"] == number.name
        assert "the daemon did not send" in record["last_turn"]["detail"]


async def test_what_claude_says_of_a_failure_is_told(agent: Agent, model: ScriptedModel) -> None:
    model.script("marker-api", *[refuse(500, "the model is on fire")] * 5)
    model.script("marker-long", *[overflow()] * 5)
    await agent.call("start", name="api", prompt="marker-api")
    await agent.call("start", name="long", prompt="marker-long")
    api = await agent.ended("api")
    assert (api["state"], api["last_turn"]["exit_code"]) == ("failed", 1)
    assert "the model is on fire" in api["last_turn"]["detail"]
    long = await agent.ended("long")
    assert long["state"] == "failed"
    assert "context overflow" in long["last_turn"]["detail"]


async def test_the_death_of_the_daemon_takes_its_children_with_it(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-hang", *[hang("thinking")] * 3)
    pids = []
    for name in ("a", "b", "c"):
        started = await agent.call("start", name=name, prompt=f"marker-hang {name}")
        pids.append(started["subagent"]["pid"])
        await spawned_by(model, f"marker-hang {name}")
    daemon.stop(signal.SIGKILL)
    assert await gone(pids)


async def test_a_stop_of_the_daemon_interrupts_what_runs_and_leaves_their_todos(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-hang", hang("thinking"))
    started = await agent.call("start", name="alpha", prompt="marker-hang")
    await spawned_by(model, "marker-hang")
    assert daemon.stop() == 0
    assert not psutil.pid_exists(started["subagent"]["pid"])
    (todo,) = [json.loads(line) for line in daemon.todos.read_text().splitlines()]
    assert todo["subagent"]["state"] == "killed"
    assert "killed mid-turn, not finished" in todo["body"]


async def test_an_interrupt_ends_the_commands_that_claude_started(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    daemon = Daemon(tmp_path, claude=claude, environ=sandbox, options=["--tools", "Bash"])
    with daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        model.script("marker-bash", use("Bash", command=STAYS, description="stay"))
        await agent.call("start", name="alpha", prompt="marker-bash")
        stays = await spawned_command(daemon, "tail")
        await agent.call("interrupt", name="alpha")
        assert await gone([stays])
        model.script("marker-bash", use("Bash", command=STAYS, description="stay"))
        started = await agent.call("start", name="beta", prompt="marker-bash")
        stays = await spawned_command(daemon, "tail")
        os.kill(started["subagent"]["pid"], signal.SIGKILL)
        record = await agent.ended("beta")
        assert record["last_turn"]["signal"] == "SIGKILL"
        assert await gone([stays])
