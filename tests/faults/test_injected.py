"""Faults injected on the whole daemon. After each: all else goes on, nothing is left, and status told the truth."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from hivesub.turns.processes import marked
from tests.faults.faketime import find_faketime
from tests.faults.hooked import hooked
from tests.faults.places import fill, mounts_allowed, small_disk
from tests.faults.receivers import BROKEN, BUSY, ELSEWHERE, HALF, OK, Receiver
from tests.support.agent import ToolError
from tests.support.daemon import Daemon
from tests.support.listening import listening
from tests.support.world import Table, World, living, prompt, quoted, stopped, together, until, watched, world


def said(record: Any) -> str:
    """What a record says of its end, in a few words."""
    last = record["last_turn"] or {}
    return " ".join(filter(None, [record["state"], last.get("signal")]))


async def truthfully_ended(world: World, name: str, pid: int) -> Any:
    """The record of a run that ends, status having been asked all along: it never says ended of a child that lives."""
    while True:
        record = await world.agent.record(name, wait_s=0.05)
        if record["state"] != "running":
            assert not living(pid), "status says that it has ended, and it lives"
            return record
        assert (record["last_turn"], record["stop_reason"], record["ended_at"]) == (None, None, None)
        assert record["last_event_age_s"] is not None


# The child, killed at each moment of its life.

HALF_LINE = b'{"type":"assistant","message":{"content":"half a li'.hex()
MOMENTS = {
    "before init": (["before-init write {ready} it", "before-init hang"], False),
    "in the middle of a line": ([f"stdout hex:{HALF_LINE}", "write {ready} it", "hang"], False),
    "between two results": (["begin-task", "text one", "result one", "write {ready} it", "hang"], True),
    "after the result": (["text done", "result done", "write {ready} it", "hang"], True),
}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV], ids=lambda number: number.name)
@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_child_killed_at_a_moment_of_its_life_is_killed_by_that_signal(
    shared: World, name: str, table: Table, moment: str, number: signal.Signals
) -> None:
    steps, good = MOMENTS[moment]
    before = await shared.at_rest()
    names = [f"{name[-50:]}-{each}".strip("-") for each in range(3)]
    ready = {each: shared.dir / f"{each}.ready" for each in names}
    started = await together(
        *(shared.start(each, *(step.format(ready=ready[each]) for step in steps)) for each in names)
    )
    await until(lambda: all(path.exists() for path in ready.values()))
    for record in started:
        os.kill(record["pid"], number)
    ended = [await truthfully_ended(shared, record["name"], record["pid"]) for record in started]
    for record in ended:
        assert (record["state"], record["last_turn"]["signal"]) == ("killed", number.name), record
        assert ("a good result had been written before" in record["last_turn"]["detail"]) == good
        assert "killed mid-turn, not finished" in (await shared.todo(record["name"]))["body"]
    await shared.nothing_left(before)
    await shared.all_goes_on()
    table.note(f"child: {number.name} {moment}", len(ended), said=map(said, ended))


async def test_a_child_killed_right_after_its_spawn_is_killed(shared: World, name: str, table: Table) -> None:
    before = await shared.at_rest()
    ended = []
    for each in range(10):
        started = await shared.start(f"{name[-50:]}-{each}".strip("-"), "hang")
        os.kill(started["pid"], signal.SIGKILL)
        ended.append(await truthfully_ended(shared, started["name"], started["pid"]))
        assert (ended[-1]["state"], ended[-1]["last_turn"]["signal"]) == ("killed", "SIGKILL")
        assert await shared.todo(started["name"])
    await shared.nothing_left(before)
    await shared.all_goes_on()
    table.note("child: SIGKILL right after the spawn", len(ended), said=map(said, ended))


async def test_a_continue_whose_child_is_killed_before_its_init_is_that_calls_error_and_a_run_that_ended(
    shared: World, name: str, table: Table
) -> None:
    there = await shared.at_rest()
    before = await shared.run(name, "text first")
    assert await shared.todo(name)
    with pytest.raises(ToolError, match=r"claude was killed before its turn was under way.*SIGKILL"):
        await shared.agent.call("continue", name=name, prompt=prompt("before-init kill SIGKILL"))
    record = await shared.agent.record(name)
    assert (record["state"], record["session_id"]) == ("killed", before["session_id"])
    await until(lambda: len(shared.todos(name)) == 2)
    await shared.nothing_left(there)
    await shared.all_goes_on()
    table.note("child of a continue: SIGKILL before init", 1, said=["the call's error", said(record)])


# What stands before claude.


async def test_a_launcher_that_dies_vanishes_or_may_not_run_fails_the_run_by_its_own_words(
    tmp_path: Path, table: Table
) -> None:
    launcher = tmp_path / "launcher"
    good = '#!/bin/sh\nexec "$@"\n'
    launcher.write_text(good)
    launcher.chmod(0o755)
    with world(tmp_path / "own", options=["--launcher", str(launcher)]) as own:
        await own.all_goes_on("first")
        before = await own.at_rest()

        launcher.write_text("#!/bin/sh\nkill -9 $$\n")
        died = await own.run("dies", "text never said")
        assert (died["state"], died["last_turn"]["signal"]) == ("killed", "SIGKILL")

        launcher.chmod(0o644)
        forbidden = await own.run("forbidden", "text never said")
        assert (forbidden["state"], forbidden["last_turn"]["exit_code"]) == ("failed", 126)
        assert "Permission denied" in forbidden["last_turn"]["detail"]

        launcher.unlink()
        missing = await own.run("missing", "text never said")
        assert (missing["state"], missing["last_turn"]["exit_code"]) == ("failed", 127)
        assert str(launcher) in missing["last_turn"]["detail"]
        for name in ("dies", "forbidden", "missing"):
            assert await own.todo(name)

        launcher.write_text(good)
        launcher.chmod(0o755)
        await own.nothing_left(before)
        await own.all_goes_on()
    for fault, record in (("dies before exec", died), ("EACCES", forbidden), ("ENOENT", missing)):
        table.note(f"launcher: {fault}", 1, said=[said(record)])


ADVICE = {
    "EAGAIN": "the system's limit on processes is reached",
    "ENOMEM": "the system is out of memory",
    "EMFILE": "the daemon is out of file descriptors",
    "ENOENT": "No such file or directory",
    "EACCES": "Permission denied",
}


async def test_a_spawn_that_the_system_refuses_is_the_calls_error_and_the_run_is_not_half_there(
    tmp_path: Path, table: Table
) -> None:
    with hooked(tmp_path / "own") as daemon:
        own = daemon.world
        await own.all_goes_on("first")
        before = await own.at_rest()
        async with watched(own):
            for name, words in ADVICE.items():
                daemon.set("spawn", name)
                for _ in range(3):
                    with pytest.raises(ToolError, match=f"start error: no process could be started: .*{words}"):
                        await own.start("alpha", "text good")
                    with pytest.raises(ToolError, match=f"continue error: .*{words}"):
                        await own.agent.call("continue", name="first", prompt=prompt("text good"))
                with pytest.raises(ToolError, match="no subagent is named 'alpha'"):
                    await own.agent.record("alpha")
                assert (await own.agent.record("first"))["state"] == "idle"
                await own.nothing_left(before)
                daemon.set("spawn", None)
                await own.all_goes_on(f"after-{name}")
                table.note(f"spawn: {name}", 6, said=["the call's error", "idle as before"])
        assert not own.tracebacks()


async def test_a_spawn_of_a_second_turn_that_the_system_refuses_is_told_in_the_todo(
    tmp_path: Path, table: Table
) -> None:
    with hooked(tmp_path / "own") as daemon:
        own = daemon.world
        await own.all_goes_on("first")
        before = await own.at_rest()
        async with watched(own):
            for error, words in ADVICE.items():
                name, go = f"goal-{error}", tmp_path / error
                await own.start(name, "text one", f"wait-for {go}", goal="all done", max_turns=3)
                daemon.set("spawn", error)
                go.write_text("")
                record = await own.agent.ended(name)
                daemon.set("spawn", None)
                assert (record["state"], record["turn"], record["stop_reason"]["kind"]) == ("failed", 1, "failed")
                assert record["last_turn"]["outcome"] == "finished"
                assert words in record["stop_reason"]["message"]
                assert words in (await own.todo(name))["body"]
                table.note(f"spawn of a second turn: {error}", 1, said=[f"{said(record)} (turn 1 finished)"])
        await own.nothing_left(before)
        await own.all_goes_on()
        assert not own.tracebacks()


async def test_a_claude_that_cannot_even_be_asked_for_its_version_is_told_with_the_same_advice(
    tmp_path: Path, table: Table
) -> None:
    with hooked(tmp_path / "own", spawn="EAGAIN") as daemon:
        own = daemon.world
        before = await own.at_rest()
        async with watched(own):
            for name, words in ADVICE.items():
                daemon.set("spawn", name)
                for tool in ("start", "continue"):
                    with pytest.raises(ToolError, match=f"^{tool} error: .*{words}"):
                        await own.agent.call(tool, name="alpha", prompt=prompt("text good"))
                table.note(f"spawn of claude --version: {name}", 2, said=["the call's error"])
            with pytest.raises(ToolError, match="no subagent is named 'alpha'"):
                await own.agent.record("alpha")
            daemon.set("spawn", None)
            await own.all_goes_on("alpha")
        await own.nothing_left(before)
        assert not own.tracebacks()


# The daemon.


async def test_a_daemon_killed_with_16_running_leaves_nothing_and_its_successor_goes_on(
    own: World, table: Table
) -> None:
    # Each with a command in a session of its own, which neither a signal nor the death of its parent reaches.
    names = [f"run-{number}" for number in range(16)]
    ready = [own.dir / name for name in names]
    steps = [
        (f"spawn own-session echo $$ > {quoted(path)}; exec tail -f /dev/null", "text on it", "hang") for path in ready
    ]
    started = await together(*(own.start(name, *each) for name, each in zip(names, steps, strict=True)))
    await until(lambda: all(path.exists() and path.read_text().strip() for path in ready))
    commands = [int(path.read_text()) for path in ready]
    mark = own.marks()[-1]
    assert len(marked(f"{mark}-")) >= 32
    os.kill(own.daemon.pid, signal.SIGKILL)
    await until(lambda: not any(living(record["pid"]) for record in started), "the end of the children")
    own.daemon.stop()
    own.daemon.start()
    await until(lambda: not any(living(pid) for pid in commands), "the end of what they had started")
    await until(lambda: not marked(f"{mark}-"))
    await own.nothing_left()
    listed = await own.agent.call("status")
    assert (listed["subagents"], listed["counts"]["running"]) == ([], 0)  # it adopts nothing and claims nothing
    await own.all_goes_on()
    continued = await own.agent.call("continue", name="run-3", prompt=prompt("text carried on"))
    assert continued["subagent"]["session_id"] == started[3]["session_id"]
    assert (await own.agent.ended("run-3"))["state"] == "idle"
    assert await own.todo("run-3")
    # What ran was kept in memory alone: nobody is told of those 16, and `continue` finds them.
    told = {todo["subagent"]["name"] for todo in own.todos()} & (set(names) - {"run-3"})
    table.note(
        "daemon: SIGKILL with 16 running",
        1,
        lost=16 - len(told),
        said=["no such runs after the restart", "continue works"],
    )


async def test_a_todo_that_waited_when_the_daemon_was_killed_is_sent_once_by_its_successor(
    tmp_path: Path, table: Table
) -> None:
    receiver = Receiver(answer=BROKEN)
    async with listening(receiver) as port:
        with world(tmp_path / "own", options=["--todo", f"http://127.0.0.1:{port}/"]) as own:
            before = await own.at_rest()
            await own.run("alpha", "text done")
            await until(lambda: receiver.asked)
            assert (await own.agent.record("alpha"))["todo"] == "pending"
            own.daemon.stop(signal.SIGKILL)
            receiver.answer = OK
            own.daemon.start()
            await until(lambda: receiver.took)
            await own.nothing_left(before)
            assert set(receiver.asked) == set(receiver.took)
            assert len(receiver.took) == 1
    table.note("daemon: SIGKILL with a todo waiting", 1, said=["pending"])


# Disks.


class Full:
    """A directory of the daemon whose disk can be filled: a small file system where mounts are allowed, and else the
    daemon's own limit on file sizes, which its writes meet as they would a full disk.
    """

    def __init__(self, directory: Path, mounted: bool) -> None:
        self.directory = directory
        self.mounted = mounted
        self._filler: Path | None = None
        self._limit = (0, 0)

    def fill(self, daemon: Daemon) -> None:
        if self.mounted:
            self._filler = fill(self.directory)
        else:
            self._limit = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (0, self._limit[1]))

    def free(self, daemon: Daemon) -> None:
        if self._filler is not None:
            self._filler.unlink()
        if not self.mounted:
            resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, self._limit)


@contextmanager
def fillable(directory: Path) -> Iterator[Full]:
    if mounts_allowed(directory):
        with small_disk(directory, "512k"):
            yield Full(directory, True)
    else:
        yield Full(directory, False)


async def ended_on_full(own: World, disk: Full, count: int, **arguments: Any) -> list[Any]:
    """The records of runs that began while there was room, and ended when there was none."""
    go = own.dir / "go"
    names = [f"full-{number}" for number in range(count)]
    for name in names:
        await own.start(name, f"write {own.dir / name} it", f"wait-for {go}", "text done", **arguments)
    await until(lambda: all((own.dir / name).exists() for name in names))
    disk.fill(own.daemon)
    go.write_text("")
    return [await own.agent.ended(name) for name in names]


async def test_a_full_disk_under_the_state_directory_keeps_todos_back_and_loses_none(
    tmp_path: Path, table: Table
) -> None:
    root = tmp_path / "own"
    with fillable(root / "state") as disk, world(root) as own:
        before = await own.at_rest()
        async with watched(own):
            records = await ended_on_full(own, disk, 5)
            if disk.mounted:  # the other way takes the room of the config files too
                records.append(await own.run("during", "text done"))
            for record in records:
                assert (record["state"], record["last_turn"]["outcome"]) == ("idle", "finished"), record
            await until(lambda: "did not reach" in own.daemon.log_text() or not disk.mounted)
            states = {(await own.agent.record(record["name"]))["todo"] for record in records}
            assert states == {"pending"}
            disk.free(own.daemon)
            await until(lambda: len(own.todos()) == len(records), "the todos, once there is room")
            assert {(await own.agent.record(record["name"]))["todo"] for record in records} == {"delivered"}
        await own.nothing_left(before)
        await own.all_goes_on()
        assert len({todo["id"] for todo in own.todos()}) == len(own.todos()) == len(records) + 1
        assert not own.tracebacks() or not disk.mounted
        assert list((own.daemon.state / "todos" / "pending").iterdir()) == []
        if disk.mounted:
            disk.fill(own.daemon)
            assert await stopped(own.daemon) == 0
            with pytest.raises(AssertionError, match=r"--state-dir: .*No space left on device"):
                own.daemon.start()
            disk.free(own.daemon)
            own.daemon.start()
            await own.all_goes_on("anew")
    table.note(
        "disk full: state directory", len(records), said=["idle, todo pending", "todo delivered once there was room"]
    )


async def test_a_full_disk_under_the_runtime_directory_refuses_starts_by_name_and_leaves_nothing(
    tmp_path: Path, table: Table
) -> None:
    root = tmp_path / "own"
    with fillable(root / "runtime") as disk, world(root) as own:
        await own.all_goes_on("first")
        before = await own.at_rest()
        async with watched(own):
            ready, go = own.dir / "ready", own.dir / "go"
            await own.start("goal", f"write {ready} it", f"wait-for {go}", goal="all done", max_turns=3)
            await until(ready.exists)
            disk.fill(own.daemon)
            for _ in range(5):
                with pytest.raises(ToolError, match="start error: no process could be started: "):
                    await own.start("alpha", "text done")
            with pytest.raises(ToolError, match="continue error: no process could be started: ") as refused:
                await own.agent.call("continue", name="first", prompt=prompt("text done"))
            assert "the disk of --runtime-dir is full" in str(refused.value) or not disk.mounted
            go.write_text("")
            record = await own.agent.ended("goal")
            assert (record["state"], record["turn"], record["stop_reason"]["kind"]) == ("failed", 1, "failed")
            with pytest.raises(ToolError, match="no subagent is named 'alpha'"):
                await own.agent.record("alpha")
            disk.free(own.daemon)
        await own.nothing_left(before)
        await own.all_goes_on("alpha")
        assert await own.todo("goal")
    table.note("disk full: runtime directory", 7, said=["the call's error", f"{said(record)} (turn 1 finished)"])


async def test_a_full_disk_under_the_report_is_told_and_what_was_there_stays(own: World, table: Table) -> None:
    place = own.dir / "reports"
    place.mkdir()
    with fillable(place) as disk:
        report = place / "report.md"
        report.write_text("as it was\n" + "x" * 4000 + "\n")
        before = (await own.at_rest(), report.read_bytes())
        async with watched(own):
            records = await ended_on_full(own, disk, 3, report_file=str(report))
            errors = [(await own.agent.record(record["name"]))["report_error"] for record in records]
            assert all(error.startswith(f"cannot append to {report}: ") for error in errors)
            assert {record["state"] for record in records} == {"idle"}
            assert report.read_bytes() == before[1]
            disk.free(own.daemon)
            for record, error in zip(records, errors, strict=True):
                await until(partial(own.todos, record["name"]))
                assert error in (await own.todo(record["name"]))["body"]
        await own.run("roomy", "text done", report_file=str(report))
        assert (await own.todo("roomy"))["subagent"]["report_error"] is None
        assert report.read_bytes().startswith(before[1])
        await own.nothing_left(before[0])
        await own.all_goes_on()
    table.note("disk full: report", 3, said=["idle with report_error"])


# Descriptors.


@contextmanager
def descriptors_left(world: World, count: int) -> Iterator[None]:
    """The daemon may open so many more descriptors, and what it closes meanwhile, for as long as this lasts."""
    limit = resource.prlimit(world.daemon.pid, resource.RLIMIT_NOFILE)
    used = {int(entry.name) for entry in Path(f"/proc/{world.daemon.pid}/fd").iterdir()}
    # It counts the numbers below the limit; those that are open beyond it stay so.
    most = next(number for number in range(10_000) if number - len([fd for fd in used if fd < number]) == count + 1) - 1
    resource.prlimit(world.daemon.pid, resource.RLIMIT_NOFILE, (most, limit[1]))
    try:
        yield
    finally:
        resource.prlimit(world.daemon.pid, resource.RLIMIT_NOFILE, limit)


async def test_a_daemon_out_of_descriptors_refuses_starts_tells_what_runs_and_recovers(
    own: World, table: Table
) -> None:
    idle = await own.at_rest()
    ready, go = own.dir / "ready", own.dir / "go"
    await own.start("before", f"write {ready} it", f"wait-for {go}", "text done")
    await until(ready.exists)
    before = own.descriptors()
    refused = 0
    async with watched(own):
        for left in range(4, 10):
            with descriptors_left(own, left):
                for _ in range(2):
                    try:
                        await own.run(f"tight-{left}", "text done")
                    except ToolError as error:
                        refused += 1
                        assert "out of file descriptors" in str(error), error
                assert (await own.agent.record("before"))["state"] == "running"
            await until(lambda: len(own.descriptors()) <= len(before), "the closing of what a failed spawn had opened")
    assert refused > 0
    await until(lambda: sockets(own) == 0, "the end of the connections before")
    with descriptors_left(own, 0):
        # Not even a connection can be had: whoever asks is turned away and the daemon stays.
        (failed,) = await together(own.agent.call("status"))
        assert isinstance(failed, Exception)
        go.write_text("")
    assert (await own.agent.ended("before"))["last_turn"]["outcome"] == "finished"
    await own.all_goes_on()
    assert await own.todo("before")
    await own.nothing_left(idle)
    table.note("descriptors exhausted", refused + 1, said=["the call's error", "running, then idle"])


# Receivers of todos.


async def test_a_receiver_that_is_dead_broken_half_and_slow_gets_each_todo_and_slows_no_call(
    tmp_path: Path, table: Table
) -> None:
    receiver = Receiver(answer=BROKEN)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with world(tmp_path / "own", options=["--todo", f"http://127.0.0.1:{port}/secret-path"]) as own:
        before = await own.at_rest()
        async with watched(own):
            await own.run("dead", "text done")
            await until(lambda: "did not reach" in own.daemon.log_text())
            told = [(await own.agent.record("dead"))["todo"]]
            async with listening(receiver, port):
                for name, answer in (("broken", BROKEN), ("half", HALF), ("slow", None)):
                    receiver.answer = answer
                    count = len(receiver.asked)
                    await own.run(name, "text done")
                    await until(partial(receiver.asked_beyond, count), f"an attempt while it is {name}")
                    told.append((await own.agent.record(name))["todo"])
                # One that never answers: calls are answered all the same, within the agent's own bound.
                await until(lambda: receiver.waiting)
                record = await own.run("meanwhile", "text done")
                assert record["state"] == "idle"
                told.append((await own.agent.record("meanwhile"))["todo"])
                assert set(told) == {"pending"}
                receiver.answer = OK
                receiver.wake()
                await until(lambda: len(set(receiver.took)) == 5, "all five todos")
                names = ("dead", "broken", "half", "slow", "meanwhile")
                for name in names:
                    record = await own.agent.record(name)
                    assert (record["state"], record["todo"]) == ("idle", "delivered")
                assert len(receiver.took) == 5  # each once
        await own.nothing_left(before)
        assert "secret-path" not in own.daemon.log_text()
        assert not own.tracebacks()
    for fault in ("dead", "answers 500", "gives half an answer", "never answers"):
        table.note(f"receiver: {fault}", 1, said=["idle, todo pending", "todo delivered"])


async def test_a_receiver_that_is_still_at_the_first_delivery_of_a_todo_gets_it_again(
    tmp_path: Path, table: Table
) -> None:
    receiver = Receiver(answer=BUSY)
    async with listening(receiver) as port:
        with world(tmp_path / "own", options=["--todo", f"http://127.0.0.1:{port}/"]) as own:
            await own.run("alpha", "text done")
            await until(lambda: len(receiver.asked) >= 2)
            assert (await own.agent.record("alpha"))["todo"] == "pending"
            receiver.answer = OK
            await until(lambda: receiver.took)
            await own.nothing_left()
            assert set(receiver.asked) == set(receiver.took)
            assert (await own.agent.record("alpha"))["todo"] == "delivered"
    table.note("todo receiver: 409, 409, 200", 1, said=["pending", "delivered"])


async def test_a_receiver_that_sends_its_todos_elsewhere_is_told_as_undelivered_and_they_are_kept(
    tmp_path: Path, table: Table
) -> None:
    receiver = Receiver(answer=ELSEWHERE)
    async with listening(receiver) as port:
        with world(tmp_path / "own", options=["--todo", f"http://127.0.0.1:{port}/"]) as own:
            before = await own.at_rest()
            async with watched(own):
                for name in ("one", "two"):
                    await own.run(name, "text done")
                await until(lambda: len(receiver.asked) == 2)
                letters = own.daemon.state / "todos" / "dead-letter.jsonl"
                await until(lambda: letters.exists() and len(letters.read_text().splitlines()) == 2)
                records = [await own.agent.record(name) for name in ("one", "two")]
                assert {record["todo"] for record in records} == {"undelivered"}
                kept = [json.loads(line)["todo"]["subagent"]["name"] for line in letters.read_text().splitlines()]
                assert sorted(kept) == ["one", "two"]
                receiver.answer = OK
                await own.run("three", "text done")
                await until(lambda: receiver.took)
                assert (await own.agent.record("three"))["todo"] == "delivered"
            await own.nothing_left(before)
    table.note("receiver: answers 302", 2, said=["idle, todo undelivered (dead letter)"])


# Clients.


def request(port: int, body: bytes) -> bytes:
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    return f"{head}Accept: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def abort(client: socket.socket) -> None:
    """Close it with a reset, unread answers and all."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()


