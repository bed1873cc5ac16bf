"""Processes: what is to end ends, all of it, once; and nothing is said to have ended that lives."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred

from hivesub.standin import write_wrapper
from tests.support.agent import ToolError, pause
from tests.support.world import World, living, prompt, quoted, stopped, together, until, world


async def test_a_kill_of_the_daemon_takes_three_children_with_it(own: World) -> None:
    ready = [own.dir / each for each in ("a", "b", "c")]
    pids = [(await own.start(path.name, f"write {path} ready", "hang"))["pid"] for path in ready]
    await until(lambda: all(path.exists() for path in ready))
    os.kill(own.daemon.pid, signal.SIGKILL)
    await until(lambda: not any(living(pid) for pid in pids), "the end of the children")


async def test_an_interrupt_ends_the_real_claude_behind_a_wrapper_that_does_not_exec(tmp_path: Path) -> None:
    real = write_wrapper(tmp_path / "real")
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f'#!/bin/sh\n{real} "$@"\nexit $?\n')
    wrapper.chmod(0o755)
    with world(tmp_path / "own", claude=str(wrapper)) as own:
        told = own.dir / "pid"
        record = await own.start("alpha", f"spawn echo $PPID > {quoted(told)}", "hang")
        pid = int(await until(lambda: told.exists() and told.read_text().strip()))
        assert pid != record["pid"]
        answer = await own.agent.call("interrupt", name="alpha")
        assert answer["subagent"]["state"] == "killed"
        assert not living(pid)
        await own.nothing_left()


@pytest.mark.parametrize("how", ["bash", "spawn own-session"])
async def test_a_command_in_a_session_of_its_own_is_ended_after_a_claude_that_was_killed(
    shared: World, name: str, how: str
) -> None:
    told = shared.dir / f"{name}.pid"
    record = await shared.start(name, f"{how} echo $$ > {quoted(told)}; exec tail -f /dev/null", "hang")
    pid = int(await until(lambda: told.exists() and told.read_text().strip()))
    assert living(pid)
    os.kill(record["pid"], signal.SIGKILL)
    record = await shared.agent.ended(name)
    assert (record["state"], record["last_turn"]["signal"]) == ("killed", "SIGKILL")
    assert not living(pid)


async def test_a_child_that_ignores_sigint_and_sigterm_runs_by_every_status_until_it_is_killed(
    shared: World, name: str
) -> None:
    ready = shared.dir / name
    pid = (await shared.start(name, "ignore SIGINT,SIGTERM", f"write {ready} ready", "hang"))["pid"]
    await until(ready.exists)
    answers: list[object] = []
    interrupting = Deferred.fromCoroutine(shared.agent.call("interrupt", name=name)).addBoth(answers.append)
    looks = 0
    while not answers:
        lived_before = living(pid)
        record = await shared.agent.record(name, wait_s=0.2)
        if record["state"] == "running":
            looks += 1
            assert record["last_turn"] is None
            assert lived_before
        else:
            assert not living(pid)
    await interrupting
    (answer,) = answers
    assert isinstance(answer, dict), answer
    assert (answer["escalated"], answer["subagent"]["last_turn"]["signal"]) == (True, "SIGKILL")
    assert looks > 2
    assert any("stronger ones had to follow" in text for text in shared.agent.texts)


async def test_a_continue_and_a_second_interrupt_during_an_interrupt_get_clear_answers_and_one_kill_sequence(
    shared: World, name: str
) -> None:
    before = await shared.at_rest()
    ready, heard = shared.dir / name, shared.dir / f"{name}.heard"
    steps = ("ignore SIGINT", f"on SIGTERM bash echo term >> {quoted(heard)}", f"write {ready} ready", "hang")
    await shared.start(name, *steps)
    await until(ready.exists)
    first, second, continued = await together(
        shared.agent.call("interrupt", name=name),
        shared.agent.call("interrupt", name=name),
        shared.agent.call("continue", name=name, prompt="go on"),
    )
    assert isinstance(continued, ToolError)
    assert str(continued).startswith(f"continue error: {name} is running")
    assert first["subagent"]["last_turn"] == second["subagent"]["last_turn"]
    assert (first["subagent"]["state"], first["subagent"]["last_turn"]["signal"]) == ("killed", "SIGTERM")
    assert heard.read_text() == "term\n"
    assert await shared.todo(name)
    again = await shared.agent.call("continue", name=name, prompt="!standin text on it", goal="")
    assert again["previous_signal"] == "SIGTERM"
    assert (await shared.agent.ended(name))["state"] == "idle"
    with pytest.raises(ToolError, match="is not running: it is idle"):
        await shared.agent.call("interrupt", name=name)
    await shared.nothing_left(before)


async def test_a_stop_of_the_daemon_during_an_interrupt_leaves_nothing_and_tells_the_run_once(own: World) -> None:
    ready, heard = own.dir / "ready", own.dir / "heard"
    steps = (f"on SIGINT write {heard} it", "on SIGINT hang", f"write {ready} ready", "hang")
    pid = (await own.start("alpha", *steps))["pid"]
    await until(ready.exists)
    interrupting = Deferred.fromCoroutine(own.agent.call("interrupt", name="alpha"))
    await until(heard.exists)
    status, answer = await together(stopped(own.daemon), interrupting)
    assert status == 0
    assert answer["subagent"]["state"] == "killed"
    assert not living(pid)
    assert not own.turn_processes()
    (todo,) = own.todos("alpha")
    assert todo["subagent"]["last_turn"]["signal"] == "SIGTERM"
    assert not own.tracebacks()


async def test_of_20_starts_at_once_16_run_and_4_are_refused_with_what_to_do(own: World) -> None:
    answers = await together(*(own.start(f"s-{number}", "hang") for number in range(20)))
    refused = [answer for answer in answers if isinstance(answer, ToolError)]
    started = [answer for answer in answers if isinstance(answer, dict)]
    assert (len(started), len(refused)) == (16, 4), answers
    for refusal in refused:
        assert "--max-running" in str(refusal)
        assert "`interrupt` one" in str(refusal)
    listed = await own.agent.call("status")
    running = {record["name"] for record in listed["subagents"] if record["state"] == "running"}
    assert running == {record["name"] for record in started}
    assert listed["counts"]["running"] == 16
    assert not {f"s-{number}" for number in range(20)} - running & {record["name"] for record in listed["subagents"]}
    assert len(own.children()) == 16
    stops = await together(*(own.agent.call("interrupt", name=record["name"]) for record in started))
    assert {stop["subagent"]["state"] for stop in stops} == {"killed"}
    await own.nothing_left()
    await until(lambda: len(own.todos()) == 16, "each run's todo")
    assert {todo["subagent"]["name"] for todo in own.todos()} == {record["name"] for record in started}


@pytest.mark.parametrize("apart_s", [0, 0.01])
async def test_of_two_continues_at_once_one_runs_and_the_other_is_refused(
    shared: World, name: str, apart_s: float
) -> None:
    await shared.run(name, "text first")
    children, go = shared.dir / name, shared.dir / f"{name}.go"

    async def carry_on(after_s: float) -> Any:
        await pause(after_s, reactor)
        steps = (f"bash echo one >> {quoted(children)}", f"wait-for {go}")
        return await shared.agent.call("continue", name=name, prompt=prompt(*steps))

    answers = await together(carry_on(0), carry_on(apart_s))
    go.write_text("")
    (refused,) = [answer for answer in answers if isinstance(answer, ToolError)]
    assert f"{name} is running" in str(refused)
    assert (await shared.agent.ended(name))["state"] == "idle"
    assert children.read_text() == "one\n"
    await until(lambda: len(shared.todos(name)) == 2)  # the start's and the one continue's
