"""A model, a daemon on the stand-in, and the page that is written at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hivesub.standin import write_wrapper
from tests.realclaude.model import ScriptedModel
from tests.support.daemon import Daemon
from tests.support.table import TABLE, WRITE_VARIABLE


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as running:
        yield running


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """One for each test, on the stand-in."""
    with Daemon(tmp_path, claude=write_wrapper(tmp_path / "claude", sandboxed=True)) as running:
        yield running
    assert "Traceback" not in running.log_text()


def pytest_sessionfinish(exitstatus: int) -> None:
    """Write the page where a whole run has passed and somebody asked for it."""
    path = os.environ.get(WRITE_VARIABLE)
    if path and exitstatus == 0:
        TABLE.write(Path(path))
