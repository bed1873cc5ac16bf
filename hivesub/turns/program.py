"""Which claude there is, and what it can: asked of the program itself, once for each program that stands at the path.

Kept by the file's identity, so that a claude replaced while the daemon runs is asked again and one that was missing is
found later.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from typing import TYPE_CHECKING

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessTerminated
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger

from hivesub.errors import SpawnError, UnsupportedClaude
from hivesub.turns.command import MARK_VARIABLE, OPTION_FLAGS
from hivesub.turns.leftovers import end_leftovers
from hivesub.turns.processes import marked
from hivesub.turns.spawnerror import is_the_programs, no_process
from hivesub.waiters import OneShot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from twisted.internet.interfaces import IDelayedCall, IProcessTransport, IReactorProcess, IReactorTime
    from twisted.python.failure import Failure

PROBE_S = 15.0
"""Seconds that `--version` and `--help` may take each; measured 0.24 s and 0.55 s, claude 2.1.332."""
PROBE_LAUNCHED_S = 120.0
"""The same behind a launcher, which may have to wait for its turn, as a cluster's does."""
DRAIN_S = 1.0
"""Seconds after the exit until the pipes are closed, which something that claude started may hold."""
NEEDED = ("--tools", "--settings", "--strict-mcp-config", "--mcp-config", "--session-id", "--resume")
"""Flags without which a subagent would not be confined, or not be found again."""
KNOWN = (*NEEDED, "--name", *OPTION_FLAGS.values())
_MAX_HELP_BYTES = 1 << 20

_log = Logger()


@frozen(kw_only=True)
class Program:
    """A claude that can be run. `flags`: those of `KNOWN` that its `--help` lists. `version`: as it says itself."""

    path: str
    version: str
    flags: frozenset[str]


@frozen(kw_only=True)
class _Answer:
    """`fault`: what was wrong with how it ended, or "". `out`, `err`: what it wrote."""

    fault: str
    out: str
    err: str


class _Ask(ProcessProtocol):
    def __init__(self, clock: IReactorTime, within_s: float) -> None:
        self._within_s = within_s
        self.done: Deferred[_Answer] = Deferred()
        self._clock = clock
        self._pieces: dict[int, list[bytes]] = {1: [], 2: []}
        self._size = 0
        self._late: IDelayedCall | None = None
        self._too_late = False

    def connectionMade(self) -> None:
        transport: IProcessTransport = self.transport  # type: ignore[assignment]
        transport.closeStdin()
        self._late = self._clock.callLater(self._within_s, self._give_up, transport)

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        if self._size < _MAX_HELP_BYTES:
            self._size += len(data)
            self._pieces[childFD].append(data)

    def processExited(self, reason: Failure) -> None:
        self._cancel_late()
        self._late = self._clock.callLater(DRAIN_S, self._drained)

    def _drained(self) -> None:
        # After a stall this can fall due before the reactor has read again: its next turn does.
        self._late = self._clock.callLater(0, self.transport.loseConnection)  # type: ignore[union-attr]

    def processEnded(self, reason: Failure) -> None:
        self._cancel_late()
        fault = ""
        if self._too_late:
            fault = f"no answer within {self._within_s:g} s"
        elif isinstance(reason.value, ProcessTerminated):
            code, number = reason.value.exitCode, reason.value.signal
            fault = f"exit code {code}" if number is None else f"died on signal {number}"
        out, err = (self._text(fd) for fd in (1, 2))
        self.done.callback(_Answer(fault=fault, out=out, err=err))

    def _text(self, fd: int) -> str:
        said = b"".join(self._pieces[fd]).decode("utf-8", "replace")
        # Where not all was kept the last line may be cut, and with it a secret.
        return said if self._size < _MAX_HELP_BYTES else said.rpartition("\n")[0]

    def _give_up(self, transport: IProcessTransport) -> None:
        self._too_late = True
        transport.signalProcess("KILL")

    def _cancel_late(self) -> None:
        if self._late is not None and self._late.active():
            self._late.cancel()


