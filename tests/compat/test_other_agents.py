"""Agents other than claude, from npm, each on a scripted model: they start, watch and interrupt a subagent."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from attrs import frozen

from tests.compat.models import DONE, OtherModel, recording, serving
from tests.support.daemon import Daemon
from tests.support.npmsets import installed, node_path, version
from tests.support.scene import PROMPT, note
from tests.support.table import TABLE, YES

AGENT_S = 120
SET = "compat/agents"
KEY = "scripted-key"
TASK = "try a subagent"


@frozen
class Other:
    """An agent. `program`: below the packages. `setup`: writes its configuration below a home and a working directory,
    from the URLs of its model and of the daemon, and gives what its environment needs. `protocol`: what it speaks.
    `tool`: how it names `start` to its model. `around`: what its model reads beside the text of an answer.
    """

    title: str
    package: str
    program: str
    arguments: tuple[str, ...]
    setup: Callable[[Path, Path, str, str], Mapping[str, str]]
    protocol: str
    tool: str
    around: str


def codex(home: Path, work: Path, model: str, daemon: str) -> Mapping[str, str]:
    (home / ".codex").mkdir(parents=True)
    (home / ".codex" / "config.toml").write_text(
        'model = "scripted"\nmodel_provider = "scripted"\n'
        f'[model_providers.scripted]\nname = "scripted"\nbase_url = "{model}/v1"\n'
        'wire_api = "responses"\nenv_key = "SCRIPTED_KEY"\n'
        f'[mcp_servers.subagent]\nurl = "{daemon}/mcp"\n'
    )
    return {"SCRIPTED_KEY": KEY}


def gemini(home: Path, work: Path, model: str, daemon: str) -> Mapping[str, str]:
    (home / ".gemini").mkdir(parents=True)
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "mcpServers": {"subagent": {"httpUrl": f"{daemon}/mcp", "trust": True}},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    return {"GEMINI_API_KEY": KEY, "GOOGLE_GEMINI_BASE_URL": model}


def opencode(home: Path, work: Path, model: str, daemon: str) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{model}/v1", "apiKey": KEY},
        "models": {"scripted": {"name": "scripted", "tool_call": True}},
    }
    config = {
        "provider": {"scripted": provider},
        "mcp": {"subagent": {"type": "remote", "url": f"{daemon}/mcp"}},
        "permission": "allow",
        "autoupdate": False,
    }
    (work / "opencode.json").write_text(json.dumps(config))
    return {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"}


OTHERS = (
    Other(
        title="Codex CLI, `codex exec`",
        package="@openai/codex",
        program=".bin/codex",
        arguments=("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK),
        setup=codex,
        protocol="2025-06-18",
        tool="`start`, in the namespace `mcp__subagent`",
        around="how long the call took",
    ),
    Other(
        title="Gemini CLI, `gemini -p`",
        package="@google/gemini-cli",
        program=".bin/gemini",
        arguments=("--yolo", "-m", "gemini-2.5-flash", "-p", TASK),
        setup=gemini,
        protocol="2025-06-18",
        tool="`mcp_subagent_start`",
        around="`<untrusted_context>` around it",
    ),
    Other(
        title="OpenCode, `opencode run`",
        package="opencode-linux-x64",
        program="opencode-linux-x64/bin/opencode",
        arguments=("run", "--model", "scripted/scripted", TASK),
        setup=opencode,
        protocol="2025-11-25",
        tool="`subagent_start`",
        around="nothing",
    ),
)


@pytest.mark.parametrize("other", OTHERS, ids=[Path(other.program).name for other in OTHERS])
def test_another_agent_starts_watches_and_interrupts_a_subagent(daemon: Daemon, other: Other, tmp_path: Path) -> None:
    home, work = tmp_path / "agent-home", tmp_path / "agent-work"
    for directory in (home, work):
        directory.mkdir()
    model = OtherModel(
        ("start", {"name": "scout", "prompt": PROMPT}), ("status", {"name": "scout"}), ("interrupt", {"name": "scout"})
    )
    with serving(model) as model_url, recording(daemon.url) as relay:
        environ = {"PATH": node_path(), "HOME": str(home), "LANG": "C.UTF-8"}
        environ |= other.setup(home, work, model_url, relay.url)
        done = subprocess.run(
            [str(installed(SET) / "node_modules" / other.program), *other.arguments],
            cwd=work,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=AGENT_S,
            check=False,
        )
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    assert DONE in done.stdout, said
    (start,) = (name for name in model.offered() if name.endswith("start"))
    assert start in other.tool.replace("`", "").replace(",", "").split()
    started, running, killed = model.read()
    assert "scout: started (session " in started
    assert "scout: running." in running
    assert "scout: killed by SIGINT." in killed
    assert "structuredContent" not in started
    assert relay.protocol == other.protocol
    print(f"{other.title}: its model read:\n{started}")
    note(other.title, version(SET, other.package), relay.protocol)
    TABLE.add(
        "other", other.title, other.tool, f"the text; beside it: {other.around}", YES if relay.with_progress else "no"
    )
