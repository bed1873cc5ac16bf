"""Marked secrets through every kind of call, told by a claude that keeps none of them to itself; then a look at all
that the daemon shows, writes and logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import treq
from attrs import define
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from tests.support.agent import Agent, ToolError
from tests.support.http import headers_of
from tests.support.leaky import Hunt, write_leaky
from tests.support.world import World, prompt, stopped, until, world

API_KEY = "sk-ant/MARKapikey+\"1'\\=="
PROXY_PASSWORD = "MARKproxy7788"
CUSTOM = "MARKcustom5566"
BEARER = "MARKbearer-0123456789"
HEADER = "Bearer MARKheader/0123456789=="
SERVER_PASSWORD = "MARKurlpassword1"
SERVER_QUERY = "MARKurlquery1"
HIDDEN = "MARKhidden-not-shared"
TODO_PASSWORD = "MARKtodopassword"
TODO_QUERY = "MARKtodoquery1"
TODO_PATH = "MARKtodopath00112233"
MARKS = {
    "MARKapikey": "the API key",
    PROXY_PASSWORD: "the proxy's password",
    CUSTOM: "claude's own header",
    "MARKbearer": "the agent's token",
    "MARKheader": "a header of the server file",
    SERVER_PASSWORD: "a URL's password in the server file",
    SERVER_QUERY: "a URL's query in the server file",
    HIDDEN: "a header that is not shared",
    TODO_PASSWORD: "the password of a todo URL",
    TODO_QUERY: "the query of a todo URL",
    TODO_PATH: "the key in the path of a todo URL",
}


@define(eq=False)
class Scene:
    """A daemon full of secrets, and what is seen of it. `tokens`: the signal tokens that its turns were given."""

    world: World
    hunt: Hunt
    tokens: list[str]
    bodies: list[bytes]

    async def leak(self, name: str, *steps: str, tool: str = "start", **arguments: Any) -> Any:
        """Run a turn that is held until its token is noted and all arguments are looked at; its record, or None for a
        call that failed.
        """
        dump, go = (self.world.dir / f"{name}-{len(self.tokens)}.{kind}" for kind in ("json", "go"))
        steps = (f"before-init dump {dump}", f"before-init wait-for {go}", *steps)
        calling = Deferred.fromCoroutine(self.world.agent.call(tool, name=name, prompt=prompt(*steps), **arguments))
        await until(dump.exists, "the turn")
        self.note_token(dump)
        self.hunt.look_at_arguments()
        go.write_text("")
        try:
            await calling
        except ToolError:
            return None
        return await self.world.agent.ended(name)

    def note_token(self, dump: Path) -> None:
        url = json.loads(dump.read_text())["servers"]["subagent_control"]["url"]
        self.tokens.append(url.rpartition("/")[2])
        self.hunt.marks[self.tokens[-1]] = "a signal token"
        dump.unlink()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    token = tmp_path / "token"
    token.write_text(BEARER)
    token.chmod(0o600)
    servers = tmp_path / "servers.json"
    shared = {
        "type": "http",
        "url": f"http://me:{SERVER_PASSWORD}@127.0.0.1:1/x?key={SERVER_QUERY}",
        "headers": {"Authorization": HEADER},
        "availableToSubagents": True,
    }
    hidden = {"command": "true", "env": {"KEY": HIDDEN}}
    servers.write_text(json.dumps({"mcpServers": {"shared": shared, "hidden": hidden}}))
    servers.chmod(0o600)
    root = tmp_path / "daemon"
    (root / "state").mkdir(mode=0o700, parents=True)
    with world(
        root,
        claude=write_leaky(root / "claude"),
        options=["--auth-token-file", str(token), "--mcp-servers", str(servers), "--tools=Read,Bash"],
        environ={
            "ANTHROPIC_API_KEY": API_KEY,
            "HTTPS_PROXY": f"http://me:{PROXY_PASSWORD}@127.0.0.1:1",
            "ANTHROPIC_CUSTOM_HEADERS": f"X-Key: {CUSTOM}",
            "HIVESUB_TODO": f"{root}/state/todos.jsonl http://me:{TODO_PASSWORD}@127.0.0.1:1/{TODO_PATH}?key={TODO_QUERY}",
        },
    ) as daemon:
        daemon.agent = Agent(f"{daemon.daemon.url}/mcp", reactor, token=BEARER)
        bodies: list[bytes] = []
        post = daemon.agent.post

        async def kept(method: str, params: dict[str, Any], *, meta: dict[str, Any] | None = None) -> tuple[int, bytes]:
            status, body = await post(method, params, meta=meta)
            bodies.append(body)
            return status, body

        daemon.agent.post = kept  # type: ignore[method-assign]
        yield Scene(daemon, Hunt(dict(MARKS)), [], bodies)


async def test_no_secret_gets_out_whatever_a_subagent_tells(scene: Scene) -> None:
    leak, agent, url = scene.leak, scene.world.agent, scene.world.daemon.url
    report = str(scene.world.dir / "report.md")

    failed = await leak("stderr", "leak stderr", "exit 1")
    assert (failed["state"], "[redacted]" in failed["last_turn"]["detail"]) == ("failed", True)
    await leak("error", "leak error", report_file=report)
    await leak("good", "leak stdout", "leak result")
    said = (await agent.record("good", result=True))["result"]
    assert "[redacted]" in said
    helped = await leak("help", "leak need_help", goal="g", report_file=report)
    assert (helped["state"], "[redacted]" in helped["signals"][0]["message"]) == ("blocked", True)
    reached = await leak("reached", "leak goal_reached", "leak need_help", "leak goal_reached", goal="g")
    assert [each["kind"] for each in reached["signals"]] == ["goal_reached", "need_help", "goal_reached"]
    await leak("dropped", "leak report_file", goal="g")
    await leak("named", "leak inner_report_file", goal="g")
    # What it called a file in its own directory is there to be seen.
    (scene.world.dir / scene.tokens[-1]).unlink()
    await leak("faults", "leak unknown-field", "leak wrong-tool", goal="g", max_turns=1)
    await leak("posing", "leak init", "leak stderr", "exit 1")
    with pytest.raises(ToolError, match=r"the directory /http:.*\[redacted\] is not there"):
        await agent.call("continue", name="posing", prompt="go on")
    await leak("posing-on", "leak init", goal="g", max_turns=2)
    await leak("late", "leak stderr", "before-init leak stderr", "before-init exit 1")
    assert await leak("good", "before-init leak stderr", "before-init exit 1", tool="continue") is None
    assert "[redacted]" in agent.texts[-1]
    good = await leak(
        "good", "leak stdout", "leak result", tool="continue", session_id=(await agent.record("good"))["session_id"]
    )
    assert good["state"] == "idle"

    # While one runs, and when it is interrupted.
    dump = scene.world.dir / "busy.json"
    await scene.world.start(
        "busy", f"before-init dump {dump}", "on SIGINT leak stderr", "leak stderr", "hang", goal="g"
    )
    await until(dump.exists, "the turn")
    scene.note_token(dump)
    scene.hunt.look_at_arguments()
    await agent.call("status")
    await agent.record("busy", wait_s=0.1)
    with pytest.raises(ToolError, match="start error: busy is running"):
        await agent.call("start", name="busy", prompt="go", goal="g")
    await agent.call("interrupt", name="busy")
    await leak("busy", "leak stdout", "leak stderr", "exit 1", tool="continue")
    assert any(b'"previous_signal":"SIGINT"' in body for body in scene.bodies)
    with pytest.raises(ToolError, match="interrupt error: busy is not running"):
        await agent.call("interrupt", name="busy")

    # The same call again.
    keyed = {"name": "keyed", "prompt": prompt(f"before-init dump {dump}", "leak stderr", "exit 1"), "request_key": "k"}
    first = await agent.call("start", **keyed)
    failed = await agent.ended("keyed")
    scene.note_token(dump)
    again = await agent.call("start", **keyed)
    assert again["subagent"]["started_at"] == first["subagent"]["started_at"]
    assert again["subagent"]["last_turn"] == failed["last_turn"]

    # Strangers with a secret in hand.
    for path in (
        f"/signal/mcp/{scene.tokens[0]}",
        f"/mcp/{scene.tokens[-1]}",
        f"/signal/mcp/{BEARER}?x={BEARER}",
        f"/{BEARER}",
    ):
        for method in ("GET", "POST", "PUT"):
            answer = await treq.request(method, url + path, data=b"{", persistent=False)
            scene.hunt.look(f"{method} of a path", await answer.content())
    for header in (f"Bearer {BEARER}x", f"Basic {BEARER}", BEARER):
        answer = await treq.post(f"{url}/mcp", headers=headers_of({"Authorization": header}), persistent=False)
        assert answer.code == 401
        scene.hunt.look("a 401", await answer.content())
    for broken in (b"{", b'{"jsonrpc":"2.0","id":1,"method":"' + BEARER.encode() + b'"}', BEARER.encode()):
        headers = {
            "Authorization": f"Bearer {BEARER}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        await (await treq.post(f"{url}/mcp", headers=headers_of(headers), data=broken, persistent=False)).content()
    for page in ("/", "/metrics", "/healthz", "/subagent/help", "/mcp"):
        answer = await treq.get(url + page, headers=headers_of({"Authorization": f"Bearer {BEARER}"}), persistent=False)
        scene.hunt.look(f"the page {page}", await answer.content())
        scene.hunt.look(f"the headers of {page}", repr(list(answer.headers.getAllRawHeaders())))

    await agent.call("status")
    for record in (await agent.call("status"))["subagents"]:
        await agent.record(record["name"], result=True)
    scene.hunt.look_at_arguments()
    await until(lambda: not scene.world.configs(), "the end of all config files")
    assert await stopped(scene.world.daemon) == 0

    for body in scene.bodies:
        scene.hunt.look("an answer", body)
    for text in agent.texts:
        scene.hunt.look("a text", text)
    scene.hunt.look("the log", scene.world.daemon.log_text())
    for root in (scene.world.daemon.state, scene.world.daemon.runtime, scene.world.dir):
        scene.hunt.look_at_files(root)
    assert "## subagent help" in Path(report).read_text()
    assert len(scene.world.todos()) >= 15
    # A todo for the receiver that was never there is kept, and looked at too.
    assert list((scene.world.daemon.state / "todos" / "pending").iterdir())
    assert len(scene.tokens) == len(set(scene.tokens)) >= 16
    assert scene.hunt.found == [], "\n".join(scene.hunt.found)


BAD = {
    "a token of two words": ["--auth-token-file={root}/token"],
    "a server file that is no JSON": ["--mcp-servers={root}/broken"],
    "a server file with a fault": ["--mcp-servers={root}/faulty"],
    "a todo URL that cannot be read": [f"--todo=http://me:{TODO_PASSWORD}@:x/"],
    "a todo of another scheme": [f"--todo=ftp://me:{TODO_PASSWORD}@host/"],
    "a public URL with a password": [f"--public-url=http://me:{SERVER_PASSWORD}@host/"],
}


@pytest.mark.parametrize("what", BAD)
async def test_an_option_that_cannot_be_used_is_refused_without_its_secret(what: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{BEARER} {BEARER}\n")
    (tmp_path / "broken").write_text(f'{{"mcpServers": {{"a": "{HIDDEN}"')
    entry = {"url": f"http://me:{SERVER_PASSWORD}@host", "headers": {"X": HIDDEN}, "args": HIDDEN}
    (tmp_path / "faulty").write_text(json.dumps({"mcpServers": {"a": entry}}))
    options = [option.format(root=tmp_path) for option in BAD[what]]
    hunt = Hunt(dict(MARKS))
    with pytest.raises(AssertionError) as said:
        await deferToThread(_start, tmp_path / "daemon", options)
    hunt.look("what the daemon said", str(said.value))
    assert options[0].partition("=")[0] in str(said.value)
    assert hunt.found == []


def _start(root: Path, options: list[str]) -> None:
    with world(root, options=options):
        pass


async def test_a_password_in_an_argument_is_warned_of_and_shown_nowhere_else(tmp_path: Path) -> None:
    sink = f"http://me:{TODO_PASSWORD}@127.0.0.1:1/{TODO_PATH}?key={TODO_QUERY}"
    with world(tmp_path / "own", options=["--todo", sink]) as own:
        assert (await own.run("alpha", "text done"))["todo"] in {"pending", "undelivered"}
        log = own.daemon.log_text()
    assert "--todo: its URL holds a password or key" in log and "HIVESUB_TODO" in log
    hunt = Hunt(dict(MARKS))
    hunt.look("the log", log)
    hunt.look_at_files(own.daemon.state)
    assert hunt.found == []
