"""Turns over real processes: small shell programs stand for claude and for what it starts."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from twisted.internet import reactor
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import LoopingCall, deferLater

from hivesub.errors import SpawnError
from hivesub.records import Outcome, TurnEnd, TurnSpec
from hivesub.redaction.redactor import Redactor
from hivesub.runs.signals import Tokens
from hivesub.turns import ladder, leftovers
from hivesub.turns import turn as turn_module
from hivesub.turns.command import find_wrappers
from hivesub.turns.leftovers import end_leftovers
from hivesub.turns.processes import marked
from hivesub.turns.program import Claude
from hivesub.turns.serverfile import Servers
from hivesub.turns.spawner import TurnSpawner
from hivesub.turns.turn import Turn
from tests.support.options import grouped

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the wrappers and /proc are Linux's")

BOUND_S = 15
INIT = '{"type":"system","subtype":"init","session_id":"s","tools":["Read"],"mcp_servers":[]}'
RESULT = '{"type":"result","subtype":"success","is_error":false,"result":"done"}'
ANSWERS = """#!/bin/sh
case "$1" in
--version) echo '9.9.9 (Stand-in)'; exit 0;;
--help) echo '--tools --settings --strict-mcp-config --mcp-config --session-id --resume --name'; exit 0;;
esac
"""
STAY = "exec tail -f /dev/null"


class Bench:
    """Spawns turns whose claude is a shell program, and finds what they leave."""

    def __init__(self, dir: Path) -> None:
        self.dir = dir
        self.mark = f"test-{secrets.token_hex(8)}"
        self.path = dir / "claude"
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(dir)}
        self.claude = Claude(reactor, reactor, path=str(self.path), environ=self.environ)
        redactor = Redactor()
        self.source = TurnSpawner(
            reactor,
            reactor,
            now=lambda: datetime.now(UTC),
            claude=self.claude,
            wrappers=find_wrappers(self.environ["PATH"]),
            launcher=(),
            environ=self.environ,
            servers=Servers,
            config_dir=str(dir / "mcp"),
            tokens=Tokens(redactor),
            redactor=redactor,
            signal_url=lambda token: f"http://127.0.0.1:1/signal/mcp/{token}",
            new_mark=lambda: f"{self.mark}-{secrets.token_hex(4)}",
        )

    def install(self, body: str, answers: str = ANSWERS) -> None:
        self.path.write_text(answers + body + "\n")
        self.path.chmod(0o755)

    async def spawn(self, body: str, **changes: Any) -> Turn:
        self.install(body)
        fields: dict[str, Any] = {"name": "alpha", "prompt": b"go\n", "dir": self.dir, "tools": ("Read",)}
        spec = TurnSpec(**grouped({**fields, "session_id": "s", **changes}))
        turn = await bounded(self.source.spawn(spec, lambda *signal: succeed("")))
        assert isinstance(turn, Turn)
        return turn

    async def under_way(self, body: str) -> Turn:
        turn = await self.spawn(body)
        await bounded(turn.when_under_way())
        assert turn.init is not None
        return turn

    def left(self) -> set[int]:
        return marked(self.mark)

    def pids(self) -> set[int]:
        """The processes apart from `claude` itself that were started and wrote their ids."""
        return {int(file.read_text()) for file in self.dir.glob("*.pid")}


def bounded(waiting: Deferred[Any]) -> Deferred[Any]:
    return waiting.addTimeout(BOUND_S, reactor)


async def ended(turn: Turn) -> TurnEnd:
    end: TurnEnd = await bounded(turn.when_ended())
    return end


def until(true: Callable[[], object]) -> Deferred[None]:
    async def look() -> None:
        while not true():
            await deferLater(reactor, 0.01)

    return bounded(Deferred.fromCoroutine(look()))


def living(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    for pid in bench.left():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rungs in quick succession: how long they are is the unit tests' part."""
    monkeypatch.setattr(ladder, "RUNG_S", 0.3)
    monkeypatch.setattr(leftovers, "WAIT_S", 0.3)


def started(name: str, command: str, prefix: str = "") -> str:
    """Shell text that runs a command in the background and goes on once it is there; its id is in `NAME.pid`."""
    return (
        f"{prefix} sh -c 'echo $$ >{name}.tmp; mv {name}.tmp {name}.pid; {command}' &\n"
        f"while ! [ -e {name}.pid ]; do sleep 0.02; done"
    )


