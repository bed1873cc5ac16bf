"""The `subagent_control` server: the two tools with which a subagent reports about itself, and nothing else.

Who reports is never a field: it is read off the request, where the web face put what the token in the URL stands for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from hivesub.interfaces import TARGET_KEY, ISignalTarget
from hivesub.records import CONTROL_SERVER, SignalKind
from hivesub.shapes import SignalAnswer
from hivesub.tools.arguments import GoalReachedArguments, NeedHelpArguments
from hivesub.tools.toolbox import Answer, Tool, settled, tool_server
from hivesub.wording import valid_text

TITLE = "Report to the agent that started you"

INSTRUCTIONS = """\
Two ways to report to the agent that started you: `goal_reached` and `need_help`. After either, end your turn: no \
further one follows."""

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
    return tool_server(CONTROL_SERVER, title=TITLE, instructions=INSTRUCTIONS, tools=control_tools())


def control_tools() -> tuple[Tool, ...]:
    """The two tools."""

    async def goal_reached(ctx: ServerRequestContext[Any, Any], given: GoalReachedArguments) -> Answer:
        return await _recorded(ctx, SignalKind.GOAL_REACHED, given.message or "", given.report_file)

    async def need_help(ctx: ServerRequestContext[Any, Any], given: NeedHelpArguments) -> Answer:
        return await _recorded(ctx, SignalKind.NEED_HELP, given.reason, given.report_file)

    return (
        Tool(
            name=SignalKind.GOAL_REACHED.value,
            title="Report the goal reached",
            description=GOAL_REACHED,
            arguments=GoalReachedArguments,
            lenient=as_texts,
            call=goal_reached,
        ),
        Tool(
            name=SignalKind.NEED_HELP.value,
            title="Ask for help",
            description=NEED_HELP,
            arguments=NeedHelpArguments,
            lenient=as_texts,
            call=need_help,
        ),
    )


def as_texts(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with every value a text that can be written: a claim must not be lost over its own fields."""
    return {
        name: value if value is None else valid_text(value if isinstance(value, str) else json.dumps(value))
        for name, value in given.items()
    }


async def _recorded(
    ctx: ServerRequestContext[Any, Any], kind: SignalKind, message: str, report_file: str | None
) -> Answer:
    request: Any = ctx.request
    target: ISignalTarget = request.scope[TARGET_KEY]
    path = report_file if report_file and report_file.strip() else None
    note = await settled(target.signal(kind, message, path))
    record: SignalAnswer = {"recorded": True, "note": note}
    return Answer(f"{kind.value} recorded. {note}".strip(), record)
