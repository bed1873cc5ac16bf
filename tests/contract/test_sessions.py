"""Which session a process is of: ids, titles, misses, and what a session has cost."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from tests.contract.claudes import ANSWER_USD, Claude, Ran, is_good_result, pids_with, says, stays_in_background


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A second project directory."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return directory


def assert_missed(ran: Ran, message: str) -> None:
    """A miss: exit 1, the message on stderr and in a lone result event, and no system event."""
    assert ran.code == 1
    assert ran.shapes == ["result"]
    assert (ran.result["subtype"], ran.result["is_error"]) == ("error_during_execution", True)
    assert ran.result["total_cost_usd"] == 0
    assert ran.result["num_turns"] == 0
    assert len(ran.result["errors"]) == 1
    assert ran.result["errors"][0].startswith(message)
    assert ran.stderr == ran.result["errors"][0] + "\n"


def test_a_session_is_resumed_by_its_id_from_any_directory(claude: Claude, elsewhere: Path) -> None:
    session_id = str(uuid4())
    claude.run(says("one"), f"--session-id={session_id}", "--name=alpha")
    ran = claude.run(says("two"), f"--resume={session_id}", cwd=elsewhere)
    assert ran.code == 0
    assert ran.shapes == ["session_title_changed", "init", "assistant", "result"]
    assert ran.init["session_id"] == session_id
    assert ran.init["cwd"] == str(elsewhere.resolve())


def test_a_session_is_resumed_by_its_title_only_from_the_directory_it_began_in(claude: Claude, elsewhere: Path) -> None:
    session_id = str(uuid4())
    claude.run(says("one"), f"--session-id={session_id}", "--name=alpha")
    claude.run(says("two"), f"--resume={session_id}", cwd=elsewhere)
    assert claude.run(says("three"), "--resume=alpha", "--name=alpha").init["session_id"] == session_id
    missed = claude.run(says("four"), "--resume=alpha", "--name=alpha", cwd=elsewhere)
    assert_missed(missed, "Error: --resume requires a valid session ID or session title when used with --print.")
    assert 'Provided value "alpha" is not a UUID and does not match any session title.' in missed.stderr


def test_a_resume_of_an_unknown_id_names_it(claude: Claude) -> None:
    session_id = str(uuid4())
    ran = claude.run(says("one"), f"--resume={session_id}", "--name=alpha")
    assert_missed(ran, f"No conversation found with session ID: {session_id}")
    assert ran.result["session_id"] == session_id


def test_a_resume_of_an_unknown_title_quotes_it(claude: Claude) -> None:
    ran = claude.run(says("one"), "--resume=nope", "--name=nope")
    assert_missed(ran, "Error: --resume requires a valid session ID or session title when used with --print.")
    assert 'Provided value "nope"' in ran.stderr


def test_a_title_that_two_sessions_bear_is_refused_with_both_ids_newest_first(claude: Claude) -> None:
    older = claude.run(says("one"), "--name=twin").init["session_id"]
    newer = claude.run(says("two"), "--name=twin").init["session_id"]
    ran = claude.run(says("three"), "--resume=twin", "--name=twin")
    assert_missed(ran, 'Error: --resume "twin" matches 2 sessions.')
    lines = ran.stderr.splitlines()[1:]
    assert [line.split()[0] for line in lines] == [newer, older]
    assert all("(modified 20" in line for line in lines)


def test_another_name_renames_the_session(claude: Claude) -> None:
    session_id = claude.run(says("one"), "--name=alpha").init["session_id"]
    assert claude.run(says("two"), f"--resume={session_id}", "--name=beta").events[0]["title"] == "beta"
    assert claude.run(says("three"), "--resume=beta").init["session_id"] == session_id
    assert claude.run(says("four"), "--resume=alpha").code == 1


def test_a_session_id_cannot_begin_a_second_session(claude: Claude) -> None:
    session_id = str(uuid4())
    claude.run(says("one"), f"--session-id={session_id}")
    ran = claude.run(says("two"), f"--session-id={session_id}")
    assert (ran.code, ran.events) == (1, [])
    assert ran.stderr == f"Error: Session ID {session_id} is already in use.\n"


def test_what_a_killed_process_spent_is_missing_from_the_session_s_cost(claude: Claude) -> None:
    """So a run's cost is summed from what each result says was spent since the one before."""
    session_id = str(uuid4())
    mark = f"mark-{uuid4().hex}"
    act = stays_in_background(mark)
    flags = (f"--session-id={session_id}",)
    killed = claude.run_signalled(act, signal.SIGKILL, is_good_result, *flags, tools="--tools=Bash,Read")
    for pid in pids_with(mark):
        os.killpg(pid, signal.SIGKILL)
    ran = claude.run(says("two"), f"--resume={session_id}", tools="--tools=Bash,Read")
    assert spent(killed) > 0
    assert ran.result["total_cost_usd"] == pytest.approx(ANSWER_USD)
    assert spent(ran) == pytest.approx(ANSWER_USD)


def spent(ran: Ran) -> float:
    """What one process spent: the sum over its results, of each model."""
    used = [model for result in ran.all("result") for model in result["model_usage_since_last_result"].values()]
    return sum(float(model["costUSD"]) for model in used)


def test_the_cost_is_the_whole_session_s_whatever_ran_between(claude: Claude) -> None:
    ids = [str(uuid4()), str(uuid4())]
    for session_id in ids:
        claude.run(says("one"), f"--session-id={session_id}")
    second = [claude.run(says("two"), f"--resume={session_id}") for session_id in ids]
    third = claude.run(says("three"), f"--resume={ids[0]}")
    assert [ran.result["total_cost_usd"] for ran in second] == pytest.approx([2 * ANSWER_USD] * 2)
    assert third.result["total_cost_usd"] == pytest.approx(3 * ANSWER_USD)
    assert third.result["num_turns"] == 1
    assert third.result["usage"]["output_tokens"] == 5
    assert is_good_result(third.result)
