"""Turns as the daemon runs them, without a daemon: for what is measured inside one process."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed

from hivesub.records import TurnSpec
from hivesub.redaction.redactor import Redactor
from hivesub.runs.signals import Tokens
from hivesub.turns.command import find_wrappers
from hivesub.turns.program import Program
from hivesub.turns.serverfile import Servers
from hivesub.turns.spawner import TurnSpawner


class _Known:
    """Stands for a claude that was asked long ago."""

    def __init__(self, command: str) -> None:
        self._program = Program(path=command, version="9", flags=frozenset({"--name"}))

    def program(self) -> Deferred[Program]:
        return succeed(self._program)


def turn_source(reactor: Any, command: str, *, now: Callable[[], datetime]) -> TurnSpawner:
    """What starts turns of `command` in place of claude."""
    redactor = Redactor(())
    claude: Any = _Known(command)
    return TurnSpawner(
        reactor,
        reactor,
        now=now,
        claude=claude,
        wrappers=find_wrappers(os.environ.get("PATH")),
        launcher=(),
        environ=dict(os.environ),
        servers=Servers,
        config_dir=os.path.join(tempfile.mkdtemp(prefix="bench-"), "mcp"),
        tokens=Tokens(redactor),
        redactor=redactor,
        signal_url=lambda token: f"http://127.0.0.1:8787/signal/mcp/{token}",
        new_mark=lambda: f"bench-{secrets.token_hex(8)}",
    )


def spec_in(directory: Path) -> TurnSpec:
    """A single turn in a directory."""
    return TurnSpec(
        name="alpha",
        prompt=b"bench",
        dir=directory,
        tools=("Read",),
        session_id="00000000-0000-4000-8000-000000000000",
    )
