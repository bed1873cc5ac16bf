"""One daemon a file for what needs no other, and the faults' table at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.world import Table, World, living, world

_TABLE = Table()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("daemon")) as shared:
        yield shared


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A subagent's name that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-60:].strip("-")


@pytest.fixture
def own(shared: World, tmp_path: Path) -> Iterator[World]:
    """The file's daemon, for a test that may stop or kill it: the next test finds it up."""
    yield World(shared.daemon, tmp_path)
    if not living(shared.daemon.pid):
        shared.daemon.stop()
        shared.daemon.start()


@pytest.fixture(scope="session")
def table() -> Table:
    return _TABLE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _TABLE.rows:
        return
    terminalreporter.section("faults injected")
    terminalreporter.line("| fault | times | outcomes lost | left behind | status said |")
    terminalreporter.line("|---|---|---|---|---|")
    for row in _TABLE.rows:
        terminalreporter.line(f"| {row.fault} | {row.times} | {row.lost} | {row.left} | {row.said} |")
