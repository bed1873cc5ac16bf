"""Runs the conformance suite's server scenarios at one protocol version and reads what each of its checks found."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.support.npmsets import find_node, installed, node_path

PACKAGE = "@modelcontextprotocol/conformance"
RUN_S = 120
_TIME = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
"""What the suite appends to the name of a scenario's directory."""
APPLICABLE = Path(__file__).with_name("applicable.json")


@frozen
class Check:
    """One check of one scenario. `status`: SUCCESS, FAILURE, WARNING, INFO or SKIPPED."""

    scenario: str
    id: str
    status: str
    message: str

    @property
    def place(self) -> str:
        return f"{self.scenario}: {self.id}"

    def __str__(self) -> str:
        return f"{self.place}: {self.status}: {self.message}"


@frozen
class Excuse:
    """Why some checks cannot pass. `at`: each as `scenario: check`; `source`: where that can be read."""

    at: frozenset[str]
    reason: str
    source: str


@frozen
class Findings:
    """What a run found: the checks that passed, failed without an excuse and with one, and the excuses of no use."""

    scenarios: int
    passed: list[Check]
    failed: list[Check]
    excused: list[Check]
    stale: list[str]


def run(url: str, version: str, output: Path) -> list[Check]:
    """Every check of every scenario that the suite has for this version; bounded to `RUN_S` seconds.

    The suite's own verdict is not asked for: it knows scenarios only, not checks.
    """
    command = [str(installed("conformance") / "node_modules" / PACKAGE / "dist" / "index.js"), "server", "--url", url]
    options = ["--suite", "all", "--spec-version", version, "-o", str(output)]
    environ = {"PATH": node_path(), "HOME": str(output)}
    output.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [str(find_node()), *command, *options], env=environ, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    found = [_read(file) for file in sorted(output.glob("server-*/checks.json"))]
    assert found, f"the suite wrote nothing, exit {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return [check for checks in found for check in checks]


def _read(file: Path) -> list[Check]:
    scenario = _TIME.sub("", file.parent.name.removeprefix("server-"))
    checks: list[Mapping[str, Any]] = json.loads(file.read_text())
    return [
        Check(scenario, check["id"], check["status"], str(check.get("errorMessage") or check.get("description") or ""))
        for check in checks
    ]


def excuses(version: str) -> list[Excuse]:
    """What the daemon cannot pass at this version, by `applicable.json`."""
    told = json.loads(APPLICABLE.read_text())
    return [Excuse(frozenset(entry["at"]), entry["reason"], entry["source"]) for entry in told[version]]


def judge(checks: list[Check], excused_by: list[Excuse] | None = None) -> Findings:
    """Sort the checks. An excuse for a check that did not fail is stale, so that the list can only shrink."""
    allowed = frozenset().union(*(excuse.at for excuse in excused_by or ()))
    bad = [check for check in checks if check.status in ("FAILURE", "WARNING")]
    return Findings(
        scenarios=len({check.scenario for check in checks}),
        passed=[check for check in checks if check.status == "SUCCESS"],
        failed=[check for check in bad if check.place not in allowed],
        excused=[check for check in bad if check.place in allowed],
        stale=sorted(allowed - {check.place for check in bad}),
    )
