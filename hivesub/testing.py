"""Fakes for tests of hivesub and of what is built on it: a reactor that spawns nothing, its children, and a source of
turns.

They follow what Twisted does on Linux (measured, 26.10): `processExited` comes when the child is reaped, with its id
gone from the transport; `processEnded` when its pipes are closed too, which a grandchild can put off for ever;
`loseConnection` after the exit closes them at once; a signal to what has exited raises.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ProcessDone, ProcessExitedAlready, ProcessTerminated
from twisted.internet.interfaces import IProcessTransport, IReactorProcess
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from hivesub.interfaces import ITurn, ITurnSpawner
from hivesub.records import Control, LeftProcess, TurnEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from twisted.internet.interfaces import IProcessProtocol

    from hivesub.interfaces import Signalled
    from hivesub.records import Init, Result, Retrying, SettingsSeen, SignalKind, TurnSpec


class _HeldStdin:
    """The pipe to a stdin that somebody holds: closed by force alone, as Twisted's is while it has more to write."""

    def __init__(self, child: FakeChild) -> None:
        self._child = child

    def connectionLost(self, reason: Failure) -> None:
        self._child.pipes.clear()
        self._child.loseConnection()


@implementer(IProcessTransport)
class FakeChild:
    """A child process as its protocol sees it. Tests say what it writes and when it exits; nothing happens by itself.

    `stdin`: what was written to it. `stdin_closed`: whether it was closed after that. `signals`: numbers that reached
    it.
    """

    def __init__(
        self, protocol: IProcessProtocol, pid: int, argv: Sequence[str], env: Mapping[str, str] | None
    ) -> None:
        self.protocol = protocol
        self.pid: int | None = pid
        self.argv = list(argv)
        self.env = env
        self.stdin = b""
        self.stdin_closed = False
        self.signals: list[int] = []
        self.pipes_closed = False
        self.pipes: dict[int, _HeldStdin] = {}
        self._reason: Failure | None = None

    # What the child does.

    def stdin_is_held(self) -> None:
        """Start something that holds stdin and reads none of what is still to be written there."""
        self.pipes = {0: _HeldStdin(self)}

    def out(self, data: bytes) -> None:
        """Write to stdout."""
        self.protocol.childDataReceived(1, data)

    def err(self, data: bytes) -> None:
        """Write to stderr."""
        self.protocol.childDataReceived(2, data)

    def exit(self, code: int = 0, *, pipes: bool = True) -> None:
        """Exit with a code. `pipes`: whether the pipes close with it, as no grandchild holds them."""
        status = ProcessDone(code << 8) if code == 0 else ProcessTerminated(exitCode=code, status=code << 8)
        self._gone(Failure(status), pipes)

    def die(self, number: int, *, pipes: bool = True) -> None:
        """Die on a signal."""
        self._gone(Failure(ProcessTerminated(signal=number, status=number)), pipes)

    def close_pipes(self) -> None:
        """Whoever held the pipes after the exit has let go of them."""
        if not self.pipes_closed:
            self.pipes_closed = True
            assert self._reason is not None, "the pipes of a living child"
            self.protocol.processEnded(self._reason)

    def _gone(self, reason: Failure, pipes: bool) -> None:
        self.pid = None
        self._reason = reason
        self.protocol.processExited(reason)
        if pipes:
            self.close_pipes()

    # What its protocol asks of the transport.

    def write(self, data: bytes) -> None:
        self.stdin += data

    def writeToChild(self, childFD: int, data: bytes) -> None:
        assert childFD == 0
        self.write(data)

    def writeSequence(self, seq: Any) -> None:
        self.write(b"".join(seq))

    def closeStdin(self) -> None:
        self.stdin_closed = True

    def closeStdout(self) -> None: ...

    def closeStderr(self) -> None: ...

    def closeChildFD(self, descriptor: int) -> None:
        if descriptor == 0:
            self.closeStdin()

    def loseConnection(self) -> None:
        if self._reason is not None and not self.pipes:
            self.close_pipes()

    def getHost(self) -> Any:
        raise NotImplementedError

    def getPeer(self) -> Any:
        raise NotImplementedError

    def signalProcess(self, signalID: str | int) -> None:
        if self.pid is None:
            raise ProcessExitedAlready
        self.signals.append(signalID if isinstance(signalID, int) else signal.Signals[f"SIG{signalID}"].value)


@implementer(IReactorProcess)
class FakeProcessReactor(Clock):
    """A `Clock` that keeps what was spawned in `children`. Set `spawn_error` to have the next spawn raise it."""

    def __init__(self) -> None:
        super().__init__()
        self.children: list[FakeChild] = []
        self.spawn_error: Exception | None = None
        # Beyond what Linux ever gives: a signal that slips through to the system reaches nobody.
        self._next_pid = 5_000_000

    def spawnProcess(  # type: ignore[override]
        self,
        processProtocol: IProcessProtocol,
        executable: str | bytes,
        args: Sequence[str | bytes] = (),
        env: Mapping[str, str] | None = None,
        path: str | None = None,
        uid: int | None = None,
        gid: int | None = None,
        usePTY: bool = False,
        childFDs: Mapping[int, int | str] | None = None,
    ) -> IProcessTransport:
        assert (path, uid, gid, usePTY) == (None, None, None, False), "only then is posix_spawn used"
        error, self.spawn_error = self.spawn_error, None
        if error is not None:
            raise error
        self._next_pid += 1
        child = FakeChild(processProtocol, self._next_pid, [str(arg) for arg in args], env)
        self.children.append(child)
        processProtocol.makeConnection(child)
        return child


