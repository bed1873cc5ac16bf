"""`--launcher` with `bwrap`: a sandbox around each subagent, which still reads its prompt, reports and can be ended."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hivesub.standin import write_wrapper
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.debian import need
from tests.support.ends import expect_ends_as_they_are
from tests.support.world import living, until

SANDBOX = (
    "{bwrap} --ro-bind / / --dev /dev --proc /proc --bind {home} {home} --bind {work} {work} "
    "--unshare-pid --unshare-ipc --unshare-uts --die-with-parent"
)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    home, work = tmp_path / "home", tmp_path / "work"
    launcher = SANDBOX.format(bwrap=need("bwrap", "bubblewrap"), home=home, work=work)
    standin = write_wrapper(tmp_path / "claude", sandboxed=True)
    with Daemon(tmp_path, claude=standin, options=["--launcher", launcher]) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Agent:
    from twisted.internet import reactor

    return Agent(f"{daemon.url}/mcp", reactor)


def below(pid: int) -> list[int]:
    return [child.pid for child in psutil.Process(pid).children(recursive=True)]


async def test_a_subagent_works_toward_its_goal_and_cannot_write_outside(
    daemon: Daemon, agent: Agent, tmp_path: Path
) -> None:
    outside, inside = tmp_path / "outside", daemon.work / "inside"
    steps = [f"bash echo x > {inside}; echo x > {outside}; ps ax > {daemon.work}/ps", "goal_reached done"]
    await agent.call("start", name="alpha", goal="g", prompt="\n".join(f"!standin {step}" for step in steps))
    record = await agent.ended("alpha")
    assert record["stop_reason"]["kind"] == "goal_reached", record
    assert inside.exists() and not outside.exists()
    assert str(os.getpid()) not in [line.split()[0] for line in (daemon.work / "ps").read_text().splitlines()]


async def test_exit_codes_and_signals_come_through_it(agent: Agent) -> None:
    await expect_ends_as_they_are(agent)


@pytest.mark.parametrize("ignored", ["", "!standin ignore SIGINT,SIGTERM\n"])
async def test_an_interrupt_leaves_nothing_of_it(daemon: Daemon, agent: Agent, ignored: str) -> None:
    prompt = f"{ignored}!standin bash setsid tail -f /dev/null"
    pid = (await agent.call("start", name="alpha", prompt=prompt))["subagent"]["pid"]
    # bwrap, the first process inside, the stand-in, and its command.
    inside = await until(lambda: len(found := below(pid)) >= 3 and found, "the sandbox")
    answer = await agent.call("interrupt", name="alpha")
    assert answer["subagent"]["state"] == "killed"
    await until(lambda: not any(living(one) for one in (pid, *inside)), "the end of all of it")


async def test_the_sandbox_dies_with_a_daemon_that_is_killed(daemon: Daemon, agent: Agent) -> None:
    pid = (await agent.call("start", name="alpha", prompt="!standin bash tail -f /dev/null"))["subagent"]["pid"]
    inside = await until(lambda: len(found := below(pid)) >= 3 and found, "the sandbox")
    daemon.stop(signal.SIGKILL)
    await until(lambda: not any(living(one) for one in (pid, *inside)), "the end of all of it")


async def test_the_documented_sandbox_leaves_a_claude_below_a_home_where_it_is(tmp_path: Path) -> None:
    from twisted.internet import reactor

    page = (Path(__file__).parents[3] / "docs" / "howto" / "launcher.md").read_text()
    found = re.search(r'--launcher "bwrap (.*?)"', page, re.DOTALL)
    assert found is not None
    home = tmp_path / "home"
    versions, programs = home / ".local/share/claude/versions", home / ".local/bin"
    for directory in (versions, programs, home / ".claude"):
        directory.mkdir(parents=True)
    (programs / "claude").symlink_to(write_wrapper(versions / "2.1.332", sandboxed=True))
    words = found[1].replace("\\\n", " ").replace("--tmpfs /home ", f"--tmpfs {home} ").replace("/home/me", str(home))
    words = words.replace("/srv/work", str(tmp_path / "work")).replace(
        "/run/user/1000/hivesub", str(tmp_path / "runtime")
    )
    launcher = f"{need('bwrap', 'bubblewrap')} {words}"
    with Daemon(tmp_path, claude=programs / "claude", options=["--launcher", launcher]) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="alpha", goal="g", prompt="!standin goal_reached done")
        record = await agent.ended("alpha")
    assert record["stop_reason"]["kind"] == "goal_reached", record
