"""The waits between attempts."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.todos.backoff import RETRY_AFTER_CAP_S, Backoff, retry_after_s


class Waits(SynchronousTestCase):
    def test_they_double_up_to_the_cap(self) -> None:
        backoff = Backoff(random=lambda: 1.0)
        self.assertEqual([backoff.wait_s(n) for n in (1, 2, 3, 9, 10, 5000)], [1, 2, 4, 256, 300, 300])

    def test_chance_takes_up_to_half_off(self) -> None:
        self.assertEqual(Backoff(random=lambda: 0.0).wait_s(4), 4)
        self.assertEqual(Backoff(random=lambda: 0.5).wait_s(4), 6)

    def test_what_the_receiver_asks_for_is_honoured_up_to_a_bound_and_never_shortens(self) -> None:
        backoff = Backoff(random=lambda: 1.0)
        self.assertEqual(backoff.wait_s(1, 60), 60)
        self.assertEqual(backoff.wait_s(8, 60), 128)
        self.assertEqual(backoff.wait_s(1, 86400), RETRY_AFTER_CAP_S)


class RetryAfter(SynchronousTestCase):
    def test_it_is_read_as_seconds_or_as_a_date_counted_from_the_answers_own(self) -> None:
        date = "Tue, 06 May 2031 07:00:00 GMT"
        self.assertEqual(retry_after_s(" 120 ", None), 120)
        self.assertEqual(retry_after_s("Tue, 06 May 2031 07:02:00 GMT", date), 120)
        self.assertEqual(retry_after_s("Tue, 06 May 2031 06:00:00 GMT", date), 0)

    def test_nonsense_is_as_good_as_nothing(self) -> None:
        for value in (None, "", "soon", "-5", "1e9", "٣", "Tue, 06 May 2031 07:02:00 GMT"):
            self.assertIsNone(retry_after_s(value, None), value)
        self.assertIsNotNone(retry_after_s("9" * 5000, None))

    def test_a_date_out_of_all_range_is_as_good_as_nothing(self) -> None:
        date = "Tue, 06 May 2031 07:00:00 GMT"
        for value in (
            "Tue, 06 May 99999999999999 07:00:00 GMT",
            "Tue, 06 May 2031 99:00:00 GMT",
            "Tue, 06 May 2031 07:00:00 +99999999",
        ):
            self.assertIsNone(retry_after_s(value, date), value)
            self.assertIsNone(retry_after_s(date, value), value)
