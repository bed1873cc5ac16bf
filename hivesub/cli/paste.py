"""What to paste so that an agent finds the daemon. No token is printed: the texts name a variable that holds it."""

from __future__ import annotations

import json

VARIABLE = "HIVESUB_TOKEN"


def mcp_json(url: str, *, token: bool) -> str:
    """The entry for a project's `.mcp.json`; claude puts the variable's value in when it reads the file."""
    server: dict[str, object] = {"type": "http", "url": f"{url}/mcp"}
    if token:
        server["headers"] = {"Authorization": f"Bearer ${{{VARIABLE}}}"}
    return json.dumps({"mcpServers": {"subagent": server}}, indent=2)


def add_command(url: str, *, token: bool = False, header: str | None = None) -> str:
    """The command line that adds it to claude's own configuration, for the user in every directory.

    :param token: there is one: the shell puts the variable's value in.
    :param header: the token itself, where it may be shown.
    """
    shown = header or (f"${VARIABLE}" if token else None)
    with_header = f' --header "Authorization: Bearer {shown}"' if shown else ""
    return f"claude mcp add --transport http --scope user subagent {url}/mcp{with_header}"


def paste_text(url: str, *, token: bool) -> str:
    """Both, with a word on each."""
    held = f"\n\nThe token is read from ${VARIABLE}: export it where claude starts." if token else ""
    return (
        f"On the command line:\n\n{add_command(url, token=token)}\n\n"
        f"Or in a project's .mcp.json:\n\n{mcp_json(url, token=token)}{held}"
    )
