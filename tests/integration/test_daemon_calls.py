"""Calls of the four tools through the whole daemon: waiting, retrying, giving up, racing, and over a restart."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import pytest
from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectError, ConnectingCancelledError, DNSLookupError
from twisted.internet.threads import deferToThread
from twisted.web._newclient import RequestGenerationFailed
from twisted.web.client import ResponseNeverReceived

from tests.support.agent import ToolError, pause
from tests.support.world import World, living, prompt, stopped, together, until


def calling(world: World, tool: str, **arguments: Any) -> Deferred[Any]:
    """A call under way; cancelling it closes the connection."""
    return Deferred.fromCoroutine(world.agent.call(tool, **arguments))


async def given_up(call: Deferred[Any]) -> None:
    """Close a call's connection, wherever it is: what it fails with depends on that alone."""
    call.cancel()
    try:
        await call
    except (
        CancelledError,
        ConnectError,
        ConnectingCancelledError,
        DNSLookupError,
        RequestGenerationFailed,
        ResponseNeverReceived,
    ):
        pass


# Silence.


@pytest.mark.parametrize("arguments", [{}, {"goal": "g", "max_turns": 3}], ids=["alone", "toward a goal"])
async def test_a_turn_silent_for_longer_than_it_may_be_is_interrupted(
    shared: World, name: str, arguments: dict[str, Any]
) -> None:
    record = await shared.run(name, "text working", "hang", idle_timeout_s=0.3, **arguments)
    assert (record["state"], record["stop_reason"]["kind"]) == ("killed", "killed")
    assert record["last_turn"]["signal"] == "SIGINT"
    assert "silent for 0.3 s, its idle_timeout_s" in record["last_turn"]["detail"]


async def test_the_bound_on_silence_holds_for_each_turn_of_a_run_and_carries_over_to_its_continue(
    shared: World, name: str
) -> None:
    record = await shared.run(name, "text 1", "turn 2: hang", idle_timeout_s=0.3, goal="g", max_turns=3)
    assert (record["turn"], record["state"]) == (2, "killed")
    await shared.agent.call("continue", name=name, prompt=prompt("hang"))
    again = await shared.agent.ended(name)
    assert (again["turn"], again["max_turns"], again["state"]) == (1, 3, "killed")
    assert "silent for 0.3 s" in again["last_turn"]["detail"]


async def test_a_turn_that_goes_on_writing_is_not_silent_whatever_it_writes(shared: World, name: str) -> None:
    steps = [step for _ in range(6) for step in ("stderr still here", "sleep 0.1")]
    record = await shared.run(name, *steps, "text done", idle_timeout_s=0.5)
    assert record["last_turn"]["outcome"] == "finished"


# Waiting and telling.


async def test_a_status_that_waits_is_answered_by_the_end_of_a_run_or_at_once_when_none_runs(
    shared: World, name: str
) -> None:
    go = shared.dir / f"{name}.go"
    await shared.start(name, f"wait-for {go}", "text done")
    assert (await shared.agent.record(name, wait_s=0.05))["state"] == "running"
    waiting = calling(shared, "status", name=name, wait_s=50)
    everything = calling(shared, "status", wait_s=50)
    go.touch()
    (record,) = (await waiting.addTimeout(20, reactor))["subagents"]
    assert (record["state"], record["stop_reason"]["kind"]) == ("idle", "turn_ended")
    listed = await everything.addTimeout(20, reactor)
    assert name in [each["name"] for each in listed["subagents"] if each["state"] == "idle"]
    at_once = await calling(shared, "status", name=name, wait_s=50).addTimeout(20, reactor)
    assert at_once["subagents"][0]["state"] == "idle"


async def test_a_status_that_waits_on_a_goal_run_is_answered_at_its_end_not_at_a_turns(
    shared: World, name: str
) -> None:
    await shared.start(name, "text working", goal="g", max_turns=3)
    (record,) = (await calling(shared, "status", name=name, wait_s=50).addTimeout(20, reactor))["subagents"]
    assert (record["state"], record["turn"], record["stop_reason"]["kind"]) == ("idle", 3, "turn_cap")


async def test_what_was_said_is_told_only_when_it_is_asked_for(shared: World, name: str) -> None:
    await shared.run(name, "text a first", "turn 2: text the last word", goal="g", max_turns=2)
    assert "result" not in await shared.agent.record(name)
    assert "the last word" not in shared.agent.texts[-1]
    assert (await shared.agent.record(name, result=True))["result"] == "the last word"
    assert "the last word" in shared.agent.texts[-1]
    (todo,) = shared.todos(name)
    assert "the last word" not in str(todo)