class Claude:
    """The claude program that turns are run with.

    :param path: what `--claude` says: a path, or a name to be looked up on the `PATH` of `environ`.
    :param environ: the child's; each asking's own mark begins with the `HIVESUB_TURN` in it.
    :param prefix: what stands before claude in each command (`--launcher`).
    :param redact: replaces the daemon's secrets in what claude says. Default: it knows none.
    :param marked: gives the ids of the living processes whose mark begins with a prefix.
    """

    def __init__(
        self,
        reactor: IReactorProcess,
        clock: IReactorTime,
        *,
        path: str,
        environ: Mapping[str, str],
        prefix: Sequence[str] = (),
        redact: Callable[[str], str] = str,
        marked: Callable[[str], set[int]] = marked,
    ) -> None:
        self._reactor = reactor
        self._clock = clock
        self._path = path
        self._environ = environ
        self._prefix = tuple(prefix)
        self._redact = redact
        self._marked = marked
        self._asked: dict[tuple[object, ...], Program] = {}
        self._asking: dict[tuple[object, ...], OneShot[Program]] = {}

    def find(self) -> str:
        """The absolute path of the program. Behind a launcher, where no program here fits it, the text of `--claude`:
        the launcher may lead to where there is one.

        :raises SpawnError: says what was looked for and where.
        """
        found = shutil.which(self._path, path=self._environ.get("PATH", os.defpath))
        if found is None and self._prefix:
            return self._path
        if found is None:
            where = "" if os.sep in self._path else " on PATH"
            raise SpawnError(f"no program {self._path!r}{where}: install claude, or name it with --claude")
        return os.path.abspath(found)

    def program(self) -> Deferred[Program]:
        """Ask claude for its version and flags, unless the same file was asked before.

        :returns: fires with the program; each call gives its own Deferred, and cancelling it lets the asking go on.
            Fails with `SpawnError` when it cannot be run, `UnsupportedClaude` when a needed flag is missing.
        """
        return Deferred.fromCoroutine(self._program())

    async def _program(self) -> Program:
        try:
            path = self.find()
            stat = None if self._prefix and not os.path.exists(path) else os.stat(path)
        except OSError as error:  # replaced this very moment, or on a relative PATH in a directory that was deleted
            raise SpawnError(f"{error.filename or self._path} cannot be run: {error.strerror or error}") from error
        # One that is elsewhere is asked once: nothing here shows when it is replaced.
        key: tuple[object, ...] = (path,)
        if stat is not None:
            key = (path, stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
        known = self._asked.get(key)
        if known is None:
            asking = self._asking.get(key)
            if asking is None:
                asking = self._asking[key] = OneShot()
                Deferred.fromCoroutine(self._ask(path)).addBoth(self._answered, key)
            known = await asking.wait()
        missing = [flag for flag in NEEDED if flag not in known.flags]
        if missing:
            raise UnsupportedClaude(
                f"{path} is {known.version}, which lacks {', '.join(missing)}: "
                "a subagent could not be confined. Install a newer claude, or name another with --claude"
            )
        return known

    def _answered(self, answer: Program | Failure, key: tuple[object, ...]) -> None:
        if isinstance(answer, Program):
            self._asked = {key: answer}
        self._asking.pop(key).fire(answer)

    async def _ask(self, path: str) -> Program:
        version = await self._output(path, "--version")
        text = await self._output(path, "--help")
        listed = text.out + text.err
        flags = frozenset(flag for flag in KNOWN if re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", listed))
        first = (self._redact(version.out).strip().splitlines() or ["of unknown version"])[0]
        return Program(path=path, version=first[:100], flags=flags)

    async def _output(self, path: str, argument: str) -> _Answer:
        asked = _Ask(self._clock, PROBE_LAUNCHED_S if self._prefix else PROBE_S)
        argv = [*self._prefix, path, argument]
        mark = f"{self._environ.get(MARK_VARIABLE, 'probe')}.{secrets.token_hex(8)}"
        try:
            self._reactor.spawnProcess(asked, argv[0], argv, env={**self._environ, MARK_VARIABLE: mark}, path=None)
        except OSError as error:
            why = f"{argv[0]} cannot be run: {error.strerror or error}" if is_the_programs(error) else no_process(error)
            raise SpawnError(why) from error
        answer = await asked.done
        if answer.fault:
            whose = f"a claude that was asked for {argument}"
            try:
                await end_leftovers([mark], clock=self._clock, marked=self._marked, whose=whose)
            except OSError:
                _log.failure("looking for what {whose} left failed", whose=whose)
            words = self._redact(answer.err).strip() or self._redact(answer.out).strip() or "nothing"
            said = words.splitlines()[-1][:500]
            raise SpawnError(f"{path} does not run: {answer.fault} for {argument}, saying {said!r}")
        return answer
