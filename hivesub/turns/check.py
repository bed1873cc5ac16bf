"""One run of a check: an operator's command, from spawn to exit, whose exit code is observed.

It runs as a turn's child does: in the run's directory, behind the launcher, in a session of its own, with a mark by
which all that it started is found and ended. Its environment is a child's, less the secrets.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.logger import Logger
from zope.interface import implementer

from hivesub.errors import Unanswered
from hivesub.interfaces import ICheck, IChecks
from hivesub.records import CheckEnd, CheckOutcome
from hivesub.redaction.detection import without_secrets
from hivesub.turns.command import child_environment, wrapped_argv
from hivesub.turns.ladder import Ladder
from hivesub.turns.outcome import signal_name, signal_of_exit_code
from hivesub.turns.pipes import let_go
from hivesub.turns.processes import Kin
from hivesub.turns.spawnerror import no_process
from hivesub.turns.stream import Tail
from hivesub.waiters import OneShot
from hivesub.wording import internal_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from twisted.internet.interfaces import IDelayedCall, IProcessTransport, IReactorProcess, IReactorTime
    from twisted.python.failure import Failure

    from hivesub.config.checks import Check
    from hivesub.system.lookups import Look
    from hivesub.turns.command import Wrappers
    from hivesub.turns.ladder import SignalsKin

TAIL_CHARS = 4000
"""Characters of a check's last output that are kept; nobody sees more of it."""
_TAIL_BYTES = 4 * TAIL_CHARS
DRAIN_S = 0.5
"""Seconds after the exit until the pipes are closed, which something that it started may hold."""
_log = Logger()
_NOT_FOUND = {126: "its program cannot be executed", 127: "its program was not found"}


@implementer(ICheck)
class RunningCheck(ProcessProtocol):
    """A `ProcessProtocol`. The end is the conjunction of the exit, closed pipes, and nothing left running."""

    def __init__(
        self,
        check: Check,
        *,
        clock: IReactorTime,
        now: Callable[[], datetime],
        redact: Callable[[str], str],
        make_ladder: Callable[[int, Callable[[], None]], Ladder],
    ) -> None:
        self.name = check.name
        self.began_at = clock.seconds()
        self._check = check
        self._clock = clock
        self._now = now
        self._redact = redact
        self._make_ladder = make_ladder
        self._output = Tail(_TAIL_BYTES)
        self._ladder: Ladder | None = None
        self._late: IDelayedCall | None = None
        self._timed_out = False
        self._stopped: str | None = None
        self._status: BaseException | None = None
        self._pipes_closed = False
        self._clear = False
        self._end: OneShot[CheckEnd] = OneShot()

    def when_ended(self) -> Deferred[CheckEnd]:
        return self._end.wait()

    def stop(self, reason: str) -> None:
        if self._status is not None or self._stopped is not None:
            return
        self._stopped = reason
        if self._ladder is not None:
            self._ladder.begin()
        else:
            self._end_without_process(CheckOutcome.KILLED, reason)

    @property
    def stopped(self) -> bool:
        """Whether somebody stopped it, perhaps before there was a process."""
        return self._stopped is not None

    def not_run(self, why: str) -> None:
        """No process could be made for it."""
        if not self.stopped:
            self._end_without_process(CheckOutcome.NOT_RUN, why)

    def _end_without_process(self, outcome: CheckOutcome, why: str) -> None:
        self._end.fire(
            CheckEnd(name=self.name, outcome=outcome, exit_code=None, detail=why, tail="", ended_at=self._now())
        )

    def connectionMade(self) -> None:
        transport: IProcessTransport = self.transport  # type: ignore[assignment]
        transport.closeStdin()
        self._ladder = self._make_ladder(transport.pid, self._all_clear)
        self._late = self._clock.callLater(self._check.timeout_s, self._time_is_up)

    def childDataReceived(self, childFD: int, data: bytes) -> None:
        self._output.feed(data)

    def processExited(self, reason: Failure) -> None:
        self._status = reason.value
        self._cancel_late()
        self._late = self._clock.callLater(DRAIN_S, let_go, self.transport)
        assert self._ladder is not None
        self._ladder.child_exited(sweep=True)

    def processEnded(self, reason: Failure) -> None:
        self._cancel_late()
        self._pipes_closed = True
        self._conclude()

    def _all_clear(self) -> None:
        self._clear = True
        self._conclude()

    def _time_is_up(self) -> None:
        if self._stopped is None and self._ladder is not None:
            self._timed_out = True
            self._ladder.begin()

    def _cancel_late(self) -> None:
        if self._late is not None and self._late.active():
            self._late.cancel()

    def _conclude(self) -> None:
        if self._pipes_closed and self._clear:
            self._end.fire(self._judged())

    def _judged(self) -> CheckEnd:
        code: int | None = getattr(self._status, "exitCode", None)
        number: int | None = getattr(self._status, "signal", None)
        signal = signal_name(number) if number is not None else signal_of_exit_code(code)
        outcome, detail = CheckOutcome.FAILED, ""
        if self._stopped is not None:
            outcome, detail = CheckOutcome.KILLED, self._stopped
        elif self._timed_out:
            outcome, detail = CheckOutcome.TIMED_OUT, f"not done after {self._check.timeout_s:g} s"
        elif signal is not None:
            outcome, detail = CheckOutcome.KILLED, f"died on {signal}; the daemon did not send it"
        elif code in _NOT_FOUND:
            outcome, detail = CheckOutcome.NOT_RUN, f"exit code {code}: {_NOT_FOUND[code]}"
        elif code == 0:
            outcome = CheckOutcome.PASSED
        # What is cut is cut after the secrets are replaced, so that no half of one is left.
        tail = self._redact(self._output.text())[-TAIL_CHARS:]
        return CheckEnd(name=self.name, outcome=outcome, exit_code=code, detail=detail, tail=tail, ended_at=self._now())


