"""The files that claude takes settings from, looked at before each turn.

Owns which files these are and what in them counts: what a subagent prepares for its *next* turn is seen by comparing
two looks. Blocking, so it runs in a thread; nothing here follows what it reads.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

from hivesub.records import SettingsSeen
from hivesub.turns.confinement import HELPERS, OwnSettings

HARMLESS = frozenset(
    {
        "$schema",
        "alwaysThinkingEnabled",
        "autoUpdatesChannel",
        "disabledMcpjsonServers",
        "editorMode",
        "effortLevel",
        "enabledMcpjsonServers",
        "fastMode",
        "feedbackSurveyState",
        "language",
        "model",
        "outputStyle",
        "permissions",
        "skipDangerousModePermissionPrompt",
        "theme",
        "tui",
        "verbose",
        "viewMode",
    }
)
"""Keys that name neither a command nor an address, and that a user's other sessions write by themselves."""

_MAX_BYTES = 8 << 20
_MAX_PLUGINS = 200
_MANIFESTS = (os.path.join(".claude-plugin", "plugin.json"), ".lsp.json")


@frozen(kw_only=True)
class Look:
    """What one look found. `is_dir`: whether the session's directory is there. `seen`: the keys that
    count; `""` stands for a file that is no JSON object. `own`: the user's own values."""

    is_dir: bool
    seen: SettingsSeen = field(repr=False)
    own: OwnSettings = field(repr=False)


def look(directory: str, config_dir: str, global_config: str) -> Look:
    """Read the settings that a claude started in a directory would take up. Blocking; never raises.

    :param config_dir: where the user's settings and skills are.
    :param global_config: the file of claude's own that belongs to no project.
    """
    where = os.path.realpath(directory)
    user = _read(os.path.join(config_dir, "settings.json"))
    state = _read(global_config)
    seen = {path: _digests(found) for path in _paths(where, config_dir) if (found := _read(path)) is not None}
    if isinstance(state, dict) and "env" in state:
        seen[global_config] = _digests({"env": state["env"]})
    env = {**_texts(state, "env"), **_texts(user, "env")}
    own = OwnSettings(helpers={key: text for key, text in _all_texts(user).items() if key in HELPERS}, env=env)
    return Look(is_dir=os.path.isdir(directory), seen={path: keys for path, keys in seen.items() if keys}, own=own)


def changes(before: SettingsSeen, after: SettingsSeen) -> list[str]:
    """What differs between two looks: each file with the keys, such as `/work/.claude/settings.json (env, hooks)`."""
    found = []
    for path in sorted({*before, *after}):
        old, new = before.get(path, {}), after.get(path, {})
        keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        if keys:
            named = ", ".join(key[:80] for key in keys[:10] if key)
            found.append(f"{path} ({named})" if named else path)
    return found


def _paths(directory: str, config_dir: str) -> Iterator[str]:
    yield os.path.join(config_dir, "settings.json")
    for root in dict.fromkeys((directory, *_roots(directory))):
        for name in ("settings.json", "settings.local.json"):
            yield os.path.join(root, ".claude", name)
    yield os.path.join(directory, ".mcp.json")
    # A directory among the skills is a plugin once it has a manifest, and starts its language servers (measured).
    for skills in (os.path.join(directory, ".claude", "skills"), os.path.join(config_dir, "skills")):
        try:
            names = sorted(os.listdir(skills))[:_MAX_PLUGINS]
        except (OSError, ValueError):
            continue
        for name in names:
            for manifest in _MANIFESTS:
                yield os.path.join(skills, name, manifest)


def _roots(directory: str) -> Iterator[str]:
    """The repository's top, and the main one of a worktree: claude reads local settings there too (measured)."""
    above = directory
    while True:
        git = os.path.join(above, ".git")
        if os.path.lexists(git):
            yield above
            try:
                with open(git, encoding="utf-8", errors="replace") as file:
                    line = file.read(4096).strip()
            except OSError:  # a directory: this is the main one
                return
            main, inside, _ = line.removeprefix("gitdir:").strip().partition("/.git/worktrees/")
            if inside:
                yield os.path.realpath(os.path.join(above, main))
            return
        parent = os.path.dirname(above)
        if parent == above:
            return
        above = parent


def _read(path: str) -> Any:
    """What a JSON file holds; its bytes' digest where it is none, None where there is no file."""
    try:
        # Not one that blocks: a FIFO is opened without waiting for its writer, and is no regular file.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "no regular file"
            data = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return str(getattr(error, "strerror", error))
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return hashlib.sha256(data).hexdigest()


def _digests(found: Any) -> dict[str, str]:
    if not isinstance(found, dict):
        return {"": _digest(found)}
    return {key: _digest(value) for key, value in found.items() if key not in HARMLESS}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8", "replace")).hexdigest()[:16]


def _texts(found: Any, key: str) -> dict[str, str]:
    return _all_texts(found.get(key)) if isinstance(found, dict) else {}


def _all_texts(found: Any) -> dict[str, str]:
    return {key: text for key, text in found.items() if isinstance(text, str)} if isinstance(found, dict) else {}
