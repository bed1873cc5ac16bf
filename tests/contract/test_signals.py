"""What a signal makes of a turn, and of the commands that the turn runs."""

from __future__ import annotations

import os
import signal
from uuid import uuid4

import pytest

from tests.contract.claudes import Claude, hangs, is_init, is_tool_use, pids_with, runs, says


def test_sigint_ends_with_exit_0_a_note_and_an_error_result(claude: Claude) -> None:
    ran = claude.run_signalled(hangs(), signal.SIGINT, is_init)
    assert ran.code == 0
    assert ran.user_texts == ["[Request interrupted by user]"]
    assert ran.shapes[-2:] == ["user", "result"]
    assert (ran.result["subtype"], ran.result["is_error"]) == ("error_during_execution", True)
    assert ran.result["terminal_reason"] == "aborted_streaming"
    assert "result" not in ran.result


def test_sigint_in_a_command_ends_it_and_says_so_in_other_words(claude: Claude) -> None:
    mark = f"mark-{uuid4().hex}"
    act = runs(f"tail -f /dev/null; : {mark}")
    ran = claude.run_signalled(act, signal.SIGINT, is_tool_use, tools="--tools=Bash,Read")
    assert ran.code == 0
    assert ran.user_texts == ["[Request interrupted by user for tool use]"]
    assert ran.result["terminal_reason"] == "aborted_tools"
    assert list(pids_with(mark)) == []


def test_sigterm_ends_with_exit_143_and_no_result(claude: Claude) -> None:
    ran = claude.run_signalled(hangs(), signal.SIGTERM, is_init)
    assert ran.code == 143
    assert ran.shapes == ["init"]


def test_sigterm_ends_a_running_command_too(claude: Claude) -> None:
    mark = f"mark-{uuid4().hex}"
    act = runs(f"tail -f /dev/null; : {mark}")
    ran = claude.run_signalled(act, signal.SIGTERM, is_tool_use, tools="--tools=Bash,Read")
    assert ran.code == 143
    assert ran.all("result") == []
    assert list(pids_with(mark)) == []


def test_sighup_ends_with_exit_129(claude: Claude) -> None:
    ran = claude.run_signalled(hangs(), signal.SIGHUP, is_init)
    assert ran.code == 129
    assert ran.all("result") == []


def test_sigkill_leaves_a_command_in_a_session_of_its_own(claude: Claude) -> None:
    mark = f"mark-{uuid4().hex}"
    act = runs(f"tail -f /dev/null; : {mark}")
    ran = claude.run_signalled(act, signal.SIGKILL, is_tool_use, tools="--tools=Bash,Read")
    left = list(pids_with(mark))
    try:
        assert ran.code == -signal.SIGKILL
        assert len(left) == 1
        assert os.getsid(left[0]) == left[0]
    finally:
        for pid in left:
            os.killpg(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_session_whose_first_turn_was_cut_can_be_resumed(claude: Claude, number: signal.Signals) -> None:
    session_id = str(uuid4())
    claude.run_signalled(hangs(), number, is_init, f"--session-id={session_id}", "--name=alpha")
    assert claude.run(says("two"), f"--resume={session_id}").code == 0
    assert claude.run(says("three"), "--resume=alpha").init["session_id"] == session_id


def test_a_new_session_that_was_killed_before_it_asked_the_model_is_not_there(claude: Claude) -> None:
    session_id = str(uuid4())
    titled = claude.run_killed_at_its_title(session_id)
    assert titled.code == -signal.SIGKILL
    assert claude.run(says("two"), f"--resume={session_id}").code == 1
    assert claude.run(says("two"), f"--session-id={session_id}").code == 0


def test_a_turn_reads_its_prompt_to_the_end_of_stdin(claude: Claude) -> None:
    ran = claude.run(says("hello"), words="x" * 200_000)
    assert ran.code == 0
    assert ran.result["result"] == "hello"
