"""The command `hivesub` as a person runs it, against a whole daemon on the stand-in; and the demo, whole."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from hivesub.standin import write_wrapper
from tests.support.cli import BOUND_S, answered, environ, hivesub
from tests.support.daemon import Daemon


def test_a_run_is_started_watched_continued_and_told(daemon: Daemon) -> None:
    code, out, err = hivesub(
        daemon, "start", "asks", "-", "--goal", "g", "--max-turns", "2", "--watch", stdin="!standin need_help which?"
    )
    assert (code, err) == (10, "")
    assert "asks: blocked. Turn 1 of 2. is blocked and asks for help: “which?”" in out
    code, out, err = hivesub(daemon, "continue", "asks", "!standin goal_reached done", "--watch")
    assert (code, err) == (14, "")
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
    code, _, err = hivesub(daemon, "start", "unchecked", "p", "--goal", "g", "--check", "tests")
    assert (code, "check" in err) == (1, True)
    code, _, err = hivesub(daemon, "continue", "nobody", "p")
    assert code == 1
    assert "continue error: claude error: " in err


def test_a_failed_run_and_one_at_its_cap_have_exit_codes_of_their_own(daemon: Daemon) -> None:
    assert hivesub(daemon, "start", "fails", "!standin api-error no", "-w")[0] == 13
    assert hivesub(daemon, "start", "caps", "p", "--goal", "g", "--max-turns", "1", "-w")[0] == 11


def test_a_wrong_or_missing_token_exits_with_3_and_says_so(daemon: Daemon, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("guess")
    for path, words in ((str(wrong), "asks for another token"), ("", "asks for its token")):
        code, _, err = hivesub(daemon, "status", HIVESUB_AUTH_TOKEN_FILE=path)
        assert code == 3
        assert words in err
        assert "guess" not in err


def test_where_no_daemon_is_it_exits_with_3_and_says_what_would_work(daemon: Daemon) -> None:
    code, out, err = hivesub(daemon, "status", HIVESUB_URL="http://127.0.0.1:1")
    assert (code, out) == (3, "")
    assert "`hivesub serve`" in err


def test_watching_a_start_ends_with_the_last_thing_that_it_said(daemon: Daemon) -> None:
    code, out, err = hivesub(daemon, "start", "says", "--watch", "!standin text the answer is 42")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("says: running")
    assert lines[-1] == "the answer is 42"


def test_asked_for_the_result_alone_a_start_prints_that_and_nothing_else(daemon: Daemon) -> None:
    assert hivesub(daemon, "start", "says-it", "!standin text the answer is 42", "--result") == (
        0,
        "the answer is 42\n",
        "",
    )
    code, _, err = hivesub(daemon, "continue", "says-it", "!standin api-error no", "--result")
    assert code == 13
    assert err.startswith("hivesub: says-it: failed. ")
    answer = json.loads(hivesub(daemon, "start", "says-json", "!standin text 42", "--result", "--json")[1])
    assert answer["subagent"]["result"] == "42"


def test_a_watched_status_shows_the_result_where_it_is_asked_for(daemon: Daemon) -> None:
    hivesub(daemon, "start", "looked-at", "!standin text the answer is 42", "--result")
    assert hivesub(daemon, "status", "looked-at", "-w")[1].splitlines()[1:] == []
    assert hivesub(daemon, "status", "looked-at", "-w", "--result")[1].splitlines()[1:] == ["the answer is 42"]
    assert "the answer is 42" in hivesub(daemon, "status", "--result")[1]


def test_a_subagent_works_in_the_shells_directory_unless_another_is_named(daemon: Daemon, tmp_path: Path) -> None:
    before = os.getcwd()
    try:
        os.chdir(tmp_path)
        assert answered(daemon, "start", "here", "p")["subagent"]["dir"] == str(tmp_path)
        (tmp_path / "below").mkdir()
        assert answered(daemon, "start", "below", "p", "--dir", "below")["subagent"]["dir"] == str(tmp_path / "below")
        assert answered(daemon, "start", "theirs", "p", "--dir", "")["subagent"]["dir"] == str(daemon.work)
        (tmp_path / "gone").mkdir()
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        assert answered(daemon, "start", "nowhere", "p")["subagent"]["dir"] == str(daemon.work)
    finally:
        os.chdir(before)


def test_waiting_for_several_ends_with_the_last_of_them_and_the_worst_code(daemon: Daemon) -> None:
    answered(daemon, "start", "fine", "!standin sleep 0.3\n!standin text fine")
    answered(daemon, "start", "broken", "!standin api-error no")
    code, out, err = hivesub(daemon, "wait", "fine", "broken", "fine", "--result")
    assert (code, err) == (13, "")
    assert len(re.findall(r"^fine: idle", out, re.MULTILINE)) == 1
    assert re.search(r"^broken: failed", out, re.MULTILINE)
    records = [json.loads(each) for each in hivesub(daemon, "wait", "fine", "broken", "--json")[1].splitlines()]
    assert {record["name"] for record in records} == {"fine", "broken"}


def test_waiting_for_any_ends_with_the_first_and_a_timeout_has_a_code_of_its_own(daemon: Daemon) -> None:
    answered(daemon, "start", "stays", "!standin hang")
    answered(daemon, "start", "ends", "!standin text bye")
    code, out, err = hivesub(daemon, "wait", "--any", "stays", "ends")
    assert (code, err) == (0, "")
    assert out.startswith("ends: idle")
    code, out, err = hivesub(daemon, "wait", "stays", "ends", "--timeout", "0.2")
    assert (code, err) == (124, "hivesub: after 0.2 s still running: stays\n")
    code, _, err = hivesub(daemon, "wait", "stays", "nobody")
    assert code == 1
    assert "no subagent is named 'nobody'" in err
    answered(daemon, "interrupt", "stays")
    assert hivesub(daemon, "wait", "stays")[0] == 12


def shell(daemon: Daemon, script: str, **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Run a script in which `$hivesub` is the command."""
    return subprocess.run(
        ["sh", "-c", script.replace("hivesub", f"{sys.executable} -m hivesub.cli.main")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**environ(daemon), **changes},
        timeout=BOUND_S,
    )


