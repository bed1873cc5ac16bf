"""Runs as tasks, over real HTTP to a daemon on the stand-in: what the extension's text asks of each message."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from tests.support.agent import Agent, pause
from tests.support.world import World, until

TASKS = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
MISSING_CAPABILITY = -32021
INVALID_PARAMS = -32602


class Client:
    """Sends requests that declare the extension, unless told otherwise."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    async def ask(self, method: str, *, declares: bool = True, **params: Any) -> Any:
        """The result, or the error, of a request."""
        meta = {CAPABILITIES: {"extensions": {TASKS: {}} if declares else {}}, "hivesub/record": False}
        _, body = await self._agent.post(method, params, meta=meta)
        answer = json.loads(body)
        return answer.get("result", answer.get("error"))

    async def call(self, tool: str, *, declares: bool = True, **arguments: Any) -> Any:
        return await self.ask("tools/call", declares=declares, name=tool, arguments=arguments)

    async def completed(self, task_id: str) -> Any:
        """The task once it is completed."""
        from twisted.internet import reactor

        clock: Any = reactor
        for _ in range(300):
            task = await self.ask("tasks/get", taskId=task_id)
            if task["status"] != "working":
                return task
            await pause(0.05, clock)
        raise AssertionError(f"still working: {task}")


@pytest.fixture
def client(shared: World) -> Client:
    return Client(shared.agent)


def steps(*lines: str) -> str:
    return "\n".join(["go", *(f"!standin {line}" for line in lines)])


async def test_the_server_says_that_it_has_the_extension(client: Client) -> None:
    told = await client.ask("server/discover")
    assert told["capabilities"]["extensions"] == {TASKS: {}}


async def test_a_start_is_answered_with_a_task_whose_text_the_model_reads_at_once(client: Client, name: str) -> None:
    task = await client.call("start", name=name, prompt=steps("text hello", "hang"), goal="g", max_turns=3)
    assert (task["resultType"], task["status"], task["ttlMs"], task["pollIntervalMs"]) == (
        "task",
        "working",
        None,
        1000,
    )
    text = task["_meta"]["com.anthropic/agent-task"]["modelImmediateResponse"]
    assert text.startswith(f"{name}: started (session ")
    assert text.endswith("You are notified when the run ends: do not poll.")
    assert "structuredContent" not in task
    now = await client.ask("tasks/get", taskId=task["taskId"])
    assert now["resultType"] == "complete"
    assert now["statusMessage"].startswith(f"{name}: running. Turn 1 of 3.")
    await client.ask("tasks/cancel", taskId=task["taskId"])
    ended = await client.completed(task["taskId"])
    assert "was killed mid-turn, not finished" in ended["result"]["content"][0]["text"]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["text done"], "finished its turn"),
        (["goal_reached all green"], "reports its goal reached (self-reported, not verified)"),
        (["need_help which one?"], "is blocked and asks for help"),
        (["exit 3"], "failed"),
        (["kill KILL"], "was killed mid-turn, not finished"),
    ],
)
async def test_whatever_the_outcome_the_task_is_completed_with_the_todos_words(
    client: Client, name: str, lines: list[str], words: str
) -> None:
    goal: dict[str, Any] = {"goal": "g"} if lines[0].startswith(("goal", "need")) else {}
    task = await client.call("start", name=name, prompt=steps(*lines), **goal)
    ended = await client.completed(task["taskId"])
    assert (ended["status"], ended["result"]["isError"]) == ("completed", False)
    title = ended["result"]["content"][0]["text"].splitlines()[0]
    assert title == f"subagent {name} {words}"


async def test_a_client_that_declares_nothing_is_answered_without_a_task(client: Client, name: str) -> None:
    answer = await client.call("start", declares=False, name=name, prompt=steps("text done"))
    assert answer["resultType"] == "complete"
    assert "`status` with `wait_s` 3600 waits for its end." in answer["content"][0]["text"]


async def test_a_refused_call_and_a_continue_that_misses_are_tool_errors(client: Client, name: str) -> None:
    for answer in (
        await client.call("start", name=name, prompt=" "),
        await client.call("continue", name=name, prompt="go on"),
    ):
        assert (answer["resultType"], answer["isError"]) == ("complete", True)


