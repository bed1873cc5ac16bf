"""The life of a daemon: in which order its parts start, and how it stops within its bound.

The order of a stop: no new runs and an interrupt for what runs; then the todos, while what ended turns have left is
ended; then the port. Each has a bound, the runs' their own, as twistd waits without one, and none is left out because
one before it failed.
"""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
from typing import TYPE_CHECKING, Any

from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.logger import Logger
from zope.interface import implementer

from hivesub.address import address_of
from hivesub.errors import ConfigError, HivesubError
from hivesub.parts import Parts, assemble, config_files
from hivesub.system.notify import StandingReport, notify_from
from hivesub.system.statedir import StateDir, claim
from hivesub.system.zombies import Adopted
from hivesub.turns.leftovers import end_leftovers
from hivesub.turns.processes import marked
from hivesub.turns.toolset import beyond_default

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from twisted.internet.interfaces import IListeningPort

    from hivesub.config.options import Settings

LEFT_S = 1.0
"""How long a stop gives what ended turns have left, from SIGTERM to SIGKILL and from there on."""
OUTBOX_STOP_S = 3.2
"""How long a stop waits for todos in flight; what is not delivered then is on disk."""
TASKS_STOP_S = 2.0
"""How long a stop waits for clients, which ask every second, to ask how their tasks have ended."""
FACES_STOP_S = 0.5
"""How long a stop waits for requests that are open."""

_log = Logger()


def build(settings: Settings, reactor: Any, refuse: Callable[[str], BaseException] = SystemExit) -> Daemon:
    """The daemon as a service.

    :param refuse: makes what a start raises that cannot be, of its reason.
    :raises ConfigError: when what the options name cannot be used.
    """
    state = claim(settings.state_dir, secrets.token_hex(8))
    try:
        return Daemon(assemble(settings, reactor, state.mark), state, reactor, refuse)
    except BaseException:
        state.withdraw()
        raise


