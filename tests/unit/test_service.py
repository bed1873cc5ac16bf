"""The stop of a daemon: every part is stopped, whatever one before it does, and in a bounded time."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock, deferLater
from twisted.trial.unittest import SynchronousTestCase

from hivesub import service
from hivesub.runs.active import OVER_S, REPORT_S
from hivesub.service import Daemon
from hivesub.system.statedir import claim

STOP_S = 15.0
"""SIGTERM stops it cleanly within this."""


class Oops(Exception):
    """An error of ours."""


def raises() -> Any:
    raise Oops


class TheStop(SynchronousTestCase):
    """`stops`: what each part's stop does; `stopped`: those that were called, in order."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.stopped: list[str] = []
        self.waits: list[float] = []
        self.stops: dict[str, Any] = {}
        self.state = claim(self.dir("state"), "mark")
        parts: Any = SimpleNamespace(
            settings=SimpleNamespace(environ={}, runtime_dir=self.dir("runtime"), max_running=16),
            fleet=SimpleNamespace(running=0, stop=self.stop_of("fleet"), stopped_tasks_heard=self.stop_of("tasks")),
            outbox=SimpleNamespace(stopService=self.stop_of("outbox")),
            tree=SimpleNamespace(stop=self.stop_of("tree")),
            agent=SimpleNamespace(stopService=self.stop_of("agent")),
            control=SimpleNamespace(stopService=self.stop_of("control")),
            address=SimpleNamespace(base_url="http://127.0.0.1:1"),
        )
        self.daemon = Daemon(parts, self.state, self.clock)
        self.daemon._port = SimpleNamespace(stopListening=self.stop_of("port"))  # type: ignore[assignment]
        self.patch(service, "end_leftovers", self.end_leftovers)

    def dir(self, name: str) -> Path:
        path = Path(self.mktemp()) / name
        path.mkdir(parents=True)
        return path

    def stop_of(self, part: str) -> Any:
        def stop() -> Any:
            self.stopped.append(part)
            return self.stops.get(part, lambda: succeed(None))()

        return stop

    def end_leftovers(self, marks: list[str], *, wait_s: float, **others: Any) -> Deferred[int]:
        self.assertEqual(marks, ["mark-"])
        self.waits.append(wait_s)
        return self.stop_of("left")()  # type: ignore[no-any-return]

    def assert_all_stopped(self) -> None:
        self.assertEqual(self.stopped, ["fleet", "left", "outbox", "tasks", "tree", "agent", "control", "port"])
        claim(self.state.path, "the next").release()

    def test_the_todos_come_after_the_runs_and_before_the_port(self) -> None:
        self.stops = {"port": lambda: None}  # one that has nothing to wait for
        self.successResultOf(self.daemon.stopService())
        self.assert_all_stopped()

    def test_whatever_a_part_does_the_others_are_stopped(self) -> None:
        parts = ("fleet", "left", "outbox", "tasks", "tree", "agent", "control", "port")
        self.stops = dict.fromkeys(parts, raises)
        self.patch(self.daemon._standing, "end", raises)
        self.successResultOf(self.daemon.stopService())
        self.assert_all_stopped()
        self.assertEqual(len(self.flushLoggedErrors(Oops)), len(parts) + 1)

    def test_a_part_whose_stop_fails_later_is_no_other(self) -> None:
        self.stops = {
            part: lambda: fail(Oops()) for part in ("fleet", "left", "outbox", "tasks", "agent", "control", "port")
        }
        self.successResultOf(self.daemon.stopService())
        self.assert_all_stopped()
        self.assertEqual(len(self.flushLoggedErrors(Oops)), 7)

    def test_parts_that_never_stop_are_left_behind_in_time(self) -> None:
        self.stops = dict.fromkeys(("left", "outbox", "tasks", "agent", "control", "port"), Deferred)
        self.stops["fleet"] = lambda: deferLater(self.clock, OVER_S + REPORT_S)
        stopping = self.daemon.stopService()
        self.clock.pump([0.1] * 106)
        self.assertNoResult(stopping)
        self.clock.pump([0.1] * 40)
        self.successResultOf(stopping)
        self.assertLess(self.clock.seconds(), STOP_S)
        self.assert_all_stopped()

    def test_what_is_left_of_ended_turns_has_the_time_to_be_killed(self) -> None:
        self.stops = {"left": Deferred}
        stopping = self.daemon.stopService()
        (wait_s,) = self.waits
        # SIGTERM, and SIGKILL so much later, each looked after for as long.
        self.clock.advance(2 * wait_s)
        self.assertNoResult(stopping)
