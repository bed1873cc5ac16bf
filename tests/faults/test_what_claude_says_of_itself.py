"""Turns that claude broke off, waits for its API and its usage limits: none passes for work, none for a good end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor

from tests.faults.clocked import INIT, RESULT, ClockedCase, line
from tests.support.agent import pause
from tests.support.world import LOOK_S, Table, World, world

GOOD = '{"type":"result","subtype":"success","is_error":false,"result":"done"'
EARLY = f"before-init stdout {GOOD}}}"


def retry(attempt: int, error: str = "rate_limit", status: int = 429) -> bytes:
    return line(type="system", subtype="api_retry", attempt=attempt, max_retries=10, error=error, error_status=status)


class OnAClock(ClockedCase):
    def test_retries_every_half_second_look_alive_and_are_silence_to_the_idle_timeout(self) -> None:
        child = self.start(idle_timeout_s=30.0)
        child.out(INIT)
        attempts = iter(range(1, 1000))
        self.pass_s(29, lambda: child.out(retry(next(attempts))))
        record = self.record()
        self.assertEqual((record["state"], record["retrying"]["error"]), ("running", "rate_limit"))
        self.assertLess(record["last_event_age_s"], 1)
        self.pass_s(2, lambda: child.out(retry(next(attempts))))
        self.assertEqual([number for number, _ in self.kin.sent], [2])
        child.exit()
        record = self.record()
        self.assertEqual((record["state"], record["retrying"]), ("killed", None))
        self.assertIn("while it waited for its API", record["last_turn"]["detail"])

    def test_a_limit_for_hours_costs_no_turn_and_no_todo_until_the_run_is_over(self) -> None:
        child = self.start(goal="g", max_turns=3)
        for hours in (2, 3):
            resets = self.now().timestamp() + hours * 3600
            info = {"status": "rejected", "resetsAt": int(resets), "rateLimitType": "five_hour"}
            child.out(INIT + line(type="rate_limit_event", rate_limit_info=info))
            child.out(line(type="result", subtype="success", is_error=True, api_error_status=429, result="limit"))
            child.exit(1)
            record = self.record()
            self.assertEqual((record["state"], record["turn"], self.outbox.todos), ("waiting", 1, []))
            self.reactor.advance(hours * 3600 + 70)
            child = self.reactor.children[-1]
        for turn in (1, 2, 3):
            self.assertEqual((self.record()["state"], self.record()["turn"]), ("running", turn))
            self.reactor.children[-1].out(INIT + RESULT)
            self.reactor.children[-1].exit()
        record = self.record()
        self.assertEqual((record["turn"], record["stop_reason"]["kind"]), (3, "turn_cap"))
        self.assertEqual(len(self.outbox.todos), 1)
        self.assertEqual(len(self.reactor.children), 5)


async def shows(world: World, name: str, look: Callable[[Any], Any]) -> Any:
    """The record of a subagent, once `look` likes it; bounded."""
    for _ in range(1000):
        record = await world.agent.record(name)
        if look(record):
            return record
        await pause(LOOK_S, reactor)
    raise AssertionError(record)


@pytest.mark.parametrize("stop_reason", ["tool_use", "max_tokens", "model_context_window_exceeded", "pause_turn"])
async def test_a_last_answer_that_broke_off_is_cut_and_a_goal_run_goes_on(
    shared: World, name: str, table: Table, stop_reason: str
) -> None:
    broken = f"result stop_reason={stop_reason} as good as done"
    single = await shared.run(name, broken)
    assert (single["state"], single["last_turn"]["outcome"], single["stop_reason"]["kind"]) == ("idle", "cut", "cut")
    assert stop_reason in single["last_turn"]["detail"]
    assert "cut off by claude, not finished" in (await shared.todo(name))["title"]
    prompt = shared.dir / f"{name}.json"
    goal = await shared.run(f"goal-{name}"[:60], broken, f"turn 2: dump {prompt}", goal="g", max_turns=2)
    assert (goal["turn"], goal["last_turn"]["outcome"], goal["stop_reason"]["kind"]) == (2, "finished", "turn_cap")
    assert json.loads(prompt.read_text())["prompt"].startswith("Your last turn was cut off")
    table.note(f"claude: exit 0, stop_reason {stop_reason}", 2, said=["cut", "the next turn's prompt"])


@pytest.mark.parametrize("bound", ["budget 0.1", "result subtype=error_max_turns is_error=true Reached 2 turns"])
async def test_a_bound_of_claudes_own_is_cut(shared: World, name: str, table: Table, bound: str) -> None:
    record = await shared.run(name, bound)
    assert record["last_turn"]["outcome"] == "cut"
    assert record["stop_reason"]["kind"] == ("budget_spent" if bound.startswith("budget") else "cut")
    assert "finished its turn" not in (await shared.todo(name))["title"]
    table.note(f"claude: its own bound ({bound.split()[0]})", 1, said=[f"cut, {record['stop_reason']['kind']}"])


@pytest.mark.parametrize("steps", [("refuse",), ("result stop_reason=refusal I will not", "exit 0")])
async def test_a_refusal_in_a_goal_run_of_five_is_one_turn_that_failed(
    shared: World, name: str, table: Table, steps: tuple[str, ...]
) -> None:
    record = await shared.run(name, *steps, goal="g", max_turns=5)
    assert (record["turn"], record["state"], record["stop_reason"]["kind"]) == (1, "failed", "failed")
    assert record["last_turn"]["detail"].startswith("the model refused: ")
    table.note(f"claude: refusal, exit {record['last_turn']['exit_code']}", 1, said=["failed"])


@pytest.mark.parametrize("when", ["before", "after"])
async def test_background_work_that_claude_stopped_at_its_exit_is_named_on_each_surface(
    shared: World, name: str, table: Table, when: str
) -> None:
    stop, result = "end-task stopped", "result started it"
    last = (stop, result) if when == "before" else (result, stop)
    record = await shared.run(name, "begin-task", "text I wait for it", *last)
    assert record["last_turn"]["outcome"] == "finished"
    body = (await shared.todo(name))["body"]
    for text in (record["last_turn"]["detail"], body, shared.agent.texts[-1]):
        assert "claude stopped background work at its exit, which is not done: scripted" in text
    table.note(f"claude: background work stopped {when} its result", 1, said=["finished, the work named"])


async def test_a_result_from_before_init_and_none_after_it_is_a_failed_turn(
    shared: World, name: str, table: Table
) -> None:
    record = await shared.run(name, EARLY, "text nothing was asked", "no-result", goal="g", max_turns=3)
    assert (record["state"], record["turn"]) == ("failed", 1)
    assert "exit 0 without a result" in record["last_turn"]["detail"]
    table.note("claude: a good result before init, none after", 1, said=["failed"])


async def test_a_wrong_key_is_seen_as_one_at_once_and_dropped_when_it_answers(
    shared: World, name: str, table: Table
) -> None:
    gate = shared.dir / f"{name}.gate"
    await shared.start(
        name, "api-retry status=401 error=authentication_failed 3", f"wait-for {gate}", "text at last", "hang"
    )

    retrying = (await shows(shared, name, lambda record: record["retrying"]))["retrying"]
    assert (retrying["error"], retrying["status"]) == ("authentication_failed", 401)
    assert "waits for the API: authentication_failed, attempt " in shared.agent.texts[-1]
    gate.touch()
    await shows(shared, name, lambda record: record["retrying"] is None)
    record = (await shared.agent.call("interrupt", name=name))["subagent"]
    assert record["retrying"] is None
    table.note("claude: 401, tried again", 1, said=["running, waits for the API"])


async def test_a_usage_limit_is_waited_for_and_the_wait_ends_with_an_interrupt(
    shared: World, name: str, table: Table
) -> None:
    await shared.start(name, "limit 3600", goal="g", max_turns=3)

    await shows(shared, name, lambda record: record["state"] == "waiting")
    assert not shared.todos(name)
    record = (await shared.agent.call("interrupt", name=name))["subagent"]
    assert (record["state"], record["turn"]) == ("killed", 1)
    assert "while it waited for a usage limit to reset" in (await shared.todo(name))["body"]
    table.note("claude: usage limit, then an interrupt", 1, said=["waiting", "killed"])


async def test_a_daemon_that_stops_ends_a_wait_for_a_usage_limit_and_its_todo_says_so(
    tmp_path: Path, table: Table
) -> None:
    with world(tmp_path) as own:
        await own.start("alpha", "limit 3600")
        await shows(own, "alpha", lambda record: record["state"] == "waiting")
        assert own.daemon.stop() == 0
        (todo,) = own.todos("alpha")
    assert "the daemon stopped while it waited for a usage limit to reset" in todo["body"]
    table.note("daemon: stopped in a wait for a usage limit", 1, said=["todo: stopped while it waited"])


async def test_costs_of_a_claude_that_counts_from_0_in_each_process_are_booked_by_process(
    shared: World, name: str, table: Table
) -> None:
    def costs(total: float) -> str:
        usage = {"input_tokens": 10, "output_tokens": 5}
        said = {"type": "result", "is_error": False, "result": "x", "num_turns": 1, "total_cost_usd": total}
        return f"event {json.dumps({**said, 'usage': usage})}"

    later = [f"turn {turn}: {step}" for turn in (2, 3) for step in (costs(0.03), "exit 0")]
    record = await shared.run(name, costs(0.25), "exit 0", *later, goal="g", max_turns=3)
    assert record["usage"]["cost_usd"] == pytest.approx(0.31)
    table.note("claude: total cost begins anew", 3, said=["0.31 of 0.25 + 0.03 + 0.03"])
