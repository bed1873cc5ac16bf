"""Fields as a test names them, with those of `TurnOptions` grouped."""

from __future__ import annotations

from typing import Any

from attrs import fields

from hivesub.records import TurnOptions

NAMES = frozenset(attribute.name for attribute in fields(TurnOptions))


def grouped(given: dict[str, Any]) -> dict[str, Any]:
    """The same fields, those that are options of a turn as the one value `options`."""
    options = {name: value for name, value in given.items() if name in NAMES}
    return {**{name: value for name, value in given.items() if name not in NAMES}, "options": TurnOptions(**options)}
