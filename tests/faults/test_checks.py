"""Checks: what a command of the operator's may do, and that each of its ends is told for what it is."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.world import Table, World, living, stopped, until, world

CLAIMS = ["goal_reached all green", "turn 2: goal_reached now it is", "turn 3: goal_reached at last"]


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[World]:
    """A daemon with the checks that these tests hold goals against."""
    work = tmp_path / "own" / "work"
    checks: dict[str, Any] = {
        # Passes once it has run twice.
        "second": {
            "argv": ["sh", "-c", "echo tried >> tries; test $(wc -l < tries) -ge 2 || { echo 1 failed; exit 3; }"]
        },
        "secret": {"argv": ["sh", "-c", "env; exit 1"]},
        "hangs": {"argv": ["sh", "-c", "echo $$ > pid; exec tail -f /dev/null"], "timeout_s": 1},
        "slow": {"argv": ["sh", "-c", "echo $$ > pid; exec tail -f /dev/null"]},
        "forks": {"argv": ["sh", "-c", "setsid tail -f /dev/null & echo $! > pid; exit 0"]},
        "floods": {"argv": ["sh", "-c", "head -c 1000000000 /dev/zero | tr '\\0' x; echo; echo the end; exit 1"]},
        "dies": {"argv": ["sh", "-c", "kill -KILL $$"]},
        "missing": {"argv": [str(work / "no-such-program")]},
        "not-found": {"argv": ["sh", "-c", "no-such-command"]},
    }
    file = tmp_path / "checks.json"
    file.write_text(json.dumps(checks))
    with world(tmp_path / "own", options=["--checks", str(file)], environ={"API_TOKEN": "of-the-daemon-alone"}) as own:
        yield own


async def test_a_claim_that_fails_its_check_goes_on_and_one_that_passes_is_observed(checked: World) -> None:
    report = checked.dir / "r.md"
    record = await checked.run(
        "alpha", "text working", *CLAIMS, goal="g", max_turns=3, check="second", report_file=str(report)
    )
    assert (record["state"], record["turn"], record["stop_reason"]["kind"]) == ("idle", 2, "check_passed")
    assert record["check"] | {"ended_at": ""} == {
        "name": "second", "exit_code": 0, "outcome": "passed", "detail": "", "tail": "", "ended_at": "",
    }  # fmt: skip
    todo = await checked.todo("alpha")
    assert todo["title"] == "subagent alpha reached its goal, as its check shows"
    for text in (todo["body"], report.read_text(), checked.agent.texts[-1]):
        assert "heck `second` passed, exit 0" in text
    assert "self-reported, not verified" in todo["body"]
    await checked.nothing_left()


async def test_the_variables_that_are_named_like_secrets_are_not_a_checks(checked: World) -> None:
    record = await checked.run("alpha", "goal_reached done", goal="g", max_turns=1, check="secret")
    assert record["check"]["outcome"] == "failed"
    assert "HIVESUB_TURN=" in record["check"]["tail"]
    assert "of-the-daemon-alone" not in json.dumps(record)
    assert "API_TOKEN" not in record["check"]["tail"]


@pytest.mark.parametrize(
    ("check", "outcome", "kind"),
    [
        ("hangs", "timed_out", "goal_reached"),
        ("forks", "passed", "check_passed"),
        ("floods", "failed", "turn_cap"),
        ("dies", "killed", "goal_reached"),
        ("missing", "not_run", "goal_reached"),
        ("not-found", "not_run", "goal_reached"),
    ],
)
async def test_whatever_a_check_does_its_end_is_told_and_nothing_is_left(
    checked: World, table: Table, check: str, outcome: str, kind: str
) -> None:
    before = await checked.at_rest()
    record = await checked.run("alpha", "goal_reached done", goal="g", max_turns=1, check=check)
    assert (record["check"]["outcome"], record["stop_reason"]["kind"], record["state"]) == (outcome, kind, "idle")
    assert len(record["check"]["tail"]) <= 4000
    if check == "floods":
        assert record["check"]["tail"].endswith("the end\n")
    if (pid := checked.dir / "pid").exists():
        assert not living(int(pid.read_text()))
    await checked.nothing_left(before)
    table.note(f"check: {check}", 1, said=[outcome])


async def test_an_interrupt_in_the_middle_ends_the_check_with_all_it_started(checked: World, table: Table) -> None:
    await checked.start("alpha", "goal_reached done", goal="g", check="slow")
    pid = int(await until(lambda: (checked.dir / "pid").exists() and (checked.dir / "pid").read_text().strip()))
    record = await checked.agent.record("alpha")
    assert (record["state"], record["checking"]["name"]) == ("running", "slow")
    assert "Checking `slow`, " in checked.agent.texts[-1]
    answer = await checked.agent.call("interrupt", name="alpha")
    assert answer["subagent"]["state"] == "killed"
    assert "while its check `slow` was running" in answer["subagent"]["stop_reason"]["message"]
    assert not living(pid)
    await checked.nothing_left()
    table.note("check: interrupt in the middle", 1, said=["killed"])


async def test_a_stop_of_the_daemon_in_the_middle_is_told(checked: World, table: Table) -> None:
    await checked.start("alpha", "goal_reached done", goal="g", check="slow")
    pid = int(await until(lambda: (checked.dir / "pid").exists() and (checked.dir / "pid").read_text().strip()))
    assert await stopped(checked.daemon) == 0
    assert not living(pid)
    (todo,) = checked.todos("alpha")
    assert todo["subagent"]["state"] == "killed"
    table.note("check: stop of the daemon", 1, said=["killed"])


async def test_a_kill_of_the_daemon_in_the_middle_takes_the_check_with_it(checked: World, table: Table) -> None:
    await checked.start("alpha", "goal_reached done", goal="g", check="slow")
    pid = int(await until(lambda: (checked.dir / "pid").exists() and (checked.dir / "pid").read_text().strip()))
    os.kill(checked.daemon.pid, signal.SIGKILL)
    await until(lambda: not living(pid), "the end of the check")
    table.note("check: SIGKILL of the daemon", 1, said=["unknown"])


async def test_a_launcher_that_is_gone_is_no_failing_check(tmp_path: Path) -> None:
    file, launcher = tmp_path / "checks.json", tmp_path / "launcher"
    file.write_text('{"tests": {"argv": ["true"]}}')
    launcher.write_text('#!/bin/sh\nexec "$@"\n')
    launcher.chmod(0o755)
    with world(tmp_path / "own", options=["--checks", str(file), "--launcher", str(launcher)]) as own:
        begun, ready = own.dir / "begun", own.dir / "ready"
        steps = (f"write {begun} x", f"wait_for {ready}", "goal_reached done")
        await own.start("alpha", *steps, goal="g", check="tests")
        await until(begun.exists)  # through the launcher
        launcher.unlink()
        ready.touch()
        record = await own.agent.ended("alpha")
        assert (record["check"]["outcome"], record["stop_reason"]["kind"]) == ("not_run", "goal_reached")
        await own.nothing_left()


async def test_a_check_that_is_none_is_refused_with_those_that_are(checked: World) -> None:
    from tests.support.agent import ToolError

    for arguments, words in (
        ({"check": "deploy", "goal": "g"}, "is none of the operator's checks; they are second, secret"),
        ({"check": "slow"}, "needs `goal`"),
    ):
        with pytest.raises(ToolError, match=words):
            await checked.start("alpha", "text hello", **arguments)
