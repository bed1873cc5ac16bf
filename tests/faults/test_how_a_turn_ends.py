"""How a turn ends: told as it was, once, and in time."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from tests.faults.clocked import INIT, RESULT, ClockedCase, line
from tests.support.world import World, living, prompt, quoted, together, until


class OnAClock(ClockedCase):
    def test_a_child_that_stays_after_a_good_result_is_finished_in_30_s_and_ended_with_one_todo(self) -> None:
        child = self.start()
        child.out(INIT + RESULT)
        self.pass_s(29.5)
        self.assertEqual((self.record()["state"], self.kin.sent), ("running", []))
        self.pass_s(1)
        self.assertEqual(len(self.kin.sent), 1)
        self.pass_s(6)  # it ignores SIGINT and SIGTERM too
        child.die(9)
        record = self.record()
        self.assertEqual((record["state"], record["last_turn"]["outcome"]), ("idle", "finished"))
        self.assertIn("lingered", record["last_turn"]["detail"])
        self.assertEqual(len(self.outbox.todos), 1)

    def test_an_error_result_under_our_sigterm_is_killed_whatever_the_exit_code(self) -> None:
        for code in (0, 1):
            child = self.start()
            child.out(INIT)
            answer = self.interrupt()
            self.pass_s(3.25)
            self.assertEqual([number for number, _ in self.kin.sent[-2:]], [2, 15])
            child.out(line(type="result", subtype="error_during_execution", is_error=True, errors=["aborted"]))
            child.exit(code)
            record = self.successResultOf(answer)["subagent"]
            self.assertEqual((record["state"], record["last_turn"]["signal"]), ("killed", "SIGTERM"))
            self.assertEqual(record["stop_reason"]["kind"], "killed")


async def test_a_child_that_reads_stdin_to_its_end_before_anything_ends_at_once(shared: World, name: str) -> None:
    record = await shared.run(name, "text read it all")  # the stand-in reads all of stdin before its first step
    assert record["last_turn"]["outcome"] == "finished"


async def test_text_without_a_result_is_failed_and_no_next_turn_follows(shared: World, name: str) -> None:
    record = await shared.run(name, "text as good as done", "no-result", goal="all done", max_turns=3)
    assert (record["state"], record["turn"], record["stop_reason"]["kind"]) == ("failed", 1, "failed")
    assert "exit 0 without a result" in record["last_turn"]["detail"]


async def test_200_turns_whose_child_leaves_its_stdout_to_another_leave_no_descriptor(shared: World) -> None:
    before = await shared.at_rest()
    stays = "spawn exec sleep 120"  # `tail` would end by itself once nobody reads it
    for wave in range(13):
        names = [f"holder-{wave}-{number}" for number in range(16 if wave < 12 else 8)]
        records = await together(*(shared.run(each, stays) for each in names))
        assert [record["last_turn"]["outcome"] for record in records] == ["finished"] * len(names)
        # The finished turns' processes are left alone: they are this test's to end.
        left = len(names)
        await until(partial(shared.has_turn_processes, left), "all that the children left")
        for pid in shared.turn_processes():
            end(pid)
    await shared.nothing_left(before)


def end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.mark.parametrize("how", ["spawn", "bash"])
async def test_an_interrupt_ends_the_server_that_the_child_waits_for(shared: World, name: str, how: str) -> None:
    told = shared.dir / f"{name}.pid"
    serve = "exec python3 -m http.server --bind 127.0.0.1 0"
    await shared.start(name, f"{how} echo $$ > {quoted(told)}; {serve}", "hang")
    pid = int(await until(lambda: told.exists() and told.read_text().strip()))
    answer = await shared.agent.call("interrupt", name=name)
    assert answer["subagent"]["state"] == "killed"
    assert not living(pid)


@pytest.mark.parametrize(("step", "told"), [("exit 143", "SIGTERM"), ("kill SIGKILL", "SIGKILL")])
async def test_a_signal_that_nobody_here_sent_is_killed_with_its_name(
    shared: World, name: str, step: str, told: str
) -> None:
    record = await shared.run(name, "text half of it", step, goal="all of it")
    assert (record["state"], record["last_turn"]["signal"], record["turn"]) == ("killed", told, 1)
    assert record["stop_reason"]["kind"] == "killed"
    assert "killed mid-turn, not finished" in (await shared.todo(name))["body"]


async def test_exit_0_after_our_sigint_is_killed(shared: World, name: str) -> None:
    ready = shared.dir / name
    await shared.start(name, f"write {ready} ready", "hang")
    await until(ready.exists)
    answer = await shared.agent.call("interrupt", name=name)
    record = answer["subagent"]
    assert (record["state"], record["last_turn"]["signal"]) == ("killed", "SIGINT")
    assert record["last_turn"]["exit_code"] == 0


async def test_a_second_result_after_a_background_task_is_the_result_of_one_turn(shared: World, name: str) -> None:
    record = await shared.run(name, "background 0.5 the task is done")
    assert (record["state"], record["stop_reason"]["kind"]) == ("idle", "turn_ended")
    assert (await shared.agent.record(name, result=True))["result"] == "the task is done"
    assert await shared.todo(name)


async def test_a_goal_run_waits_for_the_second_result_of_its_turn_before_it_decides(shared: World, name: str) -> None:
    processes = shared.dir / name
    # Every turn is quoted the goal, and does what it says.
    goal = prompt(f"bash echo one >> {quoted(processes)}")
    record = await shared.run(name, "background 0.5 the task is done", "goal_reached it is", goal=goal, max_turns=3)
    assert (record["turn"], record["stop_reason"]["kind"]) == (1, "goal_reached")
    assert (await shared.agent.record(name, result=True))["result"] == "the task is done"
    assert await shared.todo(name)
    assert processes.read_text() == "one\n"


async def test_a_child_that_writes_an_error_result_under_our_sigterm_is_killed_whatever_it_exits_with(
    shared: World, name: str
) -> None:
    names = {code: f"{name[:50]}-{code}" for code in (0, 1)}
    for code, each in names.items():
        error = "on SIGTERM result subtype=error_during_execution is_error=true aborted"
        steps = ("ignore SIGINT", error, f"on SIGTERM exit {code}", f"write {shared.dir / each} ready", "hang")
        await shared.start(each, *steps)
    await until(lambda: all((shared.dir / each).exists() for each in names.values()))
    answers = await together(*(shared.agent.call("interrupt", name=each) for each in names.values()))
    for code, answer in zip(names, answers, strict=True):
        record = answer["subagent"]
        assert (record["state"], record["stop_reason"]["kind"]) == ("killed", "killed")
        assert (record["last_turn"]["signal"], record["last_turn"]["exit_code"]) == ("SIGTERM", code)


async def test_a_success_that_says_that_it_is_an_error_is_failed_and_stops_the_run(shared: World, name: str) -> None:
    record = await shared.run(name, "result is_error=true You've hit your rate limit", "exit 0", goal="all done")
    assert (record["state"], record["turn"], record["last_turn"]["exit_code"]) == ("failed", 1, 0)
    assert "You've hit your rate limit" in record["last_turn"]["detail"]


async def test_an_answer_that_speaks_of_a_rate_limit_is_finished(shared: World, name: str) -> None:
    record = await shared.run(name, "text the API has a rate limit and answers 429")
    assert (record["state"], record["last_turn"]["outcome"]) == ("idle", "finished")


@pytest.mark.parametrize(("last", "outcome"), [("kill SIGKILL", "killed"), ("exit 0", "failed"), ("exit 7", "failed")])
async def test_a_last_line_of_5_mb_that_is_cut_leaves_the_outcome_to_the_exit(
    shared: World, name: str, last: str, outcome: str
) -> None:
    begun = b'{"type":"result","is_error":false,"result":"'.hex()
    record = await shared.run(name, f"stdout hex:{begun}", "fill stdout 5000000", last)
    assert (record["state"], record["last_turn"]["outcome"]) == (outcome, outcome)
    assert not shared.tracebacks()


async def test_an_end_that_cannot_be_reported_is_noticed_by_no_other_run(shared: World, name: str) -> None:
    broken, sound = f"{name[:50]}-broken", f"{name[:50]}-sound"
    go = shared.dir / "go"
    for each in (broken, sound):
        await shared.start(each, f"wait-for {go}", report_file=str(shared.dir if each == broken else shared.dir / "r"))
    go.write_text("")
    one, other = [await shared.agent.ended(each) for each in (broken, sound)]
    assert "it is a directory" in (await shared.agent.record(broken))["report_error"]
    assert one["state"] == other["state"] == "idle"
    assert await shared.todo(broken)
    assert (await shared.todo(sound))["subagent"]["report_error"] is None
    assert "Outcome:" in (shared.dir / "r").read_text()
