"""The operator's file of checks: what it takes, and that each fault is named."""

from __future__ import annotations

import json
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.config.checks import DEFAULT_TIMEOUT_S, Check, read_checks
from hivesub.errors import ConfigError


class TheFile(SynchronousTestCase):
    def refused(self, whole: Any) -> str:
        text = whole if isinstance(whole, str) else json.dumps(whole)
        return str(self.assertRaises(ConfigError, read_checks, text, "--checks: /c.json"))

    def test_checks_are_read_by_name(self) -> None:
        checks = read_checks('{"tests": {"argv": ["make", "test"], "timeout_s": 60}, "lint": {"argv": ["ruff"]}}', "x")
        self.assertEqual(
            list(checks.values()),
            [
                Check(name="tests", argv=("make", "test"), timeout_s=60.0),
                Check(name="lint", argv=("ruff",), timeout_s=DEFAULT_TIMEOUT_S),
            ],
        )

    def test_a_byte_order_mark_and_an_empty_object_are_fine(self) -> None:
        self.assertEqual(read_checks("\ufeff{}", "x"), {})

    def test_each_fault_names_the_file_the_check_and_the_key(self) -> None:
        good = {"argv": ["make"]}
        for entry, words in (
            ({}, "argv: must be a list of one text or more"),
            ({"argv": []}, "argv: must be a list"),
            ({"argv": "make test"}, "argv: must be a list"),
            ({"argv": [5]}, "argv: must be a list"),
            ({"argv": ["a\0"]}, "argv: must be a list"),
            ({"argv": [" "]}, "argv: its first word must be"),
            ({**good, "timeout_s": 0}, "timeout_s: must be a number of seconds above 0"),
            ({**good, "timeout_s": -1}, "timeout_s: must be"),
            ({**good, "timeout_s": 1e9}, "timeout_s: must be"),
            ({**good, "timeout_s": "soon"}, "timeout_s: must be"),
            ({**good, "cwd": "/"}, "'cwd' is no key of a check; they are argv and timeout_s"),
            ("make test", "must be an object of the shape"),
            (None, "must be an object of the shape"),
        ):
            text = self.refused({"tests": entry})
            self.assertTrue(text.startswith("--checks: /c.json: check 'tests': "), text)
            self.assertIn(words, text)

    def test_a_name_that_is_none_is_refused(self) -> None:
        for name in ("", "-x", "a b", "a" * 65, "../x", "ü"):
            self.assertIn("its name must be 1 to 64 of", self.refused({name: {"argv": ["make"]}}))

    def test_what_is_no_object_of_json_is_refused(self) -> None:
        for text in (
            "",
            "[]",
            "{",
            "null",
            '{"a": {"argv": ["x"]}, "a": {"argv": ["y"]}}',
            "[" * 100_000,
            '{"a": NaN}',
        ):
            self.assertTrue(self.refused(text).startswith("--checks: /c.json: "), text[:20])

    def test_half_a_surrogate_pair_is_refused(self) -> None:
        self.assertIn("--checks", self.refused('{"a": {"argv": ["\\ud83d"]}}'))
