"""A daemon of the demo's own: below a temporary directory, on a free port, for as long as the demo lasts."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from hivesub.cli.troubles import Unreachable
from hivesub.standin import write_wrapper
from hivesub.tryout import command
from hivesub.turns.command import find_wrappers

UP_S = 30.0
DOWN_S = 18.0
"""Beyond the bound that the daemon sets itself."""

_READY = re.compile(r"claude mcp add --transport http --scope user subagent (http://\S+)/mcp")


@asynccontextmanager
async def own_daemon(root: Path, claude: str | None, checks: Mapping[str, str]) -> AsyncIterator[str]:
    """A daemon below a directory, with checks that are shell commands by their names; gives its base URL."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("HIVESUB_")}
    work = root / "work"
    work.mkdir()
    if claude is None:
        claude = write_wrapper(root / "claude", sandboxed=True)
        environ |= {"CLAUDE_CONFIG_DIR": str(root / "claude-config"), "IS_SANDBOX": "1"}
    checks_file = root / "checks.json"
    checks_file.write_text(json.dumps({name: {"argv": ["sh", "-c", line]} for name, line in checks.items()}))
    options = [
        f"--checks={checks_file}",
        f"--dir={work}",
        f"--claude={claude}",
        f"--state-dir={root / 'state'}",
        f"--runtime-dir={root / 'run'}",
    ]
    argv = command(["--port=0", *options])
    setpriv = find_wrappers(os.environ.get("PATH")).setpriv
    if setpriv is not None:  # should this program be killed outright
        argv = [setpriv, "--pdeathsig", "TERM", *argv]
    # A session of its own: Ctrl-C is this program's to pass on.
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environ,
        cwd=root,
        start_new_session=True,
    )
    assert process.stdout is not None
    log: list[str] = []
    reading: asyncio.Task[None] | None = None
    try:
        try:
            async with asyncio.timeout(UP_S):
                url = await _ready(process.stdout, log)
        except TimeoutError:
            url = ""
        if not url:
            raise Unreachable("the demo's daemon did not come up:\n" + "".join(log[-20:]))
        reading = asyncio.create_task(_drain(process.stdout))
        yield url
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        if reading is None:
            reading = asyncio.create_task(_drain(process.stdout))
        try:
            async with asyncio.timeout(DOWN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        await reading


async def _ready(stdout: asyncio.StreamReader, log: list[str]) -> str:
    async for raw in stdout:
        log.append(raw.decode("utf-8", "replace"))
        found = _READY.search(log[-1])
        if found:
            return found[1]
    return ""


async def _drain(stdout: asyncio.StreamReader) -> None:
    """Read on, so that the daemon never waits for room."""
    while await stdout.read(65536):
        pass
