"""The `subagent_control` server: the two tools with which a subagent reports about itself, and nothing else.

Who reports is never a field: it is read off the request, where the web face put what the token in the URL stands for.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from hivesub.interfaces import ISignalTarget
from hivesub.records import SignalKind
from hivesub.tools import fields, schemas
from hivesub.tools.toolbox import Tool, tool_server

NAME = "subagent_control"
TITLE = "Report to the agent that started you"
TARGET_KEY = "hivesub.target"
"""The key of the ASGI scope that holds the request's `ISignalTarget`."""

INSTRUCTIONS = """\
Two ways to tell the agent that started you how you stand: `goal_reached` and `need_help`. After either, end your \
turn: no further one follows."""

GOAL_REACHED = """\
Call this when you believe that the goal you were given is reached, and not before. It is recorded as your claim and \
will be checked. No further turn follows: end this one afterwards. Not for progress, and not when something keeps \
you from the goal: that is need_help."""

NEED_HELP = """\
Call this when you cannot go on toward the goal without an answer or a decision from the agent that started you: say \
what stops you and what you need to know. No further turn follows until it answers: end this one afterwards. Not for \
what you can find out or decide yourself."""


def control_server() -> Server[Any]:
    """The server of `/signal/mcp/<token>`, the same for all tokens."""
    return tool_server(NAME, title=TITLE, instructions=INSTRUCTIONS, tools=control_tools())


def control_tools() -> tuple[Tool, ...]:
    """The two tools."""

    async def goal_reached(ctx: ServerRequestContext[Any, Any], values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        return _recorded(_target(ctx), SignalKind.GOAL_REACHED, values.get("message", ""), values)

    async def need_help(ctx: ServerRequestContext[Any, Any], values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        return _recorded(_target(ctx), SignalKind.NEED_HELP, values["reason"], values)

    return (
        Tool(
            name=SignalKind.GOAL_REACHED.value,
            title="Report the goal reached",
            description=GOAL_REACHED,
            fields=fields.GOAL_REACHED,
            output=schemas.SIGNAL_ANSWER,
            call=goal_reached,
        ),
        Tool(
            name=SignalKind.NEED_HELP.value,
            title="Ask for help",
            description=NEED_HELP,
            fields=fields.NEED_HELP,
            output=schemas.SIGNAL_ANSWER,
            call=need_help,
        ),
    )


def _target(ctx: ServerRequestContext[Any, Any]) -> ISignalTarget:
    request: Any = ctx.request
    target: ISignalTarget = request.scope[TARGET_KEY]
    return target


def _recorded(
    target: ISignalTarget, kind: SignalKind, message: str, values: dict[str, Any]
) -> tuple[dict[str, Any], str]:
    path = values.get("report_file", "")
    note = target.signal(kind, message, path if path.strip() else None)
    return {"recorded": True, "note": note}, f"{kind.value} recorded. {note}".strip()
