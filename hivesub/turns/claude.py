"""Which claude there is, and what it can: asked of the program itself, once for each program that stands at the path.

Kept by the file's identity, so that a claude replaced while the daemon runs is asked again and one that was missing is
found later.
"""

from __future__ import annotations

import os
import re
import shutil
from typing import TYPE_CHECKING

from attrs import frozen
from twisted.internet.defer import Deferred
from twisted.internet.error import ProcessTerminated
from twisted.internet.protocol import ProcessProtocol

from hivesub.errors import SpawnError, UnsupportedClaude

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from twisted.internet.interfaces import IDelayedCall, IReactorProcess, IReactorTime
    from twisted.python.failure import Failure

PROBE_S = 30.0
"""Seconds that `--version` and `--help` may take together; measured 0.24 s and 0.55 s, claude 2.1.332."""
NEEDED = ("--tools", "--strict-mcp-config", "--mcp-config", "--session-id", "--resume")
"""Flags without which a subagent would not be confined, or not be found again."""
KNOWN = (*NEEDED, "--name", "--model", "--effort", "--max-budget-usd")
_MAX_HELP_BYTES = 1 << 20


@frozen(kw_only=True)
class Program:
    """A claude that can be run. `flags`: those of `KNOWN` that its `--help` lists. `version`: as it says itself."""

    path: str
    version: str
    flags: frozenset[str]


class _Ask(ProcessProtocol):
    def __init__(self) -> None:
        self.done: Deferred[tuple[int | None, str]] = Deferred()
        self._pieces: list[bytes] = []
        self._size = 0

    def outReceived(self, data: bytes) -> None:
        if self._size < _MAX_HELP_BYTES:
            self._size += len(data)
            self._pieces.append(data)

    errReceived = outReceived

    def processEnded(self, reason: Failure) -> None:
        code = reason.value.exitCode if isinstance(reason.value, ProcessTerminated) else 0
        self.done.callback((code, b"".join(self._pieces).decode("utf-8", "replace")))


class Claude:
    """The claude program that turns are run with.

    :param path: what `--claude` says: a path, or a name to be looked up on the `PATH` of `environ`.
    :param prefix: what stands before claude in each command (`--launcher`).
    """

    def __init__(
        self,
        reactor: IReactorProcess,
        clock: IReactorTime,
        *,
        path: str,
        environ: Mapping[str, str],
        prefix: Sequence[str] = (),
    ) -> None:
        self._reactor = reactor
        self._clock = clock
        self._path = path
        self._environ = environ
        self._prefix = tuple(prefix)
        self._asked: dict[tuple[object, ...], Program] = {}
        self._asking: dict[tuple[object, ...], list[Deferred[Program]]] = {}

    def find(self) -> str:
        """The absolute path of the program.

        :raises SpawnError: says what was looked for and where.
        """
        found = shutil.which(self._path, path=self._environ.get("PATH", os.defpath))
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
        path = self.find()
        stat = os.stat(path)
        key = (path, stat.st_dev, stat.st_ino, stat.st_mtime_ns, stat.st_size)
        known = self._asked.get(key)
        if known is None:
            first = key not in self._asking
            waiters = self._asking.setdefault(key, [])
            waiter: Deferred[Program] = Deferred(waiters.remove)
            waiters.append(waiter)
            if first:
                Deferred.fromCoroutine(self._ask(path)).addBoth(self._answered, key)
            known = await waiter
        missing = [flag for flag in NEEDED if flag not in known.flags]
        if missing:
            raise UnsupportedClaude(
                f"{path} is {known.version}, which lacks {', '.join(missing)}: "
                "a subagent could not be confined to its tools. Install a newer claude, or name another with --claude"
            )
        return known

    def _answered(self, answer: Program | Failure, key: tuple[object, ...]) -> None:
        if isinstance(answer, Program):
            self._asked = {key: answer}
        for waiter in self._asking.pop(key):
            waiter.callback(answer)

    async def _ask(self, path: str) -> Program:
        code, version = await self._output(path, "--version")
        help_code, text = await self._output(path, "--help")
        if code or help_code:
            said = (version if code else text).strip().splitlines()[-1:] or ["nothing"]
            raise SpawnError(
                f"{path} does not run: exit code {code or help_code} for --version or --help, saying {said[0]!r}"
            )
        flags = frozenset(flag for flag in KNOWN if re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text))
        first = (version.strip().splitlines() or ["of unknown version"])[0]
        return Program(path=path, version=first[:100], flags=flags)

    async def _output(self, path: str, argument: str) -> tuple[int | None, str]:
        asked = _Ask()
        argv = [*self._prefix, path, argument]
        try:
            transport = self._reactor.spawnProcess(asked, argv[0], argv, env=dict(self._environ), path=None)
        except OSError as error:
            raise SpawnError(f"{argv[0]} cannot be run: {error.strerror or error}") from error
        transport.closeStdin()
        late: IDelayedCall = self._clock.callLater(PROBE_S, transport.signalProcess, "KILL")
        try:
            return await asked.done
        finally:
            if late.active():
                late.cancel()
