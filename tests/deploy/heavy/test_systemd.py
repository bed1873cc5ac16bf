"""The shipped units under a real systemd, in a container: started, used, stopped, in the sandbox that they set up."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.heavy.container import CLAUDE, ROOT, USER, python_inside, run_inside
from tests.deploy.heavy.inside import TOKEN

UNITS = ("hivesub.service", "hivesub@.service", "hivesub.socket")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = python_inside()
    root = tmp_path_factory.mktemp("container") / "root"
    hashed = f"sha256:{sha256(TOKEN.encode()).hexdigest()}\n"
    options = "HIVESUB_PORT={port}\nHIVESUB_DIR={dir}\nHIVESUB_CLAUDE=/opt/hivesub/bin/claude\n"
    files = {f"etc/systemd/system/{unit}": (ROOT / "deploy" / unit).read_text() for unit in UNITS}
    files |= {f"etc/hivesub/{name}": hashed for name in ("token", "one.token", "two.token")}
    files |= {
        "opt/hivesub/bin/claude": CLAUDE.format(python=python),
        "etc/hivesub/hivesub.env": options.format(port=8787, dir="/srv/work"),
        "etc/hivesub/one.env": options.format(port=8791, dir="/srv/one"),
        "etc/hivesub/two.env": options.format(port=8792, dir="/srv/two"),
    }
    for name in ("work", "one", "two"):
        (root / "srv" / name).mkdir(parents=True)
        _give_away(root / "srv" / name)
    return run_inside(root, files)


def _give_away(path: Path) -> None:
    import os

    os.chown(path, USER, USER)


def test_nothing_went_wrong_on_the_way(found: dict[str, Any]) -> None:
    assert found["trouble"] == []


def test_systemd_takes_it_for_started_once_it_says_so_and_shows_its_status(found: dict[str, Any]) -> None:
    assert (found["started"]["ActiveState"], found["started"]["SubState"]) == ("active", "running")
    assert found["started"]["StatusText"].startswith("0 of 16 runs going on")
    assert found["busy"]["StatusText"].startswith("1 of 16 runs going on")


def test_a_subagent_works_in_the_sandbox_and_can_write_in_its_directory_alone(found: dict[str, Any]) -> None:
    assert found["alpha"]["stop_reason"]["kind"] == "goal_reached", found["alpha"]
    assert found["alpha"]["report_error"] is None
    assert found["ok"]
    said = found["said"]
    assert said.splitlines()[0] == "hivesub"
    assert "'/etc/x': Read-only file system" in said
    assert "'/home/x': Permission denied" in said
    assert "/root" in said and "Permission denied" in said
    assert "Seccomp:\t2" in said


def test_the_kill_of_one_subagent_is_told_and_the_daemon_goes_on(found: dict[str, Any]) -> None:
    assert (found["beta"]["state"], found["beta"]["last_turn"]["signal"]) == ("killed", "SIGKILL")
    assert found["after the kill"]["MainPID"] == found["started"]["MainPID"]


def test_a_stop_is_clean_and_leaves_nothing_not_even_what_hides_from_the_daemon(found: dict[str, Any]) -> None:
    assert found["stopped"]["ActiveState"] == "inactive"
    assert (found["stopped"]["Result"], found["stopped"]["ExecMainStatus"]) == ("success", "0")
    assert found["left"] == ""
    names = [json.loads(line)["subagent"]["name"] for line in found["todos"].splitlines()]
    assert names == ["alpha", "beta", "gamma"]


def test_a_group_that_shares_the_directory_can_read_what_a_subagent_wrote_and_its_todo(found: dict[str, Any]) -> None:
    assert found["sharing"]["report_error"] is None
    report, written, todo = found["shared"]["member"]
    assert report.startswith("## subagent sharing, ")
    assert written == "x"
    assert json.loads(todo)["subagent"]["name"] == "sharing"
    assert found["shared"]["stranger"] == ["", "", ""]


def test_two_instances_know_nothing_of_each_other(found: dict[str, Any]) -> None:
    assert found["one"]["ActiveState"] == found["two"]["ActiveState"] == "active"
    assert found["alpha of one"]["last_turn"]["outcome"] == "finished"
    assert "no subagent is named 'alpha'" in found["alpha of two"]
    assert found["two, without one"]["ActiveState"] == "active"


def test_the_first_call_to_the_socket_starts_the_daemon_and_is_answered(found: dict[str, Any]) -> None:
    assert found["before the call"] == "inactive"
    assert found["the call"]["subagents"] == []
    assert found["after the call"] == "active"


def test_systemd_run_as_launcher_gives_a_subagent_a_scope_with_its_bound(found: dict[str, Any]) -> None:
    scope = found["scope"]
    assert scope["pid"] == scope["pid seen"]
    assert scope["group"].endswith(".scope")
    assert scope["tasks max"] == "TasksMax=77"
    assert scope["interrupted"]["state"] == "killed"
    assert scope["left"] == ""