@pytest.mark.parametrize(
    ("script", "code", "words"),
    [
        ("hivesub start z <&-", 2, b"stdin is closed"),
        (r"printf 'caf\351' | hivesub start z", 2, b"not UTF-8 (byte 3)"),
        (r"""hivesub start z p --dir "$(printf '/b\351d')" """, 2, rb"/b\xe9d is not UTF-8"),
        ("head -c 5000000 /dev/zero | tr '\\0' x | hivesub start z -", 1, b"body too large: a whole request may have"),
        ("head -c 3000000 /dev/zero | hivesub start z -", 1, b"body too large: a whole request may have"),
        ("hivesub status > /dev/full", 4, b"could not be written: No space left on device"),
        ("hivesub status --json > /dev/full", 4, b"could not be written: No space left on device"),
        ("hivesub --help > /dev/full", 4, b"could not be written: No space left on device"),
        ("hivesub mcp-config > /dev/full", 4, b"could not be written: No space left on device"),
        ("hivesub status --url http://127.0.0.1:99999 2>&1 >/dev/null | tail -n 1 >&2", 0, b"at most 65535"),
    ],
)
def test_trouble_with_input_or_output_is_one_line_and_an_exit_code(
    daemon: Daemon, script: str, code: int, words: bytes
) -> None:
    done = shell(daemon, script)
    assert (done.returncode, done.stdout) == (code, b"")
    assert words in done.stderr
    assert done.stderr.count(b"\n") == 1, done.stderr


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
def test_a_goal_that_the_locale_cannot_write_works_all_the_same(daemon: Daemon, locale: dict[str, str]) -> None:
    name = f"latin-{len(locale)}"
    done = shell(daemon, f"hivesub start {name} '!standin goal_reached größer' --goal größer -w", **locale)
    assert (done.returncode, done.stderr) == (14, b"")
    record = answered(daemon, "status", name)["subagents"][0]
    assert (record["goal"], record["signals"][0]["message"]) == ("größer", "größer")


