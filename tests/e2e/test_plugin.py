"""The Claude Code plugin with the real claude: an agent that has nothing else finds the tools and hears the end."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from tests.realclaude.model import ScriptedModel
from tests.realclaude.steps import say, use
from tests.support.agent import Agent
from tests.support.daemon import Daemon
from tests.support.scenes import eventually

PLUGIN = Path(__file__).parents[2] / "plugin"
CLAUDE_S = 60
TOOLS = ("start", "continue", "status", "interrupt")


def run_claude(claude: Path, environ: dict[str, str], cwd: Path, *argv: str, prompt: str = "") -> Deferred[str]:
    """What a claude wrote on stdout; it has to succeed."""

    def run() -> str:
        done = subprocess.run(
            [str(claude), *argv],
            input=prompt,
            capture_output=True,
            text=True,
            timeout=CLAUDE_S,
            env=environ,
            cwd=cwd,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return deferToThread(run)


def with_plugin(daemon: Daemon, sandbox: dict[str, str]) -> dict[str, str]:
    """An agent's environment: where the daemon is, as its port and state directory here are no defaults."""
    return {**sandbox, "HIVESUB_URL": daemon.url, "HIVESUB_TODOS": str(daemon.todos)}


def suggested_permissions() -> dict[str, Any]:
    """The settings that the skill proposes."""
    skill = (PLUGIN / "skills" / "claude-subagents" / "SKILL.md").read_text()
    block = re.search(r"```json\n(.*?)```", skill, re.DOTALL)
    assert block is not None
    settings: dict[str, Any] = json.loads(block[1])
    return settings


def heard(request: dict[str, Any]) -> str:
    """All that a request tells the model, tool results left out.

    What a hook adds comes in a message of the system's role, after the user's (measured, claude 2.1.332).
    """
    texts = []
    for message in request["messages"]:
        if message["role"] == "assistant":
            continue
        content = message["content"]
        blocks: Sequence[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts += [block["text"] for block in blocks if block.get("type") == "text"]
    return "\n".join(texts)


async def test_claude_finds_the_plugin_valid(claude: Path, sandbox: dict[str, str], tmp_path: Path) -> None:
    said = await run_claude(claude, sandbox, tmp_path, "plugin", "validate", "--strict", str(PLUGIN))
    assert "Validation passed" in said
    for part in ("mcpServers: subagent http", "hooks: UserPromptSubmit", "skills: hivesub:claude-subagents"):
        assert part in said


async def test_an_agent_with_only_the_plugin_starts_a_subagent_and_is_told_of_its_end_once(
    daemon: Daemon, agent: Agent, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    project = daemon.root / "project"
    project.mkdir()
    (daemon.home / ".claude").mkdir(exist_ok=True)
    (daemon.home / ".claude" / "settings.json").write_text(json.dumps(suggested_permissions()))
    environ, session = with_plugin(daemon, sandbox), str(uuid.uuid4())
    plugin = ["-p", "--plugin-dir", str(PLUGIN)]
    model.script(
        "marker-agent",
        use("mcp__plugin_hivesub_subagent__start", name="scout", prompt="marker-scout: look around"),
        say("I have sent a scout"),
    )
    model.script("marker-scout", say("nothing here"))

    said = await run_claude(
        claude, environ, project, *plugin, "--session-id", session, prompt="marker-agent: have somebody look around"
    )
    assert "I have sent a scout" in said
    first = model.requests_for("marker-agent")[0]
    # Claude names such tools to the model and gives their schemas when asked for them (measured, 2.1.332).
    for tool in TOOLS:
        assert f"mcp__plugin_hivesub_subagent__{tool}" in json.dumps(first)
    assert "hivesub:claude-subagents" in json.dumps(first), "the skill is not offered"
    assert (await agent.ended("scout"))["state"] == "idle"
    assert await eventually(daemon.todos.exists)
    (line,) = await eventually(lambda: daemon.todos.read_text().splitlines())
    todo = json.loads(line)

    for prompt in ("marker-second: and now?", "marker-third: go on"):
        await run_claude(claude, environ, project, *plugin, "--resume", session, prompt=prompt)
    second, third = (model.requests_for(marker)[0] for marker in ("marker-second", "marker-third"))
    assert todo["title"] in heard(second)
    assert todo["body"].splitlines()[0] in heard(second)
    # The third has the whole conversation, in which it stands where it was told, and nowhere else.
    assert heard(third).count(todo["title"]) == 1
    print("With the second prompt the model got:", heard(second).partition("marker-second")[2], sep="\n")


async def test_a_subagent_that_has_the_plugin_too_gets_neither_its_server_nor_the_agents_todos(
    tmp_path: Path, model: ScriptedModel, claude: Path, sandbox: dict[str, str]
) -> None:
    from twisted.internet import reactor

    # As if the user had installed it: each claude of this machine loads it.
    wrapper = tmp_path / "claude"
    wrapper.write_text(f'#!/bin/sh\nexec {claude} "$@" --plugin-dir {PLUGIN}\n')
    wrapper.chmod(0o755)
    # Where the hook looks by default, since no HIVESUB_* of the daemon's reaches a subagent.
    todos = tmp_path / "xdg" / "hivesub" / "todos.jsonl"
    todos.parent.mkdir(parents=True)
    daemon = Daemon(tmp_path, claude=wrapper, environ={**sandbox, "XDG_STATE_HOME": str(tmp_path / "xdg")})
    model.script("marker-scout", say("done"))
    with daemon:
        agent = Agent(f"{daemon.url}/mcp", reactor)
        # Twice: what there was before its first prompt the hook would not show anyway.
        for name in ("scout", "scout-2"):
            await agent.call("start", name=name, prompt="marker-scout: look around")
            record = await agent.ended(name)
            assert record["last_turn"]["outcome"] == "finished", record
            ended = {"id": "1", "kind": "subagent_run_ended", "title": "not-for-you", "body": ""}
            todos.write_text(json.dumps(ended) + "\n")
    request = model.requests_for("marker-scout")[-1]
    assert "hivesub:claude-subagents" in json.dumps(request), "the plugin was not loaded"
    assert not any(tool["name"].startswith("mcp__plugin_") for tool in request["tools"])
    assert "not-for-you" not in json.dumps(request)


def unreadable(script: Path) -> None:
    """As far as its exit status goes: nothing is unreadable to root."""
    script.write_text("import sys\nsys.exit(2)\n")


@pytest.mark.parametrize("spoil", [Path.unlink, unreadable])
async def test_a_hook_script_that_cannot_be_run_is_no_obstacle_to_a_prompt(
    tmp_path: Path, model: ScriptedModel, claude: Path, sandbox: dict[str, str], spoil: Callable[[Path], None]
) -> None:
    broken = tmp_path / "plugin"
    shutil.copytree(PLUGIN, broken)
    spoil(broken / "hooks" / "todos.py")
    model.script("marker-agent", say("I have read it"))
    said = await run_claude(
        claude, sandbox, tmp_path, "-p", "--plugin-dir", str(broken), prompt="marker-agent: read this"
    )
    assert "I have read it" in said


@pytest.mark.parametrize("tool", TOOLS)
def test_the_skill_names_every_tool(tool: str) -> None:
    assert f"`{tool}`" in (PLUGIN / "skills" / "claude-subagents" / "SKILL.md").read_text()