@implementer(IChecks)
class Checks:
    """The operator's checks.

    :param environ: the daemon's own; a check gets what a child gets, less what is named like a secret.
    :param look: looks at the run's directory.
    :param make_kin: gives, for a child's id and mark, what reaches it and all that it started with a signal.
    """

    def __init__(
        self,
        reactor: IReactorProcess,
        clock: IReactorTime,
        *,
        checks: Mapping[str, Check],
        now: Callable[[], datetime],
        redact: Callable[[str], str],
        wrappers: Wrappers,
        launcher: Sequence[str],
        environ: Mapping[str, str],
        look: Look,
        make_kin: Callable[[int, str], SignalsKin] = Kin,
    ) -> None:
        self._reactor = reactor
        self._clock = clock
        self._checks = checks
        self._now = now
        self._redact = redact
        self._wrappers = wrappers
        self._launcher = tuple(launcher)
        self._environ = environ
        self._look = look
        self._make_kin = make_kin

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._checks)

    def start(self, name: str, directory: str, mark: str) -> ICheck:
        check = self._checks[name]
        environ = without_secrets(child_environment(self._environ, mark=mark))
        running = RunningCheck(
            check,
            clock=self._clock,
            now=self._now,
            redact=self._redact,
            make_ladder=lambda pid, clear: Ladder(self._clock, self._make_kin(pid, mark), clear),
        )
        beginning = Deferred.fromCoroutine(self._begin(running, check, directory, environ))
        beginning.addErrback(self._lost, running)
        return running

    async def _begin(self, running: RunningCheck, check: Check, directory: str, environ: Mapping[str, str]) -> None:
        try:
            why = await self._look(f"check `{check.name}`: {directory!r}", self._why_not, check, directory, environ)
        except Unanswered as error:
            why = str(error)
        if not why and not running.stopped:
            argv = wrapped_argv(check.argv, dir=directory, wrappers=self._wrappers, launcher=self._launcher)
            try:
                self._reactor.spawnProcess(running, argv[0], argv, env=environ, path=None)
            except OSError as error:
                why = no_process(error)
        if why:
            running.not_run(why)

    def _lost(self, failure: Failure, running: RunningCheck) -> None:
        """A bug of ours: the run goes on without its check."""
        _log.failure("the check {name} could not be begun", failure, name=running.name)
        running.not_run(internal_error(failure.value))

    def _why_not(self, check: Check, directory: str, environ: Mapping[str, str]) -> str:
        if not os.path.isdir(directory):
            return "its directory is not there (any more)"
        # The launcher may lead to where there is one; what it cannot find comes as exit code 127.
        program = self._launcher[0] if self._launcher else check.argv[0]
        here = os.path.join(directory, program) if os.sep in program else program
        if shutil.which(here, path=environ.get("PATH", os.defpath)) is None:
            return f"no program {program!r} to be found"
        return ""
