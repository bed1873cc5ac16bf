"""A JSON file that an option names: read whole, and refused by the option's name where it cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hivesub.errors import ConfigError


def file_text(path: Path, option: str) -> str:
    """The text of a file that an option names. Blocking.

    :raises ConfigError: naming the option, when it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{option}: {path} cannot be read: {why}") from None


def parsed(text: str, source: str) -> Any:
    """The value that a JSON text stands for; a byte order mark before it is passed over.

    :param source: what errors call the file, such as `--checks: /etc/hivesub/checks.json`.
    :raises ConfigError: for what is no JSON, and for a key that stands twice in one object: readers differ in which of
        the two they take.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        doubled = next((key for key in keys if keys.count(key) > 1), None)
        if doubled is not None:
            raise ConfigError(f"{source}: the key {doubled[:80]!r} stands twice in one object")
        return dict(pairs)

    try:
        return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{source}: no JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{source}: no JSON that can be read: nested too deeply, or a number too long") from None
