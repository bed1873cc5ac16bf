"""Which built-in tools a subagent gets: the value of `--tools`. One function decides, and it never decides on none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hivesub.errors import ConfigError

DEFAULT_TOOLS = ("Edit", "Glob", "Grep", "Read", "Skill", "Write")
"""The built-ins that a parent agent has in any case."""

GROUPS = {"web_tools": ("WebFetch", "WebSearch"), "shell_tools": ("Bash",)}
"""What each known tool group adds."""

GROUPS_VARIABLE = "HIVE_TOOL_GROUPS"

_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,127}")
_BETWEEN = re.compile(r"[,\s]+")


def resolve_tools(*, tools: str | None, tool_groups: str | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The built-ins for every subagent of this daemon, in the order given, each once.

    :param tools: the operator's own list, comma or space separated; wins over all groups. None when not given.
    :param tool_groups: groups, likewise; wins over `HIVE_TOOL_GROUPS` in the environment. Unknown ones are ignored.
    :raises ConfigError: when the list is empty or holds what can be no tool's name; names the option.
    """
    if tools is None:
        groups = _split(environ.get(GROUPS_VARIABLE, "") if tool_groups is None else tool_groups)
        return DEFAULT_TOOLS + tuple(tool for group, added in GROUPS.items() if group in groups for tool in added)
    names = tuple(dict.fromkeys(_split(tools)))
    if not names:
        raise ConfigError(
            "--tools: the list is empty, and a subagent without tools can do nothing: name at least one, "
            f"such as {','.join(DEFAULT_TOOLS)}, or leave the option out"
        )
    for name in names:
        if not _TOOL.fullmatch(name):
            raise ConfigError(
                f"--tools: {name[:80]!r} is no tool's name: that is a letter, then letters, digits and _ . -"
            )
    return names


def beyond_default(tools: Iterable[str]) -> tuple[str, ...]:
    """Those of the tools that the default list does not hold: with them a subagent may reach more than files."""
    return tuple(tool for tool in tools if tool not in DEFAULT_TOOLS)


def _split(text: str) -> list[str]:
    return [part for part in _BETWEEN.split(text) if part]
