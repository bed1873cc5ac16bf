"""What can be seen of a run with the real claude: its transcript and last steps, what an interrupt leaves to be
continued, what a turn left running, and two claudes that would work in one session.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import treq
from twisted.internet import reactor
from twisted.internet.defer import ensureDeferred
from twisted.internet.threads import deferToThread

from tests.realclaude.model import ScriptedModel
from tests.realclaude.sandbox import FAKE_KEY
from tests.realclaude.steps import hang, say, use
from tests.support.agent import Agent, ToolError
from tests.support.daemon import Daemon
from tests.support.scenes import gone, spawned_by, todos_of, wrapped

GOAL = "the file notes.txt is there"


async def steps(daemon: Daemon, name: str) -> Any:
    response = await treq.get(f"{daemon.url}/steps", params={"name": name}, persistent=False, timeout=10)
    assert response.code == 200
    return json.loads(await response.content())


async def test_its_transcript_is_known_while_it_runs_and_its_last_steps_can_be_read(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    (daemon.work / "notes.txt").write_text("one\n")
    model.script("marker-steps", use("Read", "I look.", file_path=str(daemon.work / "notes.txt")), hang("hm"))
    await agent.call("start", name="alpha", prompt=f"marker-steps: {FAKE_KEY}")

    async def looked() -> list[tuple[str, str]]:
        return [(step["what"], step["text"]) for step in (await steps(daemon, "alpha"))["steps"]]

    await spawned_by(model, "marker-steps")
    for _ in range(100):
        if len(await looked()) >= 3:
            break
    assert (await looked())[:3] == [
        ("is asked", "marker-steps: [redacted]"),
        ("says", "I look."),
        ("Read", str(daemon.work / "notes.txt")),
    ]
    record = await agent.record("alpha")
    path = Path(record["transcript"])
    assert path.name == f"{record['session_id']}.jsonl"
    assert path.is_file()
    assert "I look" not in agent.texts[-1]
    argv = [sys.executable, "-m", "hivesub.cli.main", "logs", "alpha", "--url", daemon.url]
    shown = await deferToThread(subprocess.run, argv, capture_output=True, text=True, timeout=60, check=False)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.splitlines()[2].endswith(f" UTC  Read  {daemon.work / 'notes.txt'}")
    stopped = await agent.call("interrupt", name="alpha")
    assert stopped["session_kept"] is True
    assert "`continue` resumes its session" in agent.texts[-1]


async def test_a_session_that_is_resumed_from_elsewhere_keeps_its_transcript(
    daemon: Daemon, agent: Agent, model: ScriptedModel, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    model.script("marker-first", say("one"))
    model.script("marker-second", say("two"))
    await agent.call("start", name="alpha", prompt="marker-first")
    first = await agent.ended("alpha")
    await agent.call("continue", name="alpha", prompt="marker-second", dir=str(elsewhere))
    second = await agent.ended("alpha")
    assert second["dir"] == str(elsewhere)
    found = await steps(daemon, "alpha")
    assert [step["text"] for step in found["steps"]] == ["marker-first", "one", "marker-second", "two"]
    assert second["transcript"] == found["transcript"]
    assert first["session_id"] == second["session_id"]


@pytest.mark.parametrize("wait", ["not at all", "for the pid", "for the model"])
async def test_an_interrupt_right_after_a_start_says_what_a_continue_finds(
    agent: Agent, model: ScriptedModel, wait: str
) -> None:
    model.script("marker-soon", hang("thinking"))
    model.script("marker-then", say("here I am"))
    await agent.call("start", name="alpha", prompt="marker-soon")
    if wait == "for the pid":
        assert (await agent.record("alpha"))["pid"]
    if wait == "for the model":
        await spawned_by(model, "marker-soon")
    stopped = await agent.call("interrupt", name="alpha")
    said = agent.texts[-1]
    if stopped.get("session_kept"):
        assert "`continue` resumes its session" in said
        await agent.call("continue", name="alpha", prompt="marker-then")
        assert (await agent.ended("alpha"))["last_turn"]["outcome"] == "finished"
    else:
        assert wait != "for the model"
        assert "`continue` will find none: `start` it anew" in said
        with pytest.raises(ToolError, match="No conversation found"):
            await agent.call("continue", name="alpha", prompt="marker-then")


async def test_what_a_finished_turn_left_running_is_counted_and_named(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    command = "setsid tail -f /dev/null >/dev/null 2>&1 </dev/null & echo $! > left.pid"
    model.script("marker-left", use("Bash", command=command, description="serve"), say("it serves"))
    with Daemon(tmp_path, claude=claude, environ=sandbox, options=["--tools", "Bash"]) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="alpha", prompt="marker-left")
        record = await agent.ended("alpha")
        pid = int((daemon.work / "left.pid").read_text())
        assert (record["last_turn"]["outcome"], record["left_running"]) == ("finished", 1)
        assert record["last_turn"]["detail"] == f"left running: tail (pid {pid})"
        assert "1 process that its turns started is still running." in agent.texts[-1]
        (todo,) = await todos_of(daemon)
        assert f"tail (pid {pid})" in todo["body"]
        assert int(Path(f"/proc/{pid}/oom_score_adj").read_text()) > int(
            Path(f"/proc/{daemon.pid}/oom_score_adj").read_text()
        )
        os.kill(pid, signal.SIGKILL)
        assert await gone([pid])
        assert "left_running" not in await agent.record("alpha")


async def test_of_two_continues_into_one_session_the_later_is_ended_and_says_why(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    model.script("marker-one", say("one"))
    model.script("marker-race", hang("hm"), hang("hm"))
    # Beta's gives the session another title: it comes after alpha's has looked that up.
    slow = wrapped(claude, tmp_path, 'case "$*" in *--name=beta*) sleep 3;; esac')
    with Daemon(tmp_path, claude=slow, environ=sandbox) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="alpha", prompt="marker-one")
        session = (await agent.ended("alpha"))["session_id"]
    with daemon:
        again = Agent(f"{daemon.url}/mcp", reactor)
        first = ensureDeferred(again.call("continue", name="alpha", prompt="marker-race", dir=str(daemon.work)))
        while not (await again.call("status"))["subagents"]:
            pass
        with pytest.raises(ToolError, match=f"the session {session} is that of alpha, which is running .turn 1."):
            await again.call("continue", name="beta", prompt="marker-race", session_id=session, dir=str(daemon.work))
        await first
        assert (await again.record("alpha"))["state"] == "running"
        ended = await again.record("beta")
        assert ended["state"] == "killed"
        assert "alpha was at work in its session" in ended["stop_reason"]["message"]
        todos = await todos_of(daemon, 2)
        assert "two claudes would write one transcript" in todos[-1]["body"]
        await again.call("interrupt", name="alpha")
        assert "beta was killed mid-turn" in daemon.log_text()
