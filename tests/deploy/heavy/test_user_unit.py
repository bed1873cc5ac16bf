"""A user's own unit under a real user manager, in a container: installed, used, upgraded, stopped, removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.heavy.container import CLAUDE, python_inside, run_inside
from tests.deploy.heavy.inside_user import HOME, USER

# As systemd's own, but for PAM and logind, which the container has not.
MANAGER = """\
[Service]
User=%i
Type=notify
Environment=HOME=/home/dev XDG_RUNTIME_DIR=/run/user/%i LD_LIBRARY_PATH={python}/lib
ExecStart=/lib/systemd/systemd --user
KillMode=mixed
Delegate=pids memory cpu
TasksMax=infinity
TimeoutStopSec=30
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = python_inside()
    files = {
        "etc/passwd": f"root:x:0:0::/root:/bin/sh\ndev:x:{USER}:{USER}::{HOME}:/bin/sh\n",
        "etc/group": f"root:x:0:\ndev:x:{USER}:\n",
        "etc/systemd/system/user@.service": MANAGER.format(python=python),
        "opt/hivesub/bin/claude": CLAUDE.format(python=python),
    }
    root: Path = tmp_path_factory.mktemp("container") / "root"
    return run_inside(root, files, "tests.deploy.heavy.inside_user")


def test_nothing_went_wrong_on_the_way(found: dict[str, Any]) -> None:
    assert found["trouble"] == []


def test_one_command_installs_enables_and_starts_it(found: dict[str, Any]) -> None:
    assert found["install"]["code"] == 0, found["install"]
    assert f"ExecStart={HOME}/venvs/first/bin/hivesub serve" in found["install"]["out"]
    assert (found["installed"]["ActiveState"], found["installed"]["UnitFileState"]) == ("active", "enabled")
    assert found["installed"]["StatusText"].startswith("0 of 16 runs going on")


def test_a_subagent_works_as_the_user_in_the_shells_directory(found: dict[str, Any]) -> None:
    record = json.loads(found["alpha"]["out"].splitlines()[-1])
    assert (found["alpha"]["code"], record["stop_reason"]["kind"]) == (14, "goal_reached")
    assert record["dir"] == f"{HOME}/app"
    assert {name: owner for name, (owner, _) in found["written"].items()} == {
        "ok": USER,
        "report.md": USER,
        "said": USER,
    }
    assert found["written"]["said"][1] == "NoNewPrivs:\t1\n"
    assert found["group"].endswith(f"/user@{USER}.service/app.slice/hivesub.service")


def test_the_kill_of_a_subagent_leaves_the_daemon_and_the_kill_of_the_daemon_brings_it_back(
    found: dict[str, Any],
) -> None:
    assert found["beta"]["code"] == 12
    assert found["after the kill"]["MainPID"] == found["busy"]["MainPID"] == found["installed"]["MainPID"]
    assert found["after a crash"]["ActiveState"] == "active"
    assert found["after a crash"]["MainPID"] != found["installed"]["MainPID"]


def test_the_doctor_finds_all_in_order(found: dict[str, Any]) -> None:
    assert found["doctor"]["code"] == 0, found["doctor"]["out"]


def test_installed_again_from_a_newer_place_it_runs_that_and_knows_its_sessions(found: dict[str, Any]) -> None:
    assert found["again"]["code"] == 0, found["again"]
    assert found["upgraded"]["ActiveState"] == "active"
    assert found["upgraded"]["MainPID"] != found["upgraded"]["before"]
    assert f"{HOME}/venvs/second/bin/twistd -n --pidfile= hivesub" in found["runs"]
    assert (found["continued"]["code"], found["continued"]["out"]) == (0, "on\n")


def test_a_named_one_has_port_and_directory_of_its_own_and_goes_by_itself(found: dict[str, Any]) -> None:
    assert found["two"]["StatusText"].endswith("http://127.0.0.1:8790")
    assert json.loads(found["start of two"]["out"])["subagent"]["dir"] == f"{HOME}/app"
    assert found["two uninstalled"]["code"] == 0
    assert (found["two after"]["ActiveState"], found["one beside"]["ActiveState"]) == ("inactive", "active")


def test_uninstalled_it_has_stopped_cleanly_and_left_no_process_and_no_unit(found: dict[str, Any]) -> None:
    assert found["uninstall"]["code"] == 0, found["uninstall"]
    assert (found["uninstalled"]["ActiveState"], found["uninstalled"]["ExecMainStatus"]) == ("inactive", "0")
    assert found["left"] == ""
    assert found["files"] == [".config/hivesub/token", ".config/hivesub/two.env"]
    names = [json.loads(line)["subagent"]["name"] for line in found["todos"].splitlines()]
    assert names == ["alpha", "beta", "alpha", "gamma"]
