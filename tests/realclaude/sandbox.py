"""The environment that the real claude runs in: a HOME of its own, and nothing inherited but PATH and locale."""

from __future__ import annotations

import os
from pathlib import Path

FAKE_KEY = "sk-ant-scripted-0000"

SUBSCRIBED = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-scripted-0000", "ANTHROPIC_API_KEY": ""}
"""Laid over the rest: a subscription's login in place of a key. Usage limits are a subscription's."""

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}
"""Switches off all that claude would send or fetch besides the conversation."""


def claude_environment(home: Path, model_url: str, **extra: str) -> dict[str, str]:
    """The whole environment of a sandboxed claude, named variable by variable.

    `home` is made when it is missing. `IS_SANDBOX` lets it run as root; `extra` is laid over the rest, and what is
    empty there is left out.
    """
    home.mkdir(parents=True, exist_ok=True)
    variables = {
        "HOME": str(home),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        "ANTHROPIC_BASE_URL": model_url,
        "ANTHROPIC_API_KEY": FAKE_KEY,
        "IS_SANDBOX": "1",
        **QUIET,
        **extra,
    }
    return {name: value for name, value in variables.items() if value}
