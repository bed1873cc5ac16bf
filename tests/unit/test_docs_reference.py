"""The reference of tools and options and the map of modules say what the code says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.config.options import OPTIONS
from hivesub.records import State, StopKind

DOCS = Path(__file__).parents[2] / "docs"


class TheReference(SynchronousTestCase):
    def setUp(self) -> None:
        self.generator: dict[str, Any] = runpy.run_path(str(DOCS / "gen_reference.py"))

    def page(self, name: str) -> str:
        return (DOCS / name).read_text(encoding="utf-8")

    def test_each_page_is_what_the_code_gives_now(self) -> None:
        for name in self.generator["PAGES"]:
            page = self.page(name)
            self.assertEqual(page, self.generator["rewritten"](name, page), "run: python docs/gen_reference.py")

    def test_a_page_whose_text_was_changed_by_hand_is_told_from_what_the_code_gives(self) -> None:
        changed = self.page("reference/tools.md").replace("1 to 100", "1 to 1000")
        self.assertNotEqual(changed, self.generator["rewritten"]("reference/tools.md", changed))

    def test_the_prose_around_the_tables_stays(self) -> None:
        page = self.page("reference/options.md") + "\nA last word.\n"
        self.assertTrue(self.generator["rewritten"]("reference/options.md", page).endswith("A last word.\n"))

    def test_a_page_without_its_marks_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "tools.md lacks a mark"):
            self.generator["rewritten"]("reference/tools.md", "# Tools\n")

    def test_every_tool_has_its_heading(self) -> None:
        page = self.page("reference/tools.md")
        for tool in ("start", "continue", "status", "interrupt", "goal_reached", "need_help"):
            self.assertIn(f"\n### `{tool}`\n", page)

    def test_every_state_and_stop_reason_is_explained(self) -> None:
        _, _, prose = self.page("reference/tools.md").partition(self.generator["END"])
        explained = [line.split("|")[1] for line in prose.splitlines() if line.startswith("| `")]
        for word in (*State, *StopKind):
            self.assertTrue(any(f"`{word.value}`" in cell for cell in explained), word.value)

    def test_how_each_options_value_is_read_is_told(self) -> None:
        _, _, prose = self.page("reference/options.md").partition(self.generator["END"])
        for name, _ in OPTIONS:
            self.assertIn(f"`--{name}`", prose)

    def test_the_map_names_every_module(self) -> None:
        page = self.page("contributing.md")
        for path in (DOCS.parent / "hivesub").rglob("*.py"):
            if not path.name.startswith("__"):
                self.assertRegex(page, rf"\| `{path.stem}` \| .{{20}}")

    def test_a_vertical_bar_ends_no_cell(self) -> None:
        self.assertEqual("| a\\|b |", self.generator["table"](("a|b",), ())[0])