async def test_a_turn_runs_in_its_dir_on_its_prompt_and_in_a_session_of_its_own(bench: Bench) -> None:
    elsewhere = bench.dir / "else where"
    elsewhere.mkdir()
    files = {name: bench.dir / name for name in ("pwd", "prompt", "sid", "id")}
    body = f"""pwd >"{files["pwd"]}"; cat >"{files["prompt"]}"; ps -o sid= $$ >"{files["sid"]}"
echo $$ >"{files["id"]}"
echo '{INIT}'; echo '{RESULT}'"""
    prompt = b"- [ ] x\n" * 100_000
    turn = await bench.spawn(body, dir=elsewhere, prompt=prompt)
    pid = turn.pid
    assert (await ended(turn)).outcome is Outcome.FINISHED
    assert files["pwd"].read_text() == f"{elsewhere}\n"
    assert files["prompt"].read_bytes() == prompt
    assert int(files["sid"].read_text()) == int(files["id"].read_text()) == pid


async def test_a_grandchild_that_holds_stdout_does_not_hold_the_turn_and_is_left_alone(bench: Bench) -> None:
    turn = await bench.spawn(f"{started('g', STAY)}; echo '{INIT}'; echo '{RESULT}'; exit 0")
    end = await ended(turn)
    assert end.outcome is Outcome.FINISHED
    assert bench.left() == bench.pids()
    (pid,) = bench.pids()
    assert [left.pid for left in end.left] == [pid]
    assert bench.source.still_there(turn.mark, [pid, os.getpid()]) == {pid}
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not bench.source.still_there(turn.mark, [pid]))


async def test_what_ends_with_a_child_a_moment_after_it_was_not_left_running(bench: Bench) -> None:
    turn = await bench.spawn(f"{started('g', 'sleep 0.15')}; echo '{INIT}'; echo '{RESULT}'; exit 0")
    assert (await ended(turn)).left == ()


async def test_output_just_before_the_exit_is_read_to_its_end_although_the_pipe_stays_open(bench: Bench) -> None:
    # 60 KB fit into the pipe: the child is gone long before the last 8 KB are read.
    body = f"{started('g', STAY)}; echo '{INIT}'; head -c 60000 /dev/zero | tr '\\0' x; echo; echo '{RESULT}'; exit 0"
    end = await ended(await bench.spawn(body))
    assert (end.outcome, end.detail) == (Outcome.FINISHED, "")


def _later(exited: Callable[[], None]) -> None:
    time.sleep(0.15)
    exited()


async def test_a_stall_of_the_daemon_at_the_exits_of_several_children_loses_no_result(bench: Bench) -> None:
    # More than is read at once, so that the results are still in the pipes when the exits are seen.
    written = f"head -c 200000 /dev/zero | tr '\\0' x; echo; echo '{RESULT}'"
    body = f"echo '{INIT}'; while [ ! -e gone ]; do sleep 0.01; done; {written}; exit 0"
    turns = [await bench.under_way(body) for _ in range(3)]
    for turn in turns:
        turn._exited = partial(_later, turn._exited)
    # A timer that is due in every turn of the reactor.
    busy = LoopingCall(lambda: None)
    busy.start(0.01)
    try:
        (bench.dir / "gone").touch()
        for turn in turns:
            assert turn.pid is not None
            os.waitid(os.P_PID, turn.pid, os.WEXITED | os.WNOWAIT)
        assert [(await ended(turn)).outcome for turn in turns] == [Outcome.FINISHED] * 3
    finally:
        busy.stop()


async def test_descriptors_and_config_files_do_not_pile_up(bench: Bench) -> None:
    async def turn() -> None:
        body = f"rm -f g.pid; {started('g', STAY)}; echo '{INIT}'; echo '{RESULT}'; exit 0"
        assert (await ended(await bench.spawn(body))).outcome is Outcome.FINISHED

    await turn()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await turn()
    assert len(os.listdir("/proc/self/fd")) == before
    assert list((bench.dir / "mcp").iterdir()) == []


async def test_an_interrupt_ends_claude_its_children_and_what_made_a_session_of_its_own(bench: Bench) -> None:
    body = f"{started('a', STAY)}; {started('b', STAY, 'setsid')}; echo '{INIT}'; {STAY}"
    turn = await bench.under_way(body)
    assert len(bench.pids()) == 2
    turn.stop("interrupted by the agent")
    end = await ended(turn)
    assert (end.outcome, end.signal, turn.pid) == (Outcome.KILLED, "SIGINT", None)
    assert [pid for pid in bench.pids() if living(pid)] == []
    assert bench.left() == set()


