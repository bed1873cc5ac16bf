"""The daemon's log has one line for each start and each end of a run."""

from __future__ import annotations

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from zope.interface import implementer

from hivesub.errors import ContinueFailed, SpawnError
from hivesub.records import Outcome, SignalKind
from tests.support.runfakes import SECRET, FleetCase, unborn


class TheLog(FleetCase):
    def setUp(self) -> None:
        super().setUp()
        self.lines: list[str] = []

        @implementer(ILogObserver)
        def keep(event: LogEvent) -> None:
            if event.get("log_namespace") == "hivesub.runs.logbook":
                self.lines.append(formatEvent(event))

        globalLogPublisher.addObserver(keep)
        self.addCleanup(globalLogPublisher.removeObserver, keep)

    def test_a_run_has_a_line_for_its_start_and_one_for_its_end_however_many_turns_it_had(self) -> None:
        self.start(goal="g", max_turns=3)
        self.end()
        self.turn.signalled(SignalKind.NEED_HELP, f"which {SECRET}?", None)
        self.end()
        self.assertEqual(
            self.lines,
            ["alpha started: at most 3 turns, pid 2000", "alpha is blocked and asks for help: Turn 2 of 3"],
        )

    def test_a_continue_says_that_it_is_one(self) -> None:
        self.ended_run()
        self.resume()
        self.end(Outcome.KILLED)
        self.assertEqual(
            self.lines[2:], ["alpha continues: a single turn, pid 2001", "alpha was killed mid-turn, not finished"]
        )

    def test_what_came_to_nothing_is_logged_as_that(self) -> None:
        self.source.error = SpawnError("the directory /gone is not there")
        self.refused(self.starting(), SpawnError)
        answer = self.continuing()
        self.turn.end(unborn("No conversation found with session ID: x"))
        self.refused(answer, ContinueFailed)
        self.assertEqual(
            self.lines,
            [
                "alpha: no process could be made for it; nothing was run",
                "alpha continues: a single turn, pid 2000",
                "alpha: claude found no session to resume; nothing was run",
            ],
        )

    def test_nothing_that_anybody_said_is_in_it(self) -> None:
        self.start(prompt="a word of the prompt", goal="a word of the goal")
        self.end(Outcome.FAILED, detail="a word of claude")
        self.assertEqual(len(self.lines), 2)
        self.assertNotIn("word", "".join(self.lines))
