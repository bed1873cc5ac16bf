"""What confines the real claude, what it still gets, and what happens where it holds more or less than it was given."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from twisted.internet import reactor

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import say, use
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.scenes import told, tool_results, wrapped


def user_settings(daemon_root: Path, settings: dict[str, Any]) -> None:
    path = daemon_root / "home" / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings))


def changing(claude: Path, directory: Path, option: str, value: str) -> Path:
    """A claude that is given another value for an option than the daemon gave it."""
    other = shlex.quote(f"{option}={value}")
    changed = f'case "$word" in {option}=*) word={other};; esac'
    return wrapped(claude, directory, f'for word; do shift; {changed}; set -- "$@" "$word"; done')


async def test_a_guard_hook_of_the_user_runs_with_hooks_on_and_not_by_default(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    for on in (False, True):
        root = tmp_path / str(on)
        guard = {"matcher": "Write", "hooks": [{"type": "command", "command": "echo not-here >&2; exit 2"}]}
        user_settings(root, {"hooks": {"PreToolUse": [guard]}})
        name = f"marker-guard-{on}"
        model.script(name, use("Write", file_path=str(root / "work" / "made.txt"), content="x"), say("done"))
        environ = {**sandbox, "HOME": str(root / "home")}
        with Daemon(root, claude=claude, environ=environ, options=["--hooks", "on"] if on else []) as daemon:
            agent = Agent(f"{daemon.url}/mcp", reactor)
            await agent.call("start", name="alpha", prompt=name)
            await agent.ended("alpha")
            assert (daemon.work / "made.txt").exists() is not on
            assert ("not-here" in tool_results(model, name)) is on


async def test_project_memory_and_skills_reach_a_subagent_by_default(
    daemon: Daemon, agent: Agent, model: ScriptedModel
) -> None:
    directory = daemon.root / "project"
    (directory / ".claude" / "skills" / "greet").mkdir(parents=True)
    (directory / "CLAUDE.md").write_text("MEMORY-OF-THE-PROJECT\n")
    (directory / ".claude" / "skills" / "greet" / "SKILL.md").write_text(
        "---\nname: greet\ndescription: greets\n---\nWORDS-OF-THE-SKILL\n"
    )
    model.script("marker-memory", use("Skill", skill="greet"), say("done"))
    await agent.call("start", name="alpha", prompt="marker-memory", dir=str(directory))
    await agent.ended("alpha")
    seen = told(model.requests_for("marker-memory"))
    assert "MEMORY-OF-THE-PROJECT" in seen
    assert "WORDS-OF-THE-SKILL" in seen


async def test_a_helper_of_the_users_own_is_handed_on_and_stands_in_no_argument(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    user_settings(tmp_path, {"apiKeyHelper": f"touch {tmp_path}/asked; echo sk-ant-own-helper-0123"})
    del sandbox["ANTHROPIC_API_KEY"]
    model.script("marker-helper", say("done"))
    arguments = tmp_path / "arguments"
    program = wrapped(claude, tmp_path, f'printf "%s\\n" "$@" >> {arguments}')
    with Daemon(tmp_path, claude=program, environ=sandbox) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="alpha", prompt="marker-helper")
        record = await agent.ended("alpha")
        assert record["last_turn"]["outcome"] == "finished", record["last_turn"]
        assert (tmp_path / "asked").exists()
        assert "own-helper" not in arguments.read_text()
        assert not list(daemon.runtime.glob("mcp-*/*.json"))


async def test_a_claude_with_a_tool_that_was_not_granted_is_ended_and_the_tool_named(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    model.script("marker-more", use("Read", file_path="/etc/hostname"), say("done"))
    program = changing(claude, tmp_path, "--tools", "Read,Bash")
    with Daemon(tmp_path, claude=program, environ=sandbox) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="alpha", prompt="marker-more", goal="done", max_turns=3)
        record = await agent.ended("alpha")
        assert (record["state"], record["turn"]) == ("failed", 1)
        assert "tools that were not granted: Bash" in record["last_turn"]["detail"]


async def test_a_claude_that_does_not_list_the_signal_route_ends_a_goal_run_after_its_first_turn(
    tmp_path: Path, claude: Path, sandbox: dict[str, str], model: ScriptedModel
) -> None:
    model.script("marker-none", say("one"), say("two"), say("three"))
    program = changing(claude, tmp_path, "--mcp-config", '{"mcpServers":{}}')
    with Daemon(tmp_path, claude=program, environ=sandbox) as daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        await agent.call("start", name="alpha", prompt="marker-none", goal="done", max_turns=3)
        record = await agent.ended("alpha")
        assert (record["stop_reason"]["kind"], record["turn"], record["control"]) == ("no_control", 1, "failed")
