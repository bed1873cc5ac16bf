"""The service manager is told in its own words, or not at all."""

from __future__ import annotations

from typing import cast
from unittest import mock

from twisted.internet.task import Clock
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from hivesub.system.notify import LOOK_S, Notify, StandingReport, notify_from


class _Socket:
    """A datagram socket that keeps what is sent."""

    def __init__(self, error: OSError | None = None) -> None:
        self.sent: list[tuple[bytes, str]] = []
        self.blocking = True
        self.closed = False
        self._error = error

    def __call__(self, *kind: object) -> _Socket:
        return self

    def __enter__(self) -> _Socket:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.closed = True

    def setblocking(self, blocking: bool) -> None:
        self.blocking = blocking

    def sendto(self, data: bytes, address: str) -> None:
        if self._error is not None:
            raise self._error
        self.sent.append((data, address))


class NotifyTests(SynchronousTestCase):
    def use(self, error: OSError | None = None) -> _Socket:
        socket = _Socket(error)
        patcher = mock.patch("hivesub.system.notify.socket.socket", socket)
        patcher.start()
        self.addCleanup(patcher.stop)
        return socket

    def logged(self) -> list[LogEvent]:
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        return events

    def test_each_message_is_one_datagram_of_assignments(self) -> None:
        socket = self.use()
        notify = notify_from({"NOTIFY_SOCKET": "/run/notify"})
        notify.ready("up")
        notify.status("busy")
        notify.stopping("bye")
        self.assertEqual(
            socket.sent,
            [
                (b"READY=1\nSTATUS=up", "/run/notify"),
                (b"STATUS=busy", "/run/notify"),
                (b"STOPPING=1\nSTATUS=bye", "/run/notify"),
            ],
        )
        self.assertFalse(socket.blocking)
        self.assertTrue(socket.closed)

    def test_a_name_in_the_abstract_namespace_begins_with_a_nul_byte_for_the_kernel(self) -> None:
        socket = self.use()
        Notify("@manager").status("busy")
        self.assertEqual(socket.sent, [(b"STATUS=busy", "\0manager")])

    def test_a_status_of_several_lines_stays_one_assignment(self) -> None:
        socket = self.use()
        Notify("/run/notify").status("one\nMAINPID=1")
        self.assertEqual(socket.sent, [(b"STATUS=one MAINPID=1", "/run/notify")])

    def test_nothing_is_sent_where_no_manager_listens(self) -> None:
        socket = self.use()
        for environ in ({}, {"NOTIFY_SOCKET": ""}):
            notify = notify_from(environ)
            notify.ready("up")
            self.assertFalse(notify.heard)
        self.assertEqual(socket.sent, [])

    def test_an_address_of_another_kind_is_told_of_and_left_alone(self) -> None:
        socket, events = self.use(), self.logged()
        notify_from({"NOTIFY_SOCKET": "vsock:2:1234"}).ready("up")
        self.assertEqual(socket.sent, [])
        self.assertEqual(len(events), 1)

    def test_a_manager_that_cannot_be_told_is_logged_and_harms_nothing(self) -> None:
        self.use(OSError(111, "Connection refused"))
        events = self.logged()
        Notify("/run/notify").ready("up")
        self.assertEqual([event["why"] for event in events], ["Connection refused"])


class StandingReportTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.sent: list[str] = []
        self.running = 0

    def report(self, address: str | None = "/run/notify") -> StandingReport:
        notify = Notify(address)
        patcher = mock.patch.object(Notify, "_send", lambda _, *words: self.sent.append(" ".join(words)))
        patcher.start()
        self.addCleanup(patcher.stop)
        return StandingReport(notify, self.clock, lambda: f"{self.running} run")

    def test_readiness_is_told_first_then_each_change_then_the_stop(self) -> None:
        report = self.report()
        report.begin()
        self.clock.advance(LOOK_S)
        self.running = 2
        self.clock.pump([LOOK_S, LOOK_S])
        report.end()
        self.clock.advance(LOOK_S)
        self.assertEqual(self.sent, ["READY=1 STATUS=0 run", "STATUS=2 run", "STOPPING=1 STATUS=stopping; 2 run"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_nothing_is_looked_at_where_nobody_listens(self) -> None:
        self.report(None).begin()
        self.assertEqual(self.clock.getDelayedCalls(), [])
