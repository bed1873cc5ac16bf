"""Numbers, times and foreign texts as a person reads them."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.readable import clean, clock, cut, dollars, liveliness, size, span, whole


class Figures(SynchronousTestCase):
    def test_durations_are_told_in_two_units_at_most(self) -> None:
        told = {
            0: "0 s",
            59.9: "59 s",
            60: "1 min",
            61: "1 min 1 s",
            3599: "59 min 59 s",
            3600: "1 h 0 min",
            7384: "2 h 3 min",
        }
        self.assertEqual({seconds: span(seconds) for seconds in told}, told)

    def test_sizes_have_three_digits(self) -> None:
        told = {0: "0 B", 999: "999 B", 1000: "1 kB", 12_345: "12.3 kB", 999_600: "1 MB", 5e9: "5 GB"}
        self.assertEqual({count: size(int(count)) for count in told}, told)
        self.assertEqual(size(None), "–")

    def test_small_sums_keep_the_digits_that_claude_tells(self) -> None:
        self.assertEqual([dollars(sum_) for sum_ in (None, 0.0, 0.00014, 1.239)], ["–", "$0.0000", "$0.0001", "$1.24"])

    def test_times_are_utc_and_say_so(self) -> None:
        self.assertEqual(clock("2031-05-06T07:08:09.123Z"), "07:08:09 UTC")
        self.assertEqual(whole("2031-05-06T07:08:09.123Z"), "2031-05-06 07:08:09 UTC")
        self.assertEqual(clock(None), "–")

    def test_an_age_has_a_word_from_a_minute_on(self) -> None:
        self.assertEqual([liveliness(age) for age in (0, 59.9, 60, 299, 300)], ["", "", "quiet", "quiet", "silent"])


class ForeignText(SynchronousTestCase):
    def test_what_a_terminal_would_obey_is_replaced_and_white_space_stays(self) -> None:
        self.assertEqual(clean("a\x1b[31mb\x07\n\tc\x9b"), "a\ufffd[31mb\ufffd\n\tc\ufffd")

    def test_what_turns_the_direction_of_the_text_is_replaced(self) -> None:
        self.assertEqual(clean("exe.\u202etxt \u2066x"), "exe.\ufffdtxt \ufffdx")

    def test_lone_surrogates_are_replaced_in_every_corner(self) -> None:
        self.assertEqual(clean({"a": ["x\ud83d", 3, None, {"b": True}]}), {"a": ["x\ufffd", 3, None, {"b": True}]})

    def test_letters_of_all_scripts_stay(self) -> None:
        self.assertEqual(clean("naïve 日本 עברית 🐝"), "naïve 日本 עברית 🐝")

    def test_a_long_text_is_cut_and_shows_it(self) -> None:
        self.assertEqual((cut("abc", 3), cut("abcd", 3)), ("abc", "abc…"))
