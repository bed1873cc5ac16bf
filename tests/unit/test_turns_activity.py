"""Output over time."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.turns.activity import SLOT_S, SLOTS, Activity, merged, strip


class TheCount(SynchronousTestCase):
    def test_bytes_of_one_slot_are_summed_and_the_next_slot_begins_anew(self) -> None:
        activity = Activity()
        for seconds, count in ((0.0, 3), (4.9, 4), (5.0, 10), (14.0, 1)):
            activity.note(seconds, count)
        self.assertEqual(activity.slots, {0: 7, 1: 10, 2: 1})

    def test_only_the_newest_slots_are_kept(self) -> None:
        activity = Activity()
        for slot in range(SLOTS + 30):
            activity.note(slot * SLOT_S, 1)
        self.assertEqual(list(activity.slots), list(range(30, SLOTS + 30)))


class TwoTurns(SynchronousTestCase):
    def test_they_add_up_in_the_slot_that_they_share(self) -> None:
        self.assertEqual(merged({1: 5, 2: 6}, {2: 1, 4: 2}), {1: 5, 2: 7, 4: 2})

    def test_together_they_keep_no_more_than_one_would(self) -> None:
        both = merged(dict.fromkeys(range(SLOTS), 1), dict.fromkeys(range(SLOTS, SLOTS + 10), 1))
        self.assertEqual(list(both), list(range(10, SLOTS + 10)))

    def test_neither_is_changed(self) -> None:
        earlier = {1: 5}
        merged(earlier, {1: 1})
        self.assertEqual(earlier, {1: 5})


class TheStrip(SynchronousTestCase):
    def test_silent_slots_are_zeros_and_the_last_one_is_now(self) -> None:
        self.assertEqual(strip({7: 3, 9: 1, 2: 8}, 10, 4), [3, 0, 1, 0])
