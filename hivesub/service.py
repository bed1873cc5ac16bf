"""The object graph, and its life: what is built from what, in which order it starts, and how it stops within its bound.

The order of a stop: no new runs and an interrupt for what runs; then the todos; then the port. Each has a bound, as
twistd waits without one.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.application.service import IService, Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.logger import Logger
from zope.interface import implementer

from hivesub.address import Address, address_of
from hivesub.adopted import Adopted
from hivesub.appendfile import DaemonThreads
from hivesub.errors import ConfigError, HivesubError
from hivesub.notify import StandingReport, notify_from
from hivesub.redact import Redactor
from hivesub.runs.ending import Ending
from hivesub.runs.fleet import Fleet
from hivesub.runs.overlook import Overlook
from hivesub.runs.report import ReportFile
from hivesub.runs.tokens import Tokens
from hivesub.secretvalues import environment_secrets, url_secrets
from hivesub.statedir import StateDir, claim
from hivesub.todos.outbox import Outbox
from hivesub.todos.sinks import make_sink
from hivesub.todos.store import TodoStore
from hivesub.tools.control import control_server
from hivesub.tools.subagent import subagent_server
from hivesub.turns.claude import Claude
from hivesub.turns.command import child_environment, config_dir, find_wrappers
from hivesub.turns.limits import descriptor_limit
from hivesub.turns.mcpconfig import Servers, read_servers
from hivesub.turns.orphans import end_orphans
from hivesub.turns.processes import marked
from hivesub.turns.source import TurnSource
from hivesub.turns.toolset import beyond_default, resolve_tools
from hivesub.web.guard import Bearer, HostRule
from hivesub.web.mcp import McpApp
from hivesub.web.metrics import Metrics
from hivesub.web.page.resource import page_resources
from hivesub.web.site import BoundedSite
from hivesub.web.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from twisted.internet.interfaces import IListeningPort

    from hivesub.options import Settings

FLEET_STOP_S = 10.0
"""How long a stop waits for the runs: the kill ladder takes 6 s."""
OUTBOX_STOP_S = 3.5
"""How long a stop waits for todos in flight; what is not delivered then is on disk."""

_log = Logger()


def _now() -> datetime:
    return datetime.now(UTC)


@frozen(kw_only=True)
class Parts:
    """What a daemon consists of, built but not started."""

    settings: Settings
    redactor: Redactor
    tools: tuple[str, ...]
    hosts: HostRule
    bearer: Bearer | None
    claude: Claude
    outbox: Outbox
    fleet: Fleet
    agent: McpApp
    control: McpApp
    tree: Tree
    site: BoundedSite
    address: Address


def assemble(settings: Settings, reactor: Any, state_mark: str) -> Parts:
    """Build everything from the settings.

    :param reactor: the asyncio reactor.
    :raises ConfigError: when what the options name cannot be used; the text names the option.
    """
    tools = resolve_tools(tools=settings.tools, tool_groups=settings.tool_groups, environ=settings.environ)
    servers = _read_servers(settings)
    bearer = Bearer(settings.auth_token) if settings.auth_token is not None else None
    # A child gets the daemon's environment, so that its errors may show what is in it.
    redactor = Redactor(servers.secrets | environment_secrets(settings.environ))
    if settings.auth_token is not None:
        redactor.add(settings.auth_token)
    for todo in settings.todos:
        for secret in url_secrets(todo) if isinstance(todo, str) else ():
            redactor.add(secret)
    hosts = HostRule(settings.public_url)
    address = Address(settings.public_url)
    tokens = Tokens(redactor)
    threads = DaemonThreads(reactor)
    descriptors = descriptor_limit()
    descriptors.lift()
    claude = Claude(
        reactor,
        reactor,
        path=settings.claude,
        environ=child_environment(settings.environ, mark=f"{state_mark}-probe"),
        prefix=settings.launcher,
    )
    posts = any(isinstance(todo, str) for todo in settings.todos)
    client: Any = _http_client(reactor) if posts else None
    outbox = Outbox(
        store=TodoStore(settings.state_dir),
        sinks=[
            make_sink(str(todo), base_dir=str(settings.dir), client=client, clock=reactor, in_thread=threads)
            for todo in settings.todos
        ],
        clock=reactor,
        in_thread=threads,
        random=random.random,
    )
    source = TurnSource(
        reactor,
        reactor,
        now=_now,
        claude=claude,
        wrappers=find_wrappers(settings.environ.get("PATH")),
        launcher=settings.launcher,
        environ=settings.environ,
        servers=servers,
        config_dir=str(_config_dir(settings, state_mark)),
        tokens=tokens,
        redactor=redactor,
        signal_url=lambda token: f"{address.base_url}/signal/mcp/{token}",
        new_mark=lambda: f"{state_mark}-{secrets.token_hex(8)}",
        spawned=descriptors.give_back,
    )
    ending = Ending(
        report=ReportFile(clock=reactor, in_thread=threads),
        outbox=outbox,
        now=_now,
        redact=redactor.redact,
        new_id=_new_uuid,
    )
    fleet = Fleet(
        source=source,
        clock=reactor,
        now=_now,
        redactor=redactor,
        ending=ending,
        tools=tools,
        default_dir=settings.dir,
        max_running=settings.max_running,
        config_dir=config_dir(settings.environ),
        new_session_id=_new_uuid,
    )
    agent = McpApp(subagent_server(fleet))
    control = McpApp(control_server())
    overlook = Overlook(
        fleet.runs, tally=ending.tally, clock=reactor, redact=redactor.redact, max_running=settings.max_running
    )
    tree = Tree(
        agent=agent,
        control=control,
        tokens=tokens,
        hosts=hosts,
        bearer=bearer,
        clock=reactor,
        pages={**page_resources(overlook, _now, reactor), "/metrics": Metrics(overlook)},
    )
    return Parts(
        settings=settings,
        redactor=redactor,
        tools=tools,
        hosts=hosts,
        bearer=bearer,
        claude=claude,
        outbox=outbox,
        fleet=fleet,
        agent=agent,
        control=control,
        tree=tree,
        site=BoundedSite(tree.resource(), reactor),
        address=address,
    )


def _config_dir(settings: Settings, state_mark: str) -> Path:
    """Where this daemon's MCP config files go: of its own, as two daemons may share a runtime directory."""
    return settings.runtime_dir / f"mcp-{state_mark}"


