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
from tests.support.scene import PROMPT, Told, expect, note

CLIENT_S = 60
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


@both_eras
def test_the_inspector_starts_watches_and_interrupts_a_subagent(daemon: Daemon, era: str, tmp_path: Path) -> None:
    name = f"inspector-{era}"
    package = "@modelcontextprotocol/inspector"
    program = installed("conformance") / "node_modules" / package / "clients" / "launcher" / "build" / "index.js"

    def inspect(*options: str) -> Any:
        fixed = ["--cli", f"{daemon.url}/mcp", "--format", "json", "--transport", "http", "--protocol-era", era]
        return _node(str(program), *fixed, *options, home=tmp_path)["result"]

    def call(tool: str, *arguments: str) -> Any:
        return inspect("--method", "tools/call", "--tool-name", tool, "--tool-arg", f"name={name}", *arguments)

    # Strict: it ends with an error where a schema is one that some model's provider refuses.
    tools = [tool["name"] for tool in inspect("--method", "tools/list", "--strict")["tools"]]
    called = {"start": call("start", f"prompt={PROMPT}"), "status": call("status"), "interrupt": call("interrupt")}
    assert not any("structuredContent" in result for result in called.values())
    expect(Told(tools, {tool: result["content"][0]["text"] for tool, result in called.items()}), name)
    note("MCP Inspector, `--cli`", version("conformance", package), ERAS[era])


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
