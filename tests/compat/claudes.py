"""The releases of claude that are tried, and one session of each as an agent."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.realclaude.install import claude_from_environment
from tests.realclaude.model import ScriptedModel
from tests.realclaude.sandbox import claude_environment
from tests.support.npmsets import find_node, installed, node_path

NEWEST = "2.1.332"
OLDER = ("2.1.83", "2.0.46", "1.0.96")
OLDEST = "0.2.9"
"""The first release that npm has; it knows MCP servers of the stdio kind only."""
CLAUDE_S = 90


@frozen
class Claude:
    """One release. `argv`: how it is started; the older ones are JavaScript and need Node.js."""

    version: str
    argv: tuple[str, ...]

    def wrapper(self, path: Path) -> Path:
        """A program that is this claude, for the daemon's `--claude`."""
        path.write_text(f'#!/bin/sh\nexec {shlex.join(self.argv)} "$@"\n')
        path.chmod(0o755)
        return path

    def run(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], prompt: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run it to its end, whatever that is; bounded."""
        return subprocess.run(
            [*self.argv, *arguments],
            input=prompt or "",
            cwd=cwd,
            env=env,
            capture_output=True,
            text=True,
            timeout=CLAUDE_S,
            check=False,
        )


def claude(version: str) -> Claude:
    """A release by its number. Raises: NotInstalled."""
    if version == NEWEST:
        return Claude(version, (str(claude_from_environment()),))
    package = installed("compat") / "node_modules" / f"claude-{version}"
    script = next(package / name for name in ("cli.js", "cli.mjs") if (package / name).exists())
    return Claude(version, (str(find_node()), str(script)))


def environment(home: Path, model: ScriptedModel, **extra: str) -> dict[str, str]:
    """The whole environment of such a claude."""
    return claude_environment(home, model.url, PATH=node_path(), CLAUDE_CODE_MAX_RETRIES="1", **extra)


def results(model: ScriptedModel, marker: str) -> list[str]:
    """What the model was told its tool calls had given, in order."""
    texts = []
    for message in model.requests_for(marker)[-1]["messages"]:
        content = message["content"]
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_result":
                texts.append(_text(block.get("content")))
    return texts


def listed(model: ScriptedModel, marker: str, server: str = "subagent") -> dict[str, Mapping[str, Any]]:
    """The tools of a server as the model was told of them first, by their own names."""
    prefix = f"mcp__{server}__"
    tools: Sequence[Mapping[str, Any]] = model.requests_for(marker)[0]["tools"]
    return {str(tool["name"]).removeprefix(prefix): tool for tool in tools if str(tool["name"]).startswith(prefix)}


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", json.dumps(block))) for block in content or ())


def asked_protocol(agent: Claude, cwd: Path, env: Mapping[str, str]) -> str:
    """The protocol version that a release asks a server for first."""
    asked: list[str] = []

    class Ask(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            said = self.headers.get("MCP-Protocol-Version") or body.get("params", {}).get("protocolVersion")
            if said:
                asked.append(str(said))
            self.send_error(404)

        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Ask)
    serving = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    serving.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
        agent.run("mcp", "add", "--transport", "http", "asked", url, cwd=cwd, env=env)
        agent.run("mcp", "list", cwd=cwd, env=env)
    finally:
        server.shutdown()
        server.server_close()
    assert asked, "it asked for nothing"
    return asked[0]
