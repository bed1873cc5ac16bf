"""Kinds of fields: what each takes, what it refuses, and that its schema says the same."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from twisted.trial.unittest import SynchronousTestCase

from hivesub.tools.kinds import Amount, Flag, Kind, Text, Unusable, Whole, shown

WORD = Text(description="d", pattern=r"^[a-z]{1,3}$", pattern_says="1 to 3 small letters")


def why_not(kind: Kind, value: Any) -> str:
    try:
        kind.read(value)
    except Unusable as error:
        return str(error)
    return ""


class TextTests(SynchronousTestCase):
    def test_text_comes_through_unchanged(self) -> None:
        text = " - [ ] x\n--help\r\n/clear ü 😀\t"
        self.assertEqual(Text(description="d").read(text), text)

    def test_what_is_no_string_is_refused_and_shown(self) -> None:
        for value, told in ((None, "null"), (True, "true"), (5, "5"), ([], "a list"), ({}, "an object")):
            self.assertEqual(why_not(Text(description="d"), value), f"must be a string, not {told}")

    def test_blank_text_is_refused_unless_it_may_be(self) -> None:
        for value in ("", " ", "\n\t", "\u2003"):
            self.assertEqual(why_not(Text(description="d"), value), "must not be blank")
            self.assertEqual(Text(description="d", blank=True).read(value), value)

    def test_a_nul_is_refused_unless_it_may_be(self) -> None:
        self.assertEqual(why_not(Text(description="d"), "a\0b"), "must not hold a NUL character")
        self.assertEqual(Text(description="d", nul=True).read("a\0b"), "a\0b")

    def test_half_a_surrogate_pair_is_refused_with_its_place(self) -> None:
        self.assertIn("half of a surrogate pair at character 3", why_not(Text(description="d"), "ab\ud83d"))

    def test_bytes_are_counted_as_utf8(self) -> None:
        kind = Text(description="d", max_bytes=4)
        self.assertEqual(kind.read("üü"), "üü")
        self.assertEqual(why_not(kind, "üüa"), "is 5 bytes long in UTF-8; at most 4 are taken")

    def test_characters_are_counted(self) -> None:
        kind = Text(description="d", max_chars=2)
        self.assertEqual(kind.read("üü"), "üü")
        self.assertEqual(why_not(kind, "üüa"), "is 3 characters long; at most 2 are taken")

    def test_a_pattern_is_for_the_whole_value_newline_at_the_end_included(self) -> None:
        self.assertEqual(WORD.read("abc"), "abc")
        for value, told in (("abcd", '"abcd"'), ("ab\n", r'"ab\n"'), ("A", '"A"')):
            self.assertEqual(why_not(WORD, value), f"must be 1 to 3 small letters, not {told}")

    def test_lower_gives_lower_case(self) -> None:
        self.assertEqual(Text(description="d", pattern=r"^[A-Za-z]+$", lower=True).read("AbC"), "abc")

    def test_the_schema_says_what_the_check_does(self) -> None:
        kind = Text(description="d", max_chars=3)
        validator = Draft202012Validator(kind.schema())
        for value in ("", " ", "a", "abc", "abcd", 5, None):
            self.assertEqual(validator.is_valid(value), not why_not(kind, value), repr(value))


class NumberTests(SynchronousTestCase):
    def test_whole_numbers_within_the_limits_are_taken_as_ints(self) -> None:
        kind = Whole(description="d", minimum=1, maximum=100)
        for value in (1, 5.0, 100):
            read = kind.read(value)
            self.assertEqual((read, type(read)), (int(value), int))

    def test_other_values_are_no_whole_number(self) -> None:
        kind = Whole(description="d", minimum=1, maximum=100)
        for value in (0, 101, 1.5, True, "5", None, float("nan"), float("inf"), 10**5000):
            self.assertIn("must be a whole number from 1 to 100, not ", why_not(kind, value))

    def test_amounts_within_the_limits_are_taken_as_floats(self) -> None:
        self.assertEqual(Amount(description="d", above=0).read(1), 1.0)
        self.assertEqual(Amount(description="d", minimum=0, maximum=50).read(0), 0.0)
        self.assertEqual(Amount(description="d", minimum=0, maximum=50).read(50), 50.0)

    def test_other_values_are_no_amount(self) -> None:
        kind = Amount(description="d", above=0, maximum=9)
        for value in (0, -1, 9.1, False, "1", None, float("nan"), float("inf"), 10**5000):
            self.assertIn("must be a number above 0 up to 9, not ", why_not(kind, value))

    def test_an_amount_without_an_upper_limit_is_finite_all_the_same(self) -> None:
        kind = Amount(description="d", above=0)
        for value in (float("inf"), 10**400):
            self.assertIn("must be a number above 0, not ", why_not(kind, value))

    def test_the_schemas_say_what_the_checks_do(self) -> None:
        for kind in (
            Whole(description="d", minimum=1, maximum=9, default=5),
            Amount(description="d", above=0, maximum=9),
            Amount(description="d", minimum=0, default=0),
        ):
            validator = Draft202012Validator(kind.schema())
            for value in (-1, 0, 0.5, 1, 5.0, 9, 9.5, 10, True, "5", None):
                self.assertEqual(validator.is_valid(value), not why_not(kind, value), (kind, value))


class FlagTests(SynchronousTestCase):
    def test_only_booleans_are_taken(self) -> None:
        self.assertIs(Flag(description="d").read(True), True)
        for value in (1, 0, "true", None):
            self.assertIn("must be true or false, not ", why_not(Flag(description="d"), value))


class ShownTests(SynchronousTestCase):
    def test_a_value_is_shown_on_one_printable_line(self) -> None:
        self.assertEqual(shown("a\nb\ud83d\x1b"), '"a\\nb\\ud83d\\x1b"')

    def test_a_long_value_is_cut(self) -> None:
        self.assertLess(len(shown("x" * 10_000)), 60)
        self.assertEqual(shown(10**5000), "a very long number")
