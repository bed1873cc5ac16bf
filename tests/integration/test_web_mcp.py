"""The whole tree with a small SDK server behind it: by the SDK's own client, and by bytes for what no client sends."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred

from hivesub.interfaces import SENT_ARGUMENTS_KEY, STREAMED_KEY, TARGET_KEY, ISignalTarget
from hivesub.records import SignalKind
from hivesub.tools.subagent import subagent_server
from hivesub.web.guard import Bearer, HostRule
from hivesub.web.mcp import McpApp
from hivesub.web.site import MAX_BODY_BYTES
from hivesub.web.tree import Tree
from tests.integration.web_server import Client, connected, on_the_loop, served, twisted
from tests.support.toolfakes import FakeFleet
from tests.support.webfakes import LIVING, FakeTarget, FakeTokens

JSON = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
MODERN = "MCP-Protocol-Version: 2026-07-28\r\n"
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28", "auto"])


class Daemon:
    """Two servers with one tool each (`wait` too for the agent), in a tree on a port."""

    def __init__(self, bearer: Bearer | None = None, agent: Server[Any] | None = None) -> None:
        self.target = FakeTarget()
        self.waits: list[Deferred[None]] = []
        self.waiting = asyncio.Event()
        self.let_go = asyncio.Event()
        self.scopes: list[dict[str, Any]] = []
        self.hosts = HostRule()
        own: Server[Any] = Server("agent", on_list_tools=self._tools, on_call_tool=self._agent_call)
        self.agent = McpApp(agent or own, long_calls={"wait": "wait_s"})
        self.control = McpApp(Server("control", on_list_tools=self._tools, on_call_tool=self._control_call))
        self.tree = Tree(
            agent=self.agent,
            control=self.control,
            tokens=FakeTokens(self.target),
            hosts=self.hosts,
            bearer=bearer,
            clock=reactor,
        )
        self.port = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Daemon]:
        await twisted(self.agent.start())
        await twisted(self.control.start())
        async with served(self.tree.resource(), self.hosts.bind) as self.port:
            yield self
        await twisted(self.agent.stop())
        await twisted(self.control.stop())

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def _tools(self, ctx: ServerRequestContext[Any, Any], params: Any) -> types.ListToolsResult:
        schema = {"type": "object"}
        return types.ListToolsResult(tools=[types.Tool(name=n, input_schema=schema) for n in ("echo", "wait")])

    async def _agent_call(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        request: Any = ctx.request
        self.scopes.append(request.scope)
        if params.name == "wait":
            wait: Deferred[None] = Deferred()
            self.waits.append(wait)
            self.waiting.set()
            await ctx.session.report_progress(1, message="waiting")
            try:
                await wait.asFuture(asyncio.get_running_loop())
            finally:
                self.let_go.set()
        return _text(json.dumps(params.arguments))

    async def _control_call(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        request: Any = ctx.request
        self.scopes.append(request.scope)
        target: ISignalTarget = request.scope[TARGET_KEY]
        return _text(await target.signal(SignalKind.GOAL_REACHED, "done", None))


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def _said(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


@asynccontextmanager
async def mcp_client(url: str, era: str, **headers: str) -> AsyncIterator[McpClient]:
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
        async with McpClient(streamable_http_client(url, http_client=http), mode=era) as client:
            yield client


def call(
    tool: str, arguments: dict[str, Any] | None = None, modern: bool = False, token: str | int | None = None
) -> bytes:
    params: dict[str, Any] = {"name": tool, "arguments": arguments or {}, "_meta": {}}
    if token is not None:
        params["_meta"]["progressToken"] = token
    if modern:
        params["_meta"] |= {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "bytes", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()


def modern_headers(tool: str) -> str:
    return f"{JSON}{MODERN}Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\n"


async def gone(daemon: Daemon) -> None:
    """Wait until no request is being answered."""
    while daemon.tree.in_flight:
        await asyncio.sleep(0)


@ERAS
@on_the_loop
async def test_the_agent_calls_a_tool(era: str) -> None:
    async with Daemon().running() as daemon, mcp_client(daemon.url("/mcp"), era) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == {"echo", "wait"}
        for number in range(3):
            assert json.loads(_said(await client.call_tool("echo", {"n": number}))) == {"n": number}
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else "2026-07-28")


@ERAS
@on_the_loop
async def test_a_subagent_is_known_by_its_url_and_the_sdk_never_sees_the_token(era: str) -> None:
    async with Daemon().running() as daemon:
        async with mcp_client(daemon.url(f"/signal/mcp/{LIVING}"), era) as client:
            assert _said(await client.call_tool("echo", {})) == "noted"
        assert daemon.target.told.count("goal_reached: done") == 1
        assert daemon.target.told.count("began") == daemon.target.told.count("ended") > 0
        [scope] = daemon.scopes
        assert scope["path"] == "/signal/mcp"
        assert LIVING not in repr({key: value for key, value in scope.items() if key != TARGET_KEY})


@ERAS
@on_the_loop
async def test_no_secret_gets_into_a_log(era: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with Daemon(Bearer("s3cret")).running() as daemon:
        async with mcp_client(daemon.url(f"/signal/mcp/{LIVING}"), era) as client:
            await client.call_tool("echo", {})
        async with mcp_client(daemon.url("/mcp"), era, Authorization="Bearer s3cret") as client:
            await client.call_tool("echo", {})
        assert all(b"authorization" not in dict(scope["headers"]) for scope in daemon.scopes)
    # The client is no part of the daemon, and tells its own URLs.
    clients = ("httpx2", "httpcore2", "mcp.client", "asyncio")
    logged = [record.getMessage() for record in caplog.records if not record.name.startswith(clients)]
    assert logged
    assert LIVING not in "".join(logged)
    assert "s3cret" not in "".join(logged)


@on_the_loop
async def test_a_client_from_before_a_restart_goes_on() -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        old = f"{JSON}MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: 0123456789abcdef\r\n"
        for _ in range(2):
            client.request("POST", "/mcp", daemon.port, call("echo", {"a": 1}), old)
            status, headers, body = await client.answer()
            assert status == 200
            assert "mcp-session-id" not in headers
            assert json.loads(json.loads(body)["result"]["content"][0]["text"]) == {"a": 1}


@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_a_waiting_tool_is_let_go_when_its_client_leaves(modern: bool) -> None:
    async with Daemon().running() as daemon:
        async with connected(daemon.port) as client:
            headers = modern_headers("wait") if modern else JSON
            client.request("POST", "/mcp", daemon.port, call("wait", modern=modern), headers)
            await daemon.waiting.wait()
        await daemon.let_go.wait()
        await gone(daemon)
        [wait] = daemon.waits
        assert wait.called
        async with connected(daemon.port) as client:
            client.request("POST", "/mcp", daemon.port, call("echo"), JSON)
            assert (await client.answer())[0] == 200


@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_a_tool_that_answers_late_is_waited_for(modern: bool) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        headers = modern_headers("wait") if modern else JSON
        client.request("POST", "/mcp", daemon.port, call("wait", modern=modern), headers)
        await daemon.waiting.wait()
        daemon.waits[0].callback(None)
        status, _, body = await client.answer()
        assert (status, json.loads(body)["id"]) == (200, 1)


@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_a_stop_lets_go_of_a_waiting_tool(modern: bool) -> None:
    daemon = Daemon()
    async with daemon.running(), connected(daemon.port) as client:
        headers = modern_headers("wait") if modern else JSON
        client.request("POST", "/mcp", daemon.port, call("wait", modern=modern), headers)
        await daemon.waiting.wait()
        daemon.tree.stop()
        assert (await client.answer())[0] == 503
        await daemon.let_go.wait()
        await gone(daemon)


LONG = {"wait_s": 60}


def event(piece: bytes) -> dict[str, Any]:
    """What the one event in a piece of a stream carries."""
    [line] = [line for line in piece.decode().splitlines() if line.startswith("data: ")]
    message: dict[str, Any] = json.loads(line.removeprefix("data: "))
    return message


@asynccontextmanager
async def waited_for(daemon: Daemon, modern: bool) -> AsyncIterator[Client]:
    """A client whose long call has been answered with a stream, and its first event."""
    async with connected(daemon.port) as client:
        headers = modern_headers("wait") if modern else JSON
        client.request("POST", "/mcp", daemon.port, call("wait", LONG, modern, "t-1"), headers)
        status, sent = await client.head()
        assert (status, sent["content-type"].partition(";")[0]) == (200, "text/event-stream")
        progress = event(await client.piece())
        assert progress["method"] == "notifications/progress"
        assert progress["params"] == {"progressToken": "t-1", "progress": 1, "message": "waiting"}
        assert not daemon.waits[0].called
        assert daemon.scopes[0][STREAMED_KEY] is True
        yield client


@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_progress_of_a_long_call_comes_as_an_event_at_once_and_its_answer_as_the_last(modern: bool) -> None:
    async with Daemon().running() as daemon, waited_for(daemon, modern) as client:
        daemon.waits[0].callback(None)
        answer = event(await client.piece())
        assert (answer["id"], json.loads(answer["result"]["content"][0]["text"])) == (1, LONG)
        assert await client.piece() == b""
        client.request("POST", "/mcp", daemon.port, call("echo"), JSON)
        assert (await client.answer())[0] == 200


@ERAS
@on_the_loop
async def test_the_sdk_s_own_client_hears_of_progress(era: str) -> None:
    heard: list[Any] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))
        daemon.waits[0].callback(None)

    async with Daemon().running() as daemon, mcp_client(daemon.url("/mcp"), era) as client:
        result = await client.call_tool("wait", LONG, progress_callback=progressed)
    assert json.loads(_said(result)) == LONG
    assert heard == [(1, None, "waiting")]


@pytest.mark.parametrize(
    ("arguments", "token", "accept"),
    [
        (LONG, None, "application/json, text/event-stream"),
        ({"wait_s": 0}, 1, "application/json, text/event-stream"),
        ({"wait_s": None}, 1, "application/json, text/event-stream"),
        ({"x": '"wait_s"'}, 1, "application/json, text/event-stream"),
        (LONG | {"x": "y" * 70_000}, 1, "application/json, text/event-stream"),
        (LONG, 1, "application/json"),
    ],
    ids=["no token", "zero", "null", "not given", "a large body", "a client that accepts no stream"],
)
@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_any_other_call_is_answered_with_json(
    arguments: dict[str, Any], token: int | None, accept: str, modern: bool
) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        headers = (modern_headers("wait") if modern else JSON).replace("application/json, text/event-stream", accept)
        client.request("POST", "/mcp", daemon.port, call("wait", arguments, modern, token), headers)
        await daemon.waiting.wait()
        daemon.waits[0].callback(None)
        status, sent, body = await client.answer()
        assert (status, sent["content-type"]) == (200, "application/json")
        assert json.loads(json.loads(body)["result"]["content"][0]["text"]) == arguments
        assert STREAMED_KEY not in daemon.scopes[0]


@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_a_client_that_leaves_its_stream_leaves_nothing_behind(modern: bool) -> None:
    async with Daemon().running() as daemon:
        async with waited_for(daemon, modern):
            before = daemon.tree.in_flight
        await daemon.let_go.wait()
        await gone(daemon)
        assert (before, daemon.waits[0].called) == (1, True)


@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_a_stop_cuts_a_stream_off_and_lets_its_tool_go(modern: bool) -> None:
    daemon = Daemon()
    async with daemon.running(), waited_for(daemon, modern) as client:
        daemon.tree.stop()
        # Not ended, which would pass for whole.
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ValueError)):
            while await client.piece():
                pass
        await daemon.let_go.wait()
        await gone(daemon)


@pytest.mark.parametrize("raw", [b"a\\ud83d", b"a\xed\xa0\xbd", b"\\\\\\udE00", b"\\ude00\\ud83d"])
@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_half_a_surrogate_pair_in_an_argument_gets_as_far_as_the_tool(raw: bytes, modern: bool) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        body = call("echo", {"x": "PLACE \U0001f600"}, modern).replace(b"PLACE", raw)
        client.request("POST", "/mcp", daemon.port, body, modern_headers("echo") if modern else JSON)
        status, _, answer = await client.answer()
        assert (status, "result" in json.loads(answer)) == (200, True)
        [scope] = daemon.scopes
        assert scope[SENT_ARGUMENTS_KEY] == json.loads(body)["params"]["arguments"]


@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_half_a_surrogate_pair_is_a_tool_error_that_names_the_field(modern: bool) -> None:
    fleet = FakeFleet()
    async with Daemon(agent=subagent_server(fleet, ("Read",))).running() as daemon, connected(daemon.port) as client:
        arguments = {"name": "alpha", "prompt": "do it"}
        for field, value in (("prompt", "ab\ud83d"), ("goal", "\ude00"), ("dir", "/\ud83d"), ("a\ud83d", 1)):
            body = call("start", {**arguments, field: value}, modern)
            client.request("POST", "/mcp", daemon.port, body, modern_headers("start") if modern else JSON)
            status, _, answer = await client.answer()
            result = json.loads(answer)["result"]
            assert (status, result["isError"]) == (200, True)
            text = result["content"][0]["text"]
            assert text.startswith("start error: ")
            assert (field if field.isascii() else "a\\ud83d") in text
        assert fleet.calls == []


@pytest.mark.parametrize("raw", [b"\\ud83d\\ude00", b"\\\\ud83d", b"\xed\x95\x9c", b"\\ufffd"])
@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_a_text_without_half_a_pair_is_left_as_it_is(raw: bytes, modern: bool) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        body = call("echo", {"x": "PLACE"}, modern).replace(b"PLACE", raw)
        client.request("POST", "/mcp", daemon.port, body, modern_headers("echo") if modern else JSON)
        _, _, answer = await client.answer()
        arguments = json.loads(body)["params"]["arguments"]
        assert json.loads(json.loads(answer)["result"]["content"][0]["text"]) == arguments
        assert SENT_ARGUMENTS_KEY not in daemon.scopes[0]


@on_the_loop
async def test_half_a_surrogate_pair_elsewhere_is_still_no_json_to_the_handshake_era() -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        for place in (b'"id": 1', b'"method": "tools/call"', b'"name": "echo"'):
            body = call("echo", {"x": "y"}).replace(place, place.partition(b":")[0] + b': "\\ud83d"')
            client.request("POST", "/mcp", daemon.port, body, JSON)
            assert (await client.answer())[0] == 400
        assert daemon.scopes == []


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("", 406),
        ("Accept: */*\r\n", 200),
        ("Accept: application/json\r\n", 200),
        ("Accept: text/event-stream\r\n", 406),
    ],
)
@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_each_kind_of_accept_gets_what_the_sdk_answers(accept: str, status: int, modern: bool) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        era = f"{MODERN}Mcp-Method: tools/call\r\nMcp-Name: echo\r\n" if modern else ""
        headers = f"Content-Type: application/json\r\n{accept}{era}"
        client.request("POST", "/mcp", daemon.port, call("echo", modern=modern), headers)
        assert (await client.answer())[0] == status


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_a_body_that_is_not_declared_as_json_is_refused(kind: str, modern: bool) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        headers = f"Content-Type: {kind}\r\nAccept: application/json\r\n{MODERN if modern else ''}"
        client.request("POST", "/mcp", daemon.port, call("echo", modern=modern), headers)
        assert (await client.answer())[0] == 400
        assert daemon.scopes == []


@pytest.mark.parametrize("body", [b"", b"{broken", b"[" * 100_000, b"\xff\xfe", b"9" * 10_000])
@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_malformed_json_is_a_json_rpc_error(body: bytes, modern: bool) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        client.request("POST", "/mcp", daemon.port, body, JSON + (MODERN if modern else ""))
        status, headers, answer = await client.answer()
        assert status == 400
        assert headers["content-type"] == "application/json"
        assert json.loads(answer)["error"]["code"] in (-32700, -32602)


@pytest.mark.parametrize("body", [b"null", b"42", b"[]", b'"x"', b"{}", b'[{"jsonrpc": "2.0"}]', b'{"jsonrpc": "1.0"}'])
@pytest.mark.parametrize("modern", [False, True])
@on_the_loop
async def test_json_that_is_no_request_is_refused(body: bytes, modern: bool) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        client.request("POST", "/mcp", daemon.port, body, JSON + (MODERN if modern else ""))
        status, _, answer = await client.answer()
        assert status == 400
        assert "error" in json.loads(answer)


@on_the_loop
async def test_an_unknown_protocol_version_is_refused_and_named() -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        client.request("POST", "/mcp", daemon.port, call("echo"), f"{JSON}MCP-Protocol-Version: 1999-01-01\r\n")
        status, _, answer = await client.answer()
        assert status == 400
        assert "error" in json.loads(answer)


async def _chunked(client: Client, port: int, path: str, body: bytes) -> None:
    client.write(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{JSON}Transfer-Encoding: chunked\r\n\r\n".encode())
    for start in range(0, len(body), 65536):
        part = body[start : start + 65536]
        client.write(b"%x\r\n%b\r\n" % (len(part), part))
        await client.writer.drain()
    client.write(b"0\r\n\r\n")


@pytest.mark.parametrize("chunked", [False, True])
@on_the_loop
async def test_four_mebibytes_come_through_and_one_more_byte_is_413(chunked: bool) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        frame = len(call("echo", {"x": ""}))
        for size, expected in ((MAX_BODY_BYTES, 200), (MAX_BODY_BYTES + 1, 413), (MAX_BODY_BYTES, 200)):
            body = call("echo", {"x": "y" * (size - frame)})
            assert len(body) == size
            if chunked:
                await _chunked(client, daemon.port, "/mcp", body)
            else:
                client.request("POST", "/mcp", daemon.port, body, JSON)
            status, _, answer = await client.answer()
            assert status == expected, answer[:200]


@on_the_loop
async def test_a_dead_token_is_a_404_whatever_comes_with_it() -> None:
    async with Daemon(Bearer("s3cret")).running() as daemon, connected(daemon.port) as client:
        answers = set()
        for path in ("/signal/mcp/dead", f"/signal/mcp/{LIVING}x", "/signal/mcp/%00", "/other"):
            for method, body in (("POST", call("echo")), ("GET", b""), ("DELETE", b""), ("POST", b"{broken")):
                client.request(method, path, daemon.port, body, JSON)
                status, headers, answer = await client.answer()
                answers.add((status, tuple(sorted(headers.items())), answer))
        assert len(answers) == 1
        [(status, _, _)] = answers
        assert status == 404


@on_the_loop
async def test_the_sdk_s_client_shows_the_token_or_stays_out() -> None:
    async with Daemon(Bearer("s3cret")).running() as daemon:
        async with mcp_client(daemon.url("/mcp"), "legacy", Authorization="Bearer s3cret") as client:
            assert _said(await client.call_tool("echo", {"a": 1})) == '{"a": 1}'
        async with connected(daemon.port) as raw:
            raw.request("POST", "/mcp", daemon.port, call("echo"), JSON)
            assert (await raw.answer())[0] == 401


@pytest.mark.parametrize("path", ["/mcp", f"/signal/mcp/{LIVING}"])
@on_the_loop
async def test_who_asks_on_an_open_connection_after_the_stop_is_told_and_hung_up_on(path: str) -> None:
    async with Daemon().running() as daemon, connected(daemon.port) as client:
        client.request("POST", path, daemon.port, call("echo"), JSON)
        assert (await client.answer())[0] == 200
        daemon.tree.stop()
        await twisted(daemon.agent.stop())
        await twisted(daemon.control.stop())
        client.request("POST", path, daemon.port, call("echo"), JSON)
        status, headers, text = await client.answer()
        assert (status, headers["connection"]) == (503, "close")
        assert b"stopping" in text
        assert await client.reader.read() == b""


@on_the_loop
async def test_an_app_that_is_stopped_before_it_began_has_nothing_to_stop() -> None:
    app = McpApp(Server("agent"))
    assert await twisted(app.stop()) is None


@on_the_loop
async def test_an_app_starts_and_stops_as_a_service() -> None:
    app = McpApp(Server("agent"))
    app.startService()
    assert app.running
    await twisted(app.stopService())
    assert not app.running


@on_the_loop
async def test_an_app_whose_lifespan_fails_says_so_at_its_start() -> None:
    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[None]:
        if server is not None:
            raise LookupError("nothing there")
        yield

    app = McpApp(Server("agent", lifespan=lifespan))
    with pytest.raises(LookupError):
        await twisted(app.start())
    await twisted(app.stop())


@on_the_loop
async def test_a_forgotten_wait_is_a_cancelled_deferred() -> None:
    """What the tools rely on: a Deferred that asyncio lets go of is cancelled."""
    wait: Deferred[None] = Deferred()
    seen: list[Any] = []
    wait.addErrback(seen.append)
    twisted(wait).cancel()
    await asyncio.sleep(0)
    assert seen[0].check(CancelledError)