async def test_an_id_that_is_not_known_is_the_extensions_error_and_names_continue(client: Client) -> None:
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        error = await client.ask(method, taskId="of-an-earlier-daemon")
        assert error["code"] == INVALID_PARAMS
        assert "`continue`" in error["message"]


@pytest.mark.parametrize("task_id", [5, None, ["x"], "x" * 10_000])
async def test_a_malformed_id_is_invalid_params(client: Client, task_id: Any) -> None:
    assert (await client.ask("tasks/get", taskId=task_id))["code"] in (INVALID_PARAMS, -32020)


async def test_a_method_asked_without_the_declaration_names_the_missing_capability(client: Client, name: str) -> None:
    task = await client.call("start", name=name, prompt=steps("text done"))
    for method in ("tasks/get", "tasks/cancel", "tasks/update"):
        error = await client.ask(method, declares=False, taskId=task["taskId"])
        assert error["code"] == MISSING_CAPABILITY
        assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


async def test_cancel_and_update_are_acknowledged_after_the_end_too(client: Client, name: str) -> None:
    task = await client.call("start", name=name, prompt=steps("hang"))
    for _ in range(2):
        assert (await client.ask("tasks/cancel", taskId=task["taskId"]))["resultType"] == "complete"
    assert (await client.completed(task["taskId"]))["statusMessage"].startswith(f"{name}: killed by SIGINT.")
    for method in ("tasks/cancel", "tasks/update"):
        assert (await client.ask(method, taskId=task["taskId"]))["resultType"] == "complete"


async def test_a_retry_with_the_same_key_is_the_same_task(client: Client, name: str) -> None:
    given: dict[str, Any] = {"name": name, "prompt": steps("hang"), "request_key": "k"}
    first, second = [(await client.call("start", **given))["taskId"] for _ in range(2)]
    assert first == second
    await client.ask("tasks/cancel", taskId=first)
    await client.completed(first)


async def test_an_end_that_a_task_reported_is_told_by_no_later_answer(own: World) -> None:
    client = Client(own.agent)
    task = await client.call("start", name="alpha", prompt=steps("text done"))
    await client.completed(task["taskId"])
    other = await client.call("start", declares=False, name="beta", prompt=steps("text done"))
    assert "Ended meanwhile" not in other["content"][0]["text"]
    # The task is completed before its todo is delivered, and what was heard is noted in a thread.
    todo, heard = await own.todo("alpha"), own.daemon.state / "todos.jsonl.heard"
    await until(lambda: heard.exists() and heard.read_text().split() == [todo["id"]])


async def test_a_daemon_that_stops_is_there_until_the_client_has_asked_how_its_task_ended(own: World) -> None:
    from twisted.internet import reactor
    from twisted.internet.threads import deferToThread

    client, clock = Client(own.agent), cast("Any", reactor)
    task = await client.call("start", name="alpha", prompt=steps("hang"))
    stopped = deferToThread(own.daemon.stop)
    await pause(0.7, clock)
    ended = await client.completed(task["taskId"])
    assert "was killed mid-turn, not finished" in ended["result"]["content"][0]["text"]
    await stopped
    todo = json.loads((own.daemon.state / "todos.jsonl").read_text().splitlines()[0])
    assert (own.daemon.state / "todos.jsonl.heard").read_text().split() == [todo["id"]]


async def test_what_has_ended_meanwhile_is_told_once_to_who_takes_no_tasks(own: World) -> None:
    client = Client(own.agent)
    await client.call("start", declares=False, name="alpha", prompt=steps("text done"))
    await own.agent.ended("alpha")  # asks for the record, and takes nothing from it
    texts = [
        (await client.call("status", declares=False, name="beta"))["content"][0]["text"],
        (await client.call("start", declares=False, name="beta", prompt=steps("hang")))["content"][0]["text"],
        (await client.call("status", declares=False, name="beta"))["content"][0]["text"],
    ]
    assert [("Ended meanwhile: alpha finished its turn." in text) for text in texts] == [False, True, False]
    await client.call("interrupt", declares=False, name="beta")
