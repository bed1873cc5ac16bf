"""How a turn is spawned: its command, environment, config file and token, and what is undone when it fails."""

from __future__ import annotations

import errno
import json
import shutil
import signal
import stat
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.errors import SpawnError, UnsupportedClaude
from hivesub.interfaces import ISignalTarget, ITurn, ITurnSpawner
from hivesub.records import Outcome, SignalKind, TurnSpec
from hivesub.redaction.redactor import Redactor
from hivesub.runs.signals import Tokens
from hivesub.testing import FakeChild, FakeKin, FakeProcessReactor
from hivesub.turns.command import Wrappers
from hivesub.turns.program import KNOWN, Program
from hivesub.turns.serverfile import Servers
from hivesub.turns.spawner import TurnSpawner
from tests.support.options import grouped

WRAPPERS = Wrappers(env="/bin/env", setsid="/bin/setsid", setpriv="/bin/setpriv")
PROGRAM = Program(path="/opt/claude", version="2.1.332 (Claude Code)", flags=frozenset(KNOWN))
ENVIRON = {
    "PATH": "/bin",
    "HOME": "/home/x",
    "ANTHROPIC_API_KEY": "k",
    "CLAUDECODE": "1",
    "CLAUDE_CODE_ENTRYPOINT": "cli",
    "CLAUDE_CODE_SESSION_ID": "outer",
    "NOTIFY_SOCKET": "/run/n",
    "LISTEN_FDS": "1",
    "CREDENTIALS_DIRECTORY": "/run/c",
    "HIVESUB_TURN": "outer-mark",
    "HIVESUB_AUTH_TOKEN_FILE": "/etc/t",
}


class FakeClaude:
    """Answers with `answer`."""

    def __init__(self) -> None:
        self.answer: Deferred[Program] | None = None

    def program(self) -> Deferred[Program]:
        return succeed(PROGRAM) if self.answer is None else self.answer


class Spawning(SynchronousTestCase):
    def setUp(self) -> None:
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()
        self.config_dir = self.dir / "run" / "mcp"
        self.config_dir.parent.mkdir(mode=0o700)
        self.reactor = FakeProcessReactor()
        self.claude = FakeClaude()
        self.kins: dict[tuple[int, str], FakeKin] = {}
        self.minted: list[str] = []
        self.marks = 0
        self.signals: list[tuple[SignalKind, str, str | None]] = []
        self.source = self.source_with()

    def source_with(self, **changes: Any) -> TurnSpawner:
        self.redactor = Redactor()
        self.tokens = Tokens(self.redactor, self.new_token)
        parts: dict[str, Any] = {
            "now": lambda: datetime(2031, 5, 6, tzinfo=UTC),
            "claude": self.claude,
            "wrappers": WRAPPERS,
            "launcher": (),
            "environ": ENVIRON,
            "servers": lambda: Servers(shared={"db": {"command": "x", "env": {"KEY": "db-secret"}}}),
            "config_dir": str(self.config_dir),
            "tokens": self.tokens,
            "redactor": self.redactor,
            "signal_url": lambda token: f"http://127.0.0.1:8787/signal/mcp/{token}",
            "new_mark": self.new_mark,
            "make_kin": self.make_kin,
        }
        return TurnSpawner(self.reactor, self.reactor, **{**parts, **changes})

    def new_token(self) -> str:
        self.minted.append(f"token-{len(self.minted)}-{'q' * 30}")
        return self.minted[-1]

    def new_mark(self) -> str:
        self.marks += 1
        return f"mark-{self.marks}"

    def make_kin(self, pid: int, mark: str) -> FakeKin:
        return self.kins.setdefault((pid, mark), FakeKin())

    def signalled(self, kind: SignalKind, message: str, report_file: str | None) -> Deferred[str]:
        self.signals.append((kind, message, report_file))
        return succeed("noted")

    def spec(self, **changes: Any) -> TurnSpec:
        fields: dict[str, Any] = {
            "name": "alpha",
            "prompt": b"do it",
            "dir": self.dir,
            "tools": ("Read", "Write"),
            "session_id": "0000-1",
        }
        return TurnSpec(**grouped({**fields, **changes}))

    def spawned(self, **changes: Any) -> tuple[ITurn, FakeChild]:
        turn = self.successResultOf(self.source.spawn(self.spec(**changes), self.signalled))
        verifyObject(ITurn, turn)
        return turn, self.reactor.children[-1]

    def settings_of(self, child: FakeChild) -> str:
        return child.argv[child.argv.index("--settings") + 1]

    def refused(self, error: type[BaseException] = SpawnError, **changes: Any) -> str:
        """The text of the refusal; nothing may be left of the attempt."""
        failure = self.failureResultOf(self.source.spawn(self.spec(**changes), self.signalled), error)
        self.assertEqual(self.reactor.children, [])
        self.assertEqual([token for token in self.minted if self.tokens.resolve(token)], [])
        self.assertEqual(self.files(), [])
        for token in self.minted:
            self.assertNotIn(token, str(failure.value))
        return str(failure.value)

    def files(self) -> list[str]:
        return sorted(path.name for path in self.config_dir.iterdir()) if self.config_dir.is_dir() else []


