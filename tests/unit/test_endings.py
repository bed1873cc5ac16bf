"""The table of endings: complete, and what follows from each row."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.endings import ENDINGS, SIGNALS, UNVERIFIED, complete
from hivesub.records import SignalKind, State, StopKind


class TheTables(SynchronousTestCase):
    def test_a_table_that_lacks_a_row_is_refused_when_it_is_made(self) -> None:
        rows = {kind: ENDINGS[kind] for kind in StopKind if kind is not StopKind.NO_CONTROL}
        error = self.assertRaises(LookupError, complete, StopKind, rows)
        self.assertEqual(str(error), "no row for StopKind NO_CONTROL")

    def test_every_row_says_how_to_go_on(self) -> None:
        for kind, row in ENDINGS.items():
            self.assertIn("`continue`", row.next_step, kind)
            self.assertTrue(row.title and row.sentence, kind)

    def test_the_state_follows_from_the_kind(self) -> None:
        others = {StopKind.KILLED: State.KILLED, StopKind.FAILED: State.FAILED, StopKind.NEED_HELP: State.BLOCKED}
        for kind, row in ENDINGS.items():
            self.assertIs(row.state, others.get(kind, State.IDLE), kind)

    def test_no_run_that_ended_counts_as_running(self) -> None:
        self.assertNotIn(State.RUNNING, {row.state for row in ENDINGS.values()})

    def test_a_claim_of_a_goal_is_labelled_wherever_its_words_come_from_the_table(self) -> None:
        row, signal = ENDINGS[StopKind.GOAL_REACHED], SIGNALS[SignalKind.GOAL_REACHED]
        for text in (row.title, row.sentence, signal.label, signal.reason):
            self.assertIn(UNVERIFIED, text)

    def test_a_signal_stops_a_run_as_a_claim(self) -> None:
        self.assertTrue(all(ENDINGS[signal.stop].claim for signal in SIGNALS.values()))
