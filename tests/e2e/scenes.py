"""What several e2e tests wait for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import psutil
from twisted.internet import reactor

from tests.realclaude.model import ScriptedModel
from tests.support.agent import pause
from tests.support.daemon import Daemon

STAYS = "tail -f /dev/null"
"""A command that stays: claude's Bash tool refuses a bare `sleep 300`."""
LOOK_S = 0.05
LOOKS = 600


async def eventually(look: Callable[[], Any]) -> Any:
    """What a look gives, once that is true; bounded."""
    for _ in range(LOOKS):
        seen = look()
        if seen:
            return seen
        await pause(LOOK_S, reactor)
    return look()


async def spawned_by(model: ScriptedModel, marker: str) -> dict[str, Any]:
    """The first request that claude made for a prompt with the marker."""
    requests = await eventually(lambda: model.requests_for(marker))
    assert requests, f"claude asked nothing for {marker}"
    return dict(requests[0])


async def todos_of(daemon: Daemon, count: int = 1) -> list[dict[str, Any]]:
    """The todos in the daemon's file, once there are so many: they are written after the run has ended."""

    def written() -> list[str]:
        return daemon.todos.read_text().splitlines() if daemon.todos.exists() else []

    await eventually(lambda: len(written()) >= count)
    return [json.loads(line) for line in written()]


async def gone(pids: Iterable[int]) -> bool:
    """Whether all of these processes end within the bound."""
    waiting = list(pids)
    return bool(await eventually(lambda: not any(_lives(pid) for pid in waiting)))


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def prompts_to(model: ScriptedModel, marker: str) -> list[str]:
    """The user's texts of the last request that mentions the marker, in order."""
    texts = []
    for message in model.requests_for(marker)[-1]["messages"]:
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts += [block["text"] for block in blocks if block.get("type") == "text"]
    return texts


def told(value: Any) -> str:
    """JSON, for a look at all that was told."""
    return json.dumps(value, ensure_ascii=False)
