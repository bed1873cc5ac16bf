"""The command `hivesub` as a person runs it, against a whole daemon on the stand-in; and the demo, whole."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from hivesub.cli.main import main
from hivesub.standin import write_wrapper
from tests.support.daemon import Daemon

BOUND_S = 60


def environ(daemon: Daemon | None = None) -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("HIVESUB_")}
    given |= {"COLUMNS": "200", "TERM": "dumb"}
    if daemon is not None:
        given |= {"HIVESUB_URL": daemon.url, "HIVESUB_AUTH_TOKEN_FILE": str(daemon.root / "token")}
    return given


def hivesub(daemon: Daemon, *argv: str, stdin: str = "", **changes: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr. In this process, as loading the SDK's client takes seconds on a busy machine; in a
    thread, as the command has a loop of its own.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {**environ(daemon), **changes}, clear=True),
        mock.patch("sys.stdin", io.StringIO(stdin)),
        redirect_stdout(out),
        redirect_stderr(err),
        ThreadPoolExecutor(1) as thread,
    ):
        code = thread.submit(main, argv).result(BOUND_S)
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return code, out.getvalue(), err.getvalue()


def answered(daemon: Daemon, *argv: str, stdin: str = "") -> Any:
    code, out, err = hivesub(daemon, *argv, "--json", stdin=stdin)
    assert code == 0, err
    return json.loads(out)


def test_a_run_is_started_watched_continued_and_told(daemon: Daemon) -> None:
    code, out, err = hivesub(
        daemon, "start", "asks", "-", "--goal", "g", "--max-turns", "2", "--watch", stdin="!standin need_help which?"
    )
    assert (code, err) == (10, "")
    assert "asks: blocked. Turn 1 of 2. is blocked and asks for help: “which?”" in out
    code, out, err = hivesub(daemon, "continue", "asks", "!standin goal_reached done", "--watch")
    assert (code, err) == (0, "")
    assert "reports its goal reached (self-reported, not verified)" in out
    record = answered(daemon, "status", "asks")["subagents"][0]
    assert (record["state"], record["signals"][0]["message"]) == ("idle", "done")
    code, out, _ = hivesub(daemon, "status")
    assert code == 0
    assert re.search(r"^asks +idle ", out, re.MULTILINE)


def test_interrupt_stops_a_run_and_says_how_it_stands(daemon: Daemon) -> None:
    answered(daemon, "start", "hangs", "!standin hang")
    answer = answered(daemon, "interrupt", "hangs")
    assert answer["subagent"]["state"] == "killed"
    assert hivesub(daemon, "status", "hangs", "--watch")[0] == 12
    code, out, err = hivesub(daemon, "interrupt", "hangs")
    assert (code, out) == (1, "")
    assert err.startswith("hivesub: interrupt error: hangs is not running: it is killed")


def test_what_the_daemon_refuses_exits_with_1_and_its_reason(daemon: Daemon) -> None:
    code, out, err = hivesub(daemon, "start", "../x", "p")
    assert (code, out) == (1, "")
    assert err.startswith("hivesub: start error: name: must be ")
    code, _, err = hivesub(daemon, "continue", "nobody", "p")
    assert code == 1
    assert "continue error: claude error: " in err


def test_a_failed_run_and_one_at_its_cap_have_exit_codes_of_their_own(daemon: Daemon) -> None:
    assert hivesub(daemon, "start", "fails", "!standin api-error no", "-w")[0] == 13
    assert hivesub(daemon, "start", "caps", "p", "--goal", "g", "--max-turns", "1", "-w")[0] == 11


def test_a_wrong_or_missing_token_exits_with_3_and_says_so(daemon: Daemon, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    for path in (str(wrong), ""):
        code, _, err = hivesub(daemon, "status", HIVESUB_AUTH_TOKEN_FILE=path)
        assert code == 3
        assert "asks for its token" in err
        assert "guess" not in err


def test_where_no_daemon_is_it_exits_with_3_and_says_what_would_work(daemon: Daemon) -> None:
    code, out, err = hivesub(daemon, "status", HIVESUB_URL="http://127.0.0.1:1")
    assert (code, out) == (3, "")
    assert "twistd -n --pidfile= hivesub" in err


def test_ctrl_c_ends_the_watching_and_not_the_run(daemon: Daemon) -> None:
    answered(daemon, "start", "goes-on", "!standin hang")
    with subprocess.Popen(
        [sys.executable, "-m", "hivesub.cli.main", "status", "goes-on", "--watch"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environ(daemon), "PYTHONUNBUFFERED": "1"},
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("goes-on: running")
        watching.send_signal(signal.SIGINT)
        try:
            _, err = watching.communicate(timeout=BOUND_S)
        finally:
            watching.kill()
    assert (watching.returncode, err) == (130, "")
    assert answered(daemon, "status", "goes-on")["subagents"][0]["state"] == "running"
    answered(daemon, "interrupt", "goes-on")


def test_a_daemon_that_goes_away_while_watched_is_told_in_a_line(daemon: Daemon, tmp_path: Path) -> None:
    with Daemon(tmp_path, claude=write_wrapper(tmp_path / "claude", sandboxed=True)) as other:
        given = {**environ(), "HIVESUB_URL": other.url, "PYTHONUNBUFFERED": "1"}
        hivesub(other, "start", "hangs", "!standin hang", HIVESUB_AUTH_TOKEN_FILE="")
        with subprocess.Popen(
            [sys.executable, "-m", "hivesub.cli.main", "status", "--watch"],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=given,
        ) as watching:
            assert watching.stdout is not None
            assert watching.stdout.readline().startswith("hangs: running")
            other.stop()
            _, err = watching.communicate(timeout=BOUND_S)
    assert watching.returncode == 3
    assert err.startswith("hivesub: the daemon at ")
    assert err.count("\n") == 1


def test_the_demo_plays_to_its_end_by_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hivesub.cli.main", "demo"],
        text=True,
        capture_output=True,
        env={**environ(), "TMPDIR": str(tmp_path), "HOME": str(tmp_path)},
        timeout=BOUND_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for words in (
        "write-tests: running. Turn 3 of 5.",
        "asks for help: “May charge stay",
        "agent  continue rename-api",
        "agent  interrupt fix-build",
        "one for each run that ended (4)",
        "subagent fix-build was killed mid-turn, not finished",
    ):
        assert words in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
