"""The daemon under an emulated service manager: what it tells, what it takes over, and what of it reaches a subagent.

`LISTEN_*`, `NOTIFY_SOCKET` and credentials are set as systemd.exec(5), sd_listen_fds(3) and sd_notify(3) say.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from hivesub.standin import write_wrapper
from tests.deploy.manager import NotifySocket, Port
from tests.support.agent import Agent
from tests.support.daemon import Daemon

TOKEN = "the-agents-own-token"


@pytest.fixture
def standin(tmp_path: Path) -> str:
    return write_wrapper(tmp_path / "claude", sandboxed=True)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[NotifySocket]:
    manager = NotifySocket(tmp_path / "notify")
    yield manager
    manager.close()


def agent_of(daemon: Daemon, token: str | None = None) -> Agent:
    from twisted.internet import reactor

    return Agent(f"{daemon.url}/mcp", reactor, token=token)


async def test_the_manager_hears_when_it_is_ready_how_many_run_and_that_it_stops(
    tmp_path: Path, standin: str, manager: NotifySocket
) -> None:
    daemon = Daemon(tmp_path, claude=standin, environ={"NOTIFY_SOCKET": str(manager.path)})
    with daemon:
        sender, first = await manager.next()
        assert sender == daemon.pid
        assert first == {"READY": "1", "STATUS": f"0 of 16 runs going on; {daemon.url}"}
        await agent_of(daemon).call("start", name="alpha", prompt="!standin hang")
        _, second = await manager.next()
        assert second == {"STATUS": f"1 of 16 runs going on; {daemon.url}"}
        assert daemon.stop() == 0
        _, last = await manager.next()
        assert last["STOPPING"] == "1"
        assert last["STATUS"].startswith("stopping; 1 of 16 runs")


async def test_a_daemon_whose_manager_is_gone_serves_and_stops_all_the_same(tmp_path: Path, standin: str) -> None:
    daemon = Daemon(tmp_path, claude=standin, environ={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    with daemon:
        assert (await agent_of(daemon).call("status"))["subagents"] == []
        assert daemon.stop(signal.SIGTERM) == 0
        assert "READY=1 could not be sent to the service manager" in daemon.log_text()


async def test_a_port_that_the_manager_holds_answers_who_called_before_the_daemon_was_up(
    tmp_path: Path, standin: str
) -> None:
    port = Port("mcp")
    daemon = Daemon(
        tmp_path,
        claude=standin,
        environ=port.environ,
        options=["--listen=systemd:domain=INET:name=mcp"],
        prefix=port.prefix,
        pass_fds=[port.fileno()],
    )
    try:
        with socket.create_connection(("127.0.0.1", port.number), timeout=30) as early:
            early.sendall(f"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1:{port.number}\r\n\r\n".encode())
            daemon.start()
            assert b" 200 OK" in early.recv(4096)
        assert daemon.url == f"http://127.0.0.1:{port.number}"
        # A restart finds the same port: the manager never let go of it.
        assert daemon.stop() == 0
        daemon.start()
        assert (await agent_of(daemon).call("status"))["subagents"] == []
    finally:
        daemon.end()
        port.close()


async def test_nothing_of_the_manager_reaches_a_subagent(tmp_path: Path, standin: str, manager: NotifySocket) -> None:
    port = Port("mcp")
    credentials = tmp_path / "credentials"
    credentials.mkdir(mode=0o700)
    (credentials / "token").write_text(f"sha256:{sha256(TOKEN.encode()).hexdigest()}\n")
    given = {
        **port.environ,
        "NOTIFY_SOCKET": str(manager.path),
        "CREDENTIALS_DIRECTORY": str(credentials),
        "HIVESUB_AUTH_TOKEN_FILE": str(credentials / "token"),
        "INVOCATION_ID": "0123456789abcdef0123456789abcdef",
        "JOURNAL_STREAM": "8:12345",
        "MEMORY_PRESSURE_WATCH": "/dev/null",
        "SYSTEMD_EXEC_PID": "1",
    }
    daemon = Daemon(
        tmp_path,
        claude=standin,
        environ=given,
        options=["--listen=systemd:domain=INET:name=mcp"],
        prefix=port.prefix,
        pass_fds=[port.fileno()],
    )
    seen, descriptors = tmp_path / "seen.json", tmp_path / "descriptors"
    daemon.start()
    try:
        agent = agent_of(daemon, TOKEN)
        assert (await agent_of(daemon).post("tools/list", {}))[0] == 401
        steps = [f"dump {seen}", f"bash ls -l /proc/$PPID/fd > {descriptors}"]
        await agent.call("start", name="alpha", prompt="\n".join(f"!standin {step}" for step in steps))
        record = await agent.ended("alpha")
        assert record["last_turn"]["outcome"] == "finished", record
        environ = json.loads(seen.read_text())["env"]
        assert set(environ) & {*given, "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} == set()
        assert "HIVESUB_TURN" in environ
        held = {line.split()[-3]: line.split()[-1] for line in descriptors.read_text().splitlines() if "->" in line}
        inode = os.fstat(port.fileno()).st_ino
        assert held and f"socket:[{inode}]" not in held.values()
    finally:
        daemon.end()
        port.close()
