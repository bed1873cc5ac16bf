"""The kinds of fields: each gives both its JSON Schema and its check, so that the two cannot differ.

Owns the reading of one JSON value. Objects are `hivesub.tools.arguments`' part.
"""

from __future__ import annotations

import math
import re
from typing import Any, Protocol

from attrs import field, frozen

SHOWN_CHARS = 40


class Unusable(ValueError):
    """Raised when one value cannot be used; `str(error)` says why and what would work, without the field's name."""


class Kind(Protocol):
    """One kind of field."""

    @property
    def description(self) -> str:
        """What a model is told of the field."""

    def schema(self) -> dict[str, Any]:
        """The field's JSON Schema (2020-12), its description included."""

    def read(self, value: Any) -> Any:
        """The value to work with.

        :raises Unusable: when it is none.
        """


def shown(value: object) -> str:
    """A JSON value as it may stand in an error text: on one line, short, printable, never the whole of a long one."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        cut = value[:SHOWN_CHARS]
        # A lone surrogate cannot be written as UTF-8 and a newline would break the one line: both come out escaped.
        quoted = '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut) + '"'
        return quoted if cut == value else f"{quoted}…"
    if isinstance(value, int | float):
        # Python refuses to write an int of more than 4,300 digits.
        return f"{value}" if isinstance(value, float) or abs(value) < 10**SHOWN_CHARS else "a very long number"
    return "a list" if isinstance(value, list) else "an object"


@frozen(kw_only=True)
class Text:
    """A string.

    `pattern`: a regular expression for the whole value, in what Python and ECMA have in common; `pattern_says` tells
    what it means. `max_bytes` counts UTF-8. Unless `blank` a value needs a character that is no white space; unless
    `nul` it must not hold U+0000. `lower`: reading gives it in lower case.
    """

    description: str
    pattern: str | None = None
    pattern_says: str = ""
    max_chars: int | None = None
    max_bytes: int | None = None
    blank: bool = False
    nul: bool = False
    lower: bool = False
    _whole: re.Pattern[str] | None = field(init=False, default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if self.pattern is not None:
            object.__setattr__(self, "_whole", re.compile(self.pattern))

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string", "description": self.description}
        # A string has at least as many UTF-8 bytes as characters, so the limit in bytes is true of characters too.
        limits = [limit for limit in (self.max_chars, self.max_bytes) if limit is not None]
        if self.pattern is not None:
            schema["pattern"] = self.pattern
        elif not self.blank:
            schema["pattern"] = r"\S"
        if limits:
            schema["maxLength"] = min(limits)
        return schema

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise Unusable(f"must be a string, not {shown(value)}")
        try:
            size_bytes = len(value.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise Unusable(
                f"is no valid Unicode text: half of a surrogate pair at character {error.start + 1}; "
                "send the whole character, or leave it out"
            ) from None
        if not self.blank and not value.strip():
            raise Unusable("must not be blank")
        if not self.nul and "\0" in value:
            raise Unusable("must not hold a NUL character")
        if self.max_bytes is not None and size_bytes > self.max_bytes:
            raise Unusable(f"is {size_bytes:,} bytes long in UTF-8; at most {self.max_bytes:,} are taken")
        if self.max_chars is not None and len(value) > self.max_chars:
            raise Unusable(f"is {len(value):,} characters long; at most {self.max_chars:,} are taken")
        # fullmatch, since Python's `$` also matches before a newline at the end.
        if self._whole is not None and self._whole.fullmatch(value) is None:
            raise Unusable(f"must be {self.pattern_says}, not {shown(value)}")
        return value.lower() if self.lower else value


@frozen(kw_only=True)
class Whole:
    """A whole number; a float without a fraction is one (JSON Schema says so), a boolean is none."""

    description: str
    minimum: int
    maximum: int
    default: int | None = None

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {
            "type": "integer",
            "minimum": self.minimum,
            "maximum": self.maximum,
            "description": self.description,
        }
        if self.default is not None:
            schema["default"] = self.default
        return schema

    def read(self, value: Any) -> int:
        wanted = f"must be a whole number from {self.minimum} to {self.maximum}, not {shown(value)}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unusable(wanted)
        if isinstance(value, float) and not value.is_integer():
            raise Unusable(wanted)
        if not self.minimum <= value <= self.maximum:
            raise Unusable(wanted)
        return int(value)


@frozen(kw_only=True)
class Amount:
    """A finite number, as a float. `above`: it must be greater; else `minimum` bounds it."""

    description: str
    above: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: float | None = None

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "number", "description": self.description}
        named = (
            ("exclusiveMinimum", self.above),
            ("minimum", self.minimum),
            ("maximum", self.maximum),
            ("default", self.default),
        )
        schema.update({key: limit for key, limit in named if limit is not None})
        return schema

    def read(self, value: Any) -> float:
        wanted = f"must be a number {self._range()}, not {shown(value)}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Unusable(wanted)
        try:
            number = float(value)
        except OverflowError:
            raise Unusable(wanted) from None
        within = (
            math.isfinite(number)
            and (self.above is None or number > self.above)
            and (self.minimum is None or number >= self.minimum)
            and (self.maximum is None or number <= self.maximum)
        )
        if not within:
            raise Unusable(wanted)
        return number

    def _range(self) -> str:
        low = f"above {self.above:g}" if self.above is not None else f"from {self.minimum or 0:g}"
        if self.maximum is None:
            return low
        return f"{low} {'up ' if self.above is not None else ''}to {self.maximum:g}"


@frozen(kw_only=True)
class Flag:
    """A boolean."""

    description: str
    default: bool = False

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean", "default": self.default, "description": self.description}

    def read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise Unusable(f"must be true or false, not {shown(value)}")
        return value
