"""The report file: which path is meant, what is appended, and an append that never holds up the daemon."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.errors import AppendError, BadRequest
from hivesub.interfaces import IReport
from hivesub.runs.report import ReportFile, check_within, report_text, resolve_report_path
from tests.support.todofakes import WHEN, claim, record


class ThePath(SynchronousTestCase):
    def test_a_relative_path_is_relative_to_dir(self) -> None:
        self.assertEqual(resolve_report_path("out/r.md", "/srv/work"), "/srv/work/out/r.md")
        self.assertEqual(resolve_report_path("/var/r.md", Path("/srv/work")), "/var/r.md")

    def test_a_tilde_is_the_home_directory(self) -> None:
        self.patch(os, "environ", {**os.environ, "HOME": "/home/op"})
        self.assertEqual(resolve_report_path("~/r.md", "/srv/work"), "/home/op/r.md")

    def test_paths_that_no_file_can_have_are_refused_by_field(self) -> None:
        for path in ("", " \n", "a\0b", "a\ud83db"):
            error = self.assertRaises(BadRequest, resolve_report_path, path, "/srv/work")
            self.assertIn("report_file: ", str(error))

    def test_a_path_of_a_subagent_counts_only_inside_its_dir(self) -> None:
        base = Path(self.mktemp()).resolve()
        (base / "in").mkdir(parents=True)
        (base / "in" / "out").symlink_to(base)
        self.assertEqual(check_within("r.md", base / "in"), str(base / "in" / "r.md"))
        for path in ("../r.md", "out/r.md", "/etc/passwd", "~/r.md", ".", "", "a\0b", "a\ud83db"):
            self.assertIsNone(check_within(path, base / "in"), path)


class TheText(SynchronousTestCase):
    def test_it_tells_name_time_turn_outcome_and_reason(self) -> None:
        self.assertEqual(
            report_text(record(kind="turn_cap", turns=(5, 5)), WHEN),
            "\n## subagent alpha, 2031-05-06T07:08:09.123Z, Turn 5 of 5\n"
            "Outcome: Turn 5 of 5 finished.\n"
            "Stop reason: The harness limit of 5 turns was reached; the goal was never reported reached, "
            "and the work stopped where it had got to.\n",
        )

    def test_a_claim_is_labelled(self) -> None:
        text = report_text(record(kind="goal_reached", message="ok", signals=[claim("goal_reached", "ok")]), WHEN)
        self.assertIn("self-reported, not verified", text)

    def test_a_message_cannot_pass_for_an_entry(self) -> None:
        text = report_text(record("blocked", kind="need_help", message="x\n## subagent beta, now\rOutcome: fine"), WHEN)
        headings = [line for line in text.splitlines() if line.startswith(("##", "Outcome"))]
        self.assertEqual(len(headings), 2)

    def test_it_is_valid_utf_8(self) -> None:
        text = report_text(record("blocked", kind="need_help", message="half \ud83d"), WHEN)
        self.assertIn("half �", text.encode().decode())


class TheAppend(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.dir = Path(self.mktemp())
        self.dir.mkdir()

    def test_it_provides_the_interface(self) -> None:
        verifyObject(IReport, ReportFile(clock=self.clock, in_thread=maybeDeferred))

    def test_the_text_is_appended_as_utf_8(self) -> None:
        report = ReportFile(clock=self.clock, in_thread=maybeDeferred)
        self.successResultOf(report.append(str(self.dir / "r.md"), "é\ud83d\n", None))
        self.assertEqual((self.dir / "r.md").read_text(encoding="utf-8"), "é�\n")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_error_of_the_append_comes_as_it_is(self) -> None:
        report = ReportFile(clock=self.clock, in_thread=maybeDeferred)
        failure = self.failureResultOf(report.append(str(self.dir), "x", None), AppendError)
        self.assertIn("it is a directory", failure.getErrorMessage())

    def test_a_blocked_append_is_given_up_after_its_bound_and_its_late_end_ignored(self) -> None:
        thread: Deferred[Any] = Deferred()
        report = ReportFile(clock=self.clock, in_thread=lambda *args: thread)
        done = report.append("/mnt/dead/r.md", "x", None)
        self.clock.advance(4.9)
        self.assertNoResult(done)
        self.clock.advance(0.2)
        failure = self.failureResultOf(done, AppendError)
        self.assertIn("/mnt/dead/r.md: still blocked after 5 s", failure.getErrorMessage())
        thread.callback(None)

    def test_no_thread_to_be_had_is_an_append_error(self) -> None:
        report = ReportFile(clock=self.clock, in_thread=lambda *args: fail(OSError("64 are blocked already")))
        failure = self.failureResultOf(report.append("/x/r.md", "x", None), AppendError)
        self.assertIn("64 are blocked already", failure.getErrorMessage())
