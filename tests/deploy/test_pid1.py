"""The daemon as PID 1 of a pid namespace, as in a container without an init: it waits for what it adopts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hivesub.standin import write_wrapper
from tests.deploy.namespace import FirstProcess, own_namespace
from tests.support.agent import Agent
from tests.support.world import until

ORPHANS = 50
# Each loses its parent at once; it then outlives it for a moment and says who its parent is now.
ORPHAN = "sleep 0.3; read -r _ _ _ parent _ < /proc/$$/stat; echo $parent >> {file}"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FirstProcess]:
    with FirstProcess(
        tmp_path, claude=write_wrapper(tmp_path / "claude", sandboxed=True), prefix=own_namespace()
    ) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: FirstProcess) -> Agent:
    from twisted.internet import reactor

    return Agent(f"{daemon.url}/mcp", reactor)


async def test_of_fifty_double_forks_no_zombie_stays(daemon: FirstProcess, agent: Agent, tmp_path: Path) -> None:
    said = tmp_path / "parents"
    script = tmp_path / "orphans.sh"
    script.write_text(f"for _ in $(seq {ORPHANS}); do (sh -c '{ORPHAN.format(file=said)}' &); done\n")
    await agent.call("start", name="alpha", prompt=f"!standin bash sh {script}")
    assert (await agent.ended("alpha"))["last_turn"]["outcome"] == "finished"
    parents = await until(
        lambda: said.exists() and len(lines := said.read_text().split()) == ORPHANS and lines, "the orphans' word"
    )
    assert set(parents) == {"1"}, "they were not adopted by the daemon"
    await until(lambda: not daemon.first.children(), "the end of all of them")
    assert daemon.zombies() == []


async def test_a_turns_own_exit_is_not_taken_from_it(daemon: FirstProcess, agent: Agent) -> None:
    for number in range(10):
        await agent.call("start", name=f"good-{number}", prompt="!standin text hello")
        await agent.call("start", name=f"bad-{number}", prompt="!standin exit 7")
        await agent.call("start", name=f"cut-{number}", prompt="!standin kill SIGKILL")
        good, bad, cut = [(await agent.ended(f"{kind}-{number}"))["last_turn"] for kind in ("good", "bad", "cut")]
        assert (good["outcome"], good["exit_code"]) == ("finished", 0)
        assert (bad["outcome"], bad["exit_code"]) == ("failed", 7)
        assert (cut["outcome"], cut["signal"]) == ("killed", "SIGKILL")


async def test_sigterm_stops_it_with_what_it_runs_and_status_0(daemon: FirstProcess, agent: Agent) -> None:
    await agent.call("start", name="alpha", prompt="!standin hang")
    assert daemon.stop() == 0
    assert '"name":"alpha"' in daemon.todos.read_text()