class Command(Spawning):
    def test_it_provides_what_the_runs_need(self) -> None:
        verifyObject(ITurnSpawner, self.source)

    def test_the_command_sets_place_session_and_death_with_the_daemon_and_then_runs_claude(self) -> None:
        _, child = self.spawned(model="opus", effort="high", max_budget_usd=1.5)
        config = child.argv[child.argv.index("--strict-mcp-config") + 1]
        settings = self.settings_of(child)
        self.assertEqual(
            child.argv,
            [
                *("/bin/env", "-C", str(self.dir), "/bin/setsid", "/bin/setpriv", "--pdeathsig", "TERM"),
                *("/opt/claude", "-p", "--verbose", "--output-format", "stream-json"),
                *("--dangerously-skip-permissions", "--strict-mcp-config", config, "--tools=Read,Write"),
                *("--settings", settings),
                *("--name=alpha", "--session-id=0000-1", "--model=opus", "--effort=high"),
                "--max-budget-usd=1.500000",
            ],
        )
        self.assertTrue(config.startswith(f"--mcp-config={self.config_dir}/"))

    def test_the_marks_of_a_runs_later_turns_begin_with_that_of_its_first(self) -> None:
        first, _ = self.spawned()
        later = [self.spawned(run_mark=first.mark)[0].mark for _ in range(2)]
        self.assertTrue(all(mark.startswith(f"{first.mark}.") for mark in later), later)
        self.assertNotEqual(*later)

    def test_what_a_run_left_is_looked_for_by_its_mark(self) -> None:
        asked: list[str] = []

        def nobody(prefix: str) -> set[int]:
            asked.append(prefix)
            return set()

        source = self.source_with(marked=nobody)
        self.assertEqual((self.successResultOf(source.end_left("mark-1")), asked), (0, ["mark-1"]))

    def test_the_launcher_stands_just_before_claude(self) -> None:
        self.source = self.source_with(launcher=("srun", "-n1"))
        _, child = self.spawned()
        at = child.argv.index("/opt/claude")
        self.assertEqual(child.argv[at - 3 : at], ["TERM", "srun", "-n1"])

    def test_a_claude_without_name_runs_without_a_title(self) -> None:
        flags = PROGRAM.flags - {"--name"}
        self.claude.answer = succeed(Program(path="/opt/claude", version="2.0.46", flags=flags))
        _, child = self.spawned()
        self.assertFalse([argument for argument in child.argv if argument.startswith("--name")])

    def test_the_prompt_is_on_stdin_and_in_no_argument(self) -> None:
        _, child = self.spawned(prompt=b"--help\n")
        self.assertEqual((child.stdin, child.stdin_closed), (b"--help\n", True))
        self.assertFalse([argument for argument in child.argv if "--help" in argument])

    def test_the_environment_is_the_daemons_less_what_nests_or_leaks_plus_the_mark(self) -> None:
        turn, child = self.spawned()
        self.assertEqual(
            child.env,
            {
                "PATH": "/bin",
                "HOME": "/home/x",
                "ANTHROPIC_API_KEY": "k",
                "HIVESUB_TURN": "mark-1",
                "NO_PROXY": "127.0.0.1",
                "no_proxy": "127.0.0.1",
            },
        )
        self.assertEqual(turn.mark, "mark-1")

    def test_the_settings_of_the_command_close_hooks_and_inbox_unless_hooks_are_on(self) -> None:
        for hooks in (False, True):
            self.source = self.source_with(hooks=hooks)
            settings = json.loads(self.settings_of(self.spawned()[1]))
            self.assertEqual(
                (settings.get("disableAllHooks"), settings["crossSessionInbound"]), (not hooks or None, "refuse")
            )

    def test_settings_that_may_hold_a_secret_stand_in_a_private_file_until_the_end_and_in_no_argument(self) -> None:
        (self.dir / "claude").mkdir()
        self.source = self.source_with(environ={**ENVIRON, "CLAUDE_CONFIG_DIR": str(self.dir / "claude")})
        (self.dir / "claude" / "settings.json").write_text('{"apiKeyHelper": "echo sk-own"}')
        _, child = self.spawned()
        path = Path(self.settings_of(child))
        self.assertEqual(json.loads(path.read_text())["apiKeyHelper"], "echo sk-own")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertNotIn("sk-own", " ".join(child.argv))
        child.exit(0)
        self.assertEqual(self.files(), [])

    def test_a_turn_whose_settings_are_not_as_they_were_is_refused_by_file_and_key(self) -> None:
        first, child = self.spawned()
        child.exit(0)
        self.reactor.children.clear()
        (self.dir / ".claude").mkdir()
        (self.dir / ".claude" / "settings.local.json").write_text('{"hooks": {}, "model": "x"}')
        why = self.refused(settings_seen=first.settings_seen)
        self.assertIn(f"{self.dir}/.claude/settings.local.json (hooks)", why)
        self.assertIn("pass the `session_id` to `continue`", why)
        self.spawned()

    def test_each_turn_has_a_mark_and_a_token_of_its_own_and_a_mark_is_no_token(self) -> None:
        turns = [self.spawned(name=name)[0] for name in ("a", "b")]
        self.assertEqual([turn.mark for turn in turns], ["mark-1", "mark-2"])
        self.assertEqual(len(set(self.minted)), 2)

    def test_neither_token_nor_server_secrets_are_in_arguments_or_environment(self) -> None:
        _, child = self.spawned()
        environ: Mapping[str, str] = child.env or {}
        for secret in (self.minted[0], "db-secret"):
            self.assertFalse([text for text in (*child.argv, *environ, *environ.values()) if secret in text])

    def test_the_ladder_reaches_the_spawned_child_by_its_id_and_mark(self) -> None:
        turn, child = self.spawned()
        turn.stop("interrupted by the agent")
        assert child.pid is not None
        self.assertEqual(self.kins[child.pid, "mark-1"].sent, [(signal.SIGINT, True)])


