"""A ground for each column of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.realclaude.install import claude_from_environment
from tests.support.escapes import GROUPS, SHELL, TOKEN

if TYPE_CHECKING:
    from tests.escape.ground import Ground


@pytest.fixture(scope="session")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Ground]]:
    """Gives the ground of a column, made once."""
    from tests.escape.ground import Ground  # it imports the reactor, which is to be chosen first

    claude: Path = claude_from_environment()
    grounds: dict[str, Ground] = {}

    def of(column: str) -> Ground:
        if column not in grounds:
            root = tmp_path_factory.mktemp("ground")
            groups = GROUPS[SHELL if column == TOKEN else column]
            grounds[column] = Ground(root, claude=claude, groups=groups, token=column == TOKEN)
        return grounds[column]

    try:
        yield of
    finally:
        for each in grounds.values():
            each.close()
