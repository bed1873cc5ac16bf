"""What tests share is in tests/support: no test imports from another test, and no suite from another suite."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

TESTS = Path(__file__).parents[1]
SHARED = {"support", "realclaude"}
"""The packages of `tests` that are no suite."""
EVERYWHERE = {"conftest"}
"""pytest loads it for all suites."""


def imported(module: Path) -> Iterator[list[str]]:
    """The names of the modules of `tests` that a module imports, each as its parts below `tests`."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name.split(".")[1:] for name in names if name.startswith("tests."))


class Imports(SynchronousTestCase):
    def test_each_test_is_on_its_own_and_so_is_each_suite(self) -> None:
        wrong = []
        for module in sorted(TESTS.rglob("*.py")):
            suite = module.relative_to(TESTS).parts[0]
            for parts in imported(module):
                foreign = parts[0] not in {suite, *SHARED, *EVERYWHERE}
                if foreign or any(part.startswith("test_") for part in parts):
                    wrong.append(f"{module.relative_to(TESTS)}: {'.'.join(parts)}")
        self.assertEqual(wrong, [])
