"""The SDKs and the Inspector as agents of a daemon on the stand-in."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from importlib.metadata import version as python_version
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from hivesub.standin import write_wrapper
from tests.support.daemon import Daemon
from tests.support.npmsets import find_node, installed, node_path, version
from tests.support.relay import free_port, relaying
from tests.support.scene import PROMPT, TOOLS, Told, expect, note

CLIENT_S = 60
LOOKS = 20
ERAS = {"legacy": "2025-11-25", "modern": "2026-07-28"}
both_eras = pytest.mark.parametrize("era", list(ERAS))


@both_eras
async def test_the_python_sdk_starts_watches_and_interrupts_a_subagent(daemon: Daemon, era: str) -> None:
    from mcp.client.client import Client
    from twisted.internet import reactor

    name = f"python-{era}"
    calls: dict[str, dict[str, Any]] = {
        "start": {"name": name, "prompt": PROMPT},
        "status": {"name": name},
        "interrupt": {"name": name},
    }

    async def use() -> tuple[Told, str]:
        async with Client(f"{daemon.url}/mcp", mode="legacy" if era == "legacy" else "auto") as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            results = {tool: await client.call_tool(tool, arguments) for tool, arguments in calls.items()}
            texts = {tool: str(getattr(result.content[0], "text", "")) for tool, result in results.items()}
            assert all(result.structured_content is None for result in results.values())
            return Told(tools, texts), client.protocol_version

    clock: Any = reactor
    using: Deferred[tuple[Told, str]] = Deferred.fromFuture(asyncio.ensure_future(use()))
    told, protocol = await using.addTimeout(CLIENT_S, clock)
    expect(told, name)
    assert protocol == ERAS[era]
    note("Python SDK (`mcp`)", python_version("mcp"), protocol)


@pytest.mark.parametrize(
    ("line", "package", "era"),
    [
        ("v1", "@modelcontextprotocol/sdk", "legacy"),
        ("v2", "@modelcontextprotocol/client", "legacy"),
        ("v2", "@modelcontextprotocol/client", "modern"),
    ],
)
def test_the_typescript_sdk_starts_watches_and_interrupts_a_subagent(
    daemon: Daemon, line: str, package: str, era: str, tmp_path: Path
) -> None:
    name = f"typescript-{line}-{era}"
    said = _typescript(line, "legacy" if era == "legacy" else "auto", f"{daemon.url}/mcp", name, home=tmp_path)
    called = {tool: said[tool] for tool in ("start", "status", "interrupt")}
    assert not any("structuredContent" in result for result in called.values())
    expect(Told(said["tools"], {tool: result["text"] for tool, result in called.items()}), name)
    assert said["protocol"] == ERAS[era]
    note(f"TypeScript SDK (`{package}`)", version("conformance", package), said["protocol"])


@pytest.mark.parametrize("line", ["v1", "v2"])
def test_a_client_that_is_refused_a_stream_asks_for_none_again(line: str, tmp_path: Path) -> None:
    root, port = tmp_path / "daemon", free_port()
    root.mkdir()
    with relaying(b"GET /mcp ", port) as relay:
        options = [f"--listen=tcp:{port}:interface=127.0.0.1", "--public-url", relay.url]
        with Daemon(root, claude=write_wrapper(root / "claude", sandboxed=True), options=options):
            _typescript(line, "legacy", f"{relay.url}/mcp", "asks-once", home=tmp_path, wait_s=4)
    assert relay.times == 1


def test_the_inspector_starts_watches_and_interrupts_a_subagent(daemon: Daemon, tmp_path: Path) -> None:
    inspector = Inspector(daemon, "legacy", tmp_path)
    called = {tool: inspector.call(tool, *more) for tool, more in inspector.calls.items()}
    assert not any("structuredContent" in result for result in called.values())
    texts = {tool: result["content"][0]["text"] for tool, result in called.items()}
    expect(Told(inspector.tools(), texts), inspector.name)
    note("MCP Inspector, `--cli`", version("conformance", inspector.package), ERAS["legacy"])


def test_the_inspector_follows_a_task_to_the_end_of_its_run(daemon: Daemon, tmp_path: Path) -> None:
    """In the newer era it declares the extension for tasks, and answers a call by what the task comes to."""
    inspector = Inspector(daemon, "modern", tmp_path)
    assert inspector.tools() == TOOLS
    starting = subprocess.Popen(
        inspector.command("start", *inspector.calls["start"]),
        env=inspector.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with starting:
        try:
            looks = (inspector.text("status") for _ in range(LOOKS))
            assert any(text.startswith(f"{inspector.name}: running.") for text in looks)
            assert inspector.text("interrupt").startswith(f"{inspector.name}: killed by SIGINT.")
            said, errors = starting.communicate(timeout=CLIENT_S)
        finally:
            starting.kill()
    assert starting.returncode == 0, errors[-2000:]
    text = json.loads(said)["result"]["content"][0]["text"]
    assert text.startswith(f"subagent {inspector.name} was killed mid-turn, not finished\n")
    note("MCP Inspector, `--cli`", version("conformance", inspector.package), ERAS["modern"])


class Inspector:
    """The Inspector's command line as an agent of a daemon."""

    package = "@modelcontextprotocol/inspector"

    def __init__(self, daemon: Daemon, era: str, home: Path) -> None:
        self.name = f"inspector-{era}"
        self.calls = {"start": (f"prompt={PROMPT}",), "status": (), "interrupt": ()}
        """What each call says beside the name."""
        self.environ = {"PATH": node_path(), "HOME": str(home)}
        build = installed("conformance") / "node_modules" / self.package / "clients" / "launcher" / "build"
        program = [str(find_node()), str(build / "index.js"), "--cli", f"{daemon.url}/mcp"]
        self._command = [*program, "--format", "json", "--transport", "http", "--protocol-era", era]
        self._home = home

    def tools(self) -> list[str]:
        """The tools that it lists. Strict: it ends with an error where a schema is one that some model's provider
        refuses.
        """
        listed = self._said([*self._command, "--method", "tools/list", "--strict"])
        return [tool["name"] for tool in listed["tools"]]

    def command(self, tool: str, *more: str) -> list[str]:
        """The command that calls a tool."""
        return [*self._command, "--method", "tools/call", "--tool-name", tool, "--tool-arg", f"name={self.name}", *more]

    def call(self, tool: str, *more: str) -> Any:
        """The result of a call."""
        return self._said(self.command(tool, *more))

    def text(self, tool: str) -> str:
        """The text of a call that says no more than the name."""
        return str(self.call(tool)["content"][0]["text"])

    def _said(self, command: list[str]) -> Any:
        return _node(*command[1:], home=self._home)["result"]


def _typescript(line: str, mode: str, url: str, name: str, *, home: Path, wait_s: int = 0) -> Any:
    # Beside the packages: Node.js looks for a module's imports from where the module lies.
    program = home / "sdk.mjs"
    shutil.copyfile(Path(__file__).parent / "clients" / "sdk.mjs", program)
    (home / "node_modules").symlink_to(installed("conformance") / "node_modules")
    return _node(str(program), line, mode, url, name, PROMPT, str(wait_s), home=home)


def _node(*command: str, home: Path) -> Any:
    """What a program of Node.js said on stdout, as JSON."""
    environ = {"PATH": node_path(), "HOME": str(home)}
    done = subprocess.run(
        [str(find_node()), *command], env=environ, capture_output=True, text=True, timeout=CLIENT_S, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
