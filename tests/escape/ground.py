"""Where ways out are tried: a daemon with one set of tools, a model that plays the subagent, and traps that show what
got through.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from twisted.internet import reactor

from tests.realclaude.model import ScriptedModel
from tests.realclaude.sandbox import claude_environment
from tests.realclaude.steps import Step, use
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.scenes import eventually, spawned_by

GOAL = "all is done"
TOKEN = "MARKescape-token-0123456789"


class Trap:
    """An HTTP server, and a proxy as well, that keeps the request lines it gets in `hits`."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        trap = self

        class Visit(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None: ...

            def do_GET(self) -> None:
                trap.hits.append(self.requestline)
                self.send_error(404)

            do_POST = do_HEAD = do_CONNECT = do_GET

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Visit)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Ground:
    """One daemon and all around it. Its proxy is the trap; each subagent works in a directory of its own, which the
    user trusts.
    """

    def __init__(self, root: Path, *, claude: Path, groups: str, token: bool) -> None:
        self.root = root
        self.claude = claude
        self.model = ScriptedModel().start()
        self.trap = Trap()
        self.marks = root / "marks"
        self.marks.mkdir(parents=True)
        self.home = root / "home"
        proxies = {"HTTP_PROXY": self.trap.url, "http_proxy": self.trap.url, "NO_PROXY": "intra.example"}
        self.environ = claude_environment(self.home, self.model.url, CLAUDE_CODE_MAX_RETRIES="1")
        options = ["--tool-groups", groups]
        if token:
            (root / "token").write_text(TOKEN)
            (root / "token").chmod(0o600)
            options += ["--auth-token-file", str(root / "token")]
        self.daemon = Daemon(root, claude=claude, environ={**self.environ, **proxies}, options=options)
        self.daemon.start()
        self.agent = Agent(f"{self.daemon.url}/mcp", reactor, token=TOKEN if token else None)
        self._children: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()
        self.daemon.end()
        self.trap.close()
        self.model.close()

    def place(self, name: str) -> Path:
        """A directory that the user trusts."""
        directory = self.root / "work" / name
        directory.mkdir(parents=True, exist_ok=True)
        state = self.home / ".claude.json"
        known = json.loads(state.read_text()) if state.exists() else {}
        known.setdefault("projects", {})[str(directory)] = {"hasTrustDialogAccepted": True}
        state.write_text(json.dumps(known))
        return directory

    def mark(self, name: str) -> str:
        """A command that leaves a mark."""
        return f"touch {self.marks / name}"

    def marked(self, name: str) -> bool:
        """Whether one of the commands that `mark` gave for the name, or a name that begins so, was run."""
        return any(self.marks.glob(f"{name}*"))

    async def start(self, name: str, *steps: Step, **arguments: Any) -> Path:
        """Start a subagent that plays the steps; its directory."""
        directory = self.place(name)
        self.model.script(f"[{name}]", *steps)
        await self.agent.call("start", name=name, prompt=f"do it [{name}]", dir=str(directory), **arguments)
        return directory

    async def play(self, name: str, *steps: Step, **arguments: Any) -> Any:
        """Its record once its run is over."""
        await self.start(name, *steps, **arguments)
        return await self.agent.ended(name)

    def requests(self, name: str) -> str:
        """All that claude sent for a subagent, as text."""
        return json.dumps([body["messages"] for body in self.model.requests_for(f"[{name}]")])

    def results(self, name: str) -> list[str]:
        """What its tools gave, in order, by its last request."""
        requests = self.model.requests_for(f"[{name}]")
        messages = requests[-1]["messages"] if requests else []
        blocks = [block for each in messages if isinstance(each["content"], list) for block in each["content"]]
        return [json.dumps(block["content"]) for block in blocks if block.get("type") == "tool_result"]

    async def under_way(self, name: str) -> None:
        """Wait for its first request."""
        await spawned_by(self.model, f"[{name}]")

    def session(self, name: str, *steps: Step, tools: str) -> subprocess.Popen[bytes]:
        """Another session of the same user, which no daemon started."""
        self.model.script(f"[{name}]", *steps)
        child = subprocess.Popen(
            self.session_argv(name, tools),
            cwd=self.place(name),
            env=self.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert child.stdin is not None
        child.stdin.write(f"do it [{name}]".encode())
        child.stdin.close()
        self._children.append(child)
        return child

    def session_argv(self, name: str, tools: str) -> list[str]:
        """The command of such a session, which reads its prompt on stdin."""
        return [str(self.claude), "-p", "--dangerously-skip-permissions", f"--tools={tools}", f"--name={name}"]


async def over(child: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process, bounded."""
    await eventually(lambda: child.poll() is not None)


def writes(path: Path, content: str | Mapping[str, Any]) -> Step:
    """The model writes a file."""
    return use("Write", file_path=str(path), content=content if isinstance(content, str) else json.dumps(content))


def edits(path: Path) -> Sequence[Step]:
    """The model writes a file, reads it and changes it."""
    return (
        writes(path, "old\n"),
        use("Read", file_path=str(path)),
        use("Edit", file_path=str(path), old_string="old", new_string="new"),
    )


def lets_settle() -> Step:
    """The model calls a harmless tool, once claude had the time to take up a file that was changed."""
    return Step(tools=(("Glob", {"pattern": "*"}),), delay_s=2.0)


def living(word: str) -> list[int]:
    """The processes with this word in their arguments."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", entry, "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if word.encode() in arguments:
            found.append(int(entry))
    return found


def end(pids: Sequence[int]) -> None:
    """End processes that a test has left running."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
