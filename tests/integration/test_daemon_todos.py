"""Todos of the whole daemon: over a receiver that is down, over a restart, to several places at once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from tests.integration.todo_receiver import TodoReceiver
from tests.support.agent import pause
from tests.support.world import World, stopped, together, until, world


async def todo_state(world: World, name: str, wanted: str) -> Any:
    """A subagent's record once its todo is in that state."""
    for _ in range(500):
        record = await world.agent.record(name)
        if record["todo"] == wanted:
            return record
        await pause(0.02, reactor)
    raise AssertionError(f"its todo is {record['todo']}, not {wanted}")


def waiting(world: World) -> list[Path]:
    """The files of the todos that some sink is still owed."""
    return sorted((world.daemon.state / "todos" / "pending").glob("*.json"))


async def test_while_the_receiver_is_down_and_the_daemon_restarts_each_todo_arrives_exactly_once(
    tmp_path: Path, receiver: TodoReceiver
) -> None:
    await receiver.down()
    with world(tmp_path / "own", options=["--todo", receiver.url]) as own:
        names = ["alpha", "beta", "gamma"]
        await together(*(own.run(name, "text done") for name in names))
        for name in names:
            assert (await own.agent.record(name))["todo"] == "pending"
        assert await stopped(own.daemon) == 0
        await deferToThread(own.daemon.start)
        await own.run("delta", "text done")
        assert (await own.agent.record("delta"))["todo"] == "pending"
        await until(lambda: len(waiting(own)) == 4, "all four on disk")
        kept = {json.loads(path.read_text())["todo"]["id"] for path in waiting(own)}
        assert receiver.todos == []
        await receiver.up()
        await until(lambda: len(receiver.todos) == 4, "the arrival of all four")
        await todo_state(own, "delta", "delivered")
        await until(lambda: waiting(own) == [], "an empty outbox")
        assert await stopped(own.daemon) == 0
        await deferToThread(own.daemon.start)
        await own.run("epsilon", "text done")
        await until(lambda: len(receiver.todos) == 5)
        assert sorted(todo["subagent"]["name"] for todo in receiver.todos) == [
            "alpha",
            "beta",
            "delta",
            "epsilon",
            "gamma",
        ]
        assert len(set(receiver.ids())) == 5
        assert set(receiver.ids()) >= kept
        assert receiver.keys == receiver.ids()
        assert own.tracebacks() == ""


async def test_a_todo_goes_to_every_sink_and_status_tells_the_worst_of_them(
    tmp_path: Path, receiver: TodoReceiver
) -> None:
    file = tmp_path / "own" / "todos.txt"
    options = ["--todo", receiver.url, "--todo", str(file)]
    receiver.statuses = [503, 200]
    with world(tmp_path / "own", options=options) as own:
        await own.run("alpha", "text done")
        await until(lambda: file.exists() and file.read_text().count("\n") == 1)
        # The file has it; the URL said to come again.
        assert (await own.agent.record("alpha"))["todo"] in {"pending", "delivered"}
        await todo_state(own, "alpha", "delivered")
        (posted,) = receiver.todos
        assert json.loads(file.read_text()) == posted
        assert [todo["id"] for todo in receiver.refused] == [posted["id"]]
        assert not own.daemon.todos.exists()
        receiver.statuses = [400, 200]
        await own.run("beta", "text done")
        await todo_state(own, "beta", "undelivered")
        assert file.read_text().count("\n") == 2
        await own.run("gamma", "text done")
        await todo_state(own, "gamma", "delivered")
        # A refusal is not tried again.
        assert [todo["subagent"]["name"] for todo in receiver.todos] == ["alpha", "gamma"]
        assert [todo["subagent"]["name"] for todo in receiver.refused] == ["alpha", "beta"]
        assert waiting(own) == []


async def test_todos_that_wait_outlive_a_kill_of_the_daemon_and_arrive_once_each(
    tmp_path: Path, receiver: TodoReceiver
) -> None:
    await receiver.down()
    with world(tmp_path / "own", options=["--todo", receiver.url]) as own:
        await together(*(own.run(f"r{number}", "text done") for number in range(5)))
        ready = own.dir / "ready"
        await own.start("cut", f"write {ready} x", "hang")
        await until(ready.exists)
        await until(lambda: len(waiting(own)) == 5, "all five on disk")
        assert await stopped(own.daemon, 9) == -9
        await receiver.up()
        await deferToThread(own.daemon.start)
        await until(lambda: len(receiver.todos) == 5, "the arrival of what the dead one kept")
        assert sorted(todo["subagent"]["name"] for todo in receiver.todos) == [f"r{number}" for number in range(5)]
        await until(lambda: waiting(own) == [])
        assert len(set(receiver.ids())) == 5


async def test_a_run_that_the_stop_of_the_daemon_ends_is_told_before_it_is_gone(
    tmp_path: Path, receiver: TodoReceiver
) -> None:
    with world(tmp_path / "own", options=["--todo", receiver.url]) as own:
        ready = own.dir / "ready"
        await own.start("cut", f"write {ready} x", "hang")
        await until(ready.exists)
        assert await stopped(own.daemon) == 0
        (todo,) = receiver.todos
        assert todo["title"] == "subagent cut was killed mid-turn, not finished"
        assert todo["subagent"]["stop_reason"]["kind"] == "killed"
        assert waiting(own) == []
