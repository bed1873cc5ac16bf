"""What a dead daemon left running: found by its mark, asked to end, then made to."""

from __future__ import annotations

import signal

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from hivesub.turns.leftovers import WAIT_S, end_leftovers

TERM, KILL = signal.SIGTERM, signal.SIGKILL


class Orphans(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.living: dict[int, str] = {}
        self.deaf: dict[int, set[int]] = {}
        self.sent: list[tuple[int, int]] = []
        self.refuse: set[int] = set()

    def marked(self, *prefixes: str) -> set[int]:
        return {pid for pid, mark in self.living.items() if mark.startswith(prefixes)}

    def kill(self, pid: int, number: int) -> None:
        self.sent.append((pid, number))
        if pid in self.refuse:
            raise PermissionError(1, "no")
        if number not in self.deaf.get(pid, set()):
            del self.living[pid]

    def ended(self, *marks: str) -> int:
        waiting = end_leftovers(marks, clock=self.clock, marked=self.marked, kill=self.kill)
        self.clock.pump([0.1] * 100)
        return self.successResultOf(waiting)

    def test_what_bears_a_dead_mark_gets_sigterm_and_is_counted(self) -> None:
        self.living = {11: "old-1", 12: "older-1"}
        self.assertEqual(self.ended("old-", "older-"), 2)
        self.assertEqual(sorted(self.sent), [(11, TERM), (12, TERM)])

    def test_what_bears_another_mark_is_left_alone(self) -> None:
        self.living = {11: "old-1", 12: "mine-1"}
        self.ended("old-")
        self.assertEqual(self.living, {12: "mine-1"})

    def test_without_marks_nobody_is_looked_for(self) -> None:
        self.living = {11: "old-1"}
        self.assertEqual(self.ended(), 0)
        self.assertEqual(self.sent, [])

    def test_what_ignores_sigterm_is_killed_after_the_wait_and_not_before(self) -> None:
        self.living = {11: "old-1"}
        self.deaf = {11: {TERM}}
        waiting = end_leftovers(["old-"], clock=self.clock, marked=self.marked, kill=self.kill)
        self.clock.pump([0.1] * 29)
        self.assertEqual(self.sent, [(11, TERM)])
        self.assertNoResult(waiting)
        self.clock.pump([0.1] * 3)
        self.assertEqual(self.sent, [(11, TERM), (11, KILL)])
        self.assertEqual(self.successResultOf(waiting), 1)

    def test_the_wait_may_be_shorter(self) -> None:
        self.living = {11: "old-1"}
        self.deaf = {11: {TERM}}
        waiting = end_leftovers(["old-"], clock=self.clock, marked=self.marked, kill=self.kill, wait_s=1.0)
        self.clock.pump([0.1] * 9)
        self.assertEqual(self.sent, [(11, TERM)])
        self.clock.pump([0.1] * 3)
        self.assertEqual(self.sent, [(11, TERM), (11, KILL)])
        self.assertEqual(self.successResultOf(waiting), 1)

    def test_what_outlives_sigkill_does_not_hold_it_for_ever(self) -> None:
        self.living = {11: "old-1"}
        self.deaf = {11: {TERM, KILL}}
        self.assertEqual(self.ended("old-"), 1)
        self.assertLess(self.clock.seconds() - 2 * WAIT_S, 10)

    def test_one_that_may_not_be_signalled_does_not_save_the_others(self) -> None:
        self.living = {11: "old-1", 12: "old-2"}
        self.refuse = {11}
        self.ended("old-")
        self.assertEqual(self.living, {11: "old-1"})
