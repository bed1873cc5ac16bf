"""The shipped units, as systemd's own checker reads them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hivesub.cli.units import text_of, unit_for
from tests.support.debian import need

UNITS = Path(__file__).parents[2] / "deploy"
SERVICES = ("hivesub.service", "hivesub@.service")
EXPOSURE_TENTHS = 17
"""The most that `systemd-analyze security` may say, of 100: what is left is what claude needs."""
BOUND_S = 60


@pytest.fixture(scope="session")
def analyze() -> str:
    return need("systemd-analyze", "systemd")  # it need not run


def checked(*argv: str, **environ: str) -> str:
    """What a command wrote, stderr with it; it has to succeed."""
    done = subprocess.run(
        argv,
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.parametrize("unit", [*SERVICES, "hivesub.socket"])
def test_systemd_finds_nothing_wrong_in_a_unit(analyze: str, unit: str, tmp_path: Path) -> None:
    for name in (*SERVICES, "hivesub.socket"):
        # The checker looks for the program: let it be one that is here.
        text = (UNITS / name).read_text().replace("/opt/hivesub/bin/twistd", sys.executable)
        (tmp_path / name).write_text(text)
    # Warnings, such as of a misspelt line, do not change the status: nothing at all may be said.
    assert checked(analyze, "verify", "--man=no", str(tmp_path / unit)) == ""


@pytest.mark.parametrize("name", [None, "alpha"])
def test_systemd_finds_nothing_wrong_in_a_users_unit_as_it_is_installed(
    analyze: str, name: str | None, tmp_path: Path
) -> None:
    unit = unit_for(name, {"XDG_CONFIG_HOME": str(tmp_path)})
    # A path that systemd must not read anything into.
    written = tmp_path / "100% $HOME" / unit.file.name
    written.parent.mkdir()
    written.write_text(text_of(unit, os.environ))
    assert checked(analyze, "verify", "--user", "--man=no", str(written), XDG_RUNTIME_DIR=str(tmp_path)) == ""


def test_a_users_two_units_differ_only_in_what_is_each_ones_own() -> None:
    def directives(name: str) -> set[str]:
        lines = (UNITS / "user" / name).read_text().splitlines()
        return {line for line in lines if line and not line.startswith("#")}

    one, many = directives("hivesub.service"), directives("hivesub@.service")
    assert {line.partition("=")[0] for line in one ^ many} == {
        "Description",
        "EnvironmentFile",
        "Environment",
        "RuntimeDirectory",
    }


@pytest.mark.parametrize("unit", SERVICES)
def test_the_sandbox_keeps_its_score(analyze: str, unit: str) -> None:
    said = checked(
        analyze, "security", "--offline=yes", f"--threshold={EXPOSURE_TENTHS}", "--no-pager", str(UNITS / unit)
    )
    score = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert score is not None, said
    print(f"{unit}: exposure {score[1]}")
    assert float(score[1]) * 10 <= EXPOSURE_TENTHS


def test_the_two_services_differ_only_in_what_is_each_agents_own() -> None:
    def directives(name: str) -> list[str]:
        lines = (UNITS / name).read_text().splitlines()
        return [line for line in lines if line and not line.startswith("#")]

    one, many = directives("hivesub.service"), directives("hivesub@.service")
    assert len(one) == len(many)
    assert {new.partition("=")[0] for old, new in zip(one, many, strict=True) if old != new} == {
        "Description",
        "LoadCredential",
        "EnvironmentFile",
        "RuntimeDirectory",
        "StateDirectory",
        "Environment",
        "WorkingDirectory",
        "ReadWritePaths",
    }


def test_every_variable_in_the_example_environments_is_one_that_is_read() -> None:
    from hivesub.config.options import OPTIONS, variable_of

    read = {variable_of(option) for option, _ in OPTIONS} | {"HIVE_TOOL_GROUPS", "ANTHROPIC_API_KEY"}
    for example in UNITS.glob("*.env.example"):
        named = set(re.findall(r"^#?([A-Z_]+)=", example.read_text(), re.MULTILINE))
        assert named, example
        assert named <= read, example
