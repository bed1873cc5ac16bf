"""As PID 1 the daemon waits for what it was left, and for nothing that is Twisted's."""

from __future__ import annotations

import os

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hivesub.system.zombies import LOOK_S, Adopted


class AdoptedTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.zombies: list[int] = []
        self.waited: list[tuple[int, int]] = []
        self.adopted = Adopted(self.clock, zombies=lambda: self.zombies, own={7}, wait=self.wait)

    def wait(self, pid: int, flags: int) -> None:
        self.waited.append((pid, flags))
        if pid == 13:
            raise ChildProcessError(10, "No child processes")

    def test_a_zombie_that_twisted_did_not_spawn_is_waited_for_without_blocking(self) -> None:
        self.adopted.begin()
        self.zombies = [5, 7, 9]
        self.clock.advance(LOOK_S)
        self.assertEqual(self.waited, [(5, os.WNOHANG), (9, os.WNOHANG)])

    def test_one_that_is_gone_already_stops_nothing(self) -> None:
        self.adopted.begin()
        self.zombies = [13, 5]
        self.clock.pump([LOOK_S, LOOK_S])
        self.assertEqual([pid for pid, _ in self.waited], [13, 5, 13, 5])

    def test_nothing_is_looked_at_before_it_begins_nor_after_it_ends(self) -> None:
        self.adopted.end()
        self.zombies = [5]
        self.clock.advance(LOOK_S)
        self.adopted.begin()
        self.adopted.end()
        self.clock.advance(LOOK_S)
        self.assertEqual(self.waited, [])
        self.assertEqual(self.clock.getDelayedCalls(), [])
