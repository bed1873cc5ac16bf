"""Another user of the machine, where the tests run as one who can become another."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NOBODY = 65534

As = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def as_nobody() -> As:
    """Runs a command as the user nobody, without this user's groups."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user")
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*become, *argv], text=True, capture_output=True, timeout=20, cwd="/")

    return run


@pytest.fixture
def open_root() -> Iterator[Path]:
    """A directory that every user can look into; pytest's own ones are closed, which would prove too much."""
    root = Path(tempfile.mkdtemp(prefix="hivesub-open-"))
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)
