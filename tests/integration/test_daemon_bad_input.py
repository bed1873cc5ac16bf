"""Bad input to the whole daemon: a clear answer that names the field or option and what would work, and no change."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted
import treq
from attrs import frozen
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.web.client import Agent as HTTPAgent
from twisted.web.client import HTTPConnectionPool

from tests.integration.conftest import Refusal
from tests.support.agent import ToolError
from tests.support.http import headers_of
from tests.support.world import World, until

Refused = Callable[..., Awaitable[Refusal]]

# Options.


@frozen
class Bad:
    """`{root}` in a text is the directory that the daemon is started in."""

    options: tuple[str, ...]
    environ: dict[str, str]
    says: tuple[str, ...]


BAD_OPTIONS = {
    "a port that is no number": Bad(("--port=eighty",), {}, ("--port: 'eighty'", "a whole number from 0 to 65535")),
    "an unknown option": Bad(("--prot=1",), {}, ("--prot",)),
    "a variable out of range": Bad(
        (), {"HIVESUB_MAX_RUNNING": "0"}, ("--max-running: '0'", "from 1 to", "read from HIVESUB_MAX_RUNNING")
    ),
    "no tools at all": Bad(("--tools=",), {}, ("--tools: the list is empty", "leave the option out")),
    "a server file that is no JSON": Bad(("--mcp-servers={root}/bad.json",), {}, ("--mcp-servers: {root}/", "no JSON")),
    "beyond loopback without a token": Bad(
        ("--listen=tcp:0:interface=0.0.0.0",), {}, ("--listen: ", "--auth-token-file", "interface=127.0.0.1")
    ),
    "a TLS listener without its URL": Bad(
        ("--listen=ssl:port=0:interface=127.0.0.1:privateKey=/no",), {}, ("--public-url: ", "which URL", "https://")
    ),
    "a unix socket no subagent can reach": Bad(("--listen=unix:{root}/sock",), {}, ("--public-url: ", "which URL")),
    "a state directory open to others": Bad(("--state-dir={root}/open",), {}, ("--state-dir: ", "chmod 700")),
    "another reactor": Bad(("--port=0",), {"REACTOR": "select"}, ("only the asyncio reactor", "--reactor=asyncio")),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD_OPTIONS)
async def test_an_option_that_cannot_be_used_ends_the_daemon_with_one_line_and_makes_nothing(
    what: str, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "open").mkdir(mode=0o755)
    before = sorted(tmp_path.rglob("*"))
    bad = BAD_OPTIONS[what]
    options = [option.format(root=tmp_path) for option in bad.options]
    environ = dict(bad.environ)
    before_hivesub = [f"--reactor={environ.pop('REACTOR')}"] if "REACTOR" in environ else []
    refusal = await refused(options, {"XDG_RUNTIME_DIR": str(tmp_path / "run"), **environ}, before=before_hivesub)
    assert refusal.code == 1
    (line,) = refusal.said.splitlines()
    assert line.startswith("hivesub: ")
    for says in bad.says:
        assert says.format(root=tmp_path) in line
    # The tools and servers are read after the private directories were made; of a bad option nothing else is left.
    left = {path.name for path in set(tmp_path.rglob("*")) - set(before)}
    assert not left & {"sock", "twistd.pid", "twistd.log", "mcp", "pending", "todos.jsonl"}


async def test_a_port_in_use_ends_the_second_daemon_with_one_line_and_leaves_the_first(
    shared: World, refused: Refused, tmp_path: Path
) -> None:
    port = shared.daemon.url.rpartition(":")[2]
    refusal = await refused(["--port", port, "--state-dir", str(tmp_path / "s"), "--runtime-dir", str(tmp_path / "r")])
    assert refusal.code == 1
    line = refusal.said.splitlines()[-1]
    assert f"hivesub: --listen: tcp:port={port}:interface=127.0.0.1 cannot be had" in line
    assert "give another with --port or --listen" in line
    assert "Traceback" not in refusal.said
    assert (await shared.agent.call("status"))["subagents"] is not None


@pytest.mark.parametrize("fails", ["the port", "the tools"])
async def test_a_start_that_fails_keeps_the_marks_of_the_dead_and_adds_none(
    shared: World, refused: Refused, tmp_path: Path, fails: str
) -> None:
    state = tmp_path / "s"
    state.mkdir(mode=0o700)
    (state / "marks.json").write_text('["dead"]')
    bad = ["--port", shared.daemon.url.rpartition(":")[2]] if fails == "the port" else ["--port=0", "--tools="]
    refusal = await refused([*bad, "--state-dir", str(state), "--runtime-dir", str(tmp_path / "r")])
    assert refusal.code == 1
    assert json.loads((state / "marks.json").read_text()) == ["dead"]


async def test_a_state_directory_in_use_is_refused_and_left_to_its_owner(
    shared: World, refused: Refused, tmp_path: Path
) -> None:
    before = (shared.daemon.state / "marks.json").read_text()
    options = ["--port=0", "--state-dir", str(shared.daemon.state), "--runtime-dir", str(tmp_path / "r")]
    refusal = await refused(options)
    assert refusal.code == 1
    assert "--state-dir: " in refusal.said and "in use by another hivesub" in refusal.said
    assert "Traceback" not in refusal.said
    assert (shared.daemon.state / "marks.json").read_text() == before


# Calls.

BUSY, IDLE = "busy", "resting"
LONG = "x" * (2 * 1024 * 1024 + 1)

BAD_CALLS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "no name": ("start", {"prompt": "x"}, ("name: is required",)),
    "no prompt": ("start", {"name": "new"}, ("prompt: is required",)),
    "an unknown field": ("start", {"name": "new", "prompt": "x", "max_turn": 3}, ('"max_turn"', "mean `max_turns`")),
    "a wrong type": ("start", {"name": "new", "prompt": 5}, ("prompt: must be a string, not 5",)),
    "a blank prompt": ("start", {"name": "new", "prompt": " \n"}, ("prompt: must not be blank",)),
    "a bad name": ("start", {"name": "../x", "prompt": "x"}, ("name: must be 1 to 64", '"../x"')),
    "an option for a name": ("start", {"name": "--tools", "prompt": "x"}, ("name: must be 1 to 64",)),
    "a relative dir": ("start", {"name": "new", "prompt": "x", "dir": "here"}, ("dir: must be an absolute path",)),
    "a dir that is missing": ("start", {"name": "new", "prompt": "x", "dir": "/no/such"}, ("'/no/such' does not",)),
    "a dir that is a file": ("start", {"name": "new", "prompt": "x", "dir": "/etc/passwd"}, ("dir: ", "no directory")),
    "a prompt over 2 MiB": ("start", {"name": "new", "prompt": LONG}, ("prompt: is 2,097,153", "at most 2,097,152")),
    "max_turns without a goal": ("start", {"name": "new", "prompt": "x", "max_turns": 3}, ("max_turns: needs `goal`",)),
    "max_turns of 0": ("start", {"name": "new", "prompt": "x", "goal": "g", "max_turns": 0}, ("max_turns: ", "1 to")),
    "a budget of 0": ("start", {"name": "new", "prompt": "x", "max_budget_usd": 0}, ("max_budget_usd: ", "above 0")),
    "a model that is an option": ("start", {"name": "new", "prompt": "x", "model": "--tools"}, ("model: must be",)),
    "a start of what runs": ("start", {"name": BUSY, "prompt": "x"}, ("busy is running", "`interrupt`")),
    "a continue of what runs": ("continue", {"name": BUSY, "prompt": "x"}, ("busy is running", "nothing was queued")),
    "no session id": ("continue", {"name": IDLE, "prompt": "x", "session_id": "5"}, ("session_id: must be a",)),
    "a continue in no dir": ("continue", {"name": IDLE, "prompt": "x", "dir": "/no/such"}, ("dir: ", "does not exist")),
    "a budget of no goal": ("continue", {"name": IDLE, "prompt": "x", "max_turns": 3}, ("max_turns: this run has no",)),
    "an unknown name": ("status", {"name": "nobody"}, ("'nobody'", "known: busy, resting")),
    "a wait too long": ("status", {"wait_s": 3601}, ("wait_s: ", "to 3600")),
    "a flag that is none": ("status", {"result": "maybe"}, ("result: must be true or false",)),
    "an interrupt of nobody": ("interrupt", {"name": "nobody"}, ("'nobody'", "known: busy, resting")),
    "an interrupt of what rests": ("interrupt", {"name": IDLE}, ("resting is not running: it is idle", "`continue`")),
}  # fmt: skip


@pytest.fixture(scope="module")
def told(shared: World) -> World:
    """A daemon that knows one subagent that runs and one that rests."""

    async def begin() -> None:
        await shared.run(IDLE, "text done")
        await shared.todo(IDLE)
        ready = shared.dir / "ready"
        await shared.start(BUSY, f"write {ready} x", "hang")
        await until(ready.exists)

    pytest_twisted.blockon(Deferred.fromCoroutine(begin()))
    return shared


@frozen
class Seen:
    """All that a call could change."""

    status: list[Any]
    counts: Any
    children: frozenset[int]
    files: frozenset[Path]
    todos: int


async def seen(world: World) -> Seen:
    status = await world.agent.call("status")
    for record in status["subagents"]:
        record.pop("last_event_age_s")
    return Seen(
        status=status["subagents"],
        counts=status["counts"],
        children=frozenset(child.pid for child in world.children()),
        files=frozenset(path for path in world.daemon.root.rglob("*")),
        todos=len(world.todos()),
    )


@pytest.mark.parametrize("what", BAD_CALLS)
async def test_a_call_that_cannot_be_done_says_why_and_what_would_work_and_changes_nothing(
    told: World, what: str
) -> None:
    tool, arguments, says = BAD_CALLS[what]
    before = await seen(told)
    with pytest.raises(ToolError) as refusal:
        await told.agent.call(tool, **arguments)
    text = str(refusal.value)
    assert text.startswith(f"{tool} error: ")
    assert len(text) < 1000
    for words in says:
        assert words in text
    assert await seen(told) == before


# Requests.


@frozen
class Answer:
    status: int
    body: bytes
    headers: Any


async def request(
    world: World, method: str, path: str, *, body: bytes = b"", headers: dict[str, str] | None = None
) -> Answer:
    agent = HTTPAgent(reactor, pool=HTTPConnectionPool(reactor, persistent=False))
    client = treq.client.HTTPClient(agent)
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **(headers or {})}
    answer = await client.request(method, f"{world.daemon.url}{path}", headers=headers_of(sent), data=body, timeout=20)
    return Answer(answer.code, await answer.content(), answer.headers)


# It asks for the record: an answer without it may name what has ended meanwhile, and that is then known to be told.
_STATUS = {"name": "status", "arguments": {}, "_meta": {"hivesub/record": True}}
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": _STATUS}
GOOD = json.dumps(CALL).encode()
AT_LIMIT = GOOD.ljust(4 * 1024 * 1024)

REQUESTS: dict[str, tuple[str, str, bytes, dict[str, str], int]] = {
    "a plain call": ("POST", "/mcp", GOOD, {}, 200),
    "a call with the session of an earlier daemon": ("POST", "/mcp", GOOD, {"Mcp-Session-Id": "0123456789abcdef"}, 200),
    "a body of 4 MiB": ("POST", "/mcp", AT_LIMIT, {}, 200),
    "a body over 4 MiB": ("POST", "/mcp", AT_LIMIT + b" ", {}, 413),
    "malformed JSON": ("POST", "/mcp", b'{"jsonrpc": "2.0", ', {}, 400),
    "a body that is no JSON": ("POST", "/mcp", GOOD, {"Content-Type": "text/plain"}, 400),
    "a foreign Host": ("POST", "/mcp", GOOD, {"Host": "evil.example"}, 421),
    "a foreign Origin": ("POST", "/mcp", GOOD, {"Origin": "http://evil.example"}, 403),
    "a foreign Host on a path that is not there": ("GET", "/nothing", b"", {"Host": "evil.example"}, 421),
    "a GET for a stream": ("GET", "/mcp", b"", {"Accept": "text/event-stream"}, 405),
    "a HEAD": ("HEAD", "/mcp", b"", {}, 405),
    "a DELETE of a session": ("DELETE", "/mcp", b"", {"Mcp-Session-Id": "0123456789abcdef"}, 405),
    "an OPTIONS": ("OPTIONS", "/mcp", b"", {}, 405),
    "health": ("GET", "/healthz", b"", {}, 200),
    "a question for authorisation": ("GET", "/.well-known/oauth-protected-resource", b"", {}, 404),
    "another such": ("GET", "/.well-known/oauth-authorization-server/mcp", b"", {}, 404),
    "a registration": ("POST", "/register", b"{}", {}, 404),
    "a token that never was": ("POST", "/signal/mcp/" + "A" * 43, GOOD, {}, 404),
    "no token": ("POST", "/signal/mcp/", GOOD, {}, 404),
    "a path below": ("POST", "/mcp/x", GOOD, {}, 404),
}  # fmt: skip


@pytest.mark.parametrize("what", REQUESTS)
async def test_a_request_gets_the_status_of_its_kind_and_changes_nothing(told: World, what: str) -> None:
    method, path, body, headers, status = REQUESTS[what]
    before = await seen(told)
    answer = await request(told, method, path, body=body, headers=headers)
    assert (answer.status, answer.body[:300]) == (status, answer.body[:300])
    assert b"Traceback" not in answer.body
    assert await seen(told) == before


async def test_an_unknown_tool_is_a_protocol_error_that_lists_the_tools(told: World) -> None:
    call = {**CALL, "params": {"name": "destroy", "arguments": {}}}
    answer = await request(told, "POST", "/mcp", body=json.dumps(call).encode())
    error = json.loads(answer.body)["error"]
    assert error["code"] == -32602
    assert "destroy" in error["message"]
    assert "start, continue, status, interrupt" in error["message"]


async def test_all_dead_tokens_get_one_and_the_same_404(told: World) -> None:
    answers = [
        await request(told, method, path, body=GOOD)
        for path in ("/signal/mcp/" + "A" * 43, "/signal/mcp/x", "/signal/mcp/%00", "/elsewhere")
        for method in ("POST", "GET", "PUT")
    ]
    first = answers[0]
    assert first.status == 404
    for answer in answers[1:]:
        assert (answer.status, answer.body, answer.headers) == (404, first.body, first.headers)


async def test_nothing_of_this_left_a_traceback_in_the_log(told: World) -> None:
    assert told.tracebacks() == ""
