"""The `subagent` server: the four tools with which an agent starts, continues, watches and stops subagents.

Owns how they are told of, and which request each makes. What they mean is the fleet's part; what they answer in prose
is in `hivesub.tools.texts`.
"""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from hivesub.interfaces import IFleet
from hivesub.tools import fields, schemas, texts
from hivesub.tools.toolbox import Tool, settled, tool_server

NAME = "subagent"
TITLE = "Subagents"
INSTRUCTIONS = """\
Runs subagents: named claude sessions that work by themselves on this machine, without asking anybody. `start` a new \
one, `continue` one whose run has ended, see how they are with `status`, stop one with `interrupt`. `start` and \
`continue` return at once and a todo comes when the run ends, so go on with other work meanwhile instead of polling. \
A subagent that reports goal_reached says so about itself: check its work."""

START = """\
Start a new subagent: a headless claude session of its own that works on `prompt` by itself. Returns as soon as its \
process exists, before any work is done; when the run ends a todo is pushed to you, so do not poll. Without `goal` \
the run is one turn. With `goal` it goes on turn after turn until it reports the goal reached (self-reported: check \
it), needs help, or has used up `max_turns`. To get its findings give `report_file`, tell it to write there, and \
read that file. A name used before gets a new session without memory of the old one: to go on with a session use \
`continue`."""

CONTINUE = """\
Give a subagent whose run has ended another prompt, in the same session, with all that it knows: to answer its \
need_help, to follow up, or to go on after it was killed, failed or ran out of turns. Returns once claude has taken \
the session up again, or with claude's own error; a todo comes when the run ends. A run that stopped short of its \
goal goes on toward it with as many turns again. Refused while it runs: nothing is queued."""

STATUS = """\
Tell how subagents are: state, turn N of M, how long ago a running one last wrote anything, how the last turn ended \
and why the run stopped. With `wait_s` it waits for a run to end. `result: true` adds the last thing that the \
subagent said. Changes nothing."""

INTERRUPT = """\
Stop a subagent's run now: its process and all that it started are ended, no further turn follows, and its work may \
be cut off in the middle. The session is kept: `continue` resumes it. Only for a running one."""


def subagent_server(fleet: IFleet) -> Server[Any]:
    """The server of `/mcp`."""
    return tool_server(NAME, title=TITLE, instructions=INSTRUCTIONS, tools=subagent_tools(fleet))


def subagent_tools(fleet: IFleet) -> tuple[Tool, ...]:
    """The four tools. A call that its client gives up cancels the fleet's Deferred: the run goes on."""

    async def start(ctx: ServerRequestContext[Any, Any], values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        answer = await settled(fleet.start(fields.start_request(values)))
        return answer, texts.start_text(answer)

    async def resume(ctx: ServerRequestContext[Any, Any], values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        answer = await settled(fleet.resume(fields.continue_request(values)))
        return answer, texts.continue_text(answer)

    async def status(ctx: ServerRequestContext[Any, Any], values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        answer = await settled(fleet.status(values.get("name"), values.get("wait_s", 0.0), values.get("result", False)))
        return answer, texts.status_text(answer)

    async def interrupt(ctx: ServerRequestContext[Any, Any], values: dict[str, Any]) -> tuple[dict[str, Any], str]:
        answer = await settled(fleet.interrupt(values["name"]))
        return answer, texts.interrupt_text(answer)

    return (
        Tool(
            name="start",
            title="Start a subagent",
            description=START,
            fields=fields.START,
            output=schemas.START_ANSWER,
            call=start,
        ),
        Tool(
            name="continue",
            title="Continue a subagent",
            description=CONTINUE,
            fields=fields.CONTINUE,
            output=schemas.CONTINUE_ANSWER,
            call=resume,
        ),
        Tool(
            name="status",
            title="Status of subagents",
            description=STATUS,
            fields=fields.STATUS,
            output=schemas.STATUS_ANSWER,
            call=status,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            name="interrupt",
            title="Interrupt a subagent",
            description=INTERRUPT,
            fields=fields.INTERRUPT,
            output=schemas.INTERRUPT_ANSWER,
            call=interrupt,
            destructive=True,
            # A second interrupt of the same run is refused or joins the first: it stops nothing more.
            idempotent=True,
        ),
    )
