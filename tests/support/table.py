"""What the tests of clients found, and the page that tells it: `docs/compatibility.md`.

Tests add rows as they pass; the page is written at the end of a run of all of them in which nothing failed. It holds no
times and no places, so that it changes only where the facts do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attrs import Factory, define

WRITE_VARIABLE = "COMPATIBILITY_PAGE"
"""Names the file to write; nothing is written without it."""

YES = "yes"

_HEAD = """\
# Compatibility

Written by `tox -e compat`: each line is what a test saw, on loopback, with the versions that the tests pin.
"""

_SECTIONS = {
    "suite": (
        "Conformance",
        "The official suite, `{suite}`, each version on its own wire. The daemon offers tools only: checks that "
        "ask for another feature, or for a tool of the suite's own name, cannot apply; "
        "`tests/conformance/applicable.json` gives the reason and the source for each. The second server has every "
        "feature, on the same mount in a Klein tree, with event streams and sessions.",
        ("server", "protocol", "scenarios", "checks passed", "checks failed", "checks that cannot apply"),
    ),
    "client": (
        "Clients",
        "Each lists the tools, starts a subagent, asks for its status and interrupts it.",
        ("client", "version", "protocol", "list", "start", "status", "interrupt"),
    ),
    "model": (
        "What an agent's model reads",
        "An answer has a text alone, unless a call asks for the record in its `_meta`, which no agent does; a refusal "
        "too.",
        ("claude", "of the tools, in its first request", "of an answer", "of a refusal"),
    ),
    "other": (
        "What the models of other agents read",
        "Each on a scripted model, as it is run without a terminal. One that asks for progress can wait for an end in "
        "one call of `status`; with these versions a call of 130 s was answered.",
        ("agent", "how it names `start`", "of an answer", "asks for progress"),
    ),
    "subagent": (
        "claude as a subagent",
        "Whether a release has the flags that keep a subagent to its tools. One that lacks them is refused at its "
        "start, by name and version.",
        ("claude", "runs as a subagent", "remark"),
    ),
    "trouble": (
        "When something is wrong",
        "What the agent's user is shown, or its model is told, by claude {claude}.",
        ("what", "`claude mcp list`", "an agent's session"),
    ),
}


@define
class Table:
    """The rows of each section, in the order of the sections' columns."""

    rows: dict[str, list[tuple[str, ...]]] = Factory(lambda: {name: [] for name in _SECTIONS})
    words: dict[str, str] = Factory(dict)

    def add(self, section: str, *cells: str) -> None:
        """Add a row. Raises: AssertionError when it does not fit."""
        assert len(cells) == len(_SECTIONS[section][2]), cells
        self.rows[section].append(cells)

    def page(self) -> str:
        """The page, sections without a row left out."""
        parts = [_HEAD]
        for name, (title, text, columns) in _SECTIONS.items():
            if self.rows[name]:
                parts.append(f"\n## {title}\n\n{text.format_map(self.words)}\n\n")
                parts += [_row(columns), _row(["---"] * len(columns)), *map(_row, self.rows[name])]
        return "".join(parts)

    def write(self, path: Path) -> None:
        """Write the page. Raises: AssertionError when a section has no row: the run was not one of all tests."""
        empty = [name for name, rows in self.rows.items() if not rows]
        assert not empty, f"nothing to tell of {empty}: run tests/conformance and tests/compat together"
        path.write_text(self.page())


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"


TABLE = Table()
