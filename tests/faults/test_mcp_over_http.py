"""MCP over HTTP: clients that outlive the daemon, that ask for too much, that are strangers, that give up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from treq.client import HTTPClient
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import clientFromString
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Factory, Protocol
from twisted.web.client import Agent as HTTPAgent
from twisted.web.client import HTTPConnectionPool

from hivesub.standin import write_wrapper
from tests.support.agent import ToolError, pause
from tests.support.http import headers_of
from tests.support.world import LOOK_S, World, prompt, quoted, stopped, until, world

BOUND_S = 15
JSON = {"Content-Type": "application/json"}
BOTH = {**JSON, "Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


def call_body(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


async def ask(method: str, url: str, headers: dict[str, str] | None = None, data: bytes | None = None) -> Any:
    """The response, with its body in `text`."""
    client = HTTPClient(HTTPAgent(reactor, pool=HTTPConnectionPool(reactor, persistent=False)))
    response: Any = await client.request(
        method, url, headers=headers_of(headers), data=data, allow_redirects=False, timeout=BOUND_S
    )
    body = await Deferred.fromCoroutine(read(response)).addTimeout(BOUND_S, reactor)
    return response.code, body, response.headers


async def read(response: Any) -> bytes:
    body: bytes = await response.content()
    return body


async def test_a_client_from_before_a_restart_goes_on_with_its_old_session_id(own: World) -> None:
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    }
    url = f"{own.daemon.url}/mcp"
    body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).encode()
    status, answer, _ = await ask("POST", url, BOTH, body)
    assert (status, json.loads(answer)["result"]["serverInfo"]["name"]) == (200, "subagent")
    assert await stopped(own.daemon) == 0
    own.daemon.start()
    old = {**BOTH, "Mcp-Session-Id": "0123456789abcdef", "MCP-Protocol-Version": "2025-06-18"}
    status, answer, _ = await ask("POST", url, old, json.dumps(LIST).encode())
    assert status == 200
    assert len(json.loads(answer)["result"]["tools"]) == 4
    body = json.dumps(call_body("start", name="alpha", prompt="!standin text hello")).encode()
    status, answer, _ = await ask("POST", url, old, body)
    assert json.loads(answer)["result"]["content"][0]["text"].startswith("alpha: started ")
    assert (await own.agent.ended("alpha"))["state"] == "idle"


async def test_a_get_for_an_event_stream_is_405_and_tells_what_would_work(shared: World) -> None:
    status, body, headers = await ask("GET", f"{shared.daemon.url}/mcp", {"Accept": "text/event-stream"})
    assert (status, headers.getRawHeaders("allow")) == (405, ["POST"])
    assert b"use POST" in body


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "BREW"])
async def test_other_methods_are_refused_cleanly(shared: World, method: str) -> None:
    status, body, headers = await ask(method, f"{shared.daemon.url}/mcp", BOTH)
    assert (status, headers.getRawHeaders("allow")) == (405, ["POST"])
    assert (body == b"") == (method == "HEAD")
    assert not shared.tracebacks()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:PORT"}, 421),
        ({"Host": "127.0.0.1.evil.example:PORT"}, 421),
        ({"Origin": "http://evil"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:PORT.evil.example"}, 403),
        ({"Host": "localhost:PORT"}, 200),
        ({"Host": "127.0.0.1:PORT"}, 200),
        ({"Host": "[::1]:PORT"}, 200),
        ({"Host": "localhost:PORT", "Origin": "http://localhost:PORT"}, 200),
    ],
    ids=lambda value: " ".join(f"{key}={text}" for key, text in value.items()) if isinstance(value, dict) else None,
)
async def test_only_our_own_names_are_served(shared: World, headers: dict[str, str], expected: int) -> None:
    port = shared.daemon.url.rpartition(":")[2]
    headers = {key: text.replace("PORT", port) for key, text in headers.items()}
    for path in ("/mcp", "/healthz", "/signal/mcp/x"):
        method = "GET" if path == "/healthz" else "POST"
        status, _, _ = await ask(method, shared.daemon.url + path, {**BOTH, **headers}, json.dumps(LIST).encode())
        assert status == (404 if path.startswith("/signal") and expected == 200 else expected), path


async def test_a_body_of_plain_text_is_refused_and_starts_nothing(shared: World, name: str) -> None:
    body = json.dumps(call_body("start", name=name, prompt="go")).encode()
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        status, _, _ = await ask("POST", f"{shared.daemon.url}/mcp", {**BOTH, "Content-Type": kind}, body)
        assert 400 <= status < 500
    with pytest.raises(ToolError, match="no subagent is named"):
        await shared.agent.record(name)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        (None, 406),
        ("*/*", 200),
        ("application/json", 200),
        ("text/event-stream", 406),
        ("text/html", 406),
        (";;", 406),
    ],
)
async def test_json_is_answered_to_who_accepts_it_and_others_are_told_so(
    shared: World, accept: str | None, expected: int
) -> None:
    headers = {**JSON, **({} if accept is None else {"Accept": accept})}
    status, body, _ = await ask("POST", f"{shared.daemon.url}/mcp", headers, json.dumps(LIST).encode())
    assert status == expected, body
    if status == 200:
        assert len(json.loads(body)["result"]["tools"]) == 4
    assert not shared.tracebacks()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/.well-known/oauth-protected-resource"),
        ("GET", "/.well-known/oauth-protected-resource/mcp"),
        ("GET", "/.well-known/oauth-authorization-server"),
        ("POST", "/register"),
    ],
)
async def test_what_a_client_asks_of_authorisation_is_a_plain_404(shared: World, method: str, path: str) -> None:
    status, body, headers = await ask(method, shared.daemon.url + path, JSON, b"{}" if method == "POST" else None)
    assert (status, body) == (404, b"not found\n")
    assert headers.getRawHeaders("www-authenticate") is None


class Quitter(Protocol):
    """Sends one request and hangs up."""

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.gone: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        assert self.transport is not None
        self.transport.write(self.request)

    def connectionLost(self, reason: Any = None) -> None:
        self.gone.callback(None)

    def hang_up(self) -> Deferred[None]:
        cast(ITCPTransport, self.transport).abortConnection()
        return self.gone


async def quitting(world: World, body: dict[str, Any]) -> Quitter:
    port = world.daemon.url.rpartition(":")[2]
    data = json.dumps(body).encode()
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    head += f"Accept: application/json, text/event-stream\r\nContent-Length: {len(data)}\r\n\r\n"
    quitter = Quitter(head.encode() + data)
    endpoint = clientFromString(reactor, f"tcp:127.0.0.1:{port}")
    await endpoint.connect(Factory.forProtocol(lambda: quitter)).addTimeout(BOUND_S, reactor)
    return quitter


async def known(world: World, name: str) -> Any:
    """The record of a subagent that was asked for elsewhere, once there is one."""
    for _ in range(200):
        try:
            return await world.agent.record(name)
        except ToolError:
            await pause(LOOK_S, world.agent._reactor)
    raise AssertionError(f"no call for {name} has come")


async def test_a_start_that_was_given_up_before_it_had_a_process_goes_on(tmp_path: Path) -> None:
    asked, go, claude = tmp_path / "asked", tmp_path / "go", tmp_path / "claude"
    held = f"touch {quoted(asked)}; until [ -e {quoted(go)} ]; do sleep 0.02; done"
    standin = quoted(Path(write_wrapper(tmp_path / "standin")))
    claude.write_text(f'#!/bin/sh\ncase "$1" in --version) {held};; esac\nexec {standin} "$@"\n')
    claude.chmod(0o755)
    with world(tmp_path / "own", claude=str(claude)) as own:
        quitter = await quitting(own, call_body("start", name="alpha", prompt=prompt("text after all")))
        await until(asked.exists)
        held_back = await known(own, "alpha")
        assert (held_back["state"], held_back["pid"]) == ("running", None)
        await quitter.hang_up()
        assert await own.agent.record("alpha") == held_back
        go.write_text("")
        record = await own.agent.ended("alpha")
        assert (record["state"], record["last_turn"]["outcome"]) == ("idle", "finished")
        assert await own.todo("alpha")
        await own.nothing_left()
        assert "Unhandled" not in own.daemon.log_text()
        assert not own.tracebacks()


async def test_the_run_of_a_client_that_gave_up_its_continue_is_in_status_and_goes_on(shared: World, name: str) -> None:
    log = len(shared.daemon.log_text())
    await shared.run(name, "text before")
    ready, go = shared.dir / f"{name}.ready", shared.dir / f"{name}.go"
    # Held before its init, so that it is not answered while the client is there.
    steps = (f"before-init write {ready} it", f"before-init wait-for {go}", "text after")
    quitter = await quitting(shared, call_body("continue", name=name, prompt=prompt(*steps)))
    await until(ready.exists)
    await quitter.hang_up()
    assert (await shared.agent.record(name))["state"] == "running"
    go.write_text("")
    record = await shared.agent.ended(name)
    assert (record["state"], record["last_turn"]["outcome"]) == ("idle", "finished")
    await until(lambda: len(shared.todos(name)) == 2, "both runs' todos")
    told = shared.daemon.log_text()[log:]
    assert "Traceback" not in told
    assert "Unhandled" not in told


async def test_a_start_tried_again_with_its_request_key_answers_with_the_same_run(shared: World, name: str) -> None:
    go = shared.dir / f"{name}.go"
    arguments = {"name": name, "prompt": prompt(f"wait-for {go}", "text done"), "request_key": "k-1"}
    quitter = await quitting(shared, call_body("start", **arguments))
    await known(shared, name)
    await quitter.hang_up()
    first = await shared.agent.record(name)
    again = await shared.agent.call("start", **arguments)
    assert (again["subagent"]["session_id"], again["subagent"]["pid"]) == (first["session_id"], first["pid"])
    go.write_text("")
    await shared.agent.ended(name)
    late = await shared.agent.call("start", **arguments)
    assert (late["subagent"]["session_id"], late["subagent"]["state"]) == (first["session_id"], "idle")
    with pytest.raises(ToolError, match="request_key"):
        await shared.agent.call("start", **{**arguments, "prompt": "another"})
    assert await shared.todo(name)
