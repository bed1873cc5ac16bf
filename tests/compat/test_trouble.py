"""What today's claude shows its user, and tells its model, when something is wrong between it and the daemon."""

from __future__ import annotations

import json
import re
import shlex
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from hivesub.standin import write_wrapper
from tests.compat.claudes import NEWEST, claude, environment, results
from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import Step, say, use
from tests.support.daemon import Daemon
from tests.support.relay import free_port, relaying
from tests.support.scene import PROMPT
from tests.support.table import TABLE

TOKEN = "a-token-of-this-test-alone-0123456789"
WAIT_S = 60
_WAIT_UP = """
import time, urllib.request
for _ in range(300):
    try:
        urllib.request.urlopen({url!r}).read()
        break
    except OSError:
        time.sleep(0.1)
"""
_STATUS = use("mcp__subagent__status")


@pytest.fixture
def guarded(tmp_path: Path) -> Daemon:
    """A daemon that asks for a token; not started."""
    token = tmp_path / "token"
    token.write_text(TOKEN)
    wrapper = write_wrapper(tmp_path / "claude", sandboxed=True)
    return Daemon(tmp_path, claude=wrapper, options=["--auth-token-file", str(token)])


class Agent:
    """Today's claude with one server added to it."""

    def __init__(self, home: Path, model: ScriptedModel, url: str, *added: str) -> None:
        self.model = model
        self._claude = claude(NEWEST)
        self._env = environment(home, model)
        self._work = home / "work"
        self._work.mkdir()
        how = added if "--transport" in added else ("--transport", "http", *added)
        done = self._claude.run("mcp", "add", "subagent", url, *how, cwd=self._work, env=self._env)
        assert done.returncode == 0, done.stderr

    def listed(self) -> str:
        """Of `claude mcp list`, what it says of the server."""
        said = self._claude.run("mcp", "list", cwd=self._work, env=self._env).stdout
        lines = [line for line in said.splitlines() if line.startswith("subagent: ")]
        assert len(lines) == 1, said
        return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8787", lines[0].partition(") - ")[2])

    def told(self, *steps: Step, meanwhile: Callable[[], None] | None = None) -> list[str]:
        """What the model was told its calls had given."""
        marker = "marker-trouble"
        self.model.script(marker, *(steps or [_STATUS]), say("end"))
        other = threading.Thread(target=meanwhile) if meanwhile else None
        if other is not None:
            other.start()
        done = self._claude.run("-p", "--dangerously-skip-permissions", cwd=self._work, env=self._env, prompt=marker)
        if other is not None:
            other.join()
        assert done.stdout.strip() == "end", done.stdout + done.stderr
        return results(self.model, marker)

    def said_of_the_server(self) -> str:
        """What the model was told of the server before it called anything."""
        texts = json.dumps(self.model.requests_for("marker-trouble")[0], ensure_ascii=False)
        found = re.search(r"configured but failed to connect.*?Quoted error text", texts)
        return found[0] if found else ""


def tell(what: str, listed: str, session: str) -> None:
    TABLE.words["claude"] = NEWEST
    TABLE.add("trouble", what, listed, session)


def test_without_the_token_it_is_told_which_header_to_give(
    guarded: Daemon, model: ScriptedModel, tmp_path: Path
) -> None:
    with guarded:
        agent = Agent(tmp_path / "agent", model, f"{guarded.url}/mcp")
        listed = agent.listed()
        assert "there is no sign-in here" in listed
        assert '--header "Authorization: Bearer TOKEN"' in listed
        (told,) = agent.told()
        assert "The user needs to sign in" in told
        assert "there is no sign-in here" in agent.said_of_the_server()
    tell("no token", listed, "its model is told the same, and that the user needs to sign in")


