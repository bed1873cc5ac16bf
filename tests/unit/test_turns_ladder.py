"""The kill ladder on a clock: which signal reaches whom, when, and when all is clear."""

from __future__ import annotations

import errno
import signal

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hivesub.testing import FakeKin
from hivesub.turns.ladder import Ladder

INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL


def cannot_look() -> list[int]:
    raise OSError(errno.EMFILE, "Too many open files")


class Stopping(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.kin = FakeKin()
        self.cleared: list[float] = []
        self.ladder = Ladder(self.clock, self.kin, lambda: self.cleared.append(self.clock.seconds()))

    def pass_s(self, seconds: float) -> None:
        """Let time go by in steps of 1/8 s, which add up without an error."""
        self.clock.pump([0.125] * int(seconds / 0.125))

    def test_a_child_that_stays_gets_int_term_and_kill_three_seconds_apart(self) -> None:
        self.ladder.begin()
        self.assertEqual(self.kin.sent, [(INT, True)])
        self.clock.advance(2.9)
        self.assertEqual(len(self.kin.sent), 1)
        self.clock.advance(0.1)
        self.assertEqual(self.kin.sent, [(INT, True), (TERM, True)])
        self.clock.advance(2.9)
        self.assertEqual(len(self.kin.sent), 2)
        self.clock.advance(0.1)
        self.assertEqual(self.kin.sent, [(INT, True), (TERM, True), (KILL, True)])

    def test_it_is_never_clear_while_the_child_lives(self) -> None:
        self.ladder.begin()
        self.pass_s(600)
        self.assertEqual(self.cleared, [])
        self.ladder.child_exited(sweep=False)
        self.assertEqual(len(self.cleared), 1)

    def test_begun_twice_it_is_one_ladder(self) -> None:
        self.ladder.begin()
        self.clock.advance(1)
        self.ladder.begin()
        self.clock.advance(2)
        self.ladder.begin()
        self.assertEqual(self.kin.sent, [(INT, True), (TERM, True)])

    def test_a_rung_that_goes_wrong_keeps_none_of_the_next_from_coming(self) -> None:
        sent = self.kin.send
        fail = [True]

        def send(number: int, *, child: bool) -> int:
            reached = sent(number, child=child)
            if fail.pop():
                raise OSError(errno.EMFILE, "Too many open files")
            fail.append(False)
            return reached

        self.patch(self.kin, "send", send)
        fail.insert(0, False)
        self.ladder.begin()
        self.pass_s(9)
        self.assertEqual([number for number, _ in self.kin.sent], [INT, TERM, KILL])
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def test_what_cannot_be_looked_for_is_not_taken_for_gone_and_holds_nobody_up_for_ever(self) -> None:
        def others() -> list[int]:
            raise OSError(errno.EMFILE, "Too many open files")

        self.patch(self.kin, "others", others)
        self.ladder.child_exited(sweep=True)
        self.pass_s(5)
        self.assertEqual(([number for number, _ in self.kin.sent][:1], self.cleared), ([TERM], []))
        self.pass_s(60)
        self.assertEqual((len(self.cleared), self.ladder.survivors), (1, None))
        self.assertEqual((len(self.flushLoggedErrors(OSError)), self.clock.getDelayedCalls()), (1, []))

    def test_a_child_that_goes_at_once_and_leaves_nothing_is_clear_at_its_exit(self) -> None:
        self.ladder.begin()
        self.clock.advance(0.05)
        self.ladder.child_exited(sweep=False)
        self.assertEqual(self.cleared, [0.05])
        self.clock.advance(60)
        self.assertEqual(self.kin.sent, [(INT, True)])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_the_exit_of_an_unsignalled_child_leaves_what_it_started_alone(self) -> None:
        self.kin.left = 2
        self.ladder.child_exited(sweep=False)
        self.pass_s(1)
        self.assertEqual((self.kin.sent, self.kin.left, len(self.cleared)), ([], 2, 1))
        self.assertEqual([left.name for left in self.ladder.remaining], ["left0", "left1"])

    def test_what_goes_with_a_child_a_moment_later_was_not_left_running(self) -> None:
        self.kin.left = 2
        self.ladder.child_exited(sweep=False)
        self.assertEqual(self.cleared, [])
        self.kin.left = 0
        self.pass_s(0.25)
        self.assertEqual((len(self.cleared), self.ladder.remaining), (1, ()))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_child_that_left_nothing_is_clear_at_once(self) -> None:
        self.ladder.child_exited(sweep=False)
        self.assertEqual((self.cleared, self.clock.getDelayedCalls()), ([0.0], []))

    def test_what_cannot_be_looked_at_keeps_nobody_waiting(self) -> None:
        self.patch(self.kin, "others", cannot_look)
        self.patch(self.kin, "named", cannot_look)
        self.ladder.child_exited(sweep=False)
        self.assertEqual((self.cleared, self.ladder.remaining), ([0.0], ()))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 2)

    def test_a_sweep_ends_what_is_left_and_is_clear_once_it_is_gone(self) -> None:
        self.kin.left = 2
        self.ladder.child_exited(sweep=True)
        self.assertEqual(self.kin.sent, [(TERM, False)])
        self.assertEqual(self.cleared, [0.0])

    def test_what_ignores_sigterm_is_killed_three_seconds_later(self) -> None:
        self.kin.left = 1
        self.kin.hears = {KILL}
        self.ladder.child_exited(sweep=True)
        self.pass_s(2.75)
        self.assertEqual((self.kin.sent, self.cleared), ([(TERM, False)], []))
        self.pass_s(0.5)
        self.assertEqual(self.kin.sent, [(TERM, False), (KILL, False)])
        self.assertEqual(len(self.cleared), 1)

    def test_what_is_left_goes_on_from_the_rung_that_the_child_went_at(self) -> None:
        self.kin.left = 1
        self.kin.hears = {KILL}
        self.ladder.begin()
        self.pass_s(3)
        self.ladder.child_exited(sweep=False)
        self.pass_s(3.25)
        self.assertEqual(self.kin.sent, [(INT, True), (TERM, True), (KILL, False)])
        self.assertEqual(len(self.cleared), 1)

    def test_what_outlives_sigkill_holds_the_end_no_longer_than_three_seconds_more(self) -> None:
        self.kin.left = 3
        self.kin.hears = set()
        self.ladder.begin()
        self.pass_s(6.125)
        self.ladder.child_exited(sweep=False)
        self.pass_s(2.75)
        self.assertEqual(self.cleared, [])
        self.pass_s(0.5)
        self.assertEqual((len(self.cleared), self.ladder.survivors), (1, 3))
        self.assertEqual(len(self.ladder.remaining), 3)
        self.assertLess(self.cleared[0], 10)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_what_was_forked_while_sigkill_went_round_gets_its_own(self) -> None:
        self.kin.left = 1
        self.kin.hears = set()
        self.ladder.begin()
        self.pass_s(6)
        self.ladder.child_exited(sweep=False)
        self.kin.hears = {KILL}
        self.pass_s(0.5)
        self.assertEqual((self.kin.left, len(self.cleared), self.ladder.survivors), (0, 1, 0))

    def test_after_the_exit_the_childs_own_id_is_never_signalled(self) -> None:
        self.kin.left = 1
        self.kin.hears = set()
        self.ladder.begin()
        self.ladder.child_exited(sweep=True)
        self.pass_s(20)
        self.assertEqual([child for _, child in self.kin.sent[1:]], [False] * (len(self.kin.sent) - 1))
        self.assertGreater(len(self.kin.sent), 2)

    def test_signals_to_what_is_left_are_no_escalation_of_the_childs(self) -> None:
        self.kin.left = 1
        self.kin.hears = {KILL}
        self.ladder.begin()
        self.ladder.child_exited(sweep=True)
        self.pass_s(4)
        self.assertEqual(self.kin.sent[-1], (KILL, False))
        self.assertEqual((self.ladder.sent, self.ladder.escalated), ([INT], False))

    def test_a_second_rung_for_the_child_is_an_escalation(self) -> None:
        self.assertFalse(self.ladder.escalated)
        self.ladder.begin()
        self.assertFalse(self.ladder.escalated)
        self.pass_s(3)
        self.assertTrue(self.ladder.escalated)

    def test_begun_after_all_is_clear_it_signals_nobody(self) -> None:
        self.ladder.child_exited(sweep=False)
        self.ladder.begin()
        self.clock.advance(20)
        self.assertEqual((self.kin.sent, len(self.cleared)), ([], 1))
