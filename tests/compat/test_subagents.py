"""Releases of claude as a subagent: those that have the flags reach their goal, the others are refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compat.claudes import NEWEST, OLDER, OLDEST, claude, environment, listed
from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import say, use
from tests.support.agent import Agent, ToolError
from tests.support.daemon import Daemon
from tests.support.table import TABLE, YES

UNTITLED = ("2.0.46",)
"""Have no `--name`: their sessions bear no title, so that `continue` finds them by their id."""
REFUSED = {"1.0.96": ("--tools",), OLDEST: ("--tools", "--settings", "--strict-mcp-config", "--resume")}
SIGNALS = {"goal_reached", "need_help"}


def confined(directory: Path, mark: Path) -> Path:
    """A file that only a hook or a helper of the project's settings makes: neither is to run."""
    command = f"touch {mark}; echo key"
    hooks = {event: [{"hooks": [{"type": "command", "command": command}]}] for event in ("PreToolUse", "Stop")}
    (directory / ".claude").mkdir()
    (directory / ".claude" / "settings.local.json").write_text(json.dumps({"hooks": hooks, "apiKeyHelper": command}))
    return mark


@pytest.mark.parametrize("version", [NEWEST, *(version for version in OLDER if version not in REFUSED)])
async def test_it_reports_its_goal_reached_and_goes_on_with_what_it_knew(
    model: ScriptedModel, version: str, tmp_path: Path
) -> None:
    from twisted.internet import reactor

    wrapper = claude(version).wrapper(tmp_path / "claude")
    model.script("marker-goal", use("mcp__subagent_control__goal_reached", message="found it"), say("done"))
    with Daemon(tmp_path, claude=wrapper, environ=environment(tmp_path / "home", model)) as daemon:
        ran = confined(daemon.work, tmp_path / "ran")
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="scout", prompt="marker-goal: look", goal="it is found")
        record = await agent.ended("scout")
        assert (record["state"], record["stop_reason"]["kind"]) == ("idle", "goal_reached")
        assert record["signals"][0]["message"] == "found it"
        assert record["missing_tools"] == []
        told = listed(model, "marker-goal", "subagent_control")
        assert told.keys() == SIGNALS
        model.script("marker-more", say("still here"))
        await agent.call("continue", name="scout", prompt="marker-more: go on")
        again = await agent.ended("scout")
        assert again["session_id"] == record["session_id"]
        assert "marker-goal" in str(model.requests_for("marker-more")[0]["messages"])
        assert not ran.exists()
    untitled = "without a title: after a restart of the daemon `continue` needs its `session_id`"
    TABLE.add("subagent", version, YES, untitled if version in UNTITLED else "")


@pytest.mark.parametrize("version", list(REFUSED))
async def test_one_that_lacks_the_flags_is_refused_by_name_and_version(
    model: ScriptedModel, version: str, tmp_path: Path
) -> None:
    from twisted.internet import reactor

    wrapper = claude(version).wrapper(tmp_path / "claude")
    with Daemon(tmp_path, claude=wrapper, environ=environment(tmp_path / "home", model)) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        with pytest.raises(ToolError) as refused:
            await agent.call("start", name="scout", prompt="marker-goal: look")
        assert str(refused.value).startswith(f"start error: {wrapper} is {version}")
        for flag in REFUSED[version]:
            assert flag in str(refused.value)
        assert (await agent.call("status"))["subagents"] == []
    lacks = ", ".join(f"`{flag}`" for flag in REFUSED[version])
    TABLE.add("subagent", version, "no", f"refused: lacks {lacks}")


async def test_a_subagent_that_may_search_for_tools_is_told_of_its_signals_at_once(
    model: ScriptedModel, tmp_path: Path
) -> None:
    from twisted.internet import reactor

    wrapper, env = claude(NEWEST).wrapper(tmp_path / "claude"), environment(tmp_path / "home", model)
    model.script("marker-search", say("done"))
    with Daemon(tmp_path, claude=wrapper, environ=env, options=["--tools", "Read,ToolSearch"]) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="scout", prompt="marker-search: look")
        await agent.ended("scout")
    told = listed(model, "marker-search", "subagent_control")
    assert told.keys() == SIGNALS
    assert not any(tool.get("defer_loading") for tool in told.values())