class ConfigFile(Spawning):
    def path(self) -> Path:
        argument = next(a for a in self.reactor.children[-1].argv if a.startswith("--mcp-config="))
        return Path(argument.partition("=")[2])

    def test_it_holds_this_turns_url_and_what_the_operator_shares_and_is_private(self) -> None:
        self.spawned()
        servers = json.loads(self.path().read_text())["mcpServers"]
        self.assertEqual(servers["subagent_control"]["url"], f"http://127.0.0.1:8787/signal/mcp/{self.minted[0]}")
        self.assertEqual(sorted(servers), ["db", "subagent_control"])
        self.assertEqual(stat.S_IMODE(self.path().stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.config_dir.stat().st_mode), 0o700)

    def test_it_is_gone_once_its_url_was_used(self) -> None:
        self.spawned()
        target = self.tokens.resolve(self.minted[0])
        assert target is not None
        target.request_began()
        self.assertEqual(self.files(), [])
        target.request_ended()
        target.request_began()

    def test_it_is_gone_when_the_child_has_exited(self) -> None:
        _, child = self.spawned()
        self.assertEqual(len(self.files()), 1)
        child.exit(1, pipes=False)
        self.assertEqual(self.files(), [])

    def test_a_sessions_next_turn_writes_it_anew_with_its_own_url(self) -> None:
        _, child = self.spawned()
        first = self.path()
        child.exit(1)
        self.spawned(session_id=None, resume="0000-1")
        self.assertEqual(self.path(), first)
        self.assertIn(self.minted[1], self.path().read_text())
        self.assertNotIn(self.minted[0], self.path().read_text())

    def test_two_sessions_have_two(self) -> None:
        self.spawned(name="a")
        self.spawned(name="b")
        self.assertEqual(len(self.files()), 2)


