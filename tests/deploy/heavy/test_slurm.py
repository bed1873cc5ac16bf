"""`--launcher` with Slurm: each turn is a job on a node whose processes the daemon cannot see.

The daemon runs in a pid namespace of its own, the cluster outside of it. So nothing here passes because the daemon
found a process by its mark: what ends on the node was ended across the cluster.
"""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from hivesub.standin import write_wrapper
from tests.deploy.heavy.cluster import Cluster, running_cluster
from tests.deploy.namespace import FirstProcess, own_namespace
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.ends import expect_ends_as_they_are
from tests.support.world import living, until

LAUNCHER = Path(__file__).parents[3] / "deploy" / "launchers" / "slurm"
TOKEN = "the-agents-own-token"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


D = TypeVar("D", bound=Daemon)


def daemon_of(kind: type[D], tmp_path: Path, cluster: Cluster, prefix: Sequence[str] = ()) -> D:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    return kind(
        tmp_path,
        claude=write_wrapper(tmp_path / "claude", sandboxed=True),
        environ={"SLURM_CONF": cluster.environ["SLURM_CONF"]},
        options=[
            f"--listen=tcp:port={port}:interface=0.0.0.0",
            f"--auth-token-file={tmp_path / 'token'}",
            # Another address of this machine than the one that it would give by itself.
            f"--public-url=http://127.0.0.2:{port}",
            "--launcher",
            f"{LAUNCHER} --cpus-per-task=1 --time=5",
        ],
        prefix=prefix,
    )


@pytest.fixture
def daemon(tmp_path: Path, cluster: Cluster) -> Iterator[FirstProcess]:
    with daemon_of(FirstProcess, tmp_path, cluster, own_namespace()) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: FirstProcess) -> Agent:
    from twisted.internet import reactor

    return Agent(f"{daemon.url}/mcp", reactor, token=TOKEN)


async def stay(agent: Agent, daemon: Daemon, *steps: str) -> list[int]:
    """Start alpha with a command that stays; the ids of its stand-in and that command, as the node knows them."""
    seen, tool = daemon.work / "seen.json", daemon.work / "tool.pid"
    command = f"bash setsid sh -c 'echo $$ > {tool}.part; mv {tool}.part {tool}; exec tail -f /dev/null'"
    prompt = "\n".join(f"!standin {step}" for step in (*steps, f"dump {seen}", command))
    await agent.call("start", name="alpha", prompt=prompt)
    await until(tool.exists, "the command")
    return [json.loads(seen.read_text())["pid"], int(tool.read_text())]


async def test_a_turn_on_a_node_gets_its_prompt_signals_its_goal_and_finishes(
    daemon: FirstProcess, agent: Agent, cluster: Cluster
) -> None:
    seen = daemon.work / "seen.json"
    filler = "x" * 300_000
    prompt = f"{filler}\n!standin dump {seen}\n!standin bash hostname\n!standin goal_reached checked it"
    await agent.call("start", name="alpha", prompt=prompt, goal="all is well", report_file="report.md")
    record = await agent.ended("alpha")
    assert record["stop_reason"]["kind"] == "goal_reached", record
    assert (record["control"], record["signals"][0]["message"]) == ("connected", "checked it")
    given = json.loads(seen.read_text())
    assert given["prompt"].startswith(filler)
    assert given["cwd"] == str(daemon.work)
    assert "SLURM_JOB_ID" in given["env"]
    assert given["env"]["SLURM_JOB_NAME"].startswith(given["env"]["HIVESUB_TURN"])
    assert given["servers"]["subagent_control"]["url"].startswith("http://127.0.0.2:")
    await until(lambda: cluster.jobs() == [], "the end of the job")
    print(agent.texts[-1])


async def test_exit_codes_and_deaths_on_the_node_are_seen_as_they_are(agent: Agent) -> None:
    await expect_ends_as_they_are(agent)


async def test_an_interrupt_is_passed_on_at_once_and_ends_what_the_turn_started(
    daemon: FirstProcess, agent: Agent, cluster: Cluster
) -> None:
    pids = await stay(agent, daemon)
    assert len(cluster.jobs()) == 1
    answer = await agent.call("interrupt", name="alpha")
    print(agent.texts[-1])
    assert answer["subagent"]["last_turn"]["signal"] == "SIGINT"
    assert not answer.get("escalated")
    await until(lambda: cluster.jobs() == [], "the end of the job")
    await until(lambda: not any(map(living, pids)), "the end of what ran on the node")


async def test_one_that_ignores_every_signal_is_ended_on_the_node_too(
    daemon: FirstProcess, agent: Agent, cluster: Cluster
) -> None:
    pids = await stay(agent, daemon, "ignore SIGINT,SIGTERM")
    answer = await agent.call("interrupt", name="alpha")
    assert answer["subagent"]["state"] == "killed"
    assert answer["escalated"]
    await until(lambda: cluster.jobs() == [], "the end of the job")
    await until(lambda: not any(map(living, pids)), "the end of what ran on the node")


async def test_a_launcher_that_is_killed_outright_leaves_no_job_behind(
    daemon: FirstProcess, agent: Agent, cluster: Cluster
) -> None:
    pids = await stay(agent, daemon)
    for child in daemon.first.children(recursive=True):
        if child.name() == "srun":
            child.kill()
    assert (await agent.ended("alpha"))["last_turn"]["signal"] == "SIGKILL"
    await until(lambda: cluster.jobs() == [], "the end of the job")
    await until(lambda: not any(map(living, pids)), "the end of what ran on the node")


async def test_a_stop_of_the_daemon_ends_its_jobs(daemon: FirstProcess, agent: Agent, cluster: Cluster) -> None:
    pids = await stay(agent, daemon)
    assert daemon.stop() == 0
    await until(lambda: cluster.jobs() == [], "the end of the job")
    await until(lambda: not any(map(living, pids)), "the end of what ran on the node")


async def test_a_daemon_that_is_killed_outright_leaves_no_job_behind(tmp_path: Path, cluster: Cluster) -> None:
    from twisted.internet import reactor

    # In no namespace of its own: that would go with it, and take along what cancels its jobs.
    daemon = daemon_of(Daemon, tmp_path, cluster)
    with daemon:
        pids = await stay(Agent(f"{daemon.url}/mcp", reactor, token=TOKEN), daemon)
        daemon.stop(signal.SIGKILL)
        await until(lambda: cluster.jobs() == [], "the end of the job")
        await until(lambda: not any(map(living, pids)), "the end of what ran on the node")