@implementer(IService)
class Daemon(Service):
    """Starts and stops the parts of a daemon."""

    name = "hivesub"

    def __init__(
        self, parts: Parts, state: StateDir, reactor: Any, refuse: Callable[[str], BaseException] = SystemExit
    ) -> None:
        self._parts = parts
        self._refuse = refuse
        self._state = state
        self._reactor = reactor
        self._port: IListeningPort | None = None
        self._standing = StandingReport(notify_from(parts.settings.environ), reactor, self._how_it_stands)
        self._adopted = Adopted(reactor) if os.getpid() == 1 else None

    def startService(self) -> None:
        """Listen, and begin to serve.

        :raises SystemExit: or what `refuse` made, with one line, when the port cannot be had.
        """
        try:
            self._listen()
            super().startService()  # type: ignore[no-untyped-call]
            for part in (self._parts.outbox, self._parts.agent, self._parts.control):
                part.startService()
        except BaseException:
            self._state.withdraw()
            raise
        # Once the reactor runs, and with it the signals are caught: who reads that it is ready may stop it at once.
        self._reactor.callWhenRunning(self._log_start)
        self._in_background(self._end_orphans(), "looking for what a dead daemon left failed")
        self._in_background(self._look_at_claude(), "asking claude for its version failed")

    def _listen(self) -> None:
        settings = self._parts.settings
        failures: list[Any] = []
        listening = serverFromString(self._reactor, settings.listen).listen(self._parts.site)
        listening.addCallback(self._bound).addErrback(failures.append)
        if not failures:
            return
        error = failures[0].value
        if isinstance(error, ConfigError):
            raise self._refuse(f"hivesub: {error}")
        why = getattr(error, "socketError", None) if isinstance(error, CannotListenError) else error
        raise self._refuse(
            f"hivesub: --listen: {settings.listen} cannot be had ({why}): "
            "another daemon may be there; give another with --port or --listen"
        )

    def _bound(self, port: IListeningPort) -> None:
        self._port = port
        where = port.getHost()
        host, number = address_of(where)
        if host is not None and not self._parts.address.bind(host, number) and self._parts.bearer is None:
            port.stopListening()
            raise ConfigError("--listen: others than this machine could connect; add --auth-token-file")
        self._parts.hosts.bind(host, number)

    def _log_start(self) -> None:
        parts = self._parts
        if hasattr(os, "geteuid") and os.geteuid() == 0 and parts.settings.environ.get("IS_SANDBOX") != "1":
            _log.warn("running as root: claude will refuse to start unless IS_SANDBOX=1 is set in the environment")
        extra = beyond_default(parts.tools)
        if extra and parts.bearer is None:
            _log.warn(
                "subagents get {tools}, and /mcp asks for no token: one that reaches it could start subagents of its "
                "own; close it with `{command}`, then start the daemon anew",
                tools=", ".join(extra),
                command=shlex.join(["hivesub", "token", f"--state-dir={parts.settings.state_dir}"]),
            )
        _log.info("subagents get the tools {tools}", tools=", ".join(parts.tools))
        header = ' --header "Authorization: Bearer <token>"' if parts.bearer is not None else ""
        _log.info(
            "ready; connect an agent with: claude mcp add --transport http --scope user subagent {url}/mcp{header}",
            url=parts.address.base_url,
            header=header,
        )
        _log.info("what runs is shown at {url}/", url=parts.address.base_url)
        self._standing.begin()
        if self._adopted is not None:
            self._adopted.begin()

    def _how_it_stands(self) -> str:
        parts = self._parts
        return f"{parts.fleet.running} of {parts.settings.max_running} runs going on; {parts.address.base_url}"

    async def _end_orphans(self) -> None:
        if self._state.dead:
            found = await end_leftovers((f"{mark}-" for mark in self._state.dead), clock=self._reactor, marked=marked)
            # What outlived even SIGKILL is looked for again by the next daemon.
            still_there = [mark for mark in self._state.dead if marked(f"{mark}-")] if found else []
            for mark in self._state.dead:
                shutil.rmtree(config_files(self._parts.settings, mark), ignore_errors=True)
            self._state.forget_dead(still_there)

    async def _look_at_claude(self) -> None:
        try:
            program = await self._parts.claude.program()
        except HivesubError as error:
            if self.running:  # a stop ends the asking too, and that is no fault of claude's
                _log.warn("no run can start yet: {error}", error=error)
        else:
            _log.info("claude is {path}, {version}", path=program.path, version=program.version)

    def _in_background(self, work: Any, what: str) -> None:
        Deferred.fromCoroutine(work).addErrback(lambda failure: _log.failure(what, failure))

    def reload(self) -> None:
        """Read the operator's server file anew, for the turns that start from now on; what runs is left alone."""
        self._in_background(self._parts.server_file.reload(self._parts.threads), "reading the server file failed")

    def stopService(self) -> Deferred[None]:
        """Stop within 15 s, whatever the children and receivers do."""
        super().stopService()  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        parts = self._parts
        self._by_itself(self._standing.end)
        _log.info("stopping; {count} runs are going on", count=parts.fleet.running)
        try:
            await parts.fleet.stop()
        except Exception:
            _log.failure("the runs were not stopped cleanly")
        await _all(
            self._at_most(self._end_left, 2 * LEFT_S + 0.5, "processes of ended turns are still there"),
            self._at_most(parts.outbox.stopService, OUTBOX_STOP_S, "todos in flight are kept for the next start"),
            self._asked_for_tasks(),
        )
        self._by_itself(parts.tree.stop)
        faces = (parts.agent.stopService, parts.control.stopService, self._close_port)
        await _all(*(self._at_most(stop, FACES_STOP_S, "requests are still open") for stop in faces))
        self._by_itself(lambda: shutil.rmtree(config_files(parts.settings, self._state.mark), ignore_errors=True))
        if self._adopted is not None:
            self._by_itself(self._adopted.end)
        self._by_itself(self._state.release)

    async def _asked_for_tasks(self) -> None:
        """Stay reachable until the clients of tasks have asked once more. The next daemon does not know their ids, and
        a client may ask it in vain for minutes (measured, claude 2.1.332: five).
        """
        try:
            heard = maybeDeferred(self._parts.fleet.stopped_tasks_heard)
            await heard.addTimeout(TASKS_STOP_S, self._reactor, lambda *_: None)  # a client may be gone
        except Exception:
            _log.failure("waiting for the clients of tasks failed")

    def _end_left(self) -> Deferred[int]:
        marks = [f"{self._state.mark}-"]
        return end_leftovers(marks, clock=self._reactor, marked=marked, whose="this daemon", wait_s=LEFT_S)

    def _close_port(self) -> Any:
        return self._port.stopListening() if self._port is not None else None

    def _by_itself(self, stop: Callable[[], object]) -> None:
        """Stop a part, so that the others are stopped whatever it does."""
        try:
            stop()
        except Exception:
            _log.failure("a part did not stop cleanly")

    async def _at_most(self, stop: Callable[[], Any], seconds: float, otherwise: str) -> None:
        """As `_by_itself`, and wait for what it gives."""

        def late(result: Any, timeout: float) -> None:
            _log.warn("{otherwise}", otherwise=otherwise)

        try:
            await maybeDeferred(stop).addTimeout(seconds, self._reactor, late)
        except Exception:
            _log.failure("a part did not stop cleanly")


def _all(*stops: Coroutine[Any, Any, None]) -> Deferred[Any]:
    return DeferredList([Deferred.fromCoroutine(stop) for stop in stops], consumeErrors=True)
