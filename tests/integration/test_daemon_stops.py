"""The end of the whole daemon, by SIGTERM and by SIGKILL, and what the next one finds of it."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from hivesub.standin import write_wrapper
from tests.support.agent import ToolError
from tests.support.daemon import Daemon
from tests.support.world import World, living, prompt, quoted, stopped, until, world

STOP_S = 15.0
"""SIGTERM stops it cleanly within this."""
STAYS = "exec tail -f /dev/null"


async def pid_in(path: Path) -> int:
    return int(await until(lambda: path.exists() and path.read_text().strip(), f"a process id in {path.name}"))


async def test_sigterm_ends_all_that_runs_and_exits_0_in_time_whatever_the_children_do(own: World) -> None:
    grown = [own.dir / each for each in ("plain", "deaf", "own-session")]
    await own.start("plain", f"spawn echo $$ > {quoted(grown[0])}; {STAYS}", "hang")
    deaf = f"trap '' INT TERM; echo $$ > {quoted(grown[1])}; while :; do sleep 1; done"
    await own.start("deaf", "ignore SIGINT,SIGTERM", f"spawn {deaf}", "hang", goal="g", max_turns=5)
    await own.start("setsid", f"bash echo $$ > {quoted(grown[2])}; {STAYS}")
    pids = [await pid_in(path) for path in grown]
    waiting = Deferred.fromCoroutine(own.agent.call("status", name="deaf", wait_s=50))
    await own.run("held", "text done")
    held = own.dir / "held"
    again = prompt(f"before-init write {held} x", "before-init hang")
    holding = Deferred.fromCoroutine(own.agent.call("continue", name="held", prompt=again))
    holding.addErrback(str)
    await until(held.exists)
    children = [child.pid for child in own.children()]
    assert len(children) == 4
    assert await stopped(own.daemon).addTimeout(STOP_S, reactor) == 0
    assert not any(living(pid) for pid in (*pids, *children))
    assert own.configs() == []
    told = {todo["subagent"]["name"]: todo["subagent"] for todo in own.todos()}
    assert sorted(told) == ["deaf", "held", "plain", "setsid"]
    assert len(own.todos()) == 5  # two runs of one of them, the second not under way yet
    assert (told["held"]["state"], told["held"]["last_turn"]["signal"]) == ("killed", "SIGINT")
    assert "killed before its turn was under way" in await holding.addTimeout(5, reactor)
    for name in ("plain", "setsid"):
        assert (told[name]["state"], told[name]["last_turn"]["signal"]) == ("killed", "SIGINT")
        assert "the daemon stopped" in told[name]["last_turn"]["detail"]
    assert (told["deaf"]["state"], told["deaf"]["last_turn"]["signal"]) == ("killed", "SIGKILL")
    assert (told["deaf"]["turn"], told["deaf"]["max_turns"]) == (1, 5)
    assert own.tracebacks() == ""
    # A call that was open is answered or its connection ends: nobody waits for a daemon that is gone.
    await waiting.addBoth(lambda _: None).addTimeout(5, reactor)


async def test_a_continue_that_is_interrupted_before_init_is_a_run_that_ended(own: World) -> None:
    first = await own.run("held", "text done")
    held, report = own.dir / "held", own.dir / "report.md"
    again = prompt(f"before-init write {held} x", "before-init hang")
    holding = Deferred.fromCoroutine(
        own.agent.call("continue", name="held", prompt=again, report_file=str(report), goal="g")
    )
    holding.addErrback(str)
    await until(held.exists)
    interrupted = await own.agent.call("interrupt", name="held")
    assert "interrupted by the agent" in await holding.addTimeout(5, reactor)
    record = await own.agent.record("held")
    assert record["last_turn"] == interrupted["subagent"]["last_turn"]
    assert (record["state"], record["session_id"]) == ("killed", first["session_id"])
    await until(lambda: len(own.todos()) == 2)
    assert "interrupted by the agent" in own.todos()[1]["body"]
    assert "interrupted by the agent" in report.read_text()
    continued = await own.agent.call("continue", name="held", prompt=prompt("text there"))
    assert (continued["previous_signal"], continued["same_goal"]) == ("SIGINT", True)
    log = [line for line in own.daemon.log_text().splitlines() if "logbook" in line]
    assert sum("held started: a single turn" in line for line in log) == 1
    assert sum("held continues: at most 5 turns" in line for line in log) == 2
    assert sum("held was killed mid-turn, not finished: Turn 1 of 5" in line for line in log) == 1


async def test_what_a_finished_turn_left_is_gone_with_the_daemon_although_it_ignores_sigterm(own: World) -> None:
    left = own.dir / "left"
    deaf = f"trap '' TERM; echo $$ > {quoted(left)}; exec >/dev/null 2>&1; while :; do sleep 1; done"
    record = await own.run("parent", f"spawn own-session {deaf}", "text done")
    assert record["last_turn"]["outcome"] == "finished"
    pid = await pid_in(left)
    assert living(pid)
    assert await stopped(own.daemon) == 0
    assert not living(pid)
    assert own.tracebacks() == ""


async def test_a_start_while_the_daemon_stops_is_refused_and_says_what_to_do(own: World) -> None:
    ready = own.dir / "ready"
    await own.start("deaf", "ignore SIGINT", f"write {ready} x", "hang")
    await until(ready.exists)
    stopping = stopped(own.daemon)
    await until(lambda: "SIGTERM: stopping" in own.daemon.log_text())
    try:
        await own.agent.call("start", name="late", prompt=prompt("text x"))
    except ToolError as refusal:
        assert str(refusal).startswith("start error: the daemon is stopping and takes no new runs")
    else:
        raise AssertionError("it was taken")
    assert await stopping.addTimeout(STOP_S, reactor) == 0
    assert [todo["subagent"]["name"] for todo in own.todos()] == ["deaf"]


async def test_the_start_after_a_kill_of_the_daemon_ends_what_still_bears_its_mark(tmp_path: Path) -> None:
    real = write_wrapper(tmp_path / "real")
    wrapper = tmp_path / "wrapper"
    # It does not exec, and no SIGTERM ends it: the death of its parent goes by it.
    wrapper.write_text(f"#!/bin/sh\ntrap '' TERM\n{real} \"$@\"\nexit $?\n")
    wrapper.chmod(0o755)
    with world(tmp_path / "own", claude=str(wrapper)) as own:
        told = [own.dir / each for each in ("deaf", "grandchild")]
        deaf = await own.start("deaf", "ignore SIGINT,SIGTERM", f"spawn echo $PPID > {quoted(told[0])}", "hang")
        grandchild = f"spawn own-session trap '' TERM; echo $$ > {quoted(told[1])}; while :; do sleep 1; done"
        await own.start("parent", grandchild, "hang")
        left = [deaf["pid"], *[await pid_in(path) for path in told]]
        assert await stopped(own.daemon, signal.SIGKILL) == -signal.SIGKILL
        assert all(living(pid) for pid in left)
        orphans = own.turn_processes()
        assert orphans >= set(left[1:])
        await deferToThread(own.daemon.start)
        await until(lambda: not any(living(pid) for pid in (*left, *orphans)), "the end of what the dead one left")
        await until(lambda: not own.turn_processes(), "the end of whatever bears a mark")
        assert (await own.agent.call("status"))["subagents"] == []
        assert own.configs() == []
        await until(lambda: len(json.loads((own.daemon.state / "marks.json").read_text())) == 1)
        # What it runs itself bears another mark.
        await own.all_goes_on()
        assert own.tracebacks() == ""


def test_a_stop_the_instant_that_it_is_ready_is_clean(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, claude=write_wrapper(tmp_path / "claude"))
    with daemon:
        assert daemon.stop() == 0
        assert "SIGTERM: stopping" in daemon.log_text()
