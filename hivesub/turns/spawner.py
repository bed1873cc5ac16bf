"""Starts turns: config file, token, environment, command and spawn, each undone when a later one fails.

The spawn goes by posix_spawn whatever the daemon's size: `path=None`, the working directory by `env -C`, the session
by `setsid`, the death with the daemon by `setpriv --pdeathsig`; each of these execs in place and so keeps the process
id.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from zope.interface import implementer

from hivesub.errors import SpawnError, Unanswered
from hivesub.interfaces import ISignalTarget, ITurnSpawner
from hivesub.system.lookups import at_once
from hivesub.turns.command import child_environment, claude_argv, config_dir, global_config, wrapped_argv
from hivesub.turns.confinement import confine
from hivesub.turns.ladder import Ladder
from hivesub.turns.leftovers import end_leftovers
from hivesub.turns.mcpconfig import config_json, remove_config, write_config
from hivesub.turns.pipes import widen
from hivesub.turns.processes import Kin, marked, still_marked
from hivesub.turns.settingsfiles import changes
from hivesub.turns.settingsfiles import look as look_at_settings
from hivesub.turns.spawnerror import no_process
from hivesub.turns.turn import Turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from twisted.internet.interfaces import IReactorProcess, IReactorTime

    from hivesub.interfaces import IRedactor, ITokens, ITurn, Signalled
    from hivesub.records import SignalKind, TurnSpec
    from hivesub.system.lookups import Look
    from hivesub.turns.command import Wrappers
    from hivesub.turns.ladder import SignalsKin
    from hivesub.turns.program import Claude
    from hivesub.turns.serverfile import Servers
    from hivesub.turns.settingsfiles import Look as Settings

SETTINGS_CHANGED = (
    "the next turn was not started: settings that claude would take up are not as they were at the first, which the "
    "subagent may have done: {files}. Look at them and put them back; or, where the change is wanted, pass the "
    "`session_id` to `continue`"
)
MAX_CHANGED = 10
"""How many changed files are named."""


@implementer(ISignalTarget)
class _Target:
    """What a turn's token stands for. `turn` is set once the process exists; no request can come before."""

    turn: Turn

    def __init__(self, signalled: Signalled, used: Callable[[], None]) -> None:
        self._signalled = signalled
        self._used = used

    def request_began(self) -> None:
        self.turn.request_began()
        self._used()

    def request_ended(self) -> None:
        self.turn.request_ended()

    def signal(self, kind: SignalKind, message: str, report_file: str | None) -> Deferred[str]:
        return self._signalled(kind, message, report_file)