async def test_a_wrapper_that_does_not_exec_goes_together_with_what_it_wraps(bench: Bench) -> None:
    # The real one is a child in the wrapper's group, which says `init` and stays.
    real = bench.dir / "real"
    real.write_text(f"#!/bin/sh\necho $$ >real.pid; echo '{INIT}'; {STAY}\n")
    real.chmod(0o755)
    turn = await bench.under_way("./real\nexit $?")
    assert bench.pids() - {turn.pid} == bench.pids()
    turn.stop("interrupted by the agent")
    assert (await ended(turn)).outcome is Outcome.KILLED
    assert [pid for pid in bench.pids() if living(pid)] == []


async def test_what_outlives_a_claude_that_was_killed_from_elsewhere_is_ended(bench: Bench) -> None:
    turn = await bench.under_way(f"{started('b', STAY, 'setsid')}; echo '{INIT}'; {STAY}")
    assert turn.pid is not None
    os.kill(turn.pid, signal.SIGKILL)
    end = await ended(turn)
    assert (end.outcome, end.signal) == (Outcome.KILLED, "SIGKILL")
    assert [pid for pid in bench.pids() if living(pid)] == []


async def test_a_child_that_ignores_sigint_and_sigterm_is_killed_and_it_is_told(bench: Bench, quick: None) -> None:
    turn = await bench.under_way(f"trap '' INT TERM; {started('a', STAY)}; echo '{INIT}'; {STAY}")
    pid = turn.pid
    assert pid is not None
    turn.stop("interrupted by the agent")
    end = await ended(turn)
    assert (end.outcome, end.signal, turn.escalated) == (Outcome.KILLED, "SIGKILL", True)
    assert [pid for pid in (pid, *bench.pids()) if living(pid)] == []


async def test_a_child_that_stays_after_its_result_whatever_it_is_told_is_finished_and_ended(
    bench: Bench, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_module, "LINGER_S", 0.3)
    turn = await bench.spawn(f"trap '' INT TERM; echo '{INIT}'; echo '{RESULT}'; exec <&-; {STAY}")
    pid = turn.pid
    assert pid is not None
    end = await ended(turn)
    assert end.outcome is Outcome.FINISHED
    assert "lingered" in end.detail
    assert not living(pid)
    assert bench.left() == set()


async def test_a_stop_right_after_the_spawn_reaches_the_child(bench: Bench, quick: None) -> None:
    turn = await bench.spawn(STAY)
    turn.stop("interrupted by the agent")
    assert (await ended(turn)).outcome is Outcome.KILLED
    assert bench.left() == set()


async def test_a_directory_of_the_daemon_that_was_deleted_stops_no_turn(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    turn = await bench.spawn(f"echo '{INIT}'; echo '{RESULT}'")
    assert (await ended(turn)).outcome is Outcome.FINISHED


async def test_orphans_are_ended_by_their_mark_also_those_that_ignore_sigterm(bench: Bench, quick: None) -> None:
    turn = await bench.spawn(
        f"{started('a', STAY, 'setsid')}; trap '' TERM; {started('b', STAY, 'setsid')}; echo '{INIT}'; echo '{RESULT}'"
    )
    await ended(turn)
    assert bench.left() == bench.pids()
    found = await bounded(end_leftovers([f"{bench.mark}-"], clock=reactor, marked=marked))
    assert (found, bench.left()) == (2, set())


async def test_a_zombie_and_this_process_bear_no_mark(bench: Bench) -> None:
    environ = {"HIVESUB_TURN": bench.mark}
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", STAY], {**bench.environ, **environ})
    try:
        await until(lambda: bench.left() == {pid})
        os.kill(pid, signal.SIGKILL)
        await until(lambda: bench.left() == set())
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    finally:
        os.waitpid(pid, 0)


async def test_claude_is_asked_for_its_version_and_flags(bench: Bench) -> None:
    bench.install("exit 1")
    program = await bounded(bench.claude.program())
    assert (program.version, "--name" in program.flags, "--model" in program.flags) == (
        "9.9.9 (Stand-in)",
        True,
        False,
    )


async def test_something_that_claude_starts_when_it_is_asked_does_not_hold_the_answer(bench: Bench) -> None:
    bench.environ["HIVESUB_TURN"] = f"{bench.mark}-probe"
    claude = Claude(reactor, reactor, path=str(bench.path), environ=bench.environ)
    bench.install("exit 1", ANSWERS.replace("case", f"{STAY.removeprefix('exec ')} &\ncase", 1))
    assert (await bounded(claude.program())).version == "9.9.9 (Stand-in)"


async def test_a_file_that_the_system_cannot_run_is_a_refusal(bench: Bench) -> None:
    bench.path.write_bytes(b"\x7fELF but not really")
    bench.path.chmod(0o755)
    with pytest.raises(SpawnError, match="claude"):
        await bounded(bench.claude.program())
