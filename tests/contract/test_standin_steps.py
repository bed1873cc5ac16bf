"""The steps that only the stand-in knows: what tests of the daemon script it with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from uuid import uuid4

import pytest

from hivesub.standin import write_wrapper
from tests.contract.claudes import Act, Claude, is_init, pids_with, says, watch
from tests.contract.signal_server import SignalServer


@pytest.fixture
def standin(tmp_path: Path, signal_server: SignalServer) -> Claude:
    """The stand-in alone."""
    project = tmp_path / "project"
    project.mkdir()
    binary = Path(write_wrapper(tmp_path / "claude"))
    return Claude("standin", binary, tmp_path / "home", project, signal_server.url, None)


def steps(*directives: str) -> Act:
    return Act(directives, ())


def test_an_unscripted_prompt_gets_a_text_that_says_who_answered(standin: Claude) -> None:
    assert "stand-in" in standin.run(None).result["result"]


def test_no_result_and_exit_end_a_turn_without_one(standin: Claude) -> None:
    silent = standin.run(steps("text a", "no-result"))
    assert (silent.code, silent.shapes) == (0, ["init", "assistant"])
    ended = standin.run(steps("text a", "exit 7"))
    assert (ended.code, ended.shapes) == (7, ["init", "assistant"])


def test_a_result_is_bent_by_its_options(standin: Claude) -> None:
    ran = standin.run(steps("result is_error=true terminal_reason=rate_limit cost=0.5 slow down", "exit 0"))
    assert (ran.code, ran.result["subtype"], ran.result["is_error"]) == (0, "success", True)
    assert (ran.result["result"], ran.result["total_cost_usd"]) == ("slow down", 0.5)
    failed = standin.run(steps("result subtype=error_during_execution is_error=true it broke"))
    assert (failed.code, failed.result["errors"]) == (1, ["it broke"])


def test_what_is_written_before_init_comes_before_it(standin: Claude) -> None:
    ran = standin.run(steps("before-init stderr a banner", "before-init exit 1"))
    assert (ran.code, ran.events, ran.stderr) == (1, [], "a banner\n")


def test_init_can_be_bent_or_left_out(standin: Claude) -> None:
    bent = standin.run(steps("init tools=Read mcp=failed"))
    assert bent.init["tools"] == ["Read"]
    assert bent.init["mcp_servers"][0]["status"] == "failed"
    assert standin.run(steps("init none", "text x")).shapes == ["assistant", "result"]


def test_raw_bytes_floods_and_long_lines_reach_stdout_whole(standin: Claude) -> None:
    act = steps("stdout hex:efbbbf7b7d0d0a", "line 300000", "flood 50 1000", "fill stderr 100000")
    with standin.start(standin.prompt(act, "do it"), ()) as child:
        out, err = child.communicate(timeout=30)
    lines = out.split(b"\n")
    assert lines[1] == b"\xef\xbb\xbf{}\r"
    assert abs(len(lines[2]) - 300_000) < 200
    assert all(abs(len(line) - 1000) < 200 for line in lines[3:53])
    assert len(err) == 100_000


def test_a_spawned_command_holds_stdout_after_the_end(standin: Claude) -> None:
    mark = f"mark-{uuid4().hex}"
    act = steps(f"spawn own-session tail -f /dev/null; : {mark}")
    with standin.start(standin.prompt(act, "do it"), ()) as child:
        assert child.wait(30) == 0
        left = list(pids_with(mark))
        assert len(left) == 1
        assert os.readlink(f"/proc/{left[0]}/fd/1").startswith("pipe:")
        os.killpg(left[0], signal.SIGKILL)


def test_ignored_signals_do_nothing_and_kill_is_seen_as_death_by_it(standin: Claude) -> None:
    ran = standin.run_signalled(steps("ignore SIGINT,SIGTERM", "sleep 0.5", "text alive"), signal.SIGTERM, is_init)
    assert (ran.code, ran.result["result"]) == (0, "alive")
    assert standin.run(steps("kill SIGSEGV")).code == -signal.SIGSEGV


def test_a_scripted_end_on_sigterm_takes_the_place_of_the_usual_one(standin: Claude) -> None:
    act = steps(
        "on SIGTERM result subtype=error_during_execution is_error=true told to stop", "on SIGTERM exit 1", "hang"
    )
    ran = standin.run_signalled(act, signal.SIGTERM, is_init)
    assert (ran.code, ran.result["subtype"]) == (1, "error_during_execution")


def test_a_second_signal_breaks_into_what_the_first_one_began(standin: Claude) -> None:
    act = steps("on SIGINT text caught", "on SIGINT hang", "hang")
    with standin.start(standin.prompt(act, "do it"), ()) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        # Two at once may be taken as one: the second is to come while the first is dealt with.
        assert any("caught" in str(line) for line in iter(child.stdout.readline, ""))
        child.send_signal(signal.SIGTERM)
        assert watch(child).code == 143


def test_a_prompt_plans_later_turns_and_a_reprompt_that_quotes_it_keeps_the_plan(standin: Claude) -> None:
    words = "Goal:\n> !standin turn 2: text second\n> !standin turn 3: text third"
    first = standin.run(None, words=words)
    resume = f"--resume={first.init['session_id']}"
    assert standin.run(None, resume, words=words).result["result"] == "second"
    assert standin.run(None, resume, words="go on").result["result"] == "third"
    assert "stand-in" in standin.run(None, resume, words="go on").result["result"]


def test_a_script_file_gives_each_turn_its_steps(standin: Claude, tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    titled = {"alpha": {"turns": [["text one"]], "each": ["text more"]}}
    script.write_text(json.dumps({"turns": ["text plain"], "sessions": titled}))
    binary = write_wrapper(tmp_path / "scripted", script)
    env = standin.environment({})

    def answer(*flags: str) -> str:
        argv = [binary, "-p", "--dangerously-skip-permissions", *flags]
        return subprocess.run(argv, input="go", env=env, capture_output=True, text=True, timeout=30, check=True).stdout

    assert answer() == "plain\n"
    assert answer("--name=alpha") == "one\n"
    assert [answer("--resume=alpha"), answer("--resume=alpha")] == ["more\n", "more\n"]


def test_dump_tells_what_the_process_was_given(standin: Claude, tmp_path: Path) -> None:
    target = tmp_path / "given.json"
    standin.run(steps(f"dump {target}"), words="naïve\n- [ ] x", env={"HIVESUB_TURN": "abc"})
    given = json.loads(target.read_text())
    assert given["prompt"].startswith("naïve\n- [ ] x")
    assert given["env"]["HIVESUB_TURN"] == "abc"
    assert "--strict-mcp-config" in given["argv"]
    assert given["servers"]["subagent_control"]["url"] == standin.control_url


def test_a_dead_url_is_an_error_that_can_be_saved(standin: Claude, tmp_path: Path, signal_server: SignalServer) -> None:
    dead = signal_server.url.replace("token", "dead")
    ran = standin.run(steps(f"call-url {dead} goal_reached", f"save {tmp_path / 'said'}"))
    assert (tmp_path / "said").read_text() == "HTTP 404"
    (told,) = ran.all("user")
    assert told["message"]["content"][0]["is_error"] is True


def test_wait_for_holds_the_turn_until_a_file_is_there(standin: Claude, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    act = steps(f"write {tmp_path / 'here'} x", f"wait-for {gate}", "text through")
    with standin.start(standin.prompt(act, "do it"), ()) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.3)
        gate.touch()
        assert watch(child).result["result"] == "through"


def test_a_wrapper_can_vouch_for_the_sandbox_that_root_needs(standin: Claude, tmp_path: Path) -> None:
    binary = write_wrapper(tmp_path / "vouched", sandboxed=True)
    env = {**standin.environment({}), "IS_SANDBOX": "0"}
    argv = [binary, "-p", "--dangerously-skip-permissions"]
    assert subprocess.run(argv, input="go", env=env, capture_output=True, text=True, timeout=30).returncode == 0


def test_flags_can_be_taken_away_to_play_an_older_claude(standin: Claude) -> None:
    lacking = {"STANDIN_LACKS": "--name"}
    refused = standin.run(says("x"), "--name=alpha", env=lacking)
    assert (refused.code, refused.stderr) == (1, "error: unknown option '--name=alpha'\n")
    helped = subprocess.run(
        [standin.binary, "--help"], env=standin.environment(lacking), capture_output=True, text=True, timeout=30
    )
    assert "--name" not in helped.stdout
    assert "--tools" in helped.stdout


def test_an_unknown_step_ends_with_exit_2_and_the_list_of_known_ones(standin: Claude) -> None:
    ran = standin.run(steps("bogus"))
    assert ran.code == 2
    assert "unknown step 'bogus'" in ran.stderr
    assert "goal_reached" in ran.stderr
