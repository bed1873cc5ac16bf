"""How the suite's findings are sorted, and that each excuse gives its reason and source."""

from __future__ import annotations

import pytest

from tests.conformance.suite import Check, Excuse, excuses, judge

GOOD = Check("tools-list", "listed", "SUCCESS", "")
BAD = Check("prompts-list", "prompts-list", "FAILURE", "Method not found")
WARNED = Check("caching", "hints", "WARNING", "none")
INFO = Check("caching", "note", "INFO", "a note")
EXCUSE = Excuse(frozenset({"prompts-list: prompts-list"}), "no prompts", "the specification")


def test_a_failure_and_a_warning_count_and_a_note_does_not() -> None:
    found = judge([GOOD, BAD, WARNED, INFO])
    assert (found.passed, found.failed, found.excused) == ([GOOD], [BAD, WARNED], [])
    assert found.scenarios == 3


def test_an_excuse_covers_its_check_alone() -> None:
    found = judge([GOOD, BAD, WARNED], [EXCUSE])
    assert (found.failed, found.excused, found.stale) == ([WARNED], [BAD], [])


def test_an_excuse_for_what_did_not_fail_is_stale() -> None:
    assert judge([GOOD], [EXCUSE]).stale == ["prompts-list: prompts-list"]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_every_excuse_has_a_reason_a_source_and_a_place(version: str) -> None:
    told = excuses(version)
    assert told
    assert all(excuse.reason and excuse.source and excuse.at for excuse in told)
