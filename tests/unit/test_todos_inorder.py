"""Calls off the reactor's thread: one at a time, in order, and many in one thread when many wait."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, fail, maybeDeferred
from twisted.trial.unittest import SynchronousTestCase

from hivesub.todos.inorder import AT_ONCE, InOrder


@define
class FakeThreads:
    """Makes no call until it is told to."""

    waiting: list[tuple[Deferred[Any], Callable[..., Any], tuple[object, ...]]] = field(factory=list)
    threads: int = 0

    def __call__(self, function: Callable[..., Any], *args: object) -> Deferred[Any]:
        self.threads += 1
        done: Deferred[Any] = Deferred()
        self.waiting.append((done, function, args))
        return done

    def run(self) -> None:
        ((done, function, args),) = self.waiting
        self.waiting = []
        maybeDeferred(function, *args).chainDeferred(done)


class InOrderTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.threads = FakeThreads()
        self.disk = InOrder(self.threads)
        self.made: list[object] = []

    def call(self, what: object) -> Deferred[Any]:
        def function() -> object:
            self.made.append(what)
            if isinstance(what, Exception):
                raise what
            return what

        return self.disk(function)

    def test_what_a_call_gives_or_raises_is_its_own_outcome(self) -> None:
        first, second, third, fourth = (self.call(what) for what in ("a", "b", OSError("c"), "d"))
        self.threads.run()
        self.assertEqual(self.successResultOf(first), "a")
        self.assertNoResult(second)
        self.threads.run()
        self.assertEqual((self.successResultOf(second), self.successResultOf(fourth)), ("b", "d"))
        self.failureResultOf(third, OSError)

    def test_calls_that_wait_are_made_in_order_in_one_thread(self) -> None:
        calls = [self.call(number) for number in range(10)]
        self.threads.run()
        self.threads.run()
        self.assertEqual((self.made, self.threads.threads), (list(range(10)), 2))
        self.assertEqual([self.successResultOf(call) for call in calls], list(range(10)))

    def test_what_follows_from_an_outcome_waits_behind_what_waited_already(self) -> None:
        self.call("a").addCallback(lambda _: self.call("c"))
        self.call("b")
        self.threads.run()
        self.threads.run()
        self.assertEqual(self.made, ["a", "b", "c"])

    def test_no_thread_is_given_more_than_its_share(self) -> None:
        for number in range(AT_ONCE + 2):
            self.call(number)
        self.threads.run()
        self.threads.run()
        self.assertEqual(len(self.made), AT_ONCE + 1)
        self.threads.run()
        self.assertEqual(self.made, list(range(AT_ONCE + 2)))

    def test_where_no_thread_is_to_be_had_each_call_fails_and_later_ones_are_tried(self) -> None:
        first, second, third = (self.call(what) for what in "abc")
        self.disk._in_thread = lambda function, *args: fail(OSError("64 are blocked already"))
        self.threads.run()
        self.assertEqual(self.successResultOf(first), "a")
        self.failureResultOf(second, OSError)
        self.failureResultOf(third, OSError)
        self.disk._in_thread = self.threads
        again = self.call("d")
        self.threads.run()
        self.assertEqual(self.successResultOf(again), "d")

    def test_a_call_that_waits_can_be_taken_back_and_one_that_is_made_cannot(self) -> None:
        calls = [self.call(what) for what in "abc"]
        for call in calls[:2]:
            call.cancel()
            self.failureResultOf(call, CancelledError)
        self.threads.run()
        self.threads.run()
        self.assertEqual((self.made, self.successResultOf(calls[2])), (["a", "c"], "c"))
