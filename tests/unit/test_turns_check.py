"""A run of a check: what is observed of its end, and what never counts as a failing check."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.config.checks import Check
from hivesub.errors import Unanswered
from hivesub.interfaces import ICheck, IChecks
from hivesub.records import CheckEnd, CheckOutcome, LeftProcess
from hivesub.system.lookups import Look, at_once
from hivesub.testing import FakeChild, FakeProcessReactor
from hivesub.turns.check import TAIL_CHARS, Checks
from hivesub.turns.command import Wrappers


class FakeKin:
    """What a check started: nothing, or `left` processes that go when they are signalled."""

    def __init__(self, child: FakeChild) -> None:
        self.child = child
        self.left = 0
        self.signals: list[int] = []

    def others(self) -> list[int]:
        return [0] * self.left

    def named(self) -> tuple[LeftProcess, ...]:
        return ()

    def send(self, number: int, *, child: bool) -> int:
        self.signals.append(number)
        gone, self.left = self.left, 0
        return gone


class ACheck(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = FakeProcessReactor()
        self.kin: list[FakeKin] = []
        self.look: Look = at_once
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()
        self.checks = self.checks_of("sh", "-c", "x")

    def checks_of(self, *argv: str) -> Checks:
        return Checks(
            self.reactor,
            self.reactor,
            checks={"tests": Check(name="tests", argv=argv, timeout_s=60.0)},
            now=lambda: datetime(2031, 5, 6, tzinfo=UTC),
            redact=lambda text: text.replace("SECRET", "[redacted]"),
            wrappers=Wrappers(env="/usr/bin/env", setsid="/usr/bin/setsid"),
            launcher=(),
            environ={"PATH": "/usr/bin:/bin", "API_TOKEN": "not for a check", "HIVESUB_URL": "x", "LANG": "C"},
            look=self.look,
            make_kin=self.make_kin,
        )

    def make_kin(self, pid: int, mark: str) -> FakeKin:
        self.kin.append(FakeKin(self.reactor.children[-1] if self.reactor.children else None))  # type: ignore[arg-type]
        return self.kin[-1]

    def start(self) -> ICheck:
        self.running = self.checks.start("tests", str(self.dir), "mark-1")
        return self.running

    @property
    def child(self) -> FakeChild:
        return self.reactor.children[-1]

    def end(self) -> CheckEnd:
        return self.successResultOf(self.running.when_ended())

    def test_it_is_what_it_says(self) -> None:
        verifyObject(IChecks, self.checks)
        verifyObject(ICheck, self.start())
        self.assertEqual(self.checks.names, ("tests",))

    def test_it_runs_in_the_directory_in_a_session_of_its_own_without_secrets_and_with_a_mark(self) -> None:
        self.start()
        self.assertEqual(self.child.argv, ["/usr/bin/env", "-C", str(self.dir), "/usr/bin/setsid", "sh", "-c", "x"])
        self.assertEqual(self.child.env, {"PATH": "/usr/bin:/bin", "LANG": "C", "HIVESUB_TURN": "mark-1"})
        self.assertTrue(self.child.stdin_closed)

    def test_exit_0_is_passed_and_another_code_failed(self) -> None:
        for code, outcome in ((0, CheckOutcome.PASSED), (1, CheckOutcome.FAILED), (2, CheckOutcome.FAILED)):
            self.start()
            self.child.out(b"12 tests\n")
            self.child.exit(code)
            end = self.end()
            self.assertEqual((end.outcome, end.exit_code, end.detail, end.tail), (outcome, code, "", "12 tests\n"))

    def test_what_says_nothing_of_the_work_is_no_failing_check(self) -> None:
        self.start()
        self.child.exit(127)
        self.assertEqual((self.end().outcome, self.end().exit_code), (CheckOutcome.NOT_RUN, 127))
        self.start()
        self.child.exit(137)
        self.assertEqual((self.end().outcome, "SIGKILL" in self.end().detail), (CheckOutcome.KILLED, True))
        self.start()
        self.child.die(15)
        self.assertEqual(self.end().outcome, CheckOutcome.KILLED)

    def test_one_that_takes_too_long_is_ended_and_said_to(self) -> None:
        self.start()
        self.reactor.advance(60)
        self.assertEqual(self.kin[-1].signals, [2])
        self.child.exit(0)
        self.assertEqual((self.end().outcome, self.end().detail), (CheckOutcome.TIMED_OUT, "not done after 60 s"))

    def test_one_that_is_stopped_is_killed_by_that(self) -> None:
        self.start().stop("interrupted by the agent")
        self.running.stop("again")
        self.child.die(2)
        self.assertEqual((self.end().outcome, self.end().detail), (CheckOutcome.KILLED, "interrupted by the agent"))
        self.running.stop("after the end")

    def test_what_it_started_is_ended_before_its_end_is_known(self) -> None:
        self.start()
        self.kin[-1].left = 2
        self.child.exit(0, pipes=False)
        self.assertNoResult(self.running.when_ended())
        self.assertEqual(self.kin[-1].signals, [15])
        self.reactor.pump([0.1] * 6)
        self.assertEqual(self.end().outcome, CheckOutcome.PASSED)

    def test_pipes_that_stay_open_hold_up_nothing(self) -> None:
        self.start()
        self.child.exit(1, pipes=False)
        self.reactor.advance(0.5)
        self.assertEqual(self.end().outcome, CheckOutcome.FAILED)

    def test_of_much_output_the_end_is_kept_redacted(self) -> None:
        self.start()
        for _ in range(100):
            self.child.err(b"x" * 10_000 + b"\n")
        self.child.out("ü SECRET \ud83d".encode("utf-8", "surrogatepass"))
        self.child.exit(1)
        tail = self.end().tail
        self.assertLessEqual(len(tail), TAIL_CHARS)
        self.assertIn("ü [redacted] ", tail)
        tail.encode()

    def test_what_cannot_be_run_ends_at_once_and_says_why(self) -> None:
        self.reactor.spawn_error = OSError(11, "Resource temporarily unavailable")
        self.start()
        self.assertEqual(self.end().outcome, CheckOutcome.NOT_RUN)
        self.assertIn("Resource temporarily unavailable", self.end().detail)
        self.dir.rmdir()
        self.start()
        self.assertEqual(self.end().detail, "its directory is not there (any more)")
        self.assertEqual(self.end().exit_code, None)

    def test_a_program_that_is_not_there_is_named(self) -> None:
        self.checks = self.checks_of("no-such-program")
        self.start()
        self.assertEqual(
            (self.end().outcome, self.end().detail), (CheckOutcome.NOT_RUN, "no program 'no-such-program' to be found")
        )
        self.assertEqual(self.reactor.children, [])

    def test_a_directory_that_does_not_answer_holds_nothing_up_and_is_named(self) -> None:
        answers = self.hung()
        self.start()
        self.assertFalse(self.reactor.children)
        answers[0].errback(Unanswered(f"check `tests`: {str(self.dir)!r}: its file system has not answered"))
        self.assertEqual(self.end().outcome, CheckOutcome.NOT_RUN)
        self.assertIn("its file system has not answered", self.end().detail)

    def test_one_that_is_stopped_while_its_directory_is_looked_at_is_never_spawned(self) -> None:
        answers = self.hung()
        self.start()
        self.running.stop("interrupted by the agent")
        self.assertEqual((self.end().outcome, self.end().detail), (CheckOutcome.KILLED, "interrupted by the agent"))
        answers[0].callback("")
        self.assertFalse(self.reactor.children)

    def test_a_bug_in_its_beginning_is_logged_and_ends_it(self) -> None:
        answers = self.hung()
        self.start()
        answers[0].errback(ZeroDivisionError("ours"))
        self.assertEqual(
            (self.end().outcome, self.end().detail), (CheckOutcome.NOT_RUN, "internal error: ZeroDivisionError")
        )
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def hung(self) -> list[Deferred[str]]:
        """Have each look answer only once the test says what."""
        answers: list[Deferred[str]] = []

        async def look(where: str, function: Any, *args: object) -> str:
            answers.append(Deferred())
            return await answers[-1]

        self.look = look
        self.checks = self.checks_of("sh", "-c", "x")
        return answers