class Token(Spawning):
    def test_it_stands_for_the_turn_until_the_childs_exit_is_seen(self) -> None:
        _, child = self.spawned()
        target = self.tokens.resolve(self.minted[0])
        verifyObject(ISignalTarget, target)
        child.exit(0, pipes=False)
        self.assertIsNone(self.tokens.resolve(self.minted[0]))

    def test_what_the_subagent_signals_is_told_and_the_answer_given(self) -> None:
        self.spawned()
        target = self.tokens.resolve(self.minted[0])
        assert target is not None
        self.assertEqual(self.successResultOf(target.signal(SignalKind.NEED_HELP, "stuck", None)), "noted")
        self.assertEqual(self.signals, [(SignalKind.NEED_HELP, "stuck", None)])

    def test_a_request_that_was_resolved_before_the_exit_holds_the_turns_end(self) -> None:
        turn, child = self.spawned()
        ended = turn.when_ended()
        target = self.tokens.resolve(self.minted[0])
        assert target is not None
        target.request_began()
        child.exit(0)
        self.assertNoResult(ended)
        target.signal(SignalKind.GOAL_REACHED, "late, but in time", None)
        target.request_ended()
        self.assertEqual(self.successResultOf(ended).outcome, Outcome.FAILED)
        self.assertEqual(len(self.signals), 1)

    def test_a_token_that_the_child_prints_is_not_in_how_the_turn_ended(self) -> None:
        turn, child = self.spawned()
        child.err(f"cannot reach http://127.0.0.1:8787/signal/mcp/{self.minted[0]} or {self.minted[0]}\n".encode())
        child.exit(1)
        end = self.successResultOf(turn.when_ended())
        self.assertIn("cannot reach", end.detail)
        self.assertNotIn(self.minted[0], repr(end))


class Failing(Spawning):
    def test_a_directory_that_was_deleted_is_named_and_the_next_good_start_works(self) -> None:
        gone = self.dir / "gone"
        gone.mkdir()
        shutil.rmtree(gone)
        self.assertIn(str(gone), self.refused(dir=gone))
        self.assertEqual(self.spawned()[1].stdin, b"do it")

    def test_a_file_in_the_place_of_the_directory_is_named(self) -> None:
        file = self.dir / "file"
        file.touch()
        self.assertIn(str(file), self.refused(dir=file))

    def test_a_directory_that_cannot_be_looked_at_is_a_refusal(self) -> None:
        self.assertIn("x" * 5000, self.refused(dir=self.dir / ("x" * 5000)))

    def test_what_the_system_refuses_says_what_would_work(self) -> None:
        for number, words in (
            (errno.EAGAIN, "limit on processes"),
            (errno.EMFILE, "file descriptors"),
            (errno.ENFILE, "file descriptors"),
            (errno.ENOMEM, "out of memory"),
            (errno.E2BIG, "too long"),
        ):
            self.reactor.spawn_error = OSError(number, "refused")
            text = self.refused()
            self.assertIn("refused", text)
            self.assertIn(words, text)

    def test_a_missing_wrapper_is_named(self) -> None:
        self.reactor.spawn_error = FileNotFoundError(errno.ENOENT, "No such file or directory", "/bin/env")
        self.assertIn("/bin/env", self.refused())

    def test_a_config_file_that_cannot_be_written_starts_nothing(self) -> None:
        shutil.rmtree(self.config_dir.parent)
        self.config_dir.parent.touch()
        self.assertIn(str(self.config_dir.parent), self.refused())
        self.config_dir.parent.unlink()
        self.assertTrue(self.spawned()[1].stdin_closed)

    def test_an_error_that_nobody_foresaw_leaves_nothing_either(self) -> None:
        self.reactor.spawn_error = ValueError("embedded null byte")
        self.assertIn("null byte", self.refused(ValueError))

    def test_an_empty_list_of_tools_is_never_spawned(self) -> None:
        for tools in ((), ("",), ("Read", "")):
            self.assertIn("tools", self.refused(ValueError, tools=tools))

    def test_a_claude_that_is_missing_or_unsupported_is_what_the_spawn_fails_with(self) -> None:
        for error in (SpawnError("no program 'claude' on PATH"), UnsupportedClaude("/opt/claude is 1.0.96")):
            self.claude.answer = fail(error)
            self.assertIn(str(error), self.refused(type(error)))
        self.assertEqual(self.minted, [])

    def test_a_spawn_that_is_cancelled_while_claude_is_asked_starts_none(self) -> None:
        answer: Deferred[Program] = Deferred()
        self.claude.answer = answer
        spawning = self.source.spawn(self.spec(), self.signalled)
        self.assertNoResult(spawning)
        spawning.cancel()
        self.failureResultOf(spawning, CancelledError)
        self.assertTrue(answer.called)
        self.assertEqual((self.reactor.children, self.minted, self.files()), ([], [], []))
