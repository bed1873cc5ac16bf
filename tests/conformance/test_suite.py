"""The official conformance suite, every server scenario that it has for a protocol version."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.suite import PACKAGE, excuses, judge, run
from tests.support.daemon import Daemon
from tests.support.npmsets import version
from tests.support.table import TABLE

both_versions = pytest.mark.parametrize("protocol", ["2025-11-25", "2026-07-28"])
FEWEST = {"daemon": {"2025-11-25": 35, "2026-07-28": 80}, "everything": {"2025-11-25": 84, "2026-07-28": 152}}
"""Checks that passed when the suite was pinned: a run that skips most of it has not passed."""


@both_versions
def test_the_daemon_passes_every_check_that_applies_to_a_server_of_tools(
    daemon: Daemon, protocol: str, tmp_path: Path
) -> None:
    found = judge(run(f"{daemon.url}/mcp", protocol, tmp_path / "found"), excuses(protocol))
    assert [str(check) for check in found.failed] == []
    assert found.stale == []
    assert len(found.passed) >= FEWEST["daemon"][protocol]
    _tell("the daemon", protocol, found.scenarios, len(found.passed), len(found.excused))


@both_versions
def test_a_server_with_every_feature_on_the_same_mount_passes_every_check(
    everything: str, protocol: str, tmp_path: Path
) -> None:
    found = judge(run(everything, protocol, tmp_path / "found"))
    assert [str(check) for check in found.failed] == []
    assert len(found.passed) >= FEWEST["everything"][protocol]
    _tell("every feature, same mount", protocol, found.scenarios, len(found.passed), 0)


def _tell(server: str, protocol: str, scenarios: int, passed: int, excused: int) -> None:
    TABLE.words["suite"] = f"{PACKAGE} {version('conformance', PACKAGE)}"
    TABLE.add("suite", server, protocol, str(scenarios), str(passed), "0", str(excused))
