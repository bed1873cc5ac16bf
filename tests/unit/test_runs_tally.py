"""The counts' own arithmetic."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.runs.tally import BOUNDS_S, Latencies


class AHistogram(SynchronousTestCase):
    def test_a_time_on_a_bound_belongs_below_it_and_one_past_them_all_to_the_last(self) -> None:
        latencies = Latencies()
        for seconds in (0.0, 0.005, 0.0051, 5.0, 60.0):
            latencies.observe(seconds)
        self.assertEqual(latencies.counts[:2], [2, 1])
        self.assertEqual(latencies.counts[-2:], [1, 1])
        self.assertEqual(len(latencies.counts), len(BOUNDS_S) + 1)
        self.assertAlmostEqual(latencies.sum_s, 65.0101)
