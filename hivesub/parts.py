"""The object graph: what is built from what, out of the settings. Nothing here listens, spawns or waits; `service` is
what lets it live.
"""

from __future__ import annotations

import random
import secrets
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from attrs import frozen

from hivesub.address import Address
from hivesub.config.checks import read_checks
from hivesub.config.jsonfile import file_text
from hivesub.redaction.detection import environment_secrets, url_secrets
from hivesub.redaction.redactor import Redactor
from hivesub.runs.announcement import Announcer
from hivesub.runs.fleet import Fleet
from hivesub.runs.machine import Limits
from hivesub.runs.report import ReportFile
from hivesub.runs.signals import Tokens
from hivesub.runs.views import OperatorView
from hivesub.system.appendfile import DaemonThreads
from hivesub.system.descriptors import DescriptorLimit, descriptor_limit
from hivesub.system.lookups import Lookups
from hivesub.system.oom import offer_first
from hivesub.system.resolver import ThreadResolver
from hivesub.todos.heard import Heard
from hivesub.todos.outbox import Outbox
from hivesub.todos.sinks import make_sink
from hivesub.todos.store import TodoStore
from hivesub.tools.control import control_server
from hivesub.tools.subagent import subagent_server
from hivesub.turns.check import Checks
from hivesub.turns.command import child_environment, config_dir, find_wrappers
from hivesub.turns.program import Claude
from hivesub.turns.serverfile import ServerFile
from hivesub.turns.spawner import TurnSpawner
from hivesub.turns.toolset import resolve_tools
from hivesub.turns.transcript import Transcripts
from hivesub.web.guard import Bearer, HostRule
from hivesub.web.mcp import McpApp
from hivesub.web.metrics import Metrics
from hivesub.web.page.resource import page_resources
from hivesub.web.site import BoundedSite
from hivesub.web.tree import Tree

if TYPE_CHECKING:
    from pathlib import Path

    from hivesub.config.options import Settings


OWN_TODOS_BYTES = 10_000_000
"""What `todos.jsonl` in the state directory holds at most; as much again is in `todos.jsonl.1`."""


LIMIT_SPREAD_S = 60.0
"""A turn that waited for a usage limit is run again within so long of its reset, by chance."""


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
    server_file: ServerFile
    threads: DaemonThreads


