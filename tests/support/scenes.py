"""What several e2e tests wait for."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from tests.realclaude.model import ScriptedModel
from tests.realclaude.terminal import PROMPT_SIGN, Terminal, connected_servers
from tests.support.agent import pause
from tests.support.daemon import Daemon

STAYS = "tail -f /dev/null"
"""A command that stays: claude's Bash tool refuses a bare `sleep 300`."""
AGENT_S = 60.0
LOOK_S = 0.05
LOOKS = 600


async def eventually(look: Callable[[], Any]) -> Any:
    """What a look gives, once that is true; bounded."""
    for _ in range(LOOKS):
        seen = look()
        if seen:
            return seen
        await pause(LOOK_S, reactor)
    return look()


async def spawned_by(model: ScriptedModel, marker: str) -> dict[str, Any]:
    """The first request that claude made for a prompt with the marker."""
    requests = await eventually(lambda: model.requests_for(marker))
    assert requests, f"claude asked nothing for {marker}"
    return dict(requests[0])


async def todos_of(daemon: Daemon, count: int = 1) -> list[dict[str, Any]]:
    """The todos in the daemon's file, once there are so many: they are written after the run has ended."""

    def written() -> list[str]:
        return daemon.todos.read_text().splitlines() if daemon.todos.exists() else []

    await eventually(lambda: len(written()) >= count)
    return [json.loads(line) for line in written()]


async def gone(pids: Iterable[int]) -> bool:
    """Whether all of these processes end within the bound."""
    waiting = list(pids)
    return bool(await eventually(lambda: not any(_lives(pid) for pid in waiting)))


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def prompts_to(model: ScriptedModel, marker: str) -> list[str]:
    """The user's texts of the last request that mentions the marker, in order."""
    texts = []
    for message in model.requests_for(marker)[-1]["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts += [block["text"] for block in blocks if block.get("type") == "text"]
    return texts


def run_agent(
    claude: Path, daemon: Daemon, sandbox: dict[str, str], prompt: str, within_s: float = AGENT_S
) -> Deferred[str]:
    """A headless claude with the daemon as its MCP server; what it wrote on stdout."""
    config = daemon.root / "agent.json"
    config.write_text(json.dumps({"mcpServers": {"subagent": {"type": "http", "url": f"{daemon.url}/mcp"}}}))
    argv = [str(claude), "-p", "--dangerously-skip-permissions", f"--mcp-config={config}", "--strict-mcp-config"]

    def run() -> str:
        done = subprocess.run(
            argv,
            input=prompt,
            capture_output=True,
            text=True,
            timeout=within_s,
            env=sandbox,
            cwd=daemon.work,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return deferToThread(run)


def tool_results(model: ScriptedModel, marker: str) -> str:
    """What the tools of a conversation gave."""
    return json.dumps(
        [
            block["content"]
            for message in model.requests_for(marker)[-1]["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
    )


def tool_texts(model: ScriptedModel, marker: str) -> list[str]:
    """What the model read of each call of a conversation, in order."""
    return [
        "\n".join(part["text"] for part in block["content"])
        if isinstance(block["content"], list)
        else str(block["content"])
        for message in model.requests_for(marker)[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block.get("type") == "tool_result"
    ]


def signal_url(daemon: Daemon, name: str) -> str:
    """The signal URL in a subagent's config file, "" once there is none."""
    try:
        (path,) = daemon.runtime.glob(f"mcp-*/{name}.mcp.json")
        config = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return ""
    return str(config["mcpServers"]["subagent_control"]["url"])


def posting(url: str, method: str, params: dict[str, Any] | None = None) -> str:
    """A shell command that makes one MCP request and prints the status of the answer."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}})
    headers = ("Content-Type: application/json", "Accept: application/json", "MCP-Protocol-Version: 2025-11-25")
    argv = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", *(f"-H{header}" for header in headers)]
    return shlex.join([*argv, "-d", body, url])


def wrapped(claude: Path, directory: Path, line: str) -> Path:
    """A program that runs a line of shell and then becomes claude."""
    program = directory / "wrapper"
    program.write_text(f'#!/bin/sh\n{line}\nexec {claude} "$@"\n')
    program.chmod(0o755)
    return program


async def spawned_command(daemon: Daemon, word: str) -> int:
    """The id of a command that claude's Bash tool runs below a daemon; one of its words is `word`."""

    def found() -> int:
        for process in psutil.process_iter(["cmdline", "environ"]):
            ours = (process.info["environ"] or {}).get("HOME") == str(daemon.home)
            if ours and word in (process.info["cmdline"] or []):
                return int(process.pid)
        return 0

    pid = await eventually(found)
    assert pid, f"claude did not run {word}"
    return int(pid)


async def shown(terminal: Terminal, words: str) -> None:
    """Wait until an interactive claude shows these words."""
    await eventually(lambda: terminal.shows(words) or not terminal.lives)
    assert terminal.shows(words), f"{words!r} is not shown:\n{terminal.text()[-4000:]}"


async def connected(home: Path) -> None:
    """Wait until an interactive claude has connected to its MCP server: it takes prompts before that."""
    assert await eventually(lambda: connected_servers(home)), "claude has connected to no MCP server"


async def enter(terminal: Terminal, prompt: str) -> None:
    """Give an interactive claude a prompt, as a person types it."""
    await shown(terminal, PROMPT_SIGN)
    terminal.press(prompt)
    await shown(terminal, prompt)
    terminal.press("\r")


def told(value: Any) -> str:
    """JSON, for a look at all that was told."""
    return json.dumps(value, ensure_ascii=False)
