"""The daemon on the stand-in, and the server with every feature."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from hivesub.standin import write_wrapper
from tests.support.daemon import Daemon

STOP_S = 10


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    root = tmp_path_factory.mktemp("daemon")
    with Daemon(root, claude=write_wrapper(root / "claude", sandboxed=True)) as running:
        yield running
    assert "Traceback" not in running.log_text()


@pytest.fixture(scope="session")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server with every feature."""
    log = tmp_path_factory.mktemp("everything") / "log"
    command = [sys.executable, "-m", "tests.conformance.everything.mount"]
    with log.open("w") as errors:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        assert url, log.read_text()
        yield url
        server.terminate()
        server.wait(STOP_S)
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
