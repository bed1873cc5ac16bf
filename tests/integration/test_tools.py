"""The two servers through the SDK's own client, in both protocol eras: lists, answers, refusals, calls given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from mcp.client.client import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ListToolsResult, RequestParamsMeta
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface.verify import verifyObject

from hivesub import __version__
from hivesub.errors import UnknownName
from hivesub.interfaces import IFleet
from hivesub.tools.control import control_server
from hivesub.tools.subagent import subagent_server
from hivesub.tools.toolbox import RECORD_KEY
from tests.support.toolfakes import FakeFleet, ended, record

BUILT_INS = ("Glob", "Read")
both_eras = pytest.mark.parametrize("mode", ["legacy", "auto"])
ANSWERS: dict[str, tuple[dict[str, Any], Any]] = {
    "start": ({"name": "alpha", "prompt": "Do it.", "goal": "g"}, {"subagent": record()}),
    "continue": ({"name": "alpha", "prompt": "Go on."}, {"subagent": record(), "previous_signal": "SIGTERM"}),
    "status": ({"name": "alpha", "wait_s": 5, "result": True}, {"subagents": [record()]}),
    "interrupt": ({"name": "alpha"}, {"subagent": ended("killed", "killed", "killed"), "escalated": False}),
}
METHODS = {"start": "start", "continue": "resume", "status": "status", "interrupt": "interrupt"}


async def using(server: Server[Any], mode: str, use: Callable[[Client], Awaitable[Any]]) -> Any:
    """What `use` gives of a client of the server; bounded to 10 s."""
    from twisted.internet import reactor

    async def used() -> Any:
        async with Client(server, mode=mode) as client:
            return await use(client)

    clock: Any = reactor
    waiting: Deferred[Any] = Deferred.fromFuture(asyncio.ensure_future(used()))
    return await waiting.addTimeout(10, clock)


def called(
    tool: str, arguments: dict[str, Any], meta: dict[str, Any] | None = None
) -> Callable[[Client], Awaitable[CallToolResult]]:
    async def use(client: Client) -> CallToolResult:
        await client.list_tools()
        return await client.call_tool(tool, arguments, meta=cast("RequestParamsMeta | None", meta))

    return use


def text_of(result: CallToolResult) -> str:
    (block,) = result.content
    return str(getattr(block, "text", None))


def test_the_fake_fleet_is_one() -> None:
    verifyObject(IFleet, FakeFleet())


@both_eras
async def test_the_agents_server_lists_its_four_tools_with_all_that_a_client_asks_for(mode: str) -> None:
    listed: ListToolsResult = await using(
        subagent_server(FakeFleet(), BUILT_INS), mode, lambda client: client.list_tools()
    )
    assert [tool.name for tool in listed.tools] == ["start", "continue", "status", "interrupt"]
    for tool in listed.tools:
        hints = tool.annotations
        assert tool.title and tool.description and hints
        # With one, a client would have to be given the record, and would show its model that in place of the text.
        assert tool.output_schema is None
        assert hints.open_world_hint is False
        assert hints.read_only_hint is (tool.name == "status")
        assert hints.destructive_hint is (tool.name == "interrupt")
        assert tool.input_schema["additionalProperties"] is False


@both_eras
async def test_the_subagents_server_lists_its_two_tools_and_no_other(mode: str) -> None:
    listed: ListToolsResult = await using(control_server(), mode, lambda client: client.list_tools())
    assert [tool.name for tool in listed.tools] == ["goal_reached", "need_help"]


async def test_the_lists_stay_small() -> None:
    """A model has all of them in its context."""

    def size_bytes(listed: ListToolsResult) -> int:
        return len(listed.model_dump_json(by_alias=True, exclude_none=True))

    four: ListToolsResult = await using(
        subagent_server(FakeFleet(), BUILT_INS), "legacy", lambda client: client.list_tools()
    )
    two: ListToolsResult = await using(control_server(), "legacy", lambda client: client.list_tools())
    assert size_bytes(four) < 8_200
    assert size_bytes(two) < 2_500


@both_eras
async def test_the_servers_name_themselves_and_their_version(mode: str) -> None:
    async def told(client: Client) -> tuple[Any, Any, bool]:
        # So that the two modes are two eras indeed.
        assert (client.protocol_version == "2026-07-28") is (mode == "auto")
        info = client.server_info
        return info and info.name, info and info.version, bool(client.instructions)

    assert await using(subagent_server(FakeFleet(), BUILT_INS), mode, told) == ("subagent", __version__, True)
    assert await using(control_server(), mode, told) == ("subagent_control", __version__, True)


@both_eras
@pytest.mark.parametrize("tool", list(ANSWERS))
async def test_each_tool_answers_with_text_alone_and_with_the_record_beside_it_where_the_call_asks(
    mode: str, tool: str
) -> None:
    arguments, answer = ANSWERS[tool]
    for meta, shown in ((None, None), ({RECORD_KEY: True}, answer)):
        fleet = FakeFleet(**{METHODS[tool]: succeed(answer)})
        use = called(tool, arguments, meta)
        result: CallToolResult = await using(subagent_server(fleet, BUILT_INS), mode, use)
        assert (result.is_error, result.structured_content) == (False, shown)
        assert text_of(result).startswith("alpha: ")
        assert [call[0] for call in fleet.calls if call[0] != "news"] == [METHODS[tool]]


@both_eras
async def test_a_call_that_asks_for_the_record_by_anything_but_true_is_answered_with_text_alone(mode: str) -> None:
    arguments, answer = ANSWERS["status"]
    for asked in (False, 1, "true", None):
        fleet = FakeFleet(status=succeed(answer))
        use = called("status", arguments, {RECORD_KEY: asked})
        result: CallToolResult = await using(subagent_server(fleet, BUILT_INS), mode, use)
        assert (result.is_error, result.structured_content) == (False, None)


@both_eras
async def test_what_has_ended_meanwhile_stands_on_the_last_line_of_an_answer_without_a_record(mode: str) -> None:
    arguments, answer = ANSWERS["status"]
    texts = []
    for meta in (None, {RECORD_KEY: True}):
        fleet = FakeFleet(status=succeed(answer))
        fleet.ended = [ended("idle", "turn_ended", name="beta")]
        use = called("status", arguments, meta)
        texts.append(text_of(await using(subagent_server(fleet, BUILT_INS), mode, use)))
    assert texts[0].splitlines()[-1].startswith("Ended meanwhile: beta ")
    assert "Ended meanwhile" not in texts[1]


async def test_status_passes_its_defaults_on() -> None:
    fleet = FakeFleet(status=succeed({"subagents": [], "counts": {}}))
    await using(subagent_server(fleet, BUILT_INS), "legacy", called("status", {}))
    assert fleet.calls[0] == ("status", None, 0.0, False, False)


@both_eras
async def test_a_refusal_by_the_fleet_is_a_tool_error_with_its_reason(mode: str) -> None:
    fleet = FakeFleet(interrupt=fail(UnknownName("no subagent bears the name alpha; known: beta")))
    result: CallToolResult = await using(
        subagent_server(fleet, BUILT_INS), mode, called("interrupt", {"name": "alpha"})
    )
    assert result.is_error is True
    assert result.structured_content is None
    assert text_of(result) == "interrupt error: no subagent bears the name alpha; known: beta"


@both_eras
async def test_bad_arguments_are_a_tool_error_and_never_reach_the_fleet(mode: str) -> None:
    fleet = FakeFleet()
    bad = {"name": "../x", "prompt": "p", "max_turns": 3, "promt": "p"}
    result: CallToolResult = await using(subagent_server(fleet, BUILT_INS), mode, called("start", bad))
    assert result.is_error is True
    assert text_of(result).startswith("start error: name: must be 1 to 64 of ")
    assert "did you mean `prompt`?" in text_of(result)
    assert fleet.calls == []


async def test_half_a_surrogate_pair_is_a_tool_error_that_says_where() -> None:
    """In the newer era; the older one's transport refuses such a body as no JSON."""
    fleet, bad = FakeFleet(), {"name": "alpha", "prompt": "ab\ud83d"}
    result: CallToolResult = await using(subagent_server(fleet, BUILT_INS), "auto", called("start", bad))
    assert text_of(result).startswith("start error: prompt: is no valid Unicode text: half of a surrogate pair at ")
    assert fleet.calls == []


