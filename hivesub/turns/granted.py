"""What a session may hold, against what `init` says that it got: too little, and above all too much.

An `init` that leaves a list out says nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from hivesub.records import CONTROL_SERVER, Init

COMPANIONS = frozenset(
    {
        "BashOutput",
        "KillBash",
        "KillShell",
        "ListMcpResourcesTool",
        "ReadMcpResourceDirTool",
        "ReadMcpResourceTool",
        "StructuredOutput",
        "TaskOutput",
        "TaskStop",
        "ToolSearch",
    }
)
"""Built-ins that claude may add to those asked for: they reach only what another granted tool started, or the servers
that the session has."""

_ALL = "default"
_RENAMED = {"Agent": "Task", "SlashCommand": "Skill"}
_NAMED = 20


def not_as_granted(init: Init, *, tools: Collection[str], servers: Collection[str]) -> str | None:
    """Why the session must not go on, or None.

    :param tools: the built-ins that were asked for.
    :param servers: the MCP servers of its config, the signal route aside.
    """
    extra = _extra_tools(init, tools, servers)
    if extra:
        return f"claude offers tools that were not granted: {_list(extra)}"
    strangers = sorted(set(init.mcp_servers or ()) - {CONTROL_SERVER, *servers})
    if strangers:
        return f"claude has MCP servers that were not granted: {_list(strangers)}"
    if init.tools is not None and _ALL not in tools and not _known(tools) & _known(init.tools):
        got = [name for name in init.tools if not name.startswith("mcp__")]
        return f"claude offers none of the tools asked for ({', '.join(tools)}); it lists: {_list(got) or 'none'}"
    return None


def _extra_tools(init: Init, tools: Iterable[str], servers: Iterable[str]) -> list[str]:
    granted = _known(tools)
    # Claude replaces what a tool's name cannot hold.
    prefixes = tuple(f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', name)}__" for name in (CONTROL_SERVER, *servers))
    extra = []
    for name in init.tools or ():
        if name.startswith("mcp__"):
            if not name.startswith(prefixes):
                extra.append(name)
        elif _ALL not in granted and not _known([name]) <= COMPANIONS | granted:
            extra.append(name)
    return extra


def _known(names: Iterable[str]) -> set[str]:
    return {_RENAMED.get(name, name) for name in names}


def _list(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(name[:100] for name in names[:_NAMED]) + more
