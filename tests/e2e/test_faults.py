"""What has gone wrong for people in this job, shown with the real claude; the rest is in tests/faults."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import hang, say
from tests.support.agent import Agent, ToolError
from tests.support.daemon import Daemon
from tests.support.scenes import eventually, gone, prompts_to, spawned_by, todos_of, wrapped


def agent_of(daemon: Daemon) -> Agent:
    from twisted.internet import reactor

    return Agent(f"{daemon.url}/mcp", reactor)


async def test_prompts_that_look_like_something_else_reach_the_model_as_they_are(
    agent: Agent, model: ScriptedModel
) -> None:
    prompts = {
        "item": "- [ ] x marker-item",
        "option": "--help marker-option",
        "shell": "!ls marker-shell",
        "file": "@/etc/passwd marker-file",
        "nul": "a\0b marker-nul",
        "newlines": "marker-newlines" + "\n" * 10_000 + "end",
        "long": "marker-long " + "ä" * 100_000,
    }
    for name, prompt in prompts.items():
        model.script(f"marker-{name}", say("noted"))
        await agent.call("start", name=name, prompt=prompt)
        record = await agent.ended(name)
        assert record["last_turn"]["outcome"] == "finished", record
        assert prompt in prompts_to(model, f"marker-{name}"), name
    goal = "marker-goal " + "ö" * 100_000
    await agent.call("start", name="goal", prompt="go on", goal=goal, max_turns=1)
    assert (await agent.ended("goal"))["goal"] == goal
    assert any(goal in text for text in prompts_to(model, "marker-goal"))


async def test_a_prompt_that_is_a_command_of_claudes_is_run_by_it_and_its_new_session_goes_on(
    agent: Agent, model: ScriptedModel
) -> None:
    given = (await agent.call("start", name="alpha", prompt="/clear"))["subagent"]["session_id"]
    await agent.ended("alpha")
    cleared = await agent.record("alpha", result=True)
    assert (cleared["last_turn"]["outcome"], cleared["result"], model.requests) == ("finished", "", [])
    assert cleared["session_id"] != given
    continued = await agent.call("continue", name="alpha", prompt="marker-on")
    assert continued["subagent"]["session_id"] == cleared["session_id"]
    assert (await agent.ended("alpha"))["last_turn"]["outcome"] == "finished"
    assert any("<command-name>/clear" in text for text in prompts_to(model, "marker-on"))


async def test_a_start_killed_before_its_init_can_be_started_again_and_nothing_is_left(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-again", say("done"))
    ids = []
    for number in (signal.SIGKILL, signal.SIGTERM):
        started = await agent.call("start", name="alpha", prompt="marker-again")
        os.kill(started["subagent"]["pid"], number)
        record = await agent.ended("alpha")
        assert (record["state"], record["last_turn"]["signal"]) == ("killed", number.name)
        ids.append(record["session_id"])
    await agent.call("start", name="alpha", prompt="marker-again")
    record = await agent.ended("alpha")
    assert record["last_turn"]["outcome"] == "finished"
    assert len({*ids, record["session_id"]}) == 3
    assert not [path for path in daemon.runtime.rglob("*") if path.is_file()]
    assert not psutil.Process(daemon.pid).children()


async def test_an_interrupt_ends_the_claude_behind_a_wrapper_that_does_not_exec(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n{claude} "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    model.script("marker-hang", hang("thinking"))
    with Daemon(tmp_path, claude=wrapper, environ=sandbox) as daemon:
        agent = agent_of(daemon)
        started = await agent.call("start", name="alpha", prompt="marker-hang")
        await spawned_by(model, "marker-hang")
        below = [one.pid for one in psutil.Process(started["subagent"]["pid"]).children(recursive=True)]
        assert below
        answer = await agent.call("interrupt", name="alpha")
        assert answer["subagent"]["state"] == "killed"
        assert await gone(below)


async def test_a_session_whose_transcript_is_gone_is_claudes_own_message_after_one_try_and_no_todo(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    resumes = tmp_path / "resumes"
    program = wrapped(claude, tmp_path, f'case "$*" in *--resume*) echo one >> {resumes};; esac')
    model.script("marker-plain", say("done"))
    with Daemon(tmp_path, claude=program, environ=sandbox) as daemon:
        agent = agent_of(daemon)
        await agent.call("start", name="alpha", prompt="marker-plain")
        before = await agent.ended("alpha")
        session_id = before["session_id"]
        await todos_of(daemon)
        transcripts = list((daemon.home / ".claude").rglob(f"{session_id}*.jsonl"))
        assert transcripts
        for path in transcripts:
            path.unlink()
        with pytest.raises(ToolError, match=f"claude error: No conversation found with session ID: {session_id}"):
            await agent.call("continue", name="alpha", prompt="marker-plain")
        assert {**await agent.record("alpha"), "todo": before["todo"]} == before
        assert not psutil.Process(daemon.pid).children()
        assert resumes.read_text() == "one\n"
        assert len(await todos_of(daemon)) == 1


async def test_a_daemon_that_looks_nested_runs_and_a_signal_route_that_is_not_reached_is_told(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    nested = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_SESSION_ID": "4f7b5c56-0f2a-4a0e-9f0e-0f9f5c1d2e3f",
    }
    model.script("marker-plain", say("done"))
    options = ["--public-url", "http://127.0.0.1:9"]
    with Daemon(tmp_path, claude=claude, environ={**sandbox, **nested}, options=options) as daemon:
        # The ready line names the public URL, and this agent is on the daemon's own machine.
        agent = agent_of(daemon)
        agent._url = f"http://127.0.0.1:{listening_port(daemon)}/mcp"
        await agent.call("start", name="alpha", prompt="marker-plain", goal="all done", max_turns=3)
        record = await agent.ended("alpha")
        assert (record["control"], record["stop_reason"]["kind"], record["turn"]) == ("failed", "no_control", 1)
        assert record["session_id"] != nested["CLAUDE_CODE_SESSION_ID"]
        assert await eventually(daemon.todos.exists)
        assert json.loads(daemon.todos.read_text())["subagent"]["control"] == "failed"


def listening_port(daemon: Daemon) -> int:
    (listener,) = [
        one for one in psutil.Process(daemon.pid).net_connections(kind="tcp") if one.status == psutil.CONN_LISTEN
    ]
    return int(listener.laddr.port)
