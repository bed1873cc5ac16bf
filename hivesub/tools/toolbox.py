"""One MCP server made of a table of tools: lists them, checks the arguments, turns refusals into tool errors.

Owns nothing of what a tool means. The only module that builds on the SDK's low-level server; the asyncio world ends at
`Tool.call`, which awaits a Deferred through `settled`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import mcp_types as types
from attrs import frozen
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from hivesub import __version__
from hivesub.errors import HivesubError
from hivesub.interfaces import SENT_ARGUMENTS_KEY
from hivesub.shapes import TaskState
from hivesub.tools.arguments import Arguments, input_schema, read, shown
from hivesub.tools.tasks import created, declared
from hivesub.wording import valid_text

_log = Logger()
_T = TypeVar("_T")

# The lists are the same for as long as the daemon lives; a client asks again soon after an upgrade.
_LIST_TTL_MS = 300_000
# Claude gives its model the names alone of a server's tools, until it searches for one, unless a tool asks to be shown
# at once (measured, claude 2.1.332). These few are short, and say when to use them. Others ignore the key.
_SHOWN_AT_ONCE = {"anthropic/alwaysLoad": True}
INTERNAL_ERROR = "internal error; see the daemon's log"
GIVEN_UP = "the daemon gave this call up, as it does when it stops; `status` says what became of the run"


RECORD_KEY = "hivesub/record"
"""The key of a call's `_meta` with which it asks for the record beside the text."""


@frozen
class Answer:
    """What a tool answers. `text`: the sentences for the model. `record`: the same for programs, as JSON."""

    text: str
    record: Mapping[str, object]


@frozen(kw_only=True)
class Tool:
    """One tool: how it is described, what it takes, what it does.

    `arguments`: the model that gives the schema and the check. `call`: takes the SDK's context of the request and the
    arguments as the model read them. It raises `HivesubError` to refuse. `lenient`: makes of what was sent what can be
    read, for a tool whose call must not be lost over a field of it. `task_of`: gives the task that a call of these
    arguments has begun, for a client that takes tasks.
    """

    name: str
    title: str
    description: str
    arguments: type[Arguments]
    call: Callable[[ServerRequestContext[Any, Any], Any], Awaitable[Answer]]
    lenient: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    task_of: Callable[[Any], TaskState | None] | None = None

    def definition(self) -> types.Tool:
        """The tool as `tools/list` has it. None acts on more than this daemon's own sessions: none is open-world."""
        return types.Tool(
            _meta=_SHOWN_AT_ONCE,
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=input_schema(self.arguments),
            annotations=types.ToolAnnotations(
                read_only_hint=self.read_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent,
                open_world_hint=False,
            ),
        )

    def read(self, given: Mapping[str, Any] | None) -> Arguments:
        """
        :raises BadRequest: names each fault's field.
        """
        return read(self.arguments, given if self.lenient is None else self.lenient(given or {}))


async def _no_news(record: Mapping[str, object]) -> str:
    return ""


def tool_server(
    name: str,
    *,
    title: str,
    instructions: str,
    tools: Sequence[Tool],
    news: Callable[[Mapping[str, object]], Awaitable[str]] = _no_news,
) -> Server[Any]:
    """A server of these tools, for the SDK's transports.

    An unknown tool is a protocol error, -32602, as the MCP specification has it; every other refusal is a tool error,
    which a model sees and can act on.

    :param news: gives what is said at the end of an answer that has no record, from what the answer itself is about.
    """
    by_name = {tool.name: tool for tool in tools}
    listed = types.ListToolsResult(tools=[tool.definition() for tool in tools])

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return listed

    async def call_tool(ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams) -> dict[str, Any]:
        tool = by_name.get(params.name)
        if tool is None:
            raise MCPError(
                code=types.INVALID_PARAMS,
                message=f"Unknown tool: {shown(params.name)}. The tools here are {', '.join(by_name)}.",
            )
        wants_record = bool(params.meta) and dict(params.meta or {}).get(RECORD_KEY) is True
        return await answer(tool, ctx, _sent(ctx, params.arguments), wants_record=wants_record, news=news)

    hint = CacheHint(ttl_ms=_LIST_TTL_MS)
    server: Server[Any] = Server(
        name,
        version=__version__,
        title=title,
        instructions=instructions,
        on_list_tools=list_tools,
        cache_hints={"tools/list": hint, "server/discover": hint},
    )
    # No field is mirrored in a header (`x-mcp-header`), so the transport has nothing to check. An attribute, since
    # mcp 2.0 lacks the argument of that name: it runs the list instead, and finds the same.
    server.get_tool_input_schema = lambda tool: None
    # Not `on_call_tool`: registered so, a call may answer with a plain dict, which spares one round through pydantic.
    server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
    # The default middleware opens an OpenTelemetry span a request, which nobody here exports.
    server.middleware.clear()
    return server


def _sent(ctx: ServerRequestContext[Any, Any], arguments: Mapping[str, Any] | None) -> Any:
    """The arguments as the client sent them, also where its JSON had to be mended for the SDK."""
    return arguments if ctx.request is None else ctx.request.scope.get(SENT_ARGUMENTS_KEY, arguments)


async def answer(
    tool: Tool,
    ctx: ServerRequestContext[Any, Any],
    arguments: Mapping[str, Any] | None,
    *,
    wants_record: bool = False,
    news: Callable[[Mapping[str, object]], Awaitable[str]] = _no_news,
) -> dict[str, Any]:
    """A `CallToolResult` on the wire's own names. Cancelling it cancels the call; a run that it started goes on.

    Clients that are given `structuredContent` show their model that and drop the text (measured, claude 2.0.46 to
    2.1.332), so it is there only where the call asks for the record.
    """
    try:
        given = tool.read(arguments)
        made = await tool.call(ctx, given)
    except HivesubError as error:
        return refusal(tool.name, str(error))
    except CancelledError:
        # Twisted's: somebody below gave up. A client that went away is asyncio's, no Exception, and passes.
        return refusal(tool.name, GIVEN_UP)
    except Exception:
        _log.failure("the tool {tool} failed", tool=tool.name)
        return refusal(tool.name, INTERNAL_ERROR)
    state = tool.task_of(given) if tool.task_of is not None and declared(ctx) else None
    if state is not None:
        return created(state, made.text)
    if wants_record:
        return _result(made.text, {"structuredContent": made.record, "isError": False})
    return _result("\n".join(filter(None, (made.text, await news(made.record)))), {"isError": False})


def refusal(tool: str, why: str) -> dict[str, Any]:
    """A tool error: ``<tool> error: <why, and what would work>``."""
    return _result(f"{tool} error: {why}", {"isError": True})


def _result(text: str, more: dict[str, Any]) -> dict[str, Any]:
    # `resultType` is the newer protocol era's; the SDK drops it for a client of the older one.
    return {"content": [{"type": "text", "text": valid_text(text)}], "resultType": "complete", **more}


async def settled(deferred: Deferred[_T]) -> _T:
    """What a Deferred fires with, for code on asyncio's side; cancelling the wait cancels the Deferred."""
    result: _T = await deferred.asFuture(asyncio.get_running_loop())
    return result
