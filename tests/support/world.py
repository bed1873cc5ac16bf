"""A whole daemon on the stand-in for claude, what a fault may leave of it, and the faults' table."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import treq
from attrs import define, field
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.error import ConnectError
from twisted.internet.threads import deferToThread
from twisted.web.client import RequestTransmissionFailed, ResponseFailed

from hivesub.standin import write_wrapper
from hivesub.turns.processes import marked
from tests.support.agent import Agent, pause
from tests.support.daemon import Daemon

LOOK_S = 0.02
WATCH_S = 0.05
ROUNDED_S = 0.1
"""What an age may be off by: it is told to a tenth of a second."""
BOUND_S = 40.0
"""A machine that runs other tests beside can be slow."""


def prompt(*steps: str) -> str:
    """A prompt that has the stand-in do these steps."""
    return "\n".join(f"!standin {step}" for step in steps)


def quoted(path: Path) -> str:
    return shlex.quote(str(path))


def living(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


async def until(look: Callable[[], Any], what: str = "what is waited for") -> Any:
    """What a look gives, once that is true.

    :raises AssertionError: when it is not within `BOUND_S`.
    """
    from twisted.internet import reactor

    deadline = reactor.seconds() + BOUND_S
    while not (seen := look()):
        assert reactor.seconds() < deadline, f"{what} did not come within {BOUND_S:g} s"
        await pause(LOOK_S, reactor)
    return seen


async def answered(method: str, url: str, body: Any = None) -> tuple[int, tuple[Any, ...], bytes]:
    """All of an HTTP answer to JSON: status, headers, body."""
    answer = await treq.request(method, url, json=body or {}, persistent=False, timeout=BOUND_S)
    headers = sorted((name, tuple(values)) for name, values in answer.headers.getAllRawHeaders())
    return answer.code, tuple(headers), await answer.content()


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """What each of several calls gives, or the exception that it raises, all made at once."""

    async def outcome(call: Awaitable[Any]) -> Any:
        try:
            return await call
        except Exception as error:
            return error

    return await gatherResults([Deferred.fromCoroutine(outcome(call)) for call in calls])


class World:
    """A daemon with its agent. `dir`: for a test's files.

    :param dir: default: where its subagents run.
    """

    def __init__(self, daemon: Daemon, dir: Path | None = None) -> None:
        from twisted.internet import reactor

        self.daemon = daemon
        self.dir = daemon.work if dir is None else dir
        self._before = 0
        self._before = len(self.todos())
        self.agent = Agent(f"{daemon.url}/mcp", reactor)
        self._others = 0

    async def start(self, name: str, *steps: str, **arguments: Any) -> Any:
        """Start a scripted run; its record."""
        return (await self.agent.call("start", name=name, prompt=prompt(*steps), **arguments))["subagent"]

    async def run(self, name: str, *steps: str, **arguments: Any) -> Any:
        """Start a scripted run and wait for its end; its record."""
        await self.start(name, *steps, **arguments)
        return await self.agent.ended(name)

    def todos(self, name: str | None = None) -> list[Any]:
        """The todos that the file got since the world began, of one subagent or of all."""
        if not self.daemon.todos.exists():
            return []
        # Strictly: a line that is not UTF-8 is a fault.
        lines = self.daemon.todos.read_bytes().decode("utf-8").split("\n")[:-1]
        told = [json.loads(line) for line in lines[self._before :]]
        return [todo for todo in told if name is None or todo["subagent"]["name"] == name]

    async def todo(self, name: str) -> Any:
        """The one todo of a subagent, once it is delivered."""

        async def delivered() -> Any:
            return (await self.agent.record(name))["todo"] == "delivered"

        for _ in range(200):
            if await delivered():
                break
            await pause(LOOK_S, self.agent._reactor)
        (todo,) = self.todos(name)
        return todo

    # What may be left.

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.daemon.pid)

    def marks(self) -> list[str]:
        """The marks of this state directory's daemons, the living one last."""
        return list(json.loads((self.daemon.state / "marks.json").read_text()))

    def turn_processes(self) -> set[int]:
        """The living processes that bear the mark of a turn of this daemon, or of one before it."""
        return set().union(*(marked(f"{mark}-") for mark in self.marks()))

    def has_turn_processes(self, count: int) -> bool:
        """Whether there are exactly so many."""
        return len(self.turn_processes()) == count

    def configs(self) -> list[Path]:
        """The subagents' MCP config files that are there."""
        return [path for path in self.daemon.runtime.rglob("*") if path.is_file()]

    def drafts(self) -> list[Path]:
        """What is kept of todos that are under way, and drafts of files that were not written to their end."""
        pending = self.daemon.state / "todos" / "pending"
        return [*(pending.iterdir() if pending.exists() else ()), *self.daemon.state.rglob("*.tmp")]

    def children(self) -> list[psutil.Process]:
        """The daemon's children, zombies among them."""
        return list(self.process.children())

    def descriptors(self) -> list[str]:
        """What the daemon's descriptors are, the connections of clients among them."""
        found = []
        for entry in (Path("/proc") / str(self.daemon.pid) / "fd").iterdir():
            try:
                found.append(str(entry.readlink()))
            except OSError:
                continue
        return sorted(found)

    async def at_rest(self) -> list[str]:
        """Its descriptors once nothing runs: it asks claude what it can when it comes up."""
        await until(lambda: not self.children(), "the end of all children")
        return self.descriptors()

    def tracebacks(self) -> str:
        """The log, if it holds a traceback."""
        log = self.daemon.log_text()
        return log if "Traceback" in log else ""

    async def nothing_left(self, descriptors: list[str] | None = None) -> None:
        """See that neither processes, zombies, config files, kept todos nor descriptors are left.

        :param descriptors: what there was before; compared by number, as pipes and sockets have names of their own.
        """
        await until(lambda: not self.turn_processes(), "the end of all of the turns' processes")
        await until(lambda: not self.children(), "the reaping of all children")
        await until(lambda: not self.configs(), "the removal of all config files")
        await until(lambda: not self.drafts(), "the removal of todos that are delivered")
        if descriptors is not None:
            await until(lambda: len(self.descriptors()) <= len(descriptors), "the closing of all descriptors")

    async def all_goes_on(self, name: str | None = None) -> None:
        """See that another run is started and finishes, and that its todo comes."""
        self._others += 1
        name = name or f"another-{self._others}"
        record = await self.run(name, "text all is well")
        assert (record["state"], record["last_turn"]["outcome"]) == ("idle", "finished"), record
        assert await self.todo(name)