def assemble(settings: Settings, reactor: Any, state_mark: str) -> Parts:
    """Build everything from the settings.

    :param reactor: the asyncio reactor.
    :raises ConfigError: when what the options name cannot be used; the text names the option.
    """
    tools = resolve_tools(tools=settings.tools, tool_groups=settings.tool_groups, environ=settings.environ)
    checks = (
        read_checks(file_text(settings.checks, "--checks"), f"--checks: {settings.checks}") if settings.checks else {}
    )
    wrappers = find_wrappers(settings.environ.get("PATH"))
    bearer = Bearer(settings.auth_token) if settings.auth_token is not None else None
    # A child gets the daemon's environment, so that its errors may show what is in it.
    redactor = Redactor(environment_secrets(settings.environ))
    server_file = ServerFile(settings.mcp_servers, redactor.add)
    if settings.auth_token is not None:
        redactor.add(settings.auth_token)
    for todo in settings.todos:
        for secret in url_secrets(todo) if isinstance(todo, str) else ():
            redactor.add(secret)
    hosts = HostRule(settings.public_url)
    address = Address(settings.public_url)
    tokens = Tokens(redactor)
    threads = DaemonThreads(reactor)
    # In threads of their own: as many as hang there leave those for todos and reports alone.
    look = Lookups(DaemonThreads(reactor), reactor)
    descriptors = descriptor_limit()
    descriptors.lift()
    claude = Claude(
        reactor,
        reactor,
        path=settings.claude,
        environ=child_environment(settings.environ, mark=f"{state_mark}-probe"),
        prefix=settings.launcher,
        redact=redactor.redact,
    )
    posts = any(isinstance(todo, str) for todo in settings.todos)
    client: Any = _http_client(reactor) if posts else None
    if posts:
        # Threads of its own: name servers that do not answer leave those for files alone.
        reactor.installNameResolver(ThreadResolver(DaemonThreads(reactor), reactor))
    outbox = Outbox(
        store=TodoStore(settings.state_dir),
        sinks=[
            make_sink(
                str(todo),
                base_dir=str(settings.dir),
                client=client,
                clock=reactor,
                in_thread=threads,
                # A file that the operator names is the operator's to rotate.
                most_bytes=OWN_TODOS_BYTES if todo == settings.state_dir / "todos.jsonl" else None,
            )
            for todo in settings.todos
        ],
        clock=reactor,
        in_thread=threads,
        random=random.random,
    )
    source = TurnSpawner(
        reactor,
        reactor,
        now=_now,
        claude=claude,
        wrappers=wrappers,
        launcher=settings.launcher,
        environ=settings.environ,
        servers=lambda: server_file.servers,
        hooks=settings.hooks,
        config_dir=str(config_files(settings, state_mark)),
        tokens=tokens,
        redactor=redactor,
        signal_url=lambda token: f"{address.base_url}/signal/mcp/{token}",
        new_mark=lambda: f"{state_mark}-{secrets.token_hex(8)}",
        look=look,
        spawned=lambda pid: _made_a_child(pid, descriptors),
    )
    transcripts = Transcripts(config_dir(settings.environ), reactor, threads, redactor.redact)
    announcer = Announcer(
        report=ReportFile(clock=reactor, in_thread=threads),
        outbox=outbox,
        now=_now,
        redact=redactor.redact_identifier,  # what others said was redacted where it came in
        new_id=_new_uuid,
    )
    fleet = Fleet(
        source=source,
        clock=reactor,
        now=_now,
        redactor=redactor,
        announcer=announcer,
        tools=tools,
        default_dir=settings.dir,
        max_running=settings.max_running,
        config_dir=config_dir(settings.environ),
        new_session_id=_new_uuid,
        look=look,
        new_task_id=lambda: secrets.token_urlsafe(24),
        checks=Checks(
            reactor,
            reactor,
            checks=checks,
            now=_now,
            redact=redactor.redact,
            wrappers=wrappers,
            launcher=settings.launcher,
            environ=settings.environ,
            look=look,
        ),
        limits=Limits(clock=reactor, most_s=settings.limit_wait_s, spread_s=lambda: random.uniform(0, LIMIT_SPREAD_S)),
        transcripts=transcripts,
        heard=Heard([todo for todo in settings.todos if not isinstance(todo, str)], reactor, threads),
    )
    agent = McpApp(subagent_server(fleet, tools), long_calls={"status": "wait_s"})
    control = McpApp(control_server())
    operator_view = OperatorView(
        fleet.runs,
        tally=announcer.tally,
        clock=reactor,
        redactor=redactor,
        max_running=settings.max_running,
        transcripts=transcripts,
        still_there=source.still_there,
    )
    tree = Tree(
        agent=agent,
        control=control,
        tokens=tokens,
        hosts=hosts,
        bearer=bearer,
        clock=reactor,
        pages={**page_resources(operator_view, _now, reactor), "/metrics": Metrics(operator_view)},
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
        server_file=server_file,
        threads=threads,
    )


def config_files(settings: Settings, state_mark: str) -> Path:
    """Where this daemon's MCP config files go: of its own, as two daemons may share a runtime directory."""
    return settings.runtime_dir / f"mcp-{state_mark}"


def _made_a_child(pid: int, descriptors: DescriptorLimit) -> None:
    descriptors.give_back(pid)
    offer_first(pid)


def _http_client(reactor: Any) -> Any:
    # Imported only where todos are posted: every start would wait for it otherwise.
    from hivesub.todos.client import bounded_client

    return bounded_client(reactor)


def _new_uuid() -> str:
    return str(uuid.uuid4())