class FakeKin:
    """Stands for what a child started. `left`: how many of it live; `sent`: (signal, whether to the child too).

    `hears`: the signals that end what is left.
    """

    def __init__(self) -> None:
        self.left = 0
        self.hears = {signal.SIGTERM, signal.SIGKILL}
        self.sent: list[tuple[int, bool]] = []

    def others(self) -> list[int]:
        return list(range(self.left))

    def named(self) -> tuple[LeftProcess, ...]:
        return tuple(LeftProcess(pid=number, name=f"left{number}") for number in range(self.left))

    def send(self, number: int, *, child: bool) -> int:
        self.sent.append((number, child))
        reached = self.left
        if number in self.hears:
            self.left = 0
        return reached


@implementer(ITurn)
class FakeTurn:
    """A turn that a test ends. `stopped`: the reasons that `stop` was called with."""

    def __init__(self, spec: TurnSpec, signalled: Signalled, pid: int) -> None:
        self.spec = spec
        self._signalled = signalled
        self.mark = f"mark-{pid}"
        self.settings_seen: SettingsSeen | None = None
        self.pid: int | None = pid
        self.last_event_at: float | None = 0.0
        self.control = Control.UNKNOWN
        self.init: Init | None = None
        self.result: Result | None = None
        self.escalated = False
        self.signals_sent: tuple[int, ...] = ()
        self.bytes_read = 0
        self.activity: dict[int, int] = {}
        self.stopped: list[str] = []
        self.retrying: Retrying | None = None
        self._ended: TurnEnd | None = None
        self._under_way: list[Deferred[None]] = []
        self._end: list[Deferred[TurnEnd]] = []

    def signalled(self, kind: SignalKind, message: str, report_file: str | None) -> str:
        """A signal came; the note of its answer, or "" where that is still to come."""
        notes: list[Any] = []
        self._signalled(kind, message, report_file).addBoth(notes.append)
        if notes and isinstance(notes[0], Failure):
            notes[0].raiseException()
        return str(notes[0]) if notes else ""

    def begin(self, init: Init) -> None:
        """An `init` event came."""
        self.init = init
        self._fire_under_way()

    def end(self, end: TurnEnd) -> None:
        """The process has gone."""
        self._ended = end
        self.pid = None
        self.last_event_at = None
        self._fire_under_way()
        waiting, self._end = self._end, []
        for waiter in waiting:
            waiter.callback(end)

    def when_under_way(self) -> Deferred[None]:
        if self.init is not None or self._ended is not None:
            return succeed(None)
        waiter: Deferred[None] = Deferred(self._under_way.remove)
        self._under_way.append(waiter)
        return waiter

    def when_ended(self) -> Deferred[TurnEnd]:
        if self._ended is not None:
            return succeed(self._ended)
        waiter: Deferred[TurnEnd] = Deferred(self._end.remove)
        self._end.append(waiter)
        return waiter

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)

    def _fire_under_way(self) -> None:
        waiting, self._under_way = self._under_way, []
        for waiter in waiting:
            waiter.callback(None)


@implementer(ITurnSpawner)
class FakeTurnSpawner:
    """Gives `FakeTurn`s, kept in `turns`.

    `error`: what the next spawn fails with. `hold`: keep spawns waiting until `release`. `swept`: the marks of the runs
    whose leftovers were to be ended; `there`: the ids of those that are still there.
    """

    def __init__(self) -> None:
        self.turns: list[FakeTurn] = []
        self.swept: list[str] = []
        self.there: set[int] = set()
        self.error: Exception | None = None
        self.hold = False
        self._held: list[tuple[Deferred[ITurn], FakeTurn]] = []

    def spawn(self, spec: TurnSpec, signalled: Signalled) -> Deferred[ITurn]:
        error, self.error = self.error, None
        if error is not None:
            return fail(error)
        turn = FakeTurn(spec, signalled, 2000 + len(self.turns))
        if self.hold:
            waiting: Deferred[ITurn] = Deferred(lambda it: self._held.remove((it, turn)))
            self._held.append((waiting, turn))
            return waiting
        self.turns.append(turn)
        return succeed(turn)

    def end_left(self, run_mark: str) -> Deferred[int]:
        self.swept.append(run_mark)
        return succeed(0)

    def still_there(self, run_mark: str, pids: Iterable[int]) -> set[int]:
        return self.there & set(pids)

    @property
    def held_turns(self) -> list[FakeTurn]:
        """The turns whose spawns wait."""
        return [turn for _, turn in self._held]

    def release(self) -> None:
        """Let the spawns that were held come about."""
        held, self._held = self._held, []
        for waiting, turn in held:
            self.turns.append(turn)
            waiting.callback(turn)
