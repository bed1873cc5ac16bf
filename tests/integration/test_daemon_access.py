"""Who reaches the whole daemon, and by what: a bearer token, a unix socket, a socket that a supervisor passed on."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import treq
from twisted.internet import reactor
from twisted.internet.endpoints import UNIXClientEndpoint, connectProtocol
from twisted.internet.protocol import Factory, Protocol
from twisted.web.client import Agent as HTTPAgent
from twisted.web.client import HTTPConnectionPool

from tests.integration.conftest import passing_on
from tests.support.agent import Agent
from tests.support.http import headers_of
from tests.support.listening import listening
from tests.support.world import world

TOKEN = "Zq4-secret-of-the-agent-9XhT"
LIST = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}).encode()


async def post(url: str, headers: dict[str, str] | None = None, *, agent: Any = None, body: bytes = LIST) -> Any:
    """Status, headers and body of a `tools/list`."""
    http = agent if agent is not None else HTTPAgent(reactor, pool=HTTPConnectionPool(reactor, persistent=False))
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **(headers or {})}
    answer = await treq.client.HTTPClient(http).post(url, headers=headers_of(sent), data=body, timeout=20)
    return answer.code, answer.headers, await answer.content()


@pytest.mark.parametrize(
    "write", [str, lambda token: f"sha256:{sha256(token.encode()).hexdigest()}\n"], ids=["plain", "sha256"]
)
async def test_an_agent_has_to_show_the_token_and_a_subagent_works_without_it(
    tmp_path: Path, write: Callable[[str], str]
) -> None:
    file = tmp_path / "token"
    file.write_text(write(TOKEN))
    file.chmod(0o600)
    with world(tmp_path / "own", options=["--auth-token-file", str(file)]) as own:
        url = own.daemon.url
        for wrong in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": "Bearer"}, {"Authorization": TOKEN}):
            status, headers, body = await post(f"{url}/mcp", wrong)
            assert status == 401
            asked = headers.getRawHeaders("WWW-Authenticate")
            assert any(each.startswith("Bearer ") for each in asked) and any(
                each.startswith("Basic ") for each in asked
            )
            assert b"Authorization: Bearer" in body and TOKEN.encode() not in body
        basic = b64encode(f"agent:{TOKEN}".encode()).decode()
        for right in ({"Authorization": f"Bearer {TOKEN}"}, {"Authorization": f"basic {basic}"}):
            status, _, body = await post(f"{url}/mcp", right)
            assert status == 200
            tools = json.loads(body)["result"]["tools"]
            assert [tool["name"] for tool in tools] == ["start", "continue", "status", "interrupt"]
        # What is there before any question of authorisation.
        assert (await treq.get(f"{url}/healthz", persistent=False)).code == 200
        assert (await treq.get(f"{url}/.well-known/oauth-protected-resource", persistent=False)).code == 404
        own.agent = Agent(f"{url}/mcp", reactor, token=TOKEN)
        dump = own.dir / "dump.json"
        record = await own.run("alpha", f"dump {dump}", "goal_reached done", goal="g")
        assert (record["stop_reason"]["kind"], record["control"]) == ("goal_reached", "connected")
        assert TOKEN not in dump.read_text()
        log = own.daemon.log_text()
        assert f'subagent {url}/mcp --header "Authorization: Bearer <token>"' in log
        assert TOKEN not in log and sha256(TOKEN.encode()).hexdigest() not in log


class _Forward(Protocol):
    """Passes a TCP connection on to a unix socket, as a reverse proxy before the daemon would."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._held = b""
        self._other: Protocol | None = None

    def connectionMade(self) -> None:
        back = _Back(self)
        connectProtocol(UNIXClientEndpoint(reactor, self._path), back).addCallbacks(self._reached, self._lost)

    def _reached(self, other: Protocol) -> None:
        self._other = other
        other.transport.write(self._held)  # type: ignore[union-attr]

    def _lost(self, reason: object) -> None:
        self.transport.loseConnection()  # type: ignore[union-attr]

    def dataReceived(self, data: bytes) -> None:
        if self._other is None:
            self._held += data
        else:
            self._other.transport.write(data)  # type: ignore[union-attr]

    def connectionLost(self, reason: object = None) -> None:
        if self._other is not None:
            self._other.transport.loseConnection()  # type: ignore[union-attr]


