"""A tool's arguments as a whole: which fields there are, what is missing, what is unknown.

Rules between fields, and which tool has which fields, are `hivesub.tools.fields`' part; whether a directory exists or a
name runs is the fleet's.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from hivesub.errors import BadRequest
from hivesub.tools.kinds import SHOWN_CHARS, Kind, Unusable, shown

_TOLD_FAULTS = 5


@frozen
class Fields:
    """The fields of one tool, in the order in which they are told of. `required`: names that must be given."""

    known: Mapping[str, Kind]
    required: tuple[str, ...] = ()

    def schema(self) -> dict[str, Any]:
        """The tool's input schema: an object that refuses unknown fields."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {name: kind.schema() for name, kind in self.known.items()},
            "additionalProperties": False,
        }
        if self.required:
            schema["required"] = list(self.required)
        return schema

    def read(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        """The given fields, read; a field that was not given is absent.

        :raises BadRequest: tells the first five faults, on one line, each as ``<field>: <why, and what would work>``.
        """
        given = arguments or {}
        faults = [f"{name}: is required" for name in self.required if name not in given]
        untold = 0
        values: dict[str, Any] = {}
        for name, value in given.items():
            kind = self.known.get(name)
            if kind is None and len(faults) >= _TOLD_FAULTS:
                untold += 1  # looking for what was meant takes time, and a hostile call has a hundred thousand
                continue
            if kind is None:
                faults.append(self._unknown(name))
                continue
            try:
                values[name] = kind.read(value)
            except Unusable as error:
                faults.append(f"{name}: {error}")
        if faults:
            more = len(faults) + untold - _TOLD_FAULTS
            raise BadRequest("; ".join(faults[:_TOLD_FAULTS]) + (f"; and {more} more faults" if more > 0 else ""))
        return values

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name[:SHOWN_CHARS], self.known, n=1)
        meant = f"did you mean `{near[0]}`? " if near else ""
        return f"{shown(name)}: is no field of this tool; {meant}its fields are {', '.join(self.known)}"