@implementer(ITurnSpawner)
class TurnSpawner:
    """Spawns claude processes.

    :param servers: gives the operator's servers as they are now.
    :param signal_url: gives the URL of the signal route for a token, as a subagent reaches it.
    :param new_mark: gives a fresh value for `HIVESUB_TURN`.
    :param look: looks at the directory of a turn.
    :param spawned: called with the id of each process that was made.
    :param config_dir: the directory of the per-session MCP config files.
    :param hooks: whether hooks of the user, of projects and of plugins run.
    :param make_kin: gives, for a child's id and mark, what reaches it and all that it started with a signal.
    :param marked: gives the ids of the living processes whose mark begins with a prefix.
    """

    def __init__(
        self,
        reactor: IReactorProcess,
        clock: IReactorTime,
        *,
        now: Callable[[], datetime],
        claude: Claude,
        wrappers: Wrappers,
        launcher: Sequence[str],
        environ: Mapping[str, str],
        servers: Callable[[], Servers],
        config_dir: str,
        tokens: ITokens,
        redactor: IRedactor,
        signal_url: Callable[[str], str],
        new_mark: Callable[[], str],
        hooks: bool = False,
        make_kin: Callable[[int, str], SignalsKin] = Kin,
        marked: Callable[[str], set[int]] = marked,
        spawned: Callable[[int], None] = lambda pid: None,
        look: Look = at_once,
    ) -> None:
        self._reactor = reactor
        self._clock = clock
        self._now = now
        self._claude = claude
        self._wrappers = wrappers
        self._launcher = tuple(launcher)
        self._environ = environ
        self._servers = servers
        self._config_dir = config_dir
        self._tokens = tokens
        self._redactor = redactor
        self._signal_url = signal_url
        self._new_mark = new_mark
        self._hooks = hooks
        self._make_kin = make_kin
        self._marked = marked
        self._spawned = spawned
        self._look = look

    def spawn(self, spec: TurnSpec, signalled: Signalled) -> Deferred[ITurn]:
        return Deferred.fromCoroutine(self._spawn(spec, signalled))

    def end_left(self, run_mark: str) -> Deferred[int]:
        return end_leftovers(
            [run_mark], clock=self._clock, marked=self._marked, whose="the turns of an interrupted run"
        )

    def still_there(self, run_mark: str, pids: Iterable[int]) -> set[int]:
        return still_marked(run_mark, pids)

    async def _spawn(self, spec: TurnSpec, signalled: Signalled) -> ITurn:
        program = await self._claude.program()
        found = await self._looked(spec)
        mark = self._new_mark() if spec.run_mark is None else f"{spec.run_mark}.{secrets.token_hex(8)}"
        target = _Target(signalled, lambda: remove_config(config))
        token = self._tokens.mint(target)
        config = private = ""
        try:
            servers = self._servers()
            url = self._signal_url(token)
            environ = child_environment(self._environ, mark=mark)
            confined = confine(environ, found.own, hooks=self._hooks, signal_url=url)
            config = write_config(self._config_dir, spec.name, config_json(servers, url))
            if confined.private:
                private = write_config(self._config_dir, spec.name, confined.settings.encode("ascii"), "settings")
            settings = private or confined.settings
            argv = wrapped_argv(
                claude_argv(spec, claude=program.path, config_path=config, settings=settings, flags=program.flags),
                dir=str(spec.dir),
                wrappers=self._wrappers,
                launcher=self._launcher,
            )

            def exited() -> None:
                self._undo(token, config, private)

            turn = target.turn = Turn(
                spec,
                mark,
                clock=self._clock,
                now=self._now,
                redact=self._redactor.redact,
                make_ladder=lambda pid, clear: Ladder(self._clock, self._make_kin(pid, mark), clear),
                exited=exited,
                settings_seen=found.seen,
                servers=tuple(servers.shared),
            )
            widen(self._reactor.spawnProcess(turn, argv[0], argv, env=confined.environ, path=None))
            if turn.pid is not None:
                self._spawned(turn.pid)
        except OSError as error:
            self._undo(token, config, private)
            raise SpawnError(no_process(error)) from error
        except BaseException:
            self._undo(token, config, private)
            raise
        return turn

    async def _looked(self, spec: TurnSpec) -> Settings:
        """What claude would take up in the directory of a turn, which has to be as it was.

        :raises SpawnError: when the directory is gone, cannot be looked at, or holds other settings.
        """
        # The directory may be what a child named as its own, and so may the keys of a file.
        redact = self._redactor.redact
        where = self._redactor.redact_identifier(str(spec.dir))
        files = (config_dir(self._environ), global_config(self._environ))
        try:
            found: Settings = await self._look(f"the directory {where}", look_at_settings, str(spec.dir), *files)
        except Unanswered as error:
            raise SpawnError(str(error)) from None
        if not found.is_dir:
            raise SpawnError(f"the directory {where} is not there (any more): pass a `dir` that exists")
        before = found.seen if spec.settings_seen is None else spec.settings_seen
        changed = changes(before, found.seen)
        if changed:
            raise SpawnError(redact(SETTINGS_CHANGED.format(files="; ".join(changed[:MAX_CHANGED]))))
        return found

    def _undo(self, token: str, *files: str) -> None:
        self._tokens.revoke(token)
        for path in filter(None, files):
            remove_config(path)