def test_with_a_wrong_token_it_is_told_so(guarded: Daemon, model: ScriptedModel, tmp_path: Path) -> None:
    with guarded:
        agent = Agent(tmp_path / "agent", model, f"{guarded.url}/mcp", "--header", "Authorization: Bearer wrong")
        listed = agent.listed()
        assert "Server rejected the configured Authorization header (HTTP 401)" in listed
        assert "send the daemon's token as `Authorization: Bearer <token>`" in listed
        agent.told()
        assert "AUTH_HEADER_REJECTED" in agent.said_of_the_server()
        right = Agent(tmp_path / "right", model, f"{guarded.url}/mcp", "--header", f"Authorization: Bearer {TOKEN}")
        assert "Connected" in right.listed()
    assert TOKEN not in guarded.log_text()
    tell("a wrong token", listed, "its model is told the same")


def test_with_the_daemon_down_it_is_told_so_and_may_try_again(
    daemon: Daemon, model: ScriptedModel, tmp_path: Path
) -> None:
    agent = Agent(tmp_path / "agent", model, f"{daemon.url}/mcp")
    daemon.stop()
    listed = agent.listed()
    assert "ECONNREFUSED" in listed
    agent.told()
    assert "ECONNREFUSED" in agent.said_of_the_server()
    tell("the daemon is down", listed, "its model is told the same, and that a call tries to connect again")


@pytest.mark.parametrize(
    ("path", "transport", "what", "expected"),
    [
        ("/", "http", "the URL without `/mcp`", "the MCP server is at /mcp"),
        ("/mcp/", "http", "the URL with another path", "Check the URL in your MCP config"),
        ("/mcp", "sse", "added with `--transport sse`, so that it calls by GET", "HTTP 405"),
    ],
)
def test_with_a_url_that_is_wrong_it_is_told_what_to_look_at(
    daemon: Daemon, model: ScriptedModel, path: str, transport: str, what: str, expected: str, tmp_path: Path
) -> None:
    agent = Agent(tmp_path / "agent", model, f"{daemon.url}{path}", "--transport", transport)
    listed = agent.listed()
    assert listed.startswith("✘ Failed to connect")
    assert expected in listed
    agent.told()
    assert expected.removeprefix("HTTP ") in agent.said_of_the_server()
    tell(what, listed, "its model is told the same")


def test_a_restart_in_the_middle_of_a_call_answers_it_and_the_session_goes_on(
    model: ScriptedModel, tmp_path: Path
) -> None:
    wrapper = write_wrapper(tmp_path / "claude", sandboxed=True)
    port = free_port()
    listen = f"--listen=tcp:{port}:interface=127.0.0.1"
    with (
        relaying(b'"wait_s":50', port) as relay,
        Daemon(tmp_path, claude=wrapper, options=[listen, "--public-url", relay.url]) as daemon,
    ):
        agent = Agent(tmp_path / "agent", model, f"{relay.url}/mcp")

        def restart_while_it_waits() -> None:
            if relay.seen.wait(WAIT_S):
                daemon.stop()
                daemon.start()

        # By claude's own Bash, so that the next call comes when the daemon is up again.
        wait_up = shlex.join([sys.executable, "-c", _WAIT_UP.format(url=f"http://127.0.0.1:{port}/healthz")])
        told = agent.told(
            use("mcp__subagent__start", name="scout", prompt=PROMPT),
            use("mcp__subagent__status", name="scout", wait_s=50),
            use("Bash", command=wait_up, description="wait"),
            use("mcp__subagent__status", name="scout"),
            meanwhile=restart_while_it_waits,
        )
        assert relay.seen.is_set()
        listed = agent.listed()
    assert told[1].startswith("scout: killed by ") and "the daemon stopped" in told[1]
    assert told[3] == "status error: no subagent is named 'scout'; known: none yet"
    assert "Connected" in listed
    tell(
        "restarted in the middle of a call",
        listed,
        "the waiting call is answered: killed, the daemon stopped; the next call of the same session works",
    )


def test_an_old_session_id_does_no_harm(daemon: Daemon) -> None:
    """No release is given one by this daemon; other servers give them, and clients keep them over a restart."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-11-25",
        "Mcp-Session-Id": "of-another-daemon",
    }
    request = urllib.request.Request(f"{daemon.url}/mcp", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        assert len(json.load(response)["result"]["tools"]) == 4
    tell("an old `Mcp-Session-Id`", "✔ Connected", "works: the daemon keeps no sessions of this kind")