@contextmanager
def world(root: Path, *, claude: str | None = None, **daemon: Any) -> Iterator[World]:
    """A daemon of a test's own, on the stand-in unless told otherwise, and stopped at the end."""
    root.mkdir(parents=True, exist_ok=True)
    path = claude if claude is not None else write_wrapper(root / "claude")
    with Daemon(root, claude=path, **daemon) as running:
        yield World(running)


@define
class Watch:
    """Asks for the status of all and holds each answer against the processes that there are and against the answers
    before. `answers`: how many came; a call that a fault is in the way of gives none.
    """

    world: World
    answers: int = 0
    done: bool = False
    _seen: dict[tuple[str, str], Any] = field(factory=dict)
    _seen_at: float = field(factory=time.monotonic)

    async def watch(self) -> None:
        from twisted.internet import reactor

        agent = Agent(f"{self.world.daemon.url}/mcp", reactor)
        while not self.done:
            asked_at = time.monotonic()
            gone = {pid for one in self._seen.values() if (pid := one.get("pid")) and not psutil.pid_exists(pid)}
            try:
                records = (await agent.call("status"))["subagents"]
            except (ConnectError, RequestTransmissionFailed, ResponseFailed):
                pass
            else:
                self.answers += 1
                for record in records:
                    self._check(record, gone)
                self._seen |= {(record["name"], record["started_at"]): record for record in records}
                self._seen_at = asked_at
            await pause(WATCH_S, reactor)

    def _check(self, record: Any, gone: set[int]) -> None:
        seen = self._seen.get((record["name"], record["started_at"]))
        if record["state"] != "running":
            assert record.get("pid") is record["last_event_age_s"] is None, record
            assert record["stop_reason"] and record["ended_at"], record
            assert seen is None or not seen.get("pid") or not living(seen["pid"]), (seen, record)
            return
        assert record["stop_reason"] is record["ended_at"] is None, record
        assert seen is None or seen["state"] == "running", (seen, record)
        pid, age_s = record["pid"], record["last_event_age_s"]
        if pid is not None:
            children = {child.pid for child in self.world.children()}
            assert pid in children or (pid not in gone and not living(pid)), record
        if age_s is not None and (seen is not None or self.answers > 1):
            before_s = (seen or {}).get("last_event_age_s") or 0.0
            assert age_s <= before_s + time.monotonic() - self._seen_at + ROUNDED_S, (seen, record)


@asynccontextmanager
async def watched(world: World) -> AsyncIterator[Watch]:
    """Have the status of all asked for again and again meanwhile: it tells the truth each time, and it does answer."""
    watch = Watch(world)
    watching = Deferred.fromCoroutine(watch.watch())
    try:
        yield watch
    finally:
        watch.done = True
        await watching
    assert watch.answers


def stopped(daemon: Daemon, *number: int) -> Deferred[int]:
    """Stop a daemon while this process's reactor goes on; fires with its exit status."""
    return deferToThread(daemon.stop, *number)


@define
class Row:
    """One kind of fault: how often it was injected, and what became of it."""

    fault: str
    times: int
    lost: int
    left: int
    said: str


@define
class Table:
    """The faults injected so far."""

    rows: list[Row] = field(factory=list)

    def note(self, fault: str, times: int, *, lost: int = 0, left: int = 0, said: Iterable[str]) -> None:
        """Add a row. `lost`: outcomes that nobody was told; `left`: what stayed behind; `said`: by `status`."""
        self.rows.append(Row(fault, times, lost, left, ", ".join(dict.fromkeys(said))))
