"""The drawing of a run's machine in the documentation is the one of the code."""

from __future__ import annotations

import runpy
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

DOCS = Path(__file__).parents[2] / "docs"


class TheDrawing(SynchronousTestCase):
    def test_it_shows_the_machine_as_the_code_builds_it(self) -> None:
        page = (DOCS / "explanation" / "life-of-a-run.md").read_text(encoding="utf-8")
        draw = runpy.run_path(str(DOCS / "draw_machine.py"))
        self.assertIn("turning --> deciding: ended", page)
        self.assertEqual(page, draw["redrawn"](page))
