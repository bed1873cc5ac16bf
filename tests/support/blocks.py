"""The blocks of shell commands in the README and the tutorial."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "docs" / "tutorial" / "first-subagent.md",
    ROOT / "docs" / "tutorial" / "your-agent.md",
)
_FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    (?:#|python3|\.venv|hivesub|claude) .*\n)+", re.MULTILINE)


def shell_blocks(page: Path) -> Iterator[str]:
    """The text of each block, fenced or indented, in the order of the page."""
    text = page.read_text(encoding="utf-8")
    found = sorted((*_FENCE.finditer(text), *_INDENTED.finditer(text)), key=lambda match: match.start())
    for match in found:
        yield match[1] if match.re is _FENCE else re.sub("^    ", "", match[0], flags=re.MULTILINE)
