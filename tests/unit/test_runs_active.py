"""What is said of a run that was told to stop and has not ended."""

from __future__ import annotations

from pathlib import Path

from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import TurnSpec
from hivesub.runs.active import why_not_over
from hivesub.testing import FakeTurn
from hivesub.turns.ladder import RUNGS


class WhatHoldsItUp(SynchronousTestCase):
    def setUp(self) -> None:
        spec = TurnSpec(name="alpha", prompt=b"", dir=Path("/srv"), tools=("Read",), resume="alpha")
        self.turn = FakeTurn(spec, lambda kind, message, path: succeed(""), 77)

    def test_only_the_signals_that_were_sent_are_named(self) -> None:
        for told in ("SIGINT", "SIGINT and SIGTERM", "SIGINT, SIGTERM and SIGKILL"):
            self.turn.signals_sent += (RUNGS[len(self.turn.signals_sent)],)
            self.assertEqual(why_not_over(self.turn), f"pid 77 has not gone after {told}")

    def test_a_child_that_could_not_be_signalled_is_told_as_such(self) -> None:
        self.assertEqual(why_not_over(self.turn), "pid 77 has not gone, and no signal could be sent to it")

    def test_a_process_that_is_gone_is_not_said_to_live(self) -> None:
        self.turn.pid = None
        told = why_not_over(self.turn)
        self.assertIn("its process is gone, but its output is still being read", told)
        self.assertNotIn("SIG", told)

    def test_without_a_turn_there_is_no_process_yet(self) -> None:
        self.assertEqual(why_not_over(None), "the process of its next turn is still being made")
