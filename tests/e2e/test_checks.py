"""A goal held against a command, and a typed result, with the real claude."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import say, use
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.scenes import prompts_to, todos_of

SCHEMA = {"type": "object", "properties": {"passed": {"type": "integer"}}, "required": ["passed"]}


@pytest.fixture
def daemon(tmp_path: Path, claude: Path, sandbox: dict[str, str]) -> Iterator[Daemon]:
    checks = tmp_path / "checks.json"
    script = "test -e notes.txt || { echo notes.txt is missing; exit 4; }"
    checks.write_text(json.dumps({"tests": {"argv": ["sh", "-c", script]}}))
    with Daemon(tmp_path, claude=claude, environ=sandbox, options=["--checks", str(checks)]) as daemon:
        yield daemon


async def test_a_subagent_that_claims_twice_is_believed_once_its_check_passes(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    claim = "mcp__subagent_control__goal_reached"
    model.script(
        "marker-check",
        use(claim, message="I think so"),
        say("ended"),
        use("Write", file_path=str(daemon.work / "notes.txt"), content="three lines\n"),
        use(claim, message="now it is there"),
        say("ended again"),
    )
    await agent.call(
        "start", name="alpha", prompt="marker-check", goal="notes.txt is there", max_turns=4, check="tests",
        report_file="report.md",
    )  # fmt: skip
    record = await agent.ended("alpha")
    assert (record["turn"], record["state"], record["stop_reason"]["kind"]) == (2, "idle", "check_passed")
    assert [signal["message"] for signal in record["signals"]] == ["I think so", "now it is there"]
    _, second = prompts_to(model, "marker-check")[-2:]
    assert "The check `tests`, which the goal is held against, failed with exit code 4." in second
    assert "notes.txt is missing" in second
    (todo,) = await todos_of(daemon)
    for surface in (agent.texts[-1], todo["body"], (daemon.work / "report.md").read_text()):
        assert "heck `tests` passed, exit 0" in surface
        assert "self-reported, not verified" in surface


async def test_a_typed_result_comes_beside_the_text(agent: Agent, model: ScriptedModel) -> None:
    model.script("marker-typed", use("StructuredOutput", passed=42), say("unused"))
    await agent.call("start", name="alpha", prompt="marker-typed", result_schema=SCHEMA)
    assert (await agent.ended("alpha"))["last_turn"]["outcome"] == "finished"
    record = await agent.record("alpha", result=True)
    assert record["structured_output"] == {"passed": 42}
    assert 'Its structured output:\n{"passed": 42}' in agent.texts[-1]


async def test_a_turn_without_a_typed_result_is_said_to_have_given_none(agent: Agent, model: ScriptedModel) -> None:
    model.script("marker-untyped", *[say("just words")] * 9)
    await agent.call("start", name="alpha", prompt="marker-untyped", result_schema=SCHEMA)
    await agent.ended("alpha")
    record = await agent.record("alpha", result=True)
    assert record["structured_output"] is None
    assert "The turn gave no structured output." in agent.texts[-1]