def test_the_help_loads_nothing_that_calls_or_draws() -> None:
    program = (
        "import sys; from hivesub.cli.main import main; main(['start', '--help']); "
        "print(sorted({'asyncio', 'mcp', 'rich', 'twisted', 'httpx2'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=BOUND_S)
    assert "Usage: " in done.stdout
    assert done.stderr == "[]\n"


def test_a_reader_that_is_gone_and_closed_outputs_end_quietly(daemon: Daemon) -> None:
    for script in ("hivesub status | true", "hivesub --help | true", "hivesub status >&-", "hivesub status 2>&-"):
        done = shell(daemon, f"set -e; {script}")
        assert (done.returncode, done.stderr) == (0, b""), script
    done = shell(daemon, "hivesub status nobody 2>&-")
    assert (done.returncode, done.stdout) == (1, b"")


def test_ctrl_c_ends_the_reading_of_a_prompt(daemon: Daemon) -> None:
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "hivesub.cli.main", "start", "never"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ(daemon),
    ) as reading:
        assert reading.stderr is not None
        assert reading.stderr.readline() == "hivesub: reading the prompt; end it with Ctrl-D\n"
        reading.send_signal(signal.SIGINT)
        try:
            out, err = reading.communicate(timeout=BOUND_S)
        finally:
            reading.kill()
            os.close(ours)
            os.close(theirs)
    assert (reading.returncode, out, err) == (130, "", "")


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


def test_a_made_token_is_asked_for_from_the_next_start_and_the_command_knows_it(tmp_path: Path) -> None:
    other = Daemon(tmp_path, claude=write_wrapper(tmp_path / "claude", sandboxed=True), options=["--tools=Bash"])
    given = {**environ(), "XDG_CONFIG_HOME": str(tmp_path / "config"), "HIVESUB_STATE_DIR": str(other.state)}
    with other:
        assert f"close it with `hivesub token --state-dir={other.state}`" in other.log_text()
    done = hivesub(other, "token", "--save", "--url", "http://127.0.0.1:7", **given)
    token = done[1].strip()
    assert done[0] == 0
    connect = "claude mcp add --transport http --scope user subagent http://127.0.0.1:7/mcp"
    assert f'{connect} --header "Authorization: Bearer {token}"' in done[2]
    with other:
        given["HIVESUB_AUTH_TOKEN_FILE"] = ""
        assert hivesub(other, "status", **given)[0] == 0
        assert hivesub(other, "status", **{**given, "XDG_CONFIG_HOME": str(tmp_path)})[0] == 3
        pasted = hivesub(other, "mcp-config", **given)[1]
        assert "$HIVESUB_TOKEN" in pasted
        assert token not in pasted
    code, out, err = hivesub(other, "token", **given)
    assert (code, out) == (2, "")
    assert "--force makes a new one" in err
    assert token not in other.log_text()


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
        "write-tests  Check `done` failed, exit 1. ledger.py:88 (overdraft of a closed account) is not run",
        "write-tests  reached its goal, as its check shows: `done` says every branch is run",
        "asks for help: “May charge stay",
        "agent  continue rename-api",
        "agent  interrupt fix-build",
        "one for each run that ended (4)",
        "subagent fix-build was killed mid-turn, not finished",
    ):
        assert words in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_a_demo_that_is_ended_leaves_neither_daemon_nor_children(tmp_path: Path, number: signal.Signals) -> None:
    def left() -> list[psutil.Process]:
        return [
            process for process in psutil.process_iter(["cmdline"]) if str(tmp_path) in str(process.info["cmdline"])
        ]

    with subprocess.Popen(
        [sys.executable, "-m", "hivesub.cli.main", "demo"],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environ(), "TMPDIR": str(tmp_path), "HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        start_new_session=True,
    ) as playing:
        assert playing.stdout is not None
        for line in playing.stdout:
            if "start fix-build" in line:
                break
        playing.send_signal(number)
        try:
            _, err = playing.communicate(timeout=BOUND_S)
        finally:
            playing.kill()
    assert playing.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert err == ""
    assert psutil.wait_procs(left(), BOUND_S)[1] == []
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []
