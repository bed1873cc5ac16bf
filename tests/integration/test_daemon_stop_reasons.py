"""Every stop reason through the whole daemon: what the record, the text, the report file and the todo say of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import field, frozen

from hivesub.endings import CUT
from tests.support.world import World

UNVERIFIED = "self-reported, not verified"
SHORT = "the goal was never reported reached, and the work stopped where it had got to"
# A claude that overshoots what it was given without its own budget stop.
OVERSHOT = {
    "type": "result", "subtype": "success", "is_error": False, "result": "spent", "num_turns": 1,
    "total_cost_usd": 0.3, "usage": {"input_tokens": 3, "output_tokens": 4},
}  # fmt: skip


@frozen(kw_only=True)
class Case:
    """`says`: what text, report and todo each tell of why the run stopped."""

    steps: tuple[str, ...]
    kind: str
    outcome: str
    state: str
    says: tuple[str, ...]
    arguments: dict[str, Any] = field(factory=dict)
    turn: int | None = None
    claude_turns: int | None = 1
    observed: str = "finished"


GOAL = {"goal": "the tests pass", "max_turns": 2}

CASES = {
    "turn_ended": Case(
        steps=("text done",), kind="turn_ended", outcome="finished", state="idle",
        says=("The turn ended by itself and nothing was signalled.",),
    ),
    "goal_reached": Case(
        steps=("goal_reached all 7 pass", "text bye"), kind="goal_reached", outcome="finished", state="idle",
        arguments=GOAL, turn=1, claude_turns=2, says=(f'its goal reached ({UNVERIFIED}): "all 7 pass"',),
    ),
    "goal_reached in turn 2": Case(
        steps=("text working", "turn 2: goal_reached now"), kind="goal_reached", outcome="finished", state="idle",
        arguments=GOAL, turn=2, claude_turns=3, says=(f'its goal reached ({UNVERIFIED}): "now"',),
    ),
    "goal_reached without a goal": Case(
        steps=("goal_reached",), kind="goal_reached", outcome="finished", state="idle", claude_turns=2,
        says=(f"its goal reached ({UNVERIFIED})",),
    ),
    "need_help": Case(
        steps=("need_help which branch?",), kind="need_help", outcome="finished", state="blocked",
        arguments=GOAL, turn=1, claude_turns=2, says=('is blocked and asks for help: "which branch?"',),
    ),
    "need_help, then goal_reached": Case(
        steps=("need_help which?", "goal_reached found it"), kind="goal_reached", outcome="finished", state="idle",
        arguments=GOAL, turn=1, claude_turns=3, says=(f'({UNVERIFIED}): "found it"', 'need_help: "which?"'),
    ),
    "turn_cap": Case(
        steps=("text working",), kind="turn_cap", outcome="finished", state="idle", arguments=GOAL, turn=2,
        claude_turns=2, says=("harness limit of 2 turns", SHORT),
    ),
    "killed": Case(
        steps=("kill SIGKILL",), kind="killed", outcome="killed", state="killed", arguments=GOAL, turn=1,
        claude_turns=0, observed="killed mid-turn, not finished: SIGKILL", says=("because its turn was killed",),
    ),
    "killed after a signal": Case(
        steps=("goal_reached yes", "exit 143"), kind="killed", outcome="killed", state="killed", arguments=GOAL,
        turn=1, claude_turns=0, observed="killed mid-turn, not finished: SIGTERM",
        says=("because its turn was killed", f'goal_reached ({UNVERIFIED}): "yes"'),
    ),
    "failed": Case(
        steps=("api-error the model is on fire",), kind="failed", outcome="failed", state="failed", arguments=GOAL,
        turn=1, observed="failed: exit code 1", says=("because its turn failed", "the model is on fire"),
    ),
    "budget_spent by us": Case(
        steps=(f"event {json.dumps(OVERSHOT)}", "no-result"), kind="budget_spent", outcome="finished", state="idle",
        arguments={**GOAL, "max_budget_usd": 0.25}, turn=1, says=("cost 0.3000 USD of its max_budget_usd 0.25",),
    ),
    "budget_spent by claude's own stop": Case(
        steps=("cost 0.3",), kind="budget_spent", outcome="cut", state="idle",
        arguments={**GOAL, "max_budget_usd": 0.25}, turn=1, observed=CUT,
        says=("laude stopped at what was left of max_budget_usd", SHORT),
    ),
    "no_control": Case(
        steps=("init mcp=failed", "text working"), kind="no_control", outcome="finished", state="idle",
        arguments=GOAL, turn=1, says=("signal route failed to connect, so that no turn could have reported",),
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
async def test_a_stop_reason_is_told_alike_by_record_text_report_and_todo(shared: World, name: str, what: str) -> None:
    case = CASES[what]
    report = shared.dir / f"{name}.md"
    report.write_text("my findings\n")
    await shared.start(name, *case.steps, report_file=report.name, **case.arguments)
    record = await shared.agent.ended(name)
    assert (record["stop_reason"]["kind"], record["last_turn"]["outcome"], record["state"]) == (
        case.kind,
        case.outcome,
        case.state,
    ), record
    assert (record["turn"], record["max_turns"]) == (case.turn, case.arguments.get("max_turns"))
    assert record["usage"]["claude_turns"] == case.claude_turns
    assert record["control"] == ("failed" if case.kind == "no_control" else "connected")
    assert (record["report_file"], record["report_error"]) == (str(report), None)
    assert "pid" not in record and record["last_event_age_s"] is None
    todo = await shared.todo(name)
    assert todo["kind"] == "subagent_run_ended"
    assert todo["subagent"] == {**record, "todo": "pending"}
    text = shared.agent.texts[-1]
    written = report.read_text()
    assert written.startswith("my findings\n")
    turn = f"Turn {case.turn} of 2" if case.turn else "The turn"
    for surface in (text, written, todo["body"]):
        assert f"{turn} " in surface
        assert case.observed in surface
        for says in case.says:
            assert says in surface
        # Outcome and stop reason stay two facts: what was claimed is shown as a claim wherever it is.
        assert surface.count("goal_reached") + surface.count("goal reached") <= surface.count(UNVERIFIED) + 1
    assert f"subagent {name} " in todo["title"]
    assert len(shared.todos(name)) == 1


async def test_the_prompts_of_a_goal_run_quote_the_goal_and_number_the_turns(shared: World, name: str) -> None:
    goal = "all tests pass\n  and none is skipped"
    dumps = [shared.dir / f"{name}-{turn}.json" for turn in (1, 2)]
    record = await shared.run(name, f"dump {dumps[0]}", f"turn 2: dump {dumps[1]}", goal=goal, max_turns=2)
    assert record["stop_reason"]["kind"] == "turn_cap"
    first, second = [json.loads(path.read_text())["prompt"] for path in dumps]
    assert first.startswith(f"!standin dump {dumps[0]}\n")
    for turn, told in ((1, first), (2, second)):
        assert goal in told
        assert f"Turn {turn} of 2." in told
        assert "mcp__subagent_control__goal_reached" in told and "mcp__subagent_control__need_help" in told


async def test_a_continued_run_keeps_its_goal_a_claimed_one_too(shared: World, name: str) -> None:
    await shared.run(name, "need_help which?", goal="the tests pass", max_turns=3)
    answered = await shared.agent.call("continue", name=name, prompt="!standin goal_reached so be it")
    assert (answered["subagent"]["goal"], answered["subagent"]["max_turns"]) == ("the tests pass", 3)
    assert (await shared.agent.ended(name))["stop_reason"]["kind"] == "goal_reached"
    again = await shared.agent.call("continue", name=name, prompt="!standin goal_reached once more")
    assert (again["subagent"]["goal"], again["same_goal"]) == ("the tests pass", True)
    assert (await shared.agent.ended(name))["turn"] == 1
    single = await shared.agent.call("continue", name=name, prompt="!standin text more", goal="")
    assert (single["subagent"]["goal"], single["subagent"]["turn"]) == (None, None)
    assert (await shared.agent.ended(name))["stop_reason"]["kind"] == "turn_ended"


async def test_of_two_subagents_one_cannot_signal_for_the_other_by_a_dead_url(shared: World, name: str) -> None:
    given = shared.dir / f"{name}.json"
    first = await shared.run(f"{name}-1"[-60:].strip("-"), f"dump {given}", "text done")
    url = json.loads(given.read_text())["servers"]["subagent_control"]["url"]
    said = shared.dir / f"{name}.said"
    await shared.run(f"{name}-2"[-60:].strip("-"), f"call-url {url} goal_reached", f"save {said}")
    assert said.read_text() == "HTTP 404"
    assert (await shared.agent.record(first["name"]))["signals"] == []
    assert url.rpartition("/")[2] not in shared.daemon.log_text()
