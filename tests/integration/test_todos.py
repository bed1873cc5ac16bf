"""Todos over real HTTP on loopback, to receivers that misbehave, across restarts; and the page about them."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from attrs import define, field
from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessExitedAlready
from twisted.internet.interfaces import IReactorFromThreads, ITransport
from twisted.internet.protocol import Factory, ProcessProtocol, Protocol
from twisted.internet.task import Clock, deferLater

from hivesub.records import TodoState
from hivesub.system.appendfile import DaemonThreads
from hivesub.todos.client import bounded_client
from hivesub.todos.outbox import Outbox
from hivesub.todos.sinks import make_sink
from hivesub.todos.store import TodoStore
from hivesub.todos.todo import build_todo
from tests.support.listening import listening

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "todo.md"

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
BROKEN = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
HALF = b"HTTP/1.1 200 OK\r\nContent-Le"


@define(eq=False)
class Receiver(Factory):
    """Notes the id of each whole POST and answers with the next of `answers`, the last one again and again.

    A None is no answer. `hang_up`: whether it closes the connection after its answer. `open`: the connections that are.
    """

    answers: list[bytes | None] = field(factory=lambda: [OK])
    hang_up: bool = True
    ids: list[str] = field(factory=list)
    open: int = 0

    def buildProtocol(self, addr: object) -> Protocol:
        return ReceiverProtocol(self)


class ReceiverProtocol(Protocol):
    transport: ITransport

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.data = b""

    def connectionMade(self) -> None:
        self.receiver.open += 1

    def connectionLost(self, reason: object = None) -> None:
        self.receiver.open -= 1

    def dataReceived(self, data: bytes) -> None:
        self.data += data
        head, end, body = self.data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if not end or length is None or len(body) < int(length[1]):
            return
        key = re.search(rb"(?i)idempotency-key: (.*)", head)
        assert key is not None
        assert json.loads(body)["id"] == key[1].strip().decode()
        self.receiver.ids.append(json.loads(body)["id"])
        answers = self.receiver.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if answer is not None:
            self.transport.write(answer)
            if self.receiver.hang_up:
                self.transport.loseConnection()


class World:
    """An outbox over one state directory; waits between attempts pass as `clock` is advanced."""

    def __init__(self, state_dir: Path, *targets: str) -> None:
        self.clock = Clock()
        self.states: dict[str, TodoState] = {}
        self.store = TodoStore(state_dir)
        in_thread = DaemonThreads(cast(IReactorFromThreads, reactor))
        make: dict[str, Any] = {
            "base_dir": str(state_dir),
            "client": bounded_client(reactor),
            "clock": self.clock,
            "in_thread": in_thread,
        }
        sinks = [make_sink(target, **make) for target in targets]
        self.outbox = Outbox(store=self.store, sinks=sinks, clock=self.clock, in_thread=in_thread, random=lambda: 1.0)

    def push(self, *ids: str) -> None:
        for todo_id in ids:
            todo = build_todo(
                example()["subagent"], todo_id=todo_id, created_at=datetime.fromisoformat("2031-05-06T00:00Z")
            )
            self.outbox.push(todo, partial(self.states.__setitem__, todo_id))

    def is_delivered(self, todo_id: str) -> bool:
        return self.states[todo_id] is TodoState.DELIVERED

    def settled(self) -> list[int]:
        """How many sinks have each waiting todo, as the files tell."""
        files = sorted(self.store.pending.glob("*.json"))
        return [len(json.loads(path.read_bytes())["settled"]) for path in files]

    async def retry_until(self, condition: Callable[[], bool]) -> None:
        """Let the waits between attempts pass, in small steps, until the condition holds."""
        await until(condition, lambda: self.clock.advance(0.05))

    async def stop(self) -> None:
        stopped = self.outbox.stopService()
        done: list[object] = []
        stopped.addBoth(done.append)
        await until(lambda: bool(done), lambda: self.clock.advance(0.05))
        await until(lambda: self.outbox._disk_calls == 0)


async def until(condition: Callable[[], bool], between: Callable[[], object] = lambda: None) -> None:
    async def look() -> None:
        while not condition():
            between()
            await deferLater(reactor, 0.002)

    await Deferred.fromCoroutine(look()).addTimeout(10, reactor)


def example() -> dict[str, Any]:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    example = json.loads(block)
    assert isinstance(example, dict)
    return example


async def test_a_receiver_that_was_down_broken_and_half_has_each_todo_once_by_id_after_a_restart(
    tmp_path: Path,
) -> None:
    receiver = Receiver()
    async with listening(receiver) as port:
        pass
    url = f"http://127.0.0.1:{port}/hook"
    first = World(tmp_path, url)
    first.outbox.startService()
    first.push("a", "b")
    await first.retry_until(lambda: len(list(first.store.pending.glob("*.json"))) == 2 and first.clock.seconds() > 2)
    assert first.states == {"a": TodoState.PENDING, "b": TodoState.PENDING}
    await first.stop()

    second = World(tmp_path, url)
    second.outbox.startService()
    receiver.answers = [BROKEN, HALF, BROKEN, OK]
    async with listening(receiver, port):
        second.push("c")
        await second.retry_until(lambda: second.outbox.waiting == 0 and second.states == {"c": TodoState.DELIVERED})
        await second.stop()
    assert set(receiver.ids) == {"a", "b", "c"}
    assert len(receiver.ids) == 6
    assert second.store.load() == []

    third = World(tmp_path, url)
    third.outbox.startService()
    await third.stop()
    assert third.outbox.waiting == 0


async def test_an_attempt_cut_off_by_a_stop_is_made_again_with_the_same_id(tmp_path: Path) -> None:
    receiver = Receiver([None, OK])
    async with listening(receiver) as port:
        first = World(tmp_path, f"http://127.0.0.1:{port}/")
        first.push("a")
        await until(lambda: receiver.ids == ["a"])
        await first.stop()
        await until(lambda: receiver.open == 0)
        assert [kept.todo["id"] for kept in first.store.load()] == ["a"]
        second = World(tmp_path, f"http://127.0.0.1:{port}/")
        second.outbox.startService()
        await until(lambda: receiver.ids == ["a", "a"])
        await second.stop()
    assert second.store.load() == []


async def test_a_redirect_is_not_followed_and_makes_a_dead_letter(tmp_path: Path) -> None:
    elsewhere = Receiver()
    async with listening(elsewhere) as other_port:
        location = f"http://127.0.0.1:{other_port}/".encode()
        receiver = Receiver([b"HTTP/1.1 307 Go\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n"])
        async with listening(receiver) as port:
            world = World(tmp_path, f"http://127.0.0.1:{port}/")
            world.push("a")
            await until(lambda: world.states["a"] is TodoState.UNDELIVERED)
            await world.stop()
    assert (receiver.ids, elsewhere.ids) == (["a"], [])
    (letter,) = (tmp_path / "todos" / "dead-letter.jsonl").read_text().splitlines()
    assert json.loads(letter)["todo"]["id"] == "a"


async def test_a_receiver_that_never_answers_holds_up_no_other_and_is_hung_up_on(tmp_path: Path) -> None:
    silent, good = Receiver([None, OK]), Receiver()
    async with listening(silent) as silent_port, listening(good) as good_port:
        world = World(tmp_path, f"http://127.0.0.1:{silent_port}/", f"http://127.0.0.1:{good_port}/", "todos.jsonl")
        world.push("a", "b")
        await until(lambda: world.settled() == [2, 2] and silent.ids == ["a"])
        assert world.states == {"a": TodoState.PENDING, "b": TodoState.PENDING}
        world.clock.advance(30)
        await until(lambda: silent.open == 0)
        await world.retry_until(lambda: set(world.states.values()) == {TodoState.DELIVERED})
        await world.stop()
    assert (silent.ids, good.ids) == (["a", "b", "a"], ["a", "b"])
    lines = (tmp_path / "todos.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["a", "b"]


async def test_a_good_status_delivers_whatever_the_body_and_leaves_no_connection(tmp_path: Path) -> None:
    bodies = {
        "cut": b"Content-Length: 100\r\n\r\nhalf",
        "endless": b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n" + b"x" * 1024 + b"\r\n",
        "huge": b"Content-Length: 99999999999\r\n\r\n" + b"x" * 100_000,
        "packed": b"Content-Encoding: gzip\r\nContent-Length: 20\r\n\r\n" + b"\x1f\x8b" + b"0" * 18,
        "empty": b"Content-Length: 0\r\n\r\n",
        "until the end": b"\r\nabc",
    }
    receiver = Receiver([b"HTTP/1.1 202 Accepted\r\n" + body for body in bodies.values()], hang_up=False)
    async with listening(receiver) as port:
        world = World(tmp_path, f"http://127.0.0.1:{port}/")
        ids = [f"t-{number}" for number in range(len(bodies))]
        world.push(*ids)
        await world.retry_until(lambda: set(world.states.values()) == {TodoState.DELIVERED})
        await until(lambda: receiver.open == 0)
        await world.stop()
    assert receiver.ids == ids


@pytest.mark.parametrize(
    "endless",
    [b"HTTP/1.1 200 OK\r\n" + b"X-A: %b\r\n" % (b"y" * 8000) * 20, b"HTTP/1.1 102 Processing\r\nX-A: y\r\n\r\n" * 4000],
    ids=["headers", "interim answers"],
)
async def test_a_receiver_whose_headers_have_no_end_is_hung_up_on(tmp_path: Path, endless: bytes) -> None:
    receiver = Receiver([endless, OK], hang_up=False)
    async with listening(receiver) as port:
        world = World(tmp_path, f"http://127.0.0.1:{port}/")
        world.push("a")
        await until(lambda: receiver.ids == ["a"] and receiver.open == 0)
        await world.retry_until(lambda: world.states["a"] is TodoState.DELIVERED)
        await world.stop()
    assert receiver.ids == ["a", "a"]


async def test_the_page_shows_the_todo_as_it_is_built() -> None:
    shown = example()
    created_at = datetime.fromisoformat(shown["created_at"])
    assert build_todo(shown["subagent"], todo_id=shown["id"], created_at=created_at) == shown


class Program(ProcessProtocol):
    def __init__(self) -> None:
        self.out = self.err = b""
        self.ended: Deferred[None] = Deferred()

    def outReceived(self, data: bytes) -> None:
        self.out += data

    def errReceived(self, data: bytes) -> None:
        self.err += data

    def processEnded(self, reason: object) -> None:
        self.ended.callback(None)


async def test_the_receiver_on_the_page_takes_each_todo_once(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert len(code.splitlines()) <= 20
    any_port = code.replace('("127.0.0.1", 8788)', '("127.0.0.1", 0)').replace(
        "server.serve_forever()", "print(server.server_port, flush=True)\nserver.serve_forever()"
    )
    program = Program()
    process = reactor.spawnProcess(program, sys.executable, [sys.executable, "-c", any_port], env={})
    try:
        await until(lambda: b"\n" in program.out or program.ended.called)
        port = int(program.out.splitlines()[0])
        for _ in range(2):  # a second outbox that knows nothing of the first, as after a crash
            world = World(tmp_path, f"http://127.0.0.1:{port}/")
            world.push("a")
            await until(partial(world.is_delivered, "a"))
            await world.stop()
        assert program.out.decode().splitlines()[1:] == [example()["title"], *example()["body"].splitlines()]
        assert program.err.count(b"204") == 2
    finally:
        try:
            process.signalProcess("KILL")
        except ProcessExitedAlready:
            pass
        await program.ended.addTimeout(10, reactor)