async def test_while_it_runs_its_state_is_told_with_the_age_of_the_last_event(shared: World, name: str) -> None:
    record = await shared.start(name, "text working", "hang", goal="g", max_turns=4)
    assert (record["state"], record["turn"], record["max_turns"]) == ("running", 1, 4)
    record = await shared.agent.record(name)
    assert 0 <= record["last_event_age_s"] < 30
    assert record["last_turn"] is None and record["stop_reason"] is None and record["ended_at"] is None
    assert re.search(r": running\. Turn 1 of 4\. Last event \d+ s ago\.", shared.agent.texts[-1])
    interrupted = await shared.agent.call("interrupt", name=name)
    assert interrupted["subagent"]["state"] == "killed"
    assert interrupted["escalated"] is False
    assert "Turn 1 of 4" in shared.agent.texts[-1]


# Retrying.


async def test_a_start_repeated_with_its_key_after_a_lost_answer_is_the_same_run(shared: World, name: str) -> None:
    call = {"name": name, "prompt": prompt("hang"), "request_key": "once"}
    lost = calling(shared, "start", **call)
    for _ in range(200):
        if name in [record["name"] for record in (await shared.agent.call("status"))["subagents"]]:
            break
    await given_up(lost)
    again = (await shared.agent.call("start", **call))["subagent"]
    third = (await shared.agent.call("start", **call))["subagent"]
    assert again["pid"] == third["pid"]
    assert again["session_id"] == third["session_id"]
    running = [child.pid for child in shared.children()]
    assert running.count(again["pid"]) == 1
    with pytest.raises(ToolError, match="request_key"):
        await shared.agent.call("start", **{**call, "prompt": "something else"})
    await shared.agent.call("interrupt", name=name)
    after = (await shared.agent.call("start", **call))["subagent"]
    assert (after["state"], after["session_id"]) == ("killed", again["session_id"])


async def test_twins_in_flight_with_one_key_make_one_run(shared: World, name: str) -> None:
    call = {"name": name, "prompt": prompt("sleep 0.5", "kill SIGTERM"), "request_key": "twins", "goal": "g"}
    answers = await together(*(shared.agent.call("start", **call) for _ in range(5)))
    assert len({answer["subagent"]["pid"] for answer in answers}) == 1
    await shared.agent.ended(name)
    continuing = {"name": name, "prompt": prompt("hang"), "request_key": "twins"}
    answers = await together(*(shared.agent.call("continue", **continuing) for _ in range(5)))
    assert len({answer["subagent"]["pid"] for answer in answers}) == 1
    assert answers[0]["subagent"]["goal"] == "g"
    assert {answer["previous_signal"] for answer in answers} == {"SIGTERM"}
    await shared.agent.call("interrupt", name=name)


# Giving up, and racing.


async def test_a_client_that_gives_up_in_the_middle_of_a_start_leaves_a_run_that_status_tells_of(
    shared: World, name: str
) -> None:
    for delay_s in (0.0, 0.002, 0.005, 0.01, 0.03):
        one = f"{name}-{delay_s}"[-60:].strip("-")
        call = calling(shared, "start", name=one, prompt=prompt("text done"))
        await pause(delay_s, reactor)
        await given_up(call)
        # The request may have been cut before it was whole; then nothing has begun, and the name is free.
        known = [record["name"] for record in (await shared.agent.call("status"))["subagents"]]
        if one in known:
            assert (await shared.agent.ended(one))["last_turn"]["outcome"] == "finished"
            assert (await shared.todo(one))["subagent"]["name"] == one


async def test_a_client_that_gives_up_in_the_middle_of_a_continue_leaves_a_run_that_status_and_todo_tell_of(
    shared: World, name: str
) -> None:
    await shared.run(name, "text one")
    await shared.todo(name)
    held, go = shared.dir / f"{name}.held", shared.dir / f"{name}.go"
    call = calling(
        shared, "continue", name=name, prompt=prompt(f"before-init write {held} x", f"before-init wait-for {go}")
    )
    await until(held.exists)
    await given_up(call)
    assert (await shared.agent.record(name))["state"] == "running"
    go.touch()
    assert (await shared.agent.ended(name))["last_turn"]["outcome"] == "finished"
    await until(lambda: len(shared.todos(name)) == 2)