def _http_client(reactor: Any) -> Any:
    # Imported only where todos are posted: every start would wait for it otherwise.
    import treq.client
    from twisted.web.client import Agent, HTTPConnectionPool

    return treq.client.HTTPClient(Agent(reactor, pool=HTTPConnectionPool(reactor, persistent=False)))


def _new_uuid() -> str:
    return str(uuid.uuid4())


def _read_servers(settings: Settings) -> Servers:
    path = settings.mcp_servers
    if path is None:
        return Servers()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"--mcp-servers: {path} cannot be read: {why}") from None
    return read_servers(text, f"--mcp-servers: {path}")


def build(settings: Settings, reactor: Any) -> IService:
    """The daemon as a service.

    :raises ConfigError: when what the options name cannot be used.
    """
    state = claim(settings.state_dir, secrets.token_hex(8))
    try:
        return Daemon(assemble(settings, reactor, state.mark), state, reactor)
    except BaseException:
        state.release()
        raise


@implementer(IService)
class Daemon(Service):
    """Starts and stops the parts of a daemon."""

    name = "hivesub"

    def __init__(self, parts: Parts, state: StateDir, reactor: Any) -> None:
        self._parts = parts
        self._state = state
        self._reactor = reactor
        self._port: IListeningPort | None = None
        self._standing = StandingReport(notify_from(parts.settings.environ), reactor, self._how_it_stands)
        self._adopted = Adopted(reactor) if os.getpid() == 1 else None

    def startService(self) -> None:
        """Listen, and begin to serve.

        :raises SystemExit: with one line, when the port cannot be had.
        """
        parts = self._parts
        self._listen()
        super().startService()  # type: ignore[no-untyped-call]
        parts.outbox.startService()
        parts.agent.startService()
        parts.control.startService()
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
            raise SystemExit(f"hivesub: {error}")
        why = getattr(error, "socketError", None) if isinstance(error, CannotListenError) else error
        raise SystemExit(
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
                "subagents get {tools}: one that can run commands or fetch URLs could reach /mcp of this daemon; "
                "--auth-token-file closes it",
                tools=", ".join(extra),
            )
        _log.info("subagents get the tools {tools}", tools=", ".join(parts.tools))
        header = ' --header "Authorization: Bearer <token>"' if parts.bearer is not None else ""
        _log.info(
            "ready; connect an agent with: claude mcp add --transport http subagent {url}/mcp{header}",
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
            await end_orphans((f"{mark}-" for mark in self._state.dead), clock=self._reactor, marked=marked)
            for mark in self._state.dead:
                shutil.rmtree(_config_dir(self._parts.settings, mark), ignore_errors=True)
            self._state.forget_dead()

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

    def stopService(self) -> Deferred[None]:
        """Stop within 15 s, whatever the children and receivers do."""
        super().stopService()  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        parts = self._parts
        self._standing.end()
        _log.info("stopping; {count} runs are going on", count=parts.fleet.running)
        await self._at_most(parts.fleet.stop(), FLEET_STOP_S, "runs did not end in time")
        left = end_orphans([f"{self._state.mark}-"], clock=self._reactor, marked=marked, whose="this daemon")
        await self._at_most(left, 1.0, "processes of ended turns are still there")
        await self._at_most(parts.outbox.stopService(), OUTBOX_STOP_S, "todos in flight are kept for the next start")
        parts.tree.stop()
        stops = [parts.agent.stopService(), parts.control.stopService()]
        if self._port is not None:
            stops.append(Deferred.fromCoroutine(_closed(self._port)))
        await self._at_most(DeferredList(stops, consumeErrors=True), 0.5, "requests are still open")
        shutil.rmtree(_config_dir(parts.settings, self._state.mark), ignore_errors=True)
        if self._adopted is not None:
            self._adopted.end()
        self._state.release()

    async def _at_most(self, done: Deferred[Any], seconds: float, otherwise: str) -> None:
        def late(result: Any, timeout: float) -> None:
            _log.warn("{otherwise}", otherwise=otherwise)

        done.addTimeout(seconds, self._reactor, late)
        try:
            await done
        except Exception:
            _log.failure("a part did not stop cleanly")


async def _closed(port: IListeningPort) -> None:
    result: Any = port.stopListening()
    if result is not None:
        await result