class _Back(Protocol):
    def __init__(self, front: _Forward) -> None:
        self._front = front

    def dataReceived(self, data: bytes) -> None:
        self._front.transport.write(data)  # type: ignore[union-attr]

    def connectionLost(self, reason: object = None) -> None:
        self._front.transport.loseConnection()  # type: ignore[union-attr]


@asynccontextmanager
async def forwarded(path: str) -> AsyncIterator[str]:
    """The base URL of a TCP port whose connections are passed on to a unix socket."""
    factory = Factory()
    factory.protocol = lambda: _Forward(path)
    async with listening(factory) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_daemon_on_a_unix_socket_is_reached_by_its_public_url_and_runs_subagents(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with forwarded(str(path)) as url:
        options = [f"--listen=unix:{path}:mode=600", f"--public-url={url}"]
        with world(tmp_path / "own", options=options) as own:
            assert own.daemon.url == url
            assert path.stat().st_mode & 0o777 == 0o600
            dump = own.dir / "dump.json"
            record = await own.run("alpha", f"dump {dump}", "goal_reached done", goal="g")
            assert (record["stop_reason"]["kind"], record["control"]) == ("goal_reached", "connected")
            signal_url = json.loads(dump.read_text())["servers"]["subagent_control"]["url"]
            assert signal_url.startswith(f"{url}/signal/mcp/")
            # On the socket itself a client says `localhost`; whoever comes by another name is foreign.
            near = HTTPAgent.usingEndpointFactory(reactor, _ToSocket(str(path)))
            assert (await post("http://localhost/mcp", agent=near))[0] == 200
            assert (await post("http://evil.example/mcp", agent=near))[0] == 421


class _ToSocket:
    def __init__(self, path: str) -> None:
        self._path = path

    def endpointForURI(self, uri: object) -> UNIXClientEndpoint:
        return UNIXClientEndpoint(reactor, self._path)


async def test_a_socket_that_a_supervisor_passes_on_is_served_and_reaches_no_child(tmp_path: Path) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    try:
        port = listening.getsockname()[1]
        number = listening.fileno()
        with world(
            tmp_path / "own",
            options=["--listen=systemd:domain=INET:index=0"],
            prefix=passing_on(number),
            pass_fds=[number],
        ) as own:
            assert own.daemon.url == f"http://127.0.0.1:{port}"
            dump, descriptors = own.dir / "dump.json", own.dir / "descriptors"
            record = await own.run("alpha", f"dump {dump}", f"bash ls /proc/$PPID/fd > {descriptors}")
            assert (record["last_turn"]["outcome"], record["control"]) == ("finished", "connected")
            given = json.loads(dump.read_text())["env"]
            assert not [key for key in given if key.startswith("LISTEN_")]
            assert not [fd for fd in descriptors.read_text().split() if fd not in {"0", "1", "2"}]
    finally:
        listening.close()


async def test_a_passed_socket_that_others_can_reach_is_refused_without_a_token(tmp_path: Path, refused: Any) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listening:
        # Open for as long as the daemon looks at it; nobody accepts on it.
        options = ["--listen=systemd:domain=INET:index=0", "--state-dir", str(tmp_path / "s")]
        refusal = await refused(options, {"XDG_RUNTIME_DIR": str(tmp_path)}, passing=listening.fileno())
    assert refusal.code == 1
    assert "--listen: others than this machine could connect; add --auth-token-file" in refusal.said
    assert "Traceback" not in refusal.said
