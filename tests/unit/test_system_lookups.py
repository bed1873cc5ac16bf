"""A file system that hangs holds up the call that names it for a bounded time, and nothing else."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import BadRequest, Unanswered
from hivesub.system.lookups import BOUND_S, Lookups, at_once


class Looking(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()

    def test_what_the_function_gives_or_raises_comes_back(self) -> None:
        for look in (Lookups(maybeDeferred, self.clock), at_once):
            self.assertEqual(self.successResultOf(Deferred.fromCoroutine(look("x", divmod, 7, 2))), (3, 1))

            def refuse() -> None:
                raise BadRequest("dir: no")

            self.failureResultOf(Deferred.fromCoroutine(look("x", refuse)), BadRequest)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_that_does_not_answer_is_given_up_by_name(self) -> None:
        looking = Deferred.fromCoroutine(
            Lookups(lambda *call: Deferred(), self.clock)("dir: '/mnt/dead'", divmod, 7, 2)
        )
        self.clock.advance(BOUND_S - 0.1)
        self.assertNoResult(looking)
        self.clock.advance(0.2)
        self.assertIn(
            "dir: '/mnt/dead': its file system has not answered within 3 s",
            str(self.failureResultOf(looking, Unanswered).value),
        )

    def test_where_too_many_are_blocked_already_it_is_refused_at_once(self) -> None:
        look = Lookups(lambda *call: fail(OSError("64 file operations are blocked already")), self.clock)
        looking = Deferred.fromCoroutine(look("dir: '/x'", divmod, 7, 2))
        self.assertIn("cannot be looked at: 64 file", str(self.failureResultOf(looking, Unanswered).value))
