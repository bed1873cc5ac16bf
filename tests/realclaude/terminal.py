"""An interactive claude in a pseudo-terminal: a session that idles between its prompts, as a person's does.

Owns the terminal, and the file by which claude's first-run dialogs are answered beforehand. What claude asks of its
model is the model's record; the screen is only looked at to know when claude takes input.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.realclaude.sandbox import FAKE_KEY

GONE_S = 30.0
KEPT_BYTES = 1024 * 1024
COLUMNS, ROWS = 200, 50
PROMPT_SIGN = "❯"
"""What stands before the line in which claude takes input (measured, 2.1.332)."""
CONNECTED = "Successfully connected (transport: http)"
"""In a line of claude's debug log (measured, 2.1.332)."""
_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[()#%][0-9A-Za-z]|[ -~])"
)


def answer_first_dialogs(home: Path, *directories: Path) -> None:
    """Write the `~/.claude.json` of a user who has been through the first start, trusts these directories, takes the
    key of the environment and has accepted to run without permission prompts (the keys: claude 2.1.332).
    """
    home.mkdir(parents=True, exist_ok=True)
    trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    path = home / ".claude.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    known |= {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "bypassPermissionsModeAccepted": True,
        "customApiKeyResponses": {"approved": [FAKE_KEY[-20:]], "rejected": []},
        "projects": {**known.get("projects", {}), **{str(directory): trusted for directory in directories}},
    }
    path.write_text(json.dumps(known))


class Terminal:
    """A program in a pseudo-terminal of its own. As a context manager it runs inside, and is gone after.

    Nothing here waits for the program, but the end.
    """

    def __init__(self, argv: Sequence[str], *, environ: Mapping[str, str], cwd: Path) -> None:
        # A session with the terminal as its controlling one, and the same pid.
        self._argv = ["setsid", "--ctty", *argv]
        self._environ = {**environ, "TERM": "xterm-256color"}
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._master = -1
        self._raw = b""
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def text(self) -> str:
        """All that was drawn so far, without the terminal's codes: words that were drawn again stand there again."""
        with self._lock:
            raw = self._raw
        return _ESCAPES.sub("", raw.decode("utf-8", "replace"))

    def shows(self, words: str) -> bool:
        """Whether these words were drawn. Gaps do not count: they are often drawn by moving the cursor."""
        return "".join(words.split()) in "".join(self.text().split())

    def press(self, keys: str) -> None:
        """Type these keys. The return key in the same read as the words before it would be a paste: press it apart."""
        os.write(self._master, keys.encode())

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        try:
            self._process = subprocess.Popen(
                self._argv, stdin=slave, stdout=slave, stderr=slave, cwd=self._cwd, env=self._environ
            )
        finally:
            os.close(slave)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """See that it and its session are gone."""
        assert self._process is not None
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(GONE_S)
        self._reader.join(GONE_S)
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                piece = os.read(self._master, 65536)
            except OSError:  # the terminal's other end is closed
                return
            if not piece:
                return
            with self._lock:
                self._raw = (self._raw + piece)[-KEPT_BYTES:]


def interactive_claude(
    claude: Path, *argv: str, environ: Mapping[str, str], cwd: Path, mcp_config: Path | None = None
) -> Terminal:
    """An interactive claude whose first dialogs are answered, ready to be entered.

    :param mcp_config: the only MCP servers that it has.
    """
    answer_first_dialogs(Path(environ["HOME"]), cwd)
    servers = [] if mcp_config is None else ["--strict-mcp-config", f"--mcp-config={mcp_config}"]
    command = [str(claude), "--debug", "--dangerously-skip-permissions", *servers, *argv]
    return Terminal(command, environ=environ, cwd=cwd)


def connected_servers(home: Path) -> int:
    """To how many MCP servers the interactive claude of this home has connected so far, by its debug log."""
    logs = (home / ".claude" / "debug").glob("*.txt")
    return sum(log.read_text(errors="replace").count(CONNECTED) for log in logs)
