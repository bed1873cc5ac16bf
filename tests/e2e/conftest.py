"""The model, the real claude and a daemon that runs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realclaude.install import claude_from_environment
from tests.realclaude.model import ScriptedModel
from tests.realclaude.sandbox import claude_environment
from tests.support.agent import Agent
from tests.support.daemon import Daemon


@pytest.fixture(scope="session")
def claude() -> Path:
    return claude_from_environment()


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as model:
        yield model


@pytest.fixture
def sandbox(tmp_path: Path, model: ScriptedModel) -> dict[str, str]:
    """The environment of the daemon, and so of every claude below it."""
    return claude_environment(tmp_path / "home", model.url, CLAUDE_CODE_MAX_RETRIES="1")


@pytest.fixture
def daemon(tmp_path: Path, claude: Path, sandbox: dict[str, str]) -> Iterator[Daemon]:
    with Daemon(tmp_path, claude=claude, environ=sandbox) as daemon:
        yield daemon


@pytest.fixture
def agent(daemon: Daemon) -> Agent:
    from twisted.internet import reactor

    return Agent(f"{daemon.url}/mcp", reactor)
