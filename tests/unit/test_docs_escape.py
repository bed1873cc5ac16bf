"""The security page shows the escape table as it is."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.support.escapes import COLUMNS, DEFAULT, IN_TURN, PAGE, WAYS, printed


class TheTable(SynchronousTestCase):
    def test_the_page_is_what_the_table_gives_now(self) -> None:
        page = PAGE.read_text(encoding="utf-8")
        self.assertEqual(page, printed(page), "run: python -m tests.support.escapes")

    def test_no_way_is_open_within_a_turn_under_the_default_tools(self) -> None:
        self.assertEqual([way.key for way in WAYS if way.part == IN_TURN and DEFAULT in way.open], [])

    def test_every_open_cell_is_in_a_column_of_the_table(self) -> None:
        self.assertEqual([way.key for way in WAYS if not set(way.open) <= set(COLUMNS)], [])
