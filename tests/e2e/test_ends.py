"""How the real claude waits for its API, is limited, and breaks off: what each surface says of it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import treq
from twisted.internet import reactor

from hivesub.endings import CUT
from tests.realclaude.model import ScriptedModel
from tests.realclaude.sandbox import SUBSCRIBED, claude_environment
from tests.realclaude.steps import Step, broken_off, hang, limit, refuse, say, use
from tests.support.agent import Agent, pause
from tests.support.daemon import Daemon
from tests.support.scenes import prompts_to, todos_of

GOAL = "notes.txt holds three lines"
DEAR = Step(text="dear", output_tokens=50_000)
"""An answer that costs a dollar."""


@contextmanager
def up(root: Path, claude: Path, model: ScriptedModel, *options: str, **environ: str) -> Iterator[tuple[Daemon, Agent]]:
    """A daemon with its agent. `environ`: laid over the environment of its claudes."""
    sandbox = claude_environment(root / "home", model.url, **environ)
    with Daemon(root, claude=claude, environ=sandbox, options=options) as daemon:
        yield daemon, Agent(f"{daemon.url}/mcp", reactor)


async def seen(agent: Agent, name: str, *, field: str) -> Any:
    """The record in which a field is not null for the first time; None where the run ends before."""
    for _ in range(1000):
        record = await agent.record(name)
        if record.get(field) is not None or record["stop_reason"] is not None:
            return record if record.get(field) is not None else None
        await pause(0.05, reactor)
    return None


def shown(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the command line says, and with what it exits."""
    command = [sys.executable, "-m", "hivesub.cli.main", *arguments]
    environ = {**daemon.environ, "HIVESUB_URL": daemon.url, "COLUMNS": "300"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)


async def page_of(daemon: Daemon, name: str) -> str:
    """The operator's page of a subagent."""
    answer = await treq.get(f"{daemon.url}/?name={name}", persistent=False, timeout=30)
    return await answer.text()


async def test_a_wrong_key_is_seen_as_one_while_claude_still_tries(
    tmp_path: Path, claude: Path, model: ScriptedModel
) -> None:
    model.script("marker-key", *(refuse(401, "invalid x-api-key", "authentication_error"),) * 12)
    with up(tmp_path, claude, model) as (daemon, agent):
        await agent.call("start", name="alpha", prompt="marker-key")
        record = await seen(agent, "alpha", field="retrying")
        assert record["state"] == "running"
        retrying = record["retrying"]
        assert (retrying["error"], retrying["status"], retrying["max_attempts"]) == ("authentication_failed", 401, 10)
        await agent.record("alpha")
        assert "waits for the API: authentication_failed, attempt " in agent.texts[-1]
        assert "waits for the API: authentication_failed, attempt " in await page_of(daemon, "alpha")
        interrupted = (await agent.call("interrupt", name="alpha"))["subagent"]
        assert (interrupted["state"], interrupted["retrying"]) == ("killed", None)


async def test_an_idle_timeout_ends_a_turn_that_only_waits_for_its_api(
    tmp_path: Path, claude: Path, model: ScriptedModel
) -> None:
    model.script("marker-idle", *(refuse(529, "overloaded", "overloaded_error"),) * 40)
    with up(tmp_path, claude, model) as (_, agent):
        await agent.call("start", name="alpha", prompt="marker-idle", idle_timeout_s=5)
        record = await agent.ended("alpha")
    assert (record["state"], record["last_turn"]["outcome"]) == ("killed", "killed")
    assert "silent for 5 s, its idle_timeout_s, while it waited for its API" in record["last_turn"]["detail"]


async def test_a_usage_limit_in_a_goal_run_is_waited_out_and_its_turn_not_counted(
    tmp_path: Path, claude: Path, model: ScriptedModel
) -> None:
    resets_at = int(time.time()) + 20
    model.script("marker-limit", say("one"), limit(resets_at), say("two"), say("three"), say("four"))
    with up(tmp_path, claude, model, **SUBSCRIBED) as (daemon, agent):
        await agent.call("start", name="alpha", prompt="marker-limit", goal=GOAL, max_turns=3)
        waiting = await seen(agent, "alpha", field="waiting_until")
        assert (waiting["state"], waiting["turn"], waiting["stop_reason"]) == ("waiting", 2, None)
        assert "You've hit your 5-hour limit" in waiting["last_turn"]["detail"]
        await agent.record("alpha")
        assert "alpha: waiting. Turn 2 of 3. A usage limit of the account holds it up" in agent.texts[-1]
        assert "A usage limit of the account holds it up" in await page_of(daemon, "alpha")
        listed = await agent.call("status")
        assert listed["counts"]["waiting"] == 1
        record = await agent.ended("alpha", within_s=150.0)
        assert (record["turn"], record["stop_reason"]["kind"], record["state"]) == (3, "turn_cap", "idle")
        assert record["last_turn"]["outcome"] == "finished"
        (todo,) = await todos_of(daemon)
        assert todo["subagent"]["stop_reason"]["kind"] == "turn_cap"
    prompts = prompts_to(model, "marker-limit")
    assert [prompt.count(f"Turn {n} of 3") for n, prompt in zip((1, 2, 2, 3), prompts, strict=True)] == [1] * 4
    assert len(model.requests_for("marker-limit")) == 4


@pytest.mark.parametrize("how", ["interrupt", "stop"])
async def test_a_wait_for_a_usage_limit_can_be_ended_and_the_todo_says_so(
    how: str, tmp_path: Path, claude: Path, model: ScriptedModel
) -> None:
    model.script("marker-limit", *(limit(int(time.time()) + 3600),) * 3)
    with up(tmp_path, claude, model, **SUBSCRIBED) as (daemon, agent):
        await agent.call("start", name="alpha", prompt="marker-limit")
        assert await seen(agent, "alpha", field="waiting_until")
        if how == "interrupt":
            record = (await agent.call("interrupt", name="alpha"))["subagent"]
            assert record["state"] == "killed"
        else:
            assert daemon.stop() == 0
        (todo,) = await todos_of(daemon)
    assert "while it waited for a usage limit to reset" in todo["body"]


async def test_a_limit_that_nobody_waits_for_fails_the_run_at_once(
    tmp_path: Path, claude: Path, model: ScriptedModel
) -> None:
    model.script("marker-limit", *(limit(int(time.time()) + 3600),) * 3)
    with up(tmp_path, claude, model, "--limit-wait", "0", **SUBSCRIBED) as (_, agent):
        await agent.call("start", name="alpha", prompt="marker-limit")
        record = await agent.ended("alpha")
    assert (record["state"], record["stop_reason"]["kind"]) == ("failed", "failed")
    assert "You've hit your 5-hour limit" in record["last_turn"]["detail"]
    assert "--limit-wait" in record["stop_reason"]["message"]


async def test_a_budget_stop_is_said_to_be_one_on_each_surface(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-budget", DEAR)
    await agent.call(
        "start", name="alpha", prompt="marker-budget", goal=GOAL, max_turns=3, max_budget_usd=0.1, report_file="r.md"
    )
    record = await agent.ended("alpha")
    assert (record["last_turn"]["outcome"], record["state"]) == ("cut", "idle")
    assert record["stop_reason"]["kind"] == "budget_spent"
    (todo,) = await todos_of(daemon)
    assert todo["title"] == "subagent alpha stopped, its budget spent"
    page, card = await page_of(daemon, "alpha"), shown(daemon, "status", "alpha").stdout
    report = (daemon.work / "r.md").read_text()
    for text in (agent.texts[-1], todo["body"], report, page, card):
        words = " ".join(text.replace("│", " ").split())
        assert f"Turn 1 of 3 {CUT}" in words
        assert "stopped by claude at its --max-budget-usd: Reached maximum budget ($0.1)" in words
        assert "stopped at what was left of max_budget_usd" in words
        assert "finished its" not in words
    metrics = await (await treq.get(f"{daemon.url}/metrics", persistent=False, timeout=30)).text()
    assert 'hivesub_turns_total{outcome="cut"} 1.0' in metrics
    assert 'hivesub_runs_total{stop_reason="budget_spent"} 1.0' in metrics
    watched = shown(daemon, "status", "alpha", "--watch", "--json")
    assert watched.returncode == 11
    assert json.loads(watched.stdout.splitlines()[-1])["last_turn"]["outcome"] == "cut"


async def test_an_answer_that_was_paused_is_cut_and_the_next_turn_is_told(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    model.script("marker-pause", broken_off("pause_turn"), say("two"))
    await agent.call("start", name="alpha", prompt="marker-pause", goal=GOAL, max_turns=2)
    record = await agent.ended("alpha")
    assert (record["turn"], record["last_turn"]["outcome"]) == (2, "finished")
    assert prompts_to(model, "marker-pause")[-1].startswith("Your last turn was cut off (its last answer was paused")
    model.script("marker-single", broken_off("pause_turn"))
    await agent.call("start", name="beta", prompt="marker-single")
    single = await agent.ended("beta")
    assert (single["last_turn"]["outcome"], single["stop_reason"]["kind"], single["state"]) == ("cut", "cut", "idle")


async def test_a_refusal_fails_the_run_in_its_first_turn(daemon: Daemon, agent: Agent, model: ScriptedModel) -> None:
    model.script("marker-refusal", *(broken_off("refusal", "no"),) * 12)
    await agent.call("start", name="alpha", prompt="marker-refusal", goal=GOAL, max_turns=5)
    record = await agent.ended("alpha")
    assert (record["turn"], record["state"], record["stop_reason"]["kind"]) == (1, "failed", "failed")
    assert record["last_turn"]["detail"].startswith("the model refused: ")


async def test_background_work_that_claude_stopped_at_its_exit_is_named(
    tmp_path: Path, claude: Path, model: ScriptedModel
) -> None:
    child = use(
        "Task", description="count all", prompt="marker-child", subagent_type="general-purpose", run_in_background=True
    )
    model.script("marker-parent", child, say("started it, and wait"))
    model.script("marker-child", hang("working"), hang("working"))
    waits = {"CLAUDE_CODE_PRINT_BG_WAIT_CEILING_MS": "1500"}
    with up(tmp_path, claude, model, "--tools", "Read,Task", **waits) as (daemon, agent):
        await agent.call("start", name="alpha", prompt="marker-parent")
        record = await agent.ended("alpha")
        (todo,) = await todos_of(daemon)
    assert record["last_turn"]["outcome"] == "finished"
    for text in (agent.texts[-1], todo["body"]):
        assert "claude stopped background work at its exit, which is not done: count all" in text
