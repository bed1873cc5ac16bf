"""Each test here runs twice: on the stand-in and on the real binary."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hivesub.standin import write_wrapper
from tests.contract.claudes import Claude
from tests.contract.signal_server import SignalServer
from tests.realclaude.install import DIRECTORY_VARIABLE, claude_from_environment
from tests.realclaude.model import ScriptedModel


@pytest.fixture(scope="session")
def model() -> Iterator[ScriptedModel]:
    """The model that the real claude talks to."""
    with ScriptedModel() as running:
        yield running


@pytest.fixture(scope="session")
def signal_server() -> Iterator[SignalServer]:
    """A real `subagent_control`."""
    with SignalServer() as running:
        yield running


@pytest.fixture(params=["standin", pytest.param("real", marks=pytest.mark.real)])
def claude(request: pytest.FixtureRequest, tmp_path: Path, model: ScriptedModel, signal_server: SignalServer) -> Claude:
    """One of the two claudes. The real one is skipped where `REALCLAUDE_DIR` is not set."""
    project = tmp_path / "project"
    project.mkdir()
    if request.param == "real":
        if DIRECTORY_VARIABLE not in os.environ:
            pytest.skip(f"{DIRECTORY_VARIABLE} is not set: `tox -e e2e` installs the real claude and sets it")
        binary = claude_from_environment()
    else:
        binary = Path(write_wrapper(tmp_path / "claude"))
    return Claude(
        kind=request.param,
        binary=binary,
        home=tmp_path / "home",
        project=project,
        control_url=signal_server.url,
        model=model if request.param == "real" else None,
    )
