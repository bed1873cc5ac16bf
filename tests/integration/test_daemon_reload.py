"""The operator's server file is read anew while the daemon runs."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from hivesub.standin import write_wrapper
from tests.support.daemon import Daemon
from tests.support.world import World, until


def write(path: Path, *names: str) -> None:
    servers = {name: {"command": "true", "availableToSubagents": True} for name in names}
    path.write_text(json.dumps({"mcpServers": servers}))


async def servers_seen(world: World, name: str) -> list[str]:
    """The MCP servers in the config file of a turn that is going on."""
    await world.start(name, "hang")
    config: dict[str, Any] = json.loads(next(path for path in world.configs() if name in path.name).read_text())
    return sorted(config["mcpServers"])


async def test_sighup_reads_the_server_file_anew_and_ends_nothing(tmp_path: Path) -> None:
    root = tmp_path / "own"
    root.mkdir()
    file = tmp_path / "servers.json"
    write(file, "one")
    daemon = Daemon(
        root,
        claude=write_wrapper(root / "claude"),
        options=["--mcp-servers", str(file)],
        prefix=["setsid"],  # and so without a terminal, wherever the tests run
    )
    with daemon:
        own = World(daemon)
        assert await servers_seen(own, "before") == ["one", "subagent_control"]
        write(file, "one", "two")
        os.kill(daemon.pid, signal.SIGHUP)
        await until(lambda: "was read anew" in daemon.log_text())
        assert await servers_seen(own, "after") == ["one", "subagent_control", "two"]
        file.write_text("{broken")
        os.kill(daemon.pid, signal.SIGHUP)
        await until(lambda: "the servers stay as they were" in daemon.log_text())
        assert f"--mcp-servers: {file}: no JSON" in daemon.log_text()
        assert await servers_seen(own, "still") == ["one", "subagent_control", "two"]
        for name in ("before", "after", "still"):
            assert (await own.agent.record(name))["state"] == "running"
        assert not own.tracebacks()