@both_eras
async def test_an_unknown_tool_is_a_protocol_error_that_names_the_known_ones(mode: str) -> None:
    async def refused(client: Client) -> MCPError:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("stop", {})
        return raised.value

    error: MCPError = await using(subagent_server(FakeFleet(), BUILT_INS), mode, refused)
    assert error.code == INVALID_PARAMS
    assert error.message == 'Unknown tool: "stop". The tools here are start, continue, status, interrupt.'


@both_eras
async def test_an_answer_that_comes_later_is_waited_for(mode: str) -> None:
    later: Deferred[Any] = Deferred()
    fleet = FakeFleet(start=later)

    async def use(client: Client) -> CallToolResult:
        call = asyncio.ensure_future(client.call_tool("start", {"name": "alpha", "prompt": "p"}))
        while not fleet.calls:
            await asyncio.sleep(0)
        assert not call.done()
        later.callback({"subagent": record()})
        return await call

    result: CallToolResult = await using(subagent_server(fleet, BUILT_INS), mode, use)
    assert text_of(result).startswith("alpha: started")


async def test_a_call_that_its_client_gives_up_cancels_the_fleets_deferred() -> None:
    cancelled: list[Deferred[Any]] = []
    fleet = FakeFleet(status=Deferred(cancelled.append))

    async def use(client: Client) -> None:
        call = asyncio.ensure_future(client.call_tool("status", {"wait_s": 50}))
        while not fleet.calls:
            await asyncio.sleep(0)
        call.cancel()
        while not cancelled:
            await asyncio.sleep(0)

    await using(subagent_server(fleet, BUILT_INS), "auto", use)
    assert cancelled == [fleet.answers["status"]]
