"""A claude that will not work, shown with the real one: what it says of that reaches whoever asked."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from twisted.internet import reactor

from tests.realclaude.model import ScriptedModel
from tests.support.agent import Agent, ToolError
from tests.support.daemon import Daemon
from tests.support.scenes import todos_of, wrapped

AS_ROOT = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
NO_OPTION = "error: unknown option '--from-tomorrow'"
NO_LOGIN = "Not logged in · Please run /login"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        pytest.param(
            "export IS_SANDBOX=0",
            AS_ROOT,
            id="root",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="claude refuses this to root alone"),
        ),
        pytest.param('set -- --from-tomorrow "$@"', NO_OPTION, id="option"),
    ],
)
async def test_a_line_on_stderr_is_told_of_a_start_and_is_the_error_of_a_continue(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], line: str, said: str
) -> None:
    with Daemon(tmp_path, claude=wrapped(claude, tmp_path, line), environ=sandbox) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="alpha", prompt="go")
        record = await agent.ended("alpha")
        assert (record["state"], record["last_turn"]["exit_code"]) == ("failed", 1)
        assert record["last_turn"]["detail"].endswith(f"stderr: {said}")
        assert said in agent.texts[-1]
        (todo,) = await todos_of(daemon)
        assert said in todo["body"]
        with pytest.raises(ToolError) as refused:
            await agent.call("continue", name="alpha", prompt="go on")
        assert str(refused.value) == f"continue error: claude error: {said}"
        # That is the end of a run too, as it is no miss: claude may have found the session.
        again = await agent.record("alpha")
        assert (again["state"], again["last_turn"]["detail"]) == ("failed", record["last_turn"]["detail"])
        assert again["started_at"] > record["started_at"]
        assert len(await todos_of(daemon, 2)) == 2


async def test_a_missing_login_is_told_of_a_start_and_of_a_continue_as_of_turns_that_failed(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    """Claude says it in a result after its `init` (measured, 2.1.332), so that a `continue` is under way by then."""
    del sandbox["ANTHROPIC_API_KEY"]
    with Daemon(tmp_path, claude=claude, environ=sandbox) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        for number, tool in enumerate(("start", "continue"), 1):
            answer = await agent.call(tool, name="alpha", prompt="go")
            assert answer["subagent"]["state"] == "running"
            record = await agent.ended("alpha")
            assert (record["state"], record["stop_reason"]["kind"]) == ("failed", "failed")
            assert record["last_turn"]["detail"] == f"exit code 1: {NO_LOGIN}"
            assert NO_LOGIN in agent.texts[-1]
            todos = await todos_of(daemon, number)
            assert [NO_LOGIN in todo["body"] for todo in todos] == [True] * number
    assert model.requests == []
