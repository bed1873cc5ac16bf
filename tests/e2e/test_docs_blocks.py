"""The shell blocks of README and tutorial that connect an agent, run as they stand by the real claude."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.blocks import PAGES, shell_blocks
from tests.support.daemon import Daemon

BOUND_S = 60


def test_what_is_to_be_pasted_connects_claude_in_every_directory(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], daemon: Daemon
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "claude").symlink_to(claude)
    environ = {**sandbox, "PATH": f"{tmp_path / 'bin'}:{sandbox['PATH']}"}

    def shell(script: str, where: Path) -> str:
        done = subprocess.run(
            ["sh", "-ec", script], cwd=where, env=environ, capture_output=True, text=True, timeout=BOUND_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    blocks = [block for page in PAGES for block in shell_blocks(page) if block.startswith("claude mcp add")]
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        here, there = tmp_path / f"here-{number}", tmp_path / f"there-{number}"
        here.mkdir()
        there.mkdir()
        shell(block.replace("http://127.0.0.1:8787", daemon.url), here)
        assert "Connected" in shell("claude mcp list", there)
        shell("claude mcp remove --scope user subagent", there)
