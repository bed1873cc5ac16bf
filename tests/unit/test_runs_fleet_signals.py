"""What a subagent reports about itself: what counts, whose path wins, what is told."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from hivesub.errors import AlreadyRunning, BadRequest, Unanswered
from hivesub.records import Outcome, SignalKind
from hivesub.system.lookups import BOUND_S, Lookups
from tests.support.runfakes import SECRET, FleetCase, init

REACHED, HELP = SignalKind.GOAL_REACHED, SignalKind.NEED_HELP


class ASignal(FleetCase):
    def test_it_is_recorded_on_the_run_and_the_turn_goes_on(self) -> None:
        self.start(goal="g")
        self.clock.advance(2)
        note = self.turn.signalled(REACHED, "done", None)
        self.assertIn("Recorded as your claim", note)
        told = self.record()
        self.assertEqual(
            told["signals"], [{"kind": "goal_reached", "message": "done", "at": "2031-05-06T07:08:11.123Z"}]
        )
        self.assertEqual((told["state"], told["stop_reason"], self.turn.stopped), ("running", None, []))
        self.end()
        self.assertEqual((self.record()["stop_reason"]["kind"], len(self.source.turns)), ("goal_reached", 1))

    def test_each_turns_signals_are_those_of_its_own_run(self) -> None:
        self.start("alpha", goal="g")
        self.start("beta", goal="g")
        self.source.turns[0].signalled(HELP, "which?", None)
        self.assertEqual((len(self.record("alpha")["signals"]), self.record("beta")["signals"]), (1, []))

    def test_both_are_listed_and_the_last_decides(self) -> None:
        self.start(goal="g")
        self.turn.signalled(REACHED, "yes", None)
        self.turn.signalled(HELP, "no", None)
        self.end()
        told = self.record()
        self.assertEqual([signal["kind"] for signal in told["signals"]], ["goal_reached", "need_help"])
        self.assertEqual((told["state"], told["stop_reason"]), ("blocked", {"kind": "need_help", "message": "no"}))

    def test_a_long_message_is_cut_and_said_to_be(self) -> None:
        self.start()
        self.turn.signalled(HELP, "x" * 5000, None)
        self.assertEqual(self.record()["signals"][0]["message"], "x" * 4000 + " [cut: 5000 characters]")

    def test_a_secret_in_it_is_replaced_everywhere(self) -> None:
        self.start(report_file="r.md")
        self.turn.signalled(HELP, f"what is {SECRET}?", None)
        self.end()
        for told in (self.record(), self.outbox.todos, self.report.appended):
            self.assertNotIn(SECRET, str(told))
            self.assertIn("what is [redacted]?", str(told))

    def test_after_the_runs_end_it_is_refused_and_nothing_is_recorded(self) -> None:
        self.start()
        self.end()
        self.assertRaises(BadRequest, self.turn.signalled, REACHED, "late", "r.md")
        told = self.record()
        self.assertEqual((told["signals"], told["report_file"], told["stop_reason"]["kind"]), ([], None, "turn_ended"))

    def test_that_of_a_turn_before_is_refused(self) -> None:
        self.start(goal="g")
        first = self.turn
        self.end()
        self.assertRaises(BadRequest, first.signalled, REACHED, "late", None)
        self.assertEqual(self.record()["signals"], [])

    def test_that_of_a_turn_that_ended_is_refused_while_the_next_is_being_spawned(self) -> None:
        self.start(goal="g")
        self.source.hold = True
        self.end()
        self.assertRaises(BadRequest, self.turn.signalled, REACHED, "late", None)

    def test_that_of_a_run_before_is_refused(self) -> None:
        self.start()
        first = self.turn
        self.end()
        self.resume()
        self.assertRaises(BadRequest, first.signalled, REACHED, "late", None)
        self.assertEqual(self.record()["signals"], [])

    def test_one_before_the_kill_stays_listed_and_does_not_decide(self) -> None:
        self.start(goal="g")
        self.turn.signalled(REACHED, "done", None)
        self.end(Outcome.KILLED)
        told = self.record()
        self.assertEqual((told["state"], told["stop_reason"]["kind"], len(told["signals"])), ("killed", "killed", 1))


class ThePathThatASubagentNames(FleetCase):
    def test_inside_its_dir_it_is_taken_and_checked_again_at_the_append(self) -> None:
        self.start()
        self.turn.signalled(REACHED, "done", "out.md")
        path = str(self.dir / "out.md")
        self.assertEqual((self.record()["report_file"], self.record()["report_error"]), (path, None))
        self.end()
        self.assertEqual([(entry[0], entry[2]) for entry in self.report.appended], [(path, str(self.dir))])

    def test_outside_it_is_dropped_and_the_signal_counts(self) -> None:
        (self.dir / "link").symlink_to("/")
        for number, path in enumerate(("/etc/passwd", "../out.md", "link/tmp/out.md", "~/out.md", ".")):
            name = f"n{number}"
            self.start(name)
            note = self.turn.signalled(HELP, "which?", path)
            self.assertIn("The report_file was dropped", note)
            self.end()
            told = self.record(name)
            self.assertEqual((told["report_file"], told["state"]), (None, "blocked"), path)
            self.assertIn("dropped", told["report_error"])
            self.assertIn("dropped", self.outbox.todos[-1]["body"])
        self.assertEqual(self.report.appended, [])

    def test_the_parents_wins(self) -> None:
        self.start(report_file="/srv/reports/r.md")
        note = self.turn.signalled(REACHED, "done", "out.md")
        self.assertIn("/srv/reports/r.md", note)
        self.end()
        self.assertEqual([(entry[0], entry[2]) for entry in self.report.appended], [("/srv/reports/r.md", None)])
        self.assertIsNone(self.record()["report_error"])

    def test_the_last_one_named_counts_and_one_outside_does_not_undo_it(self) -> None:
        self.start()
        self.turn.signalled(HELP, "which?", "a.md")
        self.turn.signalled(REACHED, "done", "b.md")
        self.turn.signalled(REACHED, "done", "/etc/passwd")
        self.end()
        self.assertEqual([entry[0] for entry in self.report.appended], [str(self.dir / "b.md")])
        self.assertIn("dropped", self.record()["report_error"])

    def test_what_is_said_of_one_outside_holds_no_secret(self) -> None:
        self.start()
        self.turn.begin(init(cwd=f"/w/{SECRET}"))
        note = self.turn.signalled(HELP, "which?", "/etc/passwd")
        for told in (note, self.record()["report_error"]):
            self.assertIn("not inside /w/[redacted]", told)

    def test_its_dir_is_the_one_that_init_says(self) -> None:
        (self.dir / "deep").mkdir()
        self.start()
        self.turn.begin(init(cwd=str(self.dir / "deep")))
        self.turn.signalled(REACHED, "done", "out.md")
        self.assertIn("dropped", self.turn.signalled(REACHED, "done", "../out.md"))
        self.end()
        self.assertEqual(
            [(entry[0], entry[2]) for entry in self.report.appended],
            [(str(self.dir / "deep" / "out.md"), str(self.dir / "deep"))],
        )

    def test_the_next_run_of_the_name_keeps_it_until_another_is_named(self) -> None:
        self.start()
        self.turn.signalled(HELP, "which?", "a.md")
        self.end()
        self.resume()
        self.assertEqual(self.record()["report_file"], str(self.dir / "a.md"))
        self.turn.signalled(REACHED, "done", "b.md")
        self.assertEqual(self.record()["report_file"], str(self.dir / "b.md"))
        self.end()
        self.assertEqual([entry[2] for entry in self.report.appended], [str(self.dir)] * 2)


class APathOnAFileSystemThatHangs(FleetCase):
    """`looks`: what is looked up, never answered until a test does."""

    def setUp(self) -> None:
        super().setUp()
        self.looks: list[Deferred[Any]] = []
        self.hang()

    def hang(self) -> None:
        def in_thread(*call: object) -> Deferred[Any]:
            self.looks.append(Deferred())
            return self.looks[-1]

        self.fleet._look = Lookups(in_thread, self.clock)

    def test_a_claim_counts_at_once_and_its_path_is_dropped_in_time(self) -> None:
        self.start()
        self.assertEqual(self.turn.signalled(HELP, "which?", "out.md"), "")
        self.assertEqual(self.record()["signals"][0]["message"], "which?")
        self.clock.advance(BOUND_S + 0.1)
        self.assertIn("its file system has not answered within 3 s", self.record()["report_error"])
        self.end()
        self.assertEqual((self.record()["state"], self.record()["report_file"]), ("blocked", None))

    def test_an_answer_that_comes_after_the_turn_has_ended_changes_nothing(self) -> None:
        self.start()
        self.turn.signalled(HELP, "which?", "out.md")
        self.end()
        self.looks[0].callback(str(self.dir / "out.md"))
        self.assertIsNone(self.record()["report_file"])

    def test_a_dir_that_does_not_answer_is_that_calls_error_and_nothing_has_begun(self) -> None:
        for call in (self.starting, self.continuing):
            answer = call(dir="/mnt/dead")
            self.assertNoResult(answer)
            self.clock.advance(BOUND_S + 0.1)
            self.assertIn("dir: '/mnt/dead': its file system", str(self.failureResultOf(answer, Unanswered).value))
        self.assertEqual(self.source.turns, [])

    def test_of_two_starts_that_wait_for_the_same_name_one_is_made(self) -> None:
        first, second = self.starting(dir=str(self.dir)), self.starting(dir=str(self.dir))
        for look in self.looks:
            look.callback(self.dir)
        self.assertEqual(self.successResultOf(first)["subagent"]["name"], "alpha")
        self.failureResultOf(second, AlreadyRunning)
        self.assertEqual(len(self.source.turns), 1)


class LongMessages(FleetCase):
    def test_the_answer_says_that_a_message_was_cut(self) -> None:
        self.start(goal="win")
        note = self.turn.signalled(REACHED, "m" * 150_000, None)
        self.assertIn("Of your message the first 4,000 characters were kept.", note)
        self.assertIn("[cut: 150000 characters]", self.record()["signals"][0]["message"])

    def test_a_path_that_no_file_can_have_costs_no_claim(self) -> None:
        for number, path in enumerate(("a\0b", "x" * 5000, "d/" * 3000, "5")):
            self.start(f"n{number}", goal="win")
            self.turn.signalled(HELP, "which?", path)
            self.end()
            self.assertEqual(self.record(f"n{number}")["stop_reason"]["message"], "which?")
