"""The fleet with its real turns, over children that a test plays and on a clock: what takes minutes takes none."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import StartRequest
from hivesub.redaction.redactor import Redactor
from hivesub.runs.signals import Tokens
from hivesub.testing import FakeChild, FakeKin, FakeProcessReactor
from hivesub.turns.command import Wrappers
from hivesub.turns.program import KNOWN, Program
from hivesub.turns.serverfile import Servers
from hivesub.turns.spawner import TurnSpawner
from tests.support.options import grouped
from tests.support.runfakes import TOOLS, FakeOutbox, FakeReport, a_fleet, session


def line(**fields: Any) -> bytes:
    """An event as a line of stdout."""
    return json.dumps(fields).encode() + b"\n"


INIT = line(
    type="system",
    subtype="init",
    session_id=session(1),
    tools=TOOLS,
    mcp_servers=[{"name": "subagent_control", "status": "connected"}],
)
RESULT = line(type="result", subtype="success", is_error=False, result="done", num_turns=1)


class FakeClaude:
    """Stands for `hivesub.turns.program.Claude`: a program that has all flags."""

    def program(self) -> Deferred[Program]:
        return succeed(Program(path="/bin/claude", version="0", flags=frozenset(KNOWN)))


class ClockedCase(SynchronousTestCase):
    """A fleet whose children a test plays. `wall`: what the wall clock is ahead of the monotonic one."""

    def setUp(self) -> None:
        self.reactor = FakeProcessReactor()
        self.kin = FakeKin()
        self.wall = timedelta()
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()
        self.made = 0
        told: list[str] = []
        self.outbox = FakeOutbox(told)
        redactor = Redactor()
        source = TurnSpawner(
            self.reactor,
            self.reactor,
            now=self.now,
            claude=FakeClaude(),  # type: ignore[arg-type]
            wrappers=Wrappers(),
            launcher=(),
            environ={},
            servers=Servers,
            config_dir=str(self.dir / "run" / "mcp"),
            tokens=Tokens(redactor),
            redactor=redactor,
            signal_url=lambda token: f"http://127.0.0.1:1/signal/mcp/{token}",
            new_mark=lambda: "mark",
            make_kin=lambda pid, mark: self.kin,
        )
        self.fleet = a_fleet(
            source,
            self.reactor,
            now=self.now,
            report=FakeReport(told),
            outbox=self.outbox,
            default_dir=self.dir,
            new_session_id=self.new_session_id,
            redactor=redactor,
        )

    def now(self) -> datetime:
        return datetime(2031, 5, 6, tzinfo=UTC) + timedelta(seconds=self.reactor.seconds()) + self.wall

    def new_session_id(self) -> str:
        self.made += 1
        return session(self.made)

    def start(self, **fields: Any) -> FakeChild:
        """Start `alpha`; its child."""
        self.successResultOf(self.fleet.start(StartRequest(name="alpha", prompt="go", **grouped(fields))))
        return self.reactor.children[-1]

    def interrupt(self) -> Deferred[Any]:
        return self.fleet.interrupt("alpha")

    def record(self) -> Any:
        return self.successResultOf(self.fleet.status("alpha", wait_s=0.0, wait_for_all=False, result=False))[
            "subagents"
        ][0]

    def pass_s(self, seconds: float, each: Callable[[], object] = lambda: None) -> None:
        """Let time go by, a quarter of a second at a time.

        :param each: called after each step.
        """
        for _ in range(int(seconds * 4)):
            self.reactor.advance(0.25)
            each()
