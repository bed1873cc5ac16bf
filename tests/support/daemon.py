"""The daemon as an operator runs it: `twistd -n hivesub` in a process of its own, on a free port of loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

UP_S = 30.0
"""Bound on a start: a machine that runs other tests beside can be slow."""
DOWN_S = 20.0
_READY = re.compile(r"claude mcp add --transport http --scope user subagent (http://\S+)/mcp")


def measured() -> dict[str, str]:
    """What makes a Python program measure its coverage, where this one does."""
    return {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}


class Daemon:
    """A daemon with state, runtime and working directories below one directory. Its log is kept in one file over
    restarts. As a context manager it is up inside, and gone after.

    `environ`: the whole environment, as nothing of this process's own is to reach it unnamed. `prefix`: a command that
    execs the daemon; `pass_fds`: descriptors that it inherits, as from a supervisor.
    """

    def __init__(
        self,
        root: Path,
        *,
        claude: Path | str,
        environ: Mapping[str, str] | None = None,
        options: Sequence[str] = (),
        prefix: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.root = root
        self.home = root / "home"
        self.work = root / "work"
        self.state = root / "state"
        self.runtime = root / "runtime"
        self.log = root / "daemon.log"
        for directory in (self.home, self.work):
            directory.mkdir(parents=True, exist_ok=True)
        self._environ = {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "IS_SANDBOX": "1",
            **({"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}),
            **measured(),
            **(environ or {}),
        }
        self._claude = str(claude)
        self._options = list(options)
        self._prefix = list(prefix)
        self._pass_fds = tuple(pass_fds)
        self._process: subprocess.Popen[bytes] | None = None
        self._port = "0"
        self.url = ""

    @property
    def environ(self) -> dict[str, str]:
        """The daemon's whole environment."""
        return dict(self._environ)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def todos(self) -> Path:
        """Where todos go when no `--todo` is given."""
        return self.state / "todos.jsonl"

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def command(self) -> list[str]:
        """The command line that an operator would write."""
        twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
        listen = [] if any(option.startswith("--listen") for option in self._options) else ["--port", self._port]
        options = [*listen, "--dir", str(self.work), "--claude", self._claude]
        places = ["--state-dir", str(self.state), "--runtime-dir", str(self.runtime)]
        return [*twistd, "hivesub", *options, *places, *self._options]

    def start(self) -> str:
        """Start, and wait until it is ready; a restart takes the same port. The base URL."""
        before = len(self.log_text())
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._prefix, *self.command()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.root,
                env=self._environ,
                pass_fds=self._pass_fds,
            )
        deadline = time.monotonic() + UP_S
        while time.monotonic() < deadline:
            ready = _READY.search(self.log_text()[before:])
            if ready:
                self.url = ready[1]
                self._port = self.url.rpartition(":")[2]
                return self.url
            if self._process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"the daemon did not come up:\n{self.log_text()[before:]}")

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the exit; the exit status."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(DOWN_S)

    def end(self) -> None:
        """See that it is gone, whatever state a test left it in."""
        if self._process is None or self._process.poll() is not None:
            return
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise
