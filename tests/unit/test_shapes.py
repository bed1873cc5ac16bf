"""The shapes of what leaves the daemon: each field has a word for the reference, and records have just these."""

from __future__ import annotations

from typing import get_type_hints

from twisted.trial.unittest import SynchronousTestCase

from hivesub import shapes
from tests.support.toolfakes import ended, record


class TheRecord(SynchronousTestCase):
    def test_each_field_of_what_a_client_gets_is_described(self) -> None:
        for shape in (shapes.Record, shapes.RunAnswer, shapes.StatusAnswer, shapes.SignalAnswer, shapes.LastTurnRecord):
            hints = get_type_hints(shape, include_extras=True)
            for name in shape.__annotations__:
                self.assertTrue(str(hints[name]).startswith("typing.") and "Annotated" in str(hints[name]), name)

    def test_the_records_of_the_tests_have_its_fields(self) -> None:
        for one in (record(), ended("idle", "turn_cap")):
            self.assertLessEqual(set(one), set(shapes.Record.__annotations__))
            self.assertLessEqual(shapes.Record.__required_keys__, set(one))
