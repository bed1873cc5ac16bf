"""Which claude there is and what it can: asked of it once, and of its successor again."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from typing import Any

from twisted.internet.defer import CancelledError
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import SpawnError, UnsupportedClaude
from hivesub.redaction.redactor import Redactor
from hivesub.testing import FakeChild, FakeProcessReactor
from hivesub.turns.program import KNOWN, PROBE_S, Claude, Program

SECRET = "sk-ant-0123456789"
# Beyond what Linux ever gives.
NO_PID = 4_999_999
VERSION = b"2.1.332 (Claude Code)\n"
HELP = b"Usage: claude [options]\n" + b"".join(f"  {flag} <x>   words\n".encode() for flag in KNOWN)


def help_without(*flags: str) -> bytes:
    return b"\n".join(line for line in HELP.split(b"\n") if not any(f" {flag} ".encode() in line for flag in flags))


class Asking(SynchronousTestCase):
    def setUp(self) -> None:
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()
        self.path = self.dir / "claude"
        self.install()
        self.reactor = FakeProcessReactor()
        self.claude = self.claude_at(str(self.path))

    def install(self, content: str = "one") -> None:
        """Put another program in the place of claude, as an update does."""
        fresh = self.dir / "fresh"
        fresh.write_text(content)
        fresh.chmod(0o755)
        fresh.replace(self.path)

    def claude_at(self, path: str, **changes: Any) -> Claude:
        return Claude(
            self.reactor, self.reactor, **{"path": path, "environ": {"PATH": str(self.dir), "X": "y"}, **changes}
        )

    def child(self, argument: str) -> FakeChild:
        """The last child, which has to have been asked this."""
        child = self.reactor.children[-1]
        self.assertEqual(child.argv[-1], argument)
        return child

    def answer(self, version: bytes = VERSION, text: bytes = HELP) -> None:
        for argument, words in (("--version", version), ("--help", text)):
            child = self.child(argument)
            child.out(words)
            child.exit()

    def asked(self, claude: Claude | None = None) -> Program:
        asking = (claude or self.claude).program()
        self.answer()
        return self.successResultOf(asking)


class Finding(Asking):
    def test_a_path_is_taken_as_it_is_and_a_name_looked_up_on_the_childs_path(self) -> None:
        self.assertEqual(self.claude.find(), str(self.path))
        self.assertEqual(self.claude_at("claude").find(), str(self.path))

    def test_a_missing_one_says_what_was_looked_for_and_what_would_work(self) -> None:
        for path, words in (("no-claude", "on PATH"), (str(self.dir / "none"), str(self.dir / "none"))):
            asking = self.claude_at(path).program()
            text = str(self.failureResultOf(asking, SpawnError).value)
            for said in (path, words, "--claude"):
                self.assertIn(said, text)
        self.assertEqual(self.reactor.children, [])

    def test_one_that_was_missing_is_found_once_it_is_there(self) -> None:
        self.path.unlink()
        self.failureResultOf(self.claude.program(), SpawnError)
        self.install()
        self.assertEqual(self.asked().path, str(self.path))

    def test_a_file_that_may_not_be_executed_is_none(self) -> None:
        self.path.chmod(0o644)
        self.failureResultOf(self.claude.program(), SpawnError)

    def test_one_that_vanishes_this_moment_is_a_refusal_that_names_it(self) -> None:
        self.patch(self.claude, "find", lambda: str(self.dir / "vanished"))
        text = str(self.failureResultOf(self.claude.program(), SpawnError).value)
        self.assertIn("vanished", text)

    def test_a_relative_path_in_a_directory_that_was_deleted_is_a_refusal(self) -> None:
        def gone() -> str:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")

        self.patch(os, "getcwd", gone)
        self.failureResultOf(self.claude_at("./bin/claude").program(), SpawnError)


class Answers(Asking):
    def test_it_tells_path_version_and_the_flags_that_its_help_lists(self) -> None:
        program = self.asked()
        self.assertEqual(program, Program(path=str(self.path), version="2.1.332 (Claude Code)", flags=frozenset(KNOWN)))

    def test_it_is_asked_behind_the_launcher_with_its_environment_and_stdin_closed(self) -> None:
        self.claude_at(str(self.path), prefix=("srun", "-n1")).program()
        child = self.reactor.children[0]
        self.assertEqual(child.argv, ["srun", "-n1", str(self.path), "--version"])
        environ = {"PATH": str(self.dir), "X": "y", "HIVESUB_TURN": child.env["HIVESUB_TURN"]}  # type: ignore[index]
        self.assertEqual((child.env, child.stdin_closed), (environ, True))

    def test_chatter_on_stderr_is_not_taken_for_the_version(self) -> None:
        asking = self.claude.program()
        self.child("--version").err(b"npm WARN old Node.js\n")
        self.answer()
        self.assertEqual(self.successResultOf(asking).version, "2.1.332 (Claude Code)")

    def test_a_flag_counts_only_as_a_whole_word(self) -> None:
        asking = self.claude.program()
        self.answer(text=help_without("--tools", "--name") + b"\n  --tools-of-old\n  --my--name\n  --allowed--tools\n")
        self.assertIn("--tools", str(self.failureResultOf(asking, UnsupportedClaude).value))

    def test_one_without_a_needed_flag_is_refused_by_name_version_and_flag(self) -> None:
        for flag in ("--tools", "--settings", "--strict-mcp-config", "--mcp-config", "--session-id", "--resume"):
            self.install(flag)
            asking = self.claude.program()
            self.answer(b"1.0.96 (Claude Code)\n", help_without(flag))
            text = str(self.failureResultOf(asking, UnsupportedClaude).value)
            for said in (str(self.path), "1.0.96", f"lacks {flag}:", "--claude"):
                self.assertIn(said, text)

    def test_one_that_lacks_only_the_title_will_do(self) -> None:
        asking = self.claude.program()
        self.answer(text=help_without("--name"))
        self.assertEqual(self.successResultOf(asking).flags, frozenset(KNOWN) - {"--name"})

    def test_a_version_that_says_nothing_is_told_as_unknown(self) -> None:
        asking = self.claude.program()
        self.answer(version=b"")
        self.assertIn("unknown", self.successResultOf(asking).version)


class RequestKeys(Asking):
    def test_the_same_file_is_asked_once(self) -> None:
        first = self.asked()
        self.assertIs(self.successResultOf(self.claude.program()), first)
        self.assertEqual(len(self.reactor.children), 2)

    def test_one_found_wanting_is_not_asked_again_either(self) -> None:
        asking = self.claude.program()
        self.answer(text=help_without("--tools"))
        self.failureResultOf(asking, UnsupportedClaude)
        self.failureResultOf(self.claude.program(), UnsupportedClaude)
        self.assertEqual(len(self.reactor.children), 2)

    def test_one_that_was_replaced_is_asked_again(self) -> None:
        self.asked()
        self.install("another one")
        asking = self.claude.program()
        self.answer(b"9.9.9\n")
        self.assertEqual(self.successResultOf(asking).version, "9.9.9")

    def test_one_that_was_overwritten_in_its_place_is_asked_again(self) -> None:
        self.asked()
        self.path.write_text("a longer program than before")
        asking = self.claude.program()
        self.answer(b"9.9.9\n")
        self.assertEqual(self.successResultOf(asking).version, "9.9.9")

    def test_those_who_ask_at_once_share_one_answer(self) -> None:
        askings = [self.claude.program() for _ in range(3)]
        self.answer()
        self.assertEqual({self.successResultOf(asking).path for asking in askings}, {str(self.path)})
        self.assertEqual(len(self.reactor.children), 2)

    def test_one_who_gives_up_takes_the_answer_from_nobody(self) -> None:
        first, second = self.claude.program(), self.claude.program()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        self.answer()
        self.assertEqual(self.successResultOf(second).path, str(self.path))

    def test_when_all_give_up_the_answer_is_kept_for_the_next(self) -> None:
        asking = self.claude.program()
        asking.cancel()
        self.failureResultOf(asking, CancelledError)
        self.answer()
        self.successResultOf(self.claude.program())
        self.assertEqual(len(self.reactor.children), 2)

    def test_those_who_ask_at_once_share_a_failure_and_the_next_asks_again(self) -> None:
        askings = [self.claude.program() for _ in range(2)]
        self.child("--version").exit(1)
        for asking in askings:
            self.failureResultOf(asking, SpawnError)
        self.assertEqual(self.asked().path, str(self.path))


class Failing(Asking):
    def test_one_that_cannot_be_run_says_why_and_is_tried_again(self) -> None:
        self.reactor.spawn_error = OSError(errno.ENOEXEC, "Exec format error")
        text = str(self.failureResultOf(self.claude.program(), SpawnError).value)
        self.assertIn(str(self.path), text)
        self.assertIn("Exec format error", text)
        self.assertEqual(self.asked().path, str(self.path))

    def test_one_that_fails_is_told_with_its_exit_code_and_its_last_words(self) -> None:
        for at in ("--version", "--help"):
            asking = self.claude.program()
            if at == "--help":
                self.child("--version").exit()
            child = self.child(at)
            child.err(b"a trace\nerror while loading shared libraries: libx.so\n")
            child.exit(127)
            text = str(self.failureResultOf(asking, SpawnError).value)
            for said in (str(self.path), "127", at, "loading shared libraries"):
                self.assertIn(said, text)

    def test_one_that_dies_on_a_signal_is_no_old_version(self) -> None:
        asking = self.claude.program()
        self.child("--version").exit()
        self.child("--help").die(signal.SIGSEGV)
        failure = self.failureResultOf(asking, SpawnError)
        self.assertFalse(failure.check(UnsupportedClaude))
        self.assertIn("signal 11", str(failure.value))

    def test_what_runs_out_is_not_blamed_on_the_program(self) -> None:
        for number, advice in (
            (errno.EAGAIN, "limit on processes"),
            (errno.EMFILE, "file descriptors"),
            (errno.ENFILE, "file descriptors"),
            (errno.ENOMEM, "out of memory"),
        ):
            self.reactor.spawn_error = OSError(number, "refused")
            text = str(self.failureResultOf(self.claude.program(), SpawnError).value)
            self.assertRegex(text, f"^no process could be started: refused; .*{advice}")

    def test_one_that_may_not_be_run_is_named(self) -> None:
        for number in (errno.ENOENT, errno.EACCES):
            self.reactor.spawn_error = OSError(number, "refused", "/bin/sh")
            text = str(self.failureResultOf(self.claude.program(), SpawnError).value)
            self.assertEqual(text, f"{self.path} cannot be run: refused")

    def test_a_secret_in_what_it_says_is_told_to_nobody(self) -> None:
        claude = self.claude_at(str(self.path), redact=Redactor([SECRET]).redact)
        for write in (FakeChild.out, FakeChild.err):
            for words in (f"login with {SECRET} was refused", "x" * 490 + SECRET):
                asking = claude.program()
                child = self.child("--version")
                write(child, words.encode())
                child.exit(1)
                text = str(self.failureResultOf(asking, SpawnError).value)
                self.assertIn("[redact", text)
                self.assertNotIn(SECRET[:8], text)
        asking = claude.program()
        self.answer(f"9.9.9 for {SECRET}\n".encode(), help_without("--tools"))
        text = str(self.failureResultOf(asking, UnsupportedClaude).value)
        self.assertIn("9.9.9 for [redacted]", text)

    def test_a_secret_that_the_bound_on_its_words_cuts_is_told_to_nobody(self) -> None:
        claude = self.claude_at(str(self.path), redact=Redactor([SECRET]).redact)
        asking = claude.program()
        child = self.child("--version")
        child.err(b"x" * (1 << 20) + b"\nlast words\n" + SECRET[:8].encode())
        child.err(SECRET[8:].encode())
        child.exit(1)
        self.assertIn("'last words'", str(self.failureResultOf(asking, SpawnError).value))

    def test_what_one_that_failed_left_running_is_ended_by_a_mark_of_its_own_before_it_is_told(self) -> None:
        left: dict[str, str] = {}
        claude = self.claude_at(
            str(self.path),
            environ={"HIVESUB_TURN": "daemon-probe"},
            marked=lambda prefix: {NO_PID for mark in left.values() if mark.startswith(prefix)},
        )
        marks = set()
        for fail in (lambda child: child.exit(1), lambda child: child.die(signal.SIGSEGV), self.let_hang):
            asking = claude.program()
            child = self.child("--version")
            assert child.env is not None
            left["it"] = child.env["HIVESUB_TURN"]
            marks.add(left["it"])
            fail(child)
            self.assertNoResult(asking)
            left.clear()
            self.reactor.advance(1)
            self.failureResultOf(asking, SpawnError)
        self.assertEqual([mark.startswith("daemon-probe.") for mark in marks], [True] * 3)

    def test_its_fault_is_told_although_what_it_left_cannot_be_looked_for(self) -> None:
        def marked(prefix: str) -> set[int]:
            raise OSError(errno.EMFILE, "Too many open files")

        asking = self.claude_at(str(self.path), marked=marked).program()
        self.child("--version").exit(1)
        self.assertIn("exit code 1 for --version", str(self.failureResultOf(asking, SpawnError).value))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def let_hang(self, child: FakeChild) -> None:
        self.reactor.advance(PROBE_S)
        child.die(signal.SIGKILL)

    def test_one_that_hangs_is_killed_told_as_such_and_asked_again(self) -> None:
        asking = self.claude.program()
        self.child("--version").exit()
        child = self.child("--help")
        self.reactor.advance(PROBE_S - 0.5)
        self.assertEqual(child.signals, [])
        self.reactor.advance(1)
        self.assertEqual(child.signals, [signal.SIGKILL])
        child.die(signal.SIGKILL)
        failure = self.failureResultOf(asking, SpawnError)
        self.assertFalse(failure.check(UnsupportedClaude))
        self.assertIn("no answer within", str(failure.value))
        self.assertEqual(self.asked().path, str(self.path))

    def test_something_that_it_started_and_that_holds_its_pipes_does_not_hold_the_answer(self) -> None:
        asking = self.claude.program()
        for argument, words in (("--version", VERSION), ("--help", HELP)):
            child = self.child(argument)
            child.out(words)
            child.exit(pipes=False)
            self.reactor.advance(1)
            self.assertTrue(child.pipes_closed)
        self.assertEqual(self.successResultOf(asking).path, str(self.path))
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_a_hanging_wrapper_whose_child_holds_the_pipes_does_not_hang_the_asking(self) -> None:
        asking = self.claude.program()
        child = self.child("--version")
        self.reactor.advance(PROBE_S)
        child.die(signal.SIGKILL, pipes=False)
        self.reactor.advance(1)
        self.failureResultOf(asking, SpawnError)

    def test_no_timer_is_left_of_an_answer(self) -> None:
        self.asked()
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_one_that_prints_for_ever_costs_bounded_memory(self) -> None:
        asking = self.claude.program()
        child = self.child("--version")
        child.out(VERSION)
        for _ in range(40):
            child.out(b"x" * (1 << 16) + b"\n")
        pieces: list[bytes] = child.protocol._pieces[1]  # type: ignore[attr-defined]
        kept = sum(len(piece) for piece in pieces)
        self.assertLess(kept, 2 << 20)
        self.answer()
        self.assertEqual(self.successResultOf(asking).version, "2.1.332 (Claude Code)")
