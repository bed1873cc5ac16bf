"""Waits that several callers share."""

from __future__ import annotations

from twisted.internet.defer import CancelledError
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hivesub.waiters import Waiters


class TheWaiters(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.waiters = Waiters(self.clock)

    def test_all_who_wait_are_woken_once(self) -> None:
        first, second = self.waiters.wait(), self.waiters.wait(10)
        self.waiters.fire()
        self.assertIsNone(self.successResultOf(first))
        self.assertIsNone(self.successResultOf(second))
        self.waiters.fire()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_who_comes_after_a_fire_waits_for_the_next(self) -> None:
        self.waiters.fire()
        late = self.waiters.wait()
        self.assertNoResult(late)
        self.waiters.fire()
        self.successResultOf(late)

    def test_a_bounded_wait_ends_without_an_error_and_leaves_the_others(self) -> None:
        bounded, other = self.waiters.wait(5), self.waiters.wait()
        self.clock.advance(5)
        self.assertIsNone(self.successResultOf(bounded))
        self.assertNoResult(other)
        self.waiters.fire()
        self.successResultOf(other)

    def test_cancelling_one_leaves_the_others_and_no_timer(self) -> None:
        gone, other = self.waiters.wait(5), self.waiters.wait()
        gone.cancel()
        self.failureResultOf(gone, CancelledError)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.waiters.fire()
        self.successResultOf(other)

    def test_one_that_is_woken_may_cancel_another_or_wait_again(self) -> None:
        first, second, third = self.waiters.wait(), self.waiters.wait(), self.waiters.wait()
        again = []

        def woken(result: None) -> None:
            second.cancel()
            again.append(self.waiters.wait())

        first.addCallback(woken)
        self.waiters.fire()
        self.failureResultOf(second, CancelledError)
        self.successResultOf(third)
        self.assertNoResult(again[0])
