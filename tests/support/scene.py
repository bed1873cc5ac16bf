"""What every client is put through: four tools listed, one subagent started, seen running, interrupted."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from tests.support.table import TABLE, YES

TOOLS = ["start", "continue", "status", "interrupt"]
PROMPT = "wait until somebody stops you\n!standin hang"
"""The stand-in stays in its turn until a signal comes."""


@frozen
class Told:
    """What a client was told: the tools, and the text of each call's answer. None asks for the record."""

    tools: list[str]
    texts: Mapping[str, str]


def expect(told: Told, name: str) -> None:
    """The whole of it is right.

    :raises AssertionError: where it is not.
    """
    assert told.tools == TOOLS
    assert told.texts["start"].startswith(f"{name}: started")
    assert told.texts["status"].startswith(f"{name}: running.")
    assert told.texts["interrupt"].startswith(f"{name}: killed by SIGINT.")
    assert "A single turn, without a goal." in told.texts["start"]
    assert "The run is over: no further turn follows." in told.texts["interrupt"]


def note(client: str, version: str, protocol: str) -> None:
    """A row of the table: all four worked."""
    TABLE.add("client", client, version, protocol, YES, YES, YES, YES)