def never_reading(port: int) -> socket.socket:
    """A client that takes in as little as the system lets it."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", port))
    return client


def jammed(port: int) -> int:
    """How many connections of a port of loopback have something to send that the other end does not take."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and int(row[4].partition(":")[0], 16) > 0 for row in rows)


def resting(own: World) -> Callable[[], bool]:
    """A look at whether the daemon has done nothing for fifty looks."""
    seen: list[float] = []

    def look() -> bool:
        seen.append(sum(own.process.cpu_times()[:2]))
        return seen[-50:] == seen[-1:] * 50

    return look


async def test_clients_that_vanish_dribble_or_never_read_hold_up_nobody_and_leave_no_connection(
    own: World, table: Table
) -> None:
    port = int(own.daemon.url.rpartition(":")[2])
    log = len(own.daemon.log_text())
    await own.run("long", "text done", goal="g" * 200_000, max_turns=1)
    connections, memory = sockets(own), own.process.memory_info().rss
    params = {"name": "status", "arguments": {"name": "long"}}
    ask = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    whole = request(port, json.dumps(ask).encode())
    clients = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(60)]
    vanishing, dribbling = clients[:30], clients[30:]
    deaf = [never_reading(port) for _ in range(30)]
    for number, client in enumerate(vanishing):
        client.sendall(whole[: number * len(whole) // 30])
        abort(client)
    for client in deaf:
        client.setblocking(False)
        for _ in range(200):
            try:
                client.send(whole)
            except BlockingIOError:
                break
    for position in range(60):
        for client in dribbling:
            client.sendall(whole[position : position + 1])
        if position % 20 == 0:
            await own.all_goes_on(f"meanwhile-{position}")
    assert (await own.agent.record("long"))["state"] == "idle"
    await until(lambda: jammed(port) >= len(deaf), "answers that nobody takes")
    await until(resting(own), "the end of what the daemon does for them")
    # An answer each, and not all the two hundred.
    used = own.process.memory_info().rss - memory
    assert used < 100_000_000, used
    for client in (*dribbling, *deaf):
        abort(client)
    await until(lambda: sockets(own) <= connections, "the closing of all connections")
    await own.nothing_left()
    await own.all_goes_on()
    told = own.daemon.log_text()[log:]
    assert "Traceback" not in told
    assert "Unhandled" not in told
    for fault in ("vanish", "dribble", "never read"):
        table.note(f"clients: {fault}", 30, said=["idle"])


def sockets(world: World) -> int:
    """How many TCP connections the daemon holds, its listener's own left out."""
    return len([one for one in world.process.net_connections(kind="tcp") if one.status != psutil.CONN_LISTEN])


# The wall clock.


async def check_stepped_clock(own: World, step: Any, table: Table, how: str) -> None:
    """Run through an hour back and one ahead.

    :param step: called with the seconds that the wall clock is to be off by.
    """
    before = await own.at_rest()
    ready, go = own.dir / "ready", own.dir / "go"
    steps = ("text thinking", f"write {ready} it", f"wait-for {go}", "text done")
    async with watched(own):
        await own.start("alpha", *steps, idle_timeout_s=30)
        await until(ready.exists)
        began = datetime.now(UTC)
        for seconds in (-3600, 3600):
            step(seconds)
            record = await own.agent.record("alpha")
            assert record["state"] == "running"
            assert 0 <= record["last_event_age_s"] < 25
            other = await own.run(f"at{seconds}", "text done")
            assert other["last_turn"]["outcome"] == "finished"
            off = datetime.fromisoformat(other["ended_at"]) - began
            assert abs(off - timedelta(seconds=seconds)) < timedelta(minutes=5)
            assert await own.todo(f"at{seconds}")
        step(-7200)
        go.write_text("")
        record = await own.agent.ended("alpha")
        assert (record["state"], record["last_turn"]["outcome"]) == ("idle", "finished")
        assert await own.todo("alpha")
        step(0)
    await own.nothing_left(before)
    await own.all_goes_on()
    table.note(f"wall clock stepped by an hour or two ({how})", 3, said=["running, true age", said(record)])


async def test_a_wall_clock_that_is_stepped_gives_no_false_age_and_ends_nothing(tmp_path: Path, table: Table) -> None:
    with hooked(tmp_path / "own") as daemon:
        await check_stepped_clock(
            daemon.world, lambda seconds: daemon.set("wall", str(seconds)), table, "inside the daemon"
        )


async def test_the_same_holds_where_the_system_itself_tells_another_time(tmp_path: Path, table: Table) -> None:
    library = find_faketime()
    assert library is not None, "no libfaketime: `python -m tests.faults.faketime` brings it"
    offset = tmp_path / "offset"
    offset.write_text("+0")
    environ = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }

    def step(seconds: int) -> None:
        offset.with_suffix(".new").write_text(f"{seconds:+d}")
        offset.with_suffix(".new").replace(offset)

    with world(tmp_path / "own", environ=environ) as own:
        await check_stepped_clock(own, step, table, "libfaketime")
