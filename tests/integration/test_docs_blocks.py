"""Each block of shell commands in the README and the tutorial is run as it stands, page by page, by one shell user."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hivesub.standin import write_wrapper
from tests.support.blocks import PAGES, shell_blocks
from tests.support.daemon import Daemon

BOUND_S = 90

ELSEWHERE = {
    "# start the daemon": "makes the environment of tox, and downloads; what it runs is in test_a_tryout_comes_up",
    "# run every check": "it is what runs this test",
    "python3 -m venv .venv && .venv/bin/pip install -q tox && .venv/bin/tox -e run": "as the first",
    ".venv/bin/tox -e run -- --standin": "test_a_tryout_comes_up",
    ".venv/bin/tox -e run -- --dir ~/src/app": "needs a claude that is logged in; --dir in test_a_tryout_comes_up",
    "pip wheel": "tests/packaging, which has a wheel and pipx",
    "hivesub serve": "stays in the foreground: test_a_tryout_comes_up",
    "claude mcp add": "needs the real claude: tests/e2e/test_docs_blocks.py",
    "claude --plugin-dir": "an interactive session of an account; the plugin is tried in tests/e2e/test_plugin.py",
}
"""Blocks that are not run here, by how they begin, and why."""

CODES = {"hivesub start notes": 10, "hivesub continue notes": 14}
"""What a block is to exit with, where that is not 0."""


def elsewhere(block: str) -> bool:
    return any(block.startswith(begin) for begin in ELSEWHERE)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout's directory of a user: the programs of tox's environment in it."""
    home = tmp_path_factory.mktemp("reader") / "home"
    programs = home / ".tox" / "run"
    programs.mkdir(parents=True)
    (programs / "bin").symlink_to(Path(sys.executable).parent)
    return home


@pytest.fixture(scope="module")
def reader(home: Path) -> Iterator[Daemon]:
    """A daemon whose state is where a user's is by default."""
    claude = write_wrapper(home.parent / "claude", sandboxed=True)
    state = home / ".local" / "state" / "hivesub"
    state.parent.mkdir(parents=True)
    with Daemon(home.parent, claude=claude, options=["--state-dir", str(state)]) as daemon:
        yield daemon


def environ(home: Path, **given: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ}
    return {**kept, "HOME": str(home), "IS_SANDBOX": "1", "COLUMNS": "160", "TERM": "dumb", **given}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_of_a_page_runs(home: Path, reader: Daemon, page: Path) -> None:
    hello = home / "hello"
    exports = f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
    for block in shell_blocks(page):
        if elsewhere(block):
            continue
        done = subprocess.run(
            ["sh", "-c", exports + block.replace("/tmp/hello", str(hello))],
            cwd=home,
            env=environ(home, HIVESUB_URL=reader.url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=BOUND_S,
        )
        code = next((code for begin, code in CODES.items() if block.startswith(begin)), 0)
        assert (done.returncode, done.stderr) == (code, ""), (block, done.stdout, done.stderr)


def test_every_reason_not_to_run_a_block_is_of_a_block_that_there_is() -> None:
    blocks = [block for page in PAGES for block in shell_blocks(page)]
    assert {begin for begin in ELSEWHERE if not any(block.startswith(begin) for block in blocks)} == set()
    assert len(blocks) > 15


@pytest.mark.parametrize("command", [["-m", "hivesub.tryout"], ["-m", "hivesub.cli.main", "serve"]])
def test_a_tryout_comes_up(tmp_path: Path, command: list[str]) -> None:
    work = tmp_path / "src" / "app"
    work.mkdir(parents=True)
    given = {"XDG_RUNTIME_DIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    options = ["--standin", "--port=0", "--dir", "src/app"]
    with subprocess.Popen(
        [sys.executable, *command, *options],
        cwd=tmp_path,
        env=environ(tmp_path, **given),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as daemon:
        try:
            assert daemon.stdout is not None
            said = ""
            for line in daemon.stdout:
                said += line
                if "claude is " in line:
                    break
            url = re.search(r"subagent (http://\S+)/mcp", said)
            assert url is not None, said
            start = [sys.executable, "-m", "hivesub.cli.main", "start", "alpha", "hi", "--dir", "", "--result"]
            asked = subprocess.run(
                start, env=environ(tmp_path, HIVESUB_URL=url[1]), capture_output=True, text=True, timeout=BOUND_S
            )
            assert (asked.returncode, asked.stderr) == (0, "")
            assert "no model was asked" in asked.stdout
            daemon.send_signal(signal.SIGINT)
            daemon.communicate(timeout=BOUND_S)
        finally:
            daemon.kill()
    assert daemon.returncode == 0
    assert "(stand-in for Claude Code)" in said
    # Its sessions are not among claude's own.
    assert not (tmp_path / ".claude").exists()
    assert list((tmp_path / ".local" / "state" / "hivesub-standin").rglob("*.json"))
