"""`--launcher` with `prlimit`: a limit on each subagent, in the process that the daemon watches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hivesub.standin import write_wrapper
from tests.support.agent import Agent, ToolError
from tests.support.daemon import Daemon
from tests.support.debian import need


def agent_of(daemon: Daemon) -> Agent:
    from twisted.internet import reactor

    return Agent(f"{daemon.url}/mcp", reactor)


async def test_prlimit_bounds_a_subagent_and_keeps_its_process_id(tmp_path: Path) -> None:
    launcher = f"{need('prlimit', 'util-linux')} --nofile=333 --core=0"
    standin = write_wrapper(tmp_path / "claude", sandboxed=True)
    seen, limits = tmp_path / "seen.json", tmp_path / "limits"
    with Daemon(tmp_path, claude=standin, options=["--launcher", launcher]) as daemon:
        agent = agent_of(daemon)
        prompt = f"!standin dump {seen}\n!standin bash cat /proc/self/limits > {limits}"
        pid = (await agent.call("start", name="alpha", prompt=prompt))["subagent"]["pid"]
        record = await agent.ended("alpha")
    assert record["last_turn"]["outcome"] == "finished", record
    given = json.loads(seen.read_text())
    assert (given["pid"], given["sid"]) == (pid, pid)
    (files,) = [line.split() for line in limits.read_text().splitlines() if line.startswith("Max open files")]
    assert files[3:5] == ["333", "333"]


async def test_a_launcher_that_cannot_start_it_fails_the_call_in_its_own_words(tmp_path: Path) -> None:
    launcher = f"{need('prlimit', 'util-linux')} --nofile=nonsense"
    standin = write_wrapper(tmp_path / "claude", sandboxed=True)
    with Daemon(tmp_path, claude=standin, options=["--launcher", launcher]) as daemon:
        with pytest.raises(ToolError, match=r"start error:.*prlimit"):
            await agent_of(daemon).call("start", name="alpha", prompt="hello")