async def test_an_interrupt_at_once_with_its_start_leaves_nothing_running(shared: World, name: str) -> None:
    for number in range(5):
        one = f"{name}-{number}"[-60:].strip("-")
        started, interrupted = await together(
            shared.agent.call("start", name=one, prompt=prompt("hang")), shared.agent.call("interrupt", name=one)
        )
        if isinstance(interrupted, ToolError):
            # It came first: nobody bore the name.
            assert "no subagent is named" in str(interrupted)
            interrupted = await shared.agent.call("interrupt", name=one)
        record = interrupted["subagent"]
        assert record["state"] == "killed"
        if isinstance(started, ToolError):
            # Its process was still to come: there is none, and the name is as it was before.
            assert "stopped before it had a process" in str(started)
            with pytest.raises(ToolError, match="no subagent is named"):
                await shared.agent.record(one)
        else:
            assert (await shared.agent.record(one))["state"] == "killed"
    await shared.nothing_left()


async def test_a_run_killed_before_its_init_never_reuses_its_session_id(shared: World, name: str) -> None:
    held = shared.dir / name
    record = await shared.start(name, f"before-init write {held} x", "before-init hang")
    await until(held.exists)
    os.kill(record["pid"], signal.SIGKILL)
    assert (await shared.agent.ended(name))["state"] == "killed"
    again = await shared.agent.call("start", name=name, prompt=prompt("text done"))
    assert again["replaced_session_id"] == record["session_id"]
    assert again["subagent"]["session_id"] != record["session_id"]
    assert (await shared.agent.ended(name))["last_turn"]["outcome"] == "finished"


# Continuing.


async def test_a_miss_is_the_calls_own_error_and_no_todo_and_leaves_the_record(shared: World, name: str) -> None:
    before = await shared.run(name, "text one")
    await shared.todo(name)
    before = await shared.agent.record(name)
    nobody = "123e4567-e89b-12d3-a456-426614174000"
    with pytest.raises(ToolError) as missed:
        await shared.agent.call("continue", name=name, prompt="go on", session_id=nobody)
    assert str(missed.value) == (
        f"continue error: claude error: No conversation found with session ID: {nobody} (searched "
        f"{shared.daemon.home}/.claude for cwd {shared.dir}; "
        "if it was started elsewhere, pass the `dir` it was started in)"
    )
    with pytest.raises(ToolError, match="does not match any session title"):
        await shared.agent.call("continue", name=f"{name[:50]}-x", prompt="go on")
    assert await shared.agent.record(name) == before
    with pytest.raises(ToolError, match="no subagent is named"):
        await shared.agent.record(f"{name[:50]}-x")
    await shared.run(f"{name[:50]}-y", "text the one after")
    await shared.todo(f"{name[:50]}-y")
    assert len(shared.todos(name)) == 1
    assert shared.todos(f"{name[:50]}-x") == []


async def test_a_continue_of_a_killed_run_names_the_signal(shared: World, name: str) -> None:
    await shared.run(name, "kill SIGTERM")
    answer = await shared.agent.call("continue", name=name, prompt=prompt("text again"))
    assert answer["previous_signal"] == "SIGTERM"
    assert "was killed by SIGTERM" in shared.agent.texts[-1]
    assert (await shared.agent.ended(name))["last_turn"]["outcome"] == "finished"


async def test_a_client_from_before_a_restart_goes_on_and_sessions_are_found_again(own: World) -> None:
    elsewhere = own.daemon.root / "elsewhere"
    elsewhere.mkdir()
    here = await own.run("here", "text one")
    there = await own.run("there", "text one", dir=str(elsewhere))
    assert await stopped(own.daemon) == 0
    url = own.daemon.url
    assert await deferToThread(own.daemon.start) == url
    assert (await own.agent.call("status"))["subagents"] == []
    answer = await own.agent.call("continue", name="here", prompt=prompt("text two"))
    assert answer["subagent"]["session_id"] == here["session_id"]
    with pytest.raises(ToolError, match="pass the `dir` it was started in"):
        await own.agent.call("continue", name="there", prompt=prompt("text two"))
    answer = await own.agent.call("continue", name="there", prompt=prompt("text two"), dir=str(elsewhere))
    assert (answer["subagent"]["session_id"], answer["subagent"]["dir"]) == (there["session_id"], str(elsewhere))
    assert (await own.agent.ended("there"))["usage"]["cost_usd"] == pytest.approx(there["usage"]["cost_usd"])
    await own.nothing_left()
    assert not living(answer["subagent"]["pid"])
    assert own.tracebacks() == ""


async def test_nothing_of_this_left_a_process_a_file_or_a_traceback(shared: World) -> None:
    await shared.nothing_left()
    assert shared.tracebacks() == ""
