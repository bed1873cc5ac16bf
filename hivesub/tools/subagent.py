"""The `subagent` server: the four tools with which an agent starts, continues, watches and stops subagents.

Owns how they are described, and which request each makes. What they mean is the fleet's part; what they answer is in
`hivesub.tools.texts`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from hivesub.interfaces import STREAMED_KEY, IFleet
from hivesub.shapes import Record, StatusAnswer, TaskState
from hivesub.tools import texts
from hivesub.tools.arguments import ContinueArguments, InterruptArguments, StartArguments, StatusArguments
from hivesub.tools.tasks import add_methods, declared
from hivesub.tools.toolbox import Answer, Tool, settled, tool_server

NAME = "subagent"
TITLE = "Subagents"
INSTRUCTIONS = """\
Runs subagents: named claude sessions that work by themselves on this machine, without asking anybody. `start` a new \
one, `continue` one whose run has ended, look at them with `status`, stop one with `interrupt`. `start` and `continue` \
return at once: go on with other work. A subagent that reports goal_reached says so about itself: check its work."""

HOW_TO_HEAR = """\
How you hear of the end: if your client supports MCP tasks, the call becomes one and you are notified; else call \
`status` with `wait_s` when you need it. Other answers name what has ended meanwhile, once."""

START = """\
Start a new subagent: a headless claude session of its own that works on `prompt` by itself. {has} Returns as soon as \
its process exists, before any work is done. {how_to_hear} Without `goal` the run is one turn. With `goal` it goes on \
turn after turn until it reports the goal reached (self-reported: check it), needs help, or has used up `max_turns`. \
To get its findings give `report_file`, tell it to write there, and read that file. A name used before gets a new \
session without memory of the old one: to go on with a session use `continue`."""

CONTINUE = """\
Give a subagent whose run has ended another prompt, in the same session, with all that it knows: to answer its \
need_help, to follow up, or to go on after it was killed, failed or ran out of turns. Returns once claude has taken \
the session up again, or with claude's own error; you hear of the end as after `start`. It works on toward the goal \
it had, a claimed one too, with as many turns and as much money again, unless you give another. Refused while it \
runs: nothing is queued."""

STATUS = """\
How subagents are: state, turn N of M, how long ago a running one last wrote anything, how the last turn ended and \
why the run stopped. `wait_s` waits for an end, up to 3600 s: one such call instead of a loop of short ones. \
`result: true` adds the last thing that the subagent said. Changes nothing."""

INTERRUPT = """\
Stop a subagent's run now: its process and all that it started are ended, no further turn follows, and its work may \
be cut off in the middle. The session is kept: `continue` resumes it. Only for a running one."""


SILENT_S = 50.0
"""How long a call may wait that is answered with nothing in between."""
PROGRESS_S = 10.0
PROGRESS_CHARS = 1000


def subagent_server(fleet: IFleet, built_ins: Sequence[str]) -> Server[Any]:
    """The server of `/mcp`.

    :param built_ins: the tools that each subagent is given.
    """

    async def news(record: Mapping[str, object]) -> str:
        ended: list[Record] = await settled(fleet.news(texts.ended_names(record)))
        return texts.news_text(ended)

    tools = subagent_tools(fleet, built_ins)
    server = tool_server(NAME, title=TITLE, instructions=INSTRUCTIONS, tools=tools, news=news)
    add_methods(server, fleet)
    return server


def subagent_tools(fleet: IFleet, built_ins: Sequence[str]) -> tuple[Tool, ...]:
    """The four tools. A call that its client gives up cancels the fleet's Deferred: the run goes on."""

    def task_of(given: StartArguments | ContinueArguments) -> TaskState | None:
        return fleet.as_task(given.name)

    async def start(ctx: ServerRequestContext[Any, Any], given: StartArguments) -> Answer:
        made = await settled(fleet.start(given.request()))
        return Answer(texts.start_text(made, notified=declared(ctx)), made)

    async def resume(ctx: ServerRequestContext[Any, Any], given: ContinueArguments) -> Answer:
        made = await settled(fleet.resume(given.request()))
        return Answer(texts.continue_text(made, notified=declared(ctx)), made)

    async def status(ctx: ServerRequestContext[Any, Any], given: StatusArguments) -> Answer:
        request: Any = ctx.request
        if request is not None and request.scope.get(STREAMED_KEY):
            found = await _with_progress(ctx, fleet, given)
            return Answer(texts.status_text(found), found)
        clock = asyncio.get_running_loop()
        began_at = clock.time()
        found = await _found(fleet, given, min(given.wait_s, SILENT_S))
        cut_short = given.wait_s > SILENT_S and clock.time() - began_at >= SILENT_S
        return Answer(texts.status_text(found, ask_again=cut_short), found)

    async def interrupt(ctx: ServerRequestContext[Any, Any], given: InterruptArguments) -> Answer:
        ended = await settled(fleet.interrupt(given.name))
        return Answer(texts.interrupt_text(ended), ended)

    return (
        Tool(
            name="start",
            title="Start a subagent",
            description=START.format(has=_abilities(built_ins), how_to_hear=HOW_TO_HEAR),
            arguments=StartArguments,
            call=start,
            task_of=task_of,
        ),
        Tool(
            name="continue",
            title="Continue a subagent",
            description=CONTINUE,
            arguments=ContinueArguments,
            call=resume,
            task_of=task_of,
        ),
        Tool(
            name="status",
            title="Status of subagents",
            description=STATUS,
            arguments=StatusArguments,
            call=status,
            read_only=True,
            idempotent=True,
        ),
        Tool(
            name="interrupt",
            title="Interrupt a subagent",
            description=INTERRUPT,
            arguments=InterruptArguments,
            call=interrupt,
            destructive=True,
            # A second interrupt of the same run is refused or joins the first: it stops nothing more.
            idempotent=True,
        ),
    )


def _found(fleet: IFleet, given: StatusArguments, wait_s: float) -> Awaitable[StatusAnswer]:
    wanted = fleet.status(given.name, wait_s=wait_s, wait_for_all=given.wait_for == "all", result=given.result)
    return settled(wanted)


async def _with_progress(ctx: ServerRequestContext[Any, Any], fleet: IFleet, given: StatusArguments) -> StatusAnswer:
    """The answer of a call that is answered by a stream, with a word of how things stand until it comes: a client gives
    a call up that is silent for a minute (measured, claude 2.1.332).
    """
    waiting = asyncio.ensure_future(_found(fleet, given, given.wait_s))
    passed_s = 0.0
    try:
        while not (await asyncio.wait([waiting], timeout=PROGRESS_S))[0]:
            passed_s += PROGRESS_S
            now = await settled(fleet.status(given.name, wait_s=0.0, wait_for_all=False, result=False))
            await ctx.session.report_progress(passed_s, given.wait_s, texts.status_text(now)[:PROGRESS_CHARS])
        return waiting.result()
    finally:
        waiting.cancel()


def _abilities(built_ins: Sequence[str]) -> str:
    commands = "can run commands" if "Bash" in built_ins else "cannot run commands, such as tests"
    return f"Its built-in tools are {', '.join(built_ins)}: it {commands}."
