"""Each cell of the table, tried."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.escape.attempts import ATTEMPTS
from tests.escape.ground import Ground
from tests.support.escapes import BY_TOKEN, COLUMNS, SHELL, TOKEN, WAYS, Way


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.key)
async def test_a_way_leads_where_the_table_says(ground: Callable[[str], Ground], way: Way, column: str) -> None:
    escaped = await ATTEMPTS[way.key](ground(column))
    assert escaped == (column in way.open), f"{way.text}, with {column}: {'open' if escaped else 'closed'}"


@pytest.mark.parametrize(
    "way", [way for way in WAYS if SHELL in way.open and way.open[SHELL].closes == BY_TOKEN], ids=lambda way: way.key
)
async def test_a_token_closes_what_it_is_said_to_close(ground: Callable[[str], Ground], way: Way) -> None:
    assert not await ATTEMPTS[way.key](ground(TOKEN)), way.text
