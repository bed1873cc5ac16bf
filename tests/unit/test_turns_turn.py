"""One turn against a child that does what it is told, on a clock: liveness, and the moment and kind of the end."""

from __future__ import annotations

import json
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.interfaces import ITurn
from hivesub.records import Control, Outcome, Retry, TurnEnd, TurnSpec
from hivesub.testing import FakeChild, FakeKin, FakeProcessReactor
from hivesub.turns import turn as turn_module
from hivesub.turns.ladder import Ladder
from hivesub.turns.turn import DRAIN_TICK_S, Turn
from tests.support.options import grouped

INT, TERM, KILL = signal.SIGINT, signal.SIGTERM, signal.SIGKILL
TOOLS = ("Read", "Write")


def event(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def init(tools: tuple[str, ...] = TOOLS, control: str | None = "connected") -> bytes:
    servers = [] if control is None else [{"name": "subagent_control", "status": control}]
    return event(type="system", subtype="init", session_id="s", tools=list(tools), mcp_servers=servers)


def result(text: str = "done", *, is_error: bool = False, subtype: str = "success") -> bytes:
    return event(type="result", subtype=subtype, is_error=is_error, result=text)


def background(*tasks: str) -> bytes:
    return event(type="system", subtype="background_tasks_changed", tasks=[{"task_id": task} for task in tasks])


CHATTER = event(type="assistant", message={"content": "hm"})


class TurnTestCase(SynchronousTestCase):
    """A turn that was just spawned: `turn`, its `child`, what that left (`kin`), a clock that is also the reactor."""

    def setUp(self) -> None:
        self.spawn()

    def spawn(self, **changes: Any) -> None:
        self.reactor = FakeProcessReactor()
        self.kin = FakeKin()
        self.exits = 0
        fields: dict[str, Any] = {"name": "alpha", "prompt": b"go", "dir": Path("/"), "tools": TOOLS, "session_id": "s"}
        self.turn = Turn(
            TurnSpec(**grouped({**fields, **changes})),
            "mark-1",
            clock=self.reactor,
            now=lambda: datetime(2031, 5, 6, tzinfo=UTC),
            redact=lambda text: text.replace("SECRET", "[redacted]"),
            make_ladder=lambda pid, clear: Ladder(self.reactor, self.kin, clear),
            exited=self.note_exit,
        )
        self.reactor.spawnProcess(self.turn, "claude")
        self.child: FakeChild = self.reactor.children[0]
        self.ended = self.turn.when_ended()
        self._end: TurnEnd | None = None

    def note_exit(self) -> None:
        self.exits += 1

    def pass_s(self, seconds: float, step_s: float = 0.125) -> None:
        """Let time go by in steps, which add up without an error."""
        self.reactor.pump([step_s] * int(seconds / step_s))

    def end(self) -> TurnEnd:
        if self._end is None:
            self._end = self.successResultOf(self.ended)
        return self._end

    def signals(self) -> list[int]:
        return [number for number, _ in self.kin.sent]


class Beginning(TurnTestCase):
    def test_it_provides_what_the_layer_above_needs(self) -> None:
        verifyObject(ITurn, self.turn)

    def test_the_prompt_goes_to_stdin_whole_and_stdin_is_closed(self) -> None:
        prompt = b"--help\n\x00" + b"x" * 200_000
        self.spawn(prompt=prompt)
        self.assertEqual((self.child.stdin, self.child.stdin_closed), (prompt, True))

    def test_the_id_is_told_while_the_child_lives(self) -> None:
        self.assertEqual(self.turn.pid, self.child.pid)
        self.child.exit(pipes=False)
        self.assertIsNone(self.turn.pid)

    def test_an_init_event_sets_it_under_way_and_chatter_before_it_does_not(self) -> None:
        waiting = self.turn.when_under_way()
        self.child.out(b"banner\n" + event(type="system", subtype="session_title_changed") + result(is_error=True))
        self.assertNoResult(waiting)
        self.child.out(init())
        self.assertIsNone(self.successResultOf(waiting))
        self.assertIsNone(self.successResultOf(self.turn.when_under_way()))

    def test_an_exit_before_init_ends_the_wait_for_it_too(self) -> None:
        waiting = self.turn.when_under_way()
        self.child.err(b"Error: No conversation found with session ID: 7\n")
        self.child.exit(1)
        self.assertIsNone(self.successResultOf(waiting))
        self.assertFalse(self.end().under_way)
        self.assertIn("No conversation found", self.end().error)

    def test_a_second_init_is_the_one_told_and_wakes_nobody_twice(self) -> None:
        fired: list[None] = []
        self.turn.when_under_way().addCallback(fired.append)
        self.child.out(init(("Read",)))
        self.child.out(init(("Read", "Write")))
        self.assertEqual(fired, [None])
        assert self.turn.init is not None
        self.assertEqual(self.turn.init.tools, ("Read", "Write"))

    def test_a_forgotten_wait_leaves_the_turn_and_the_other_waits_alone(self) -> None:
        forgotten: list[Deferred[Any]] = [self.turn.when_under_way(), self.turn.when_ended()]
        kept = self.turn.when_under_way()
        for waiting in forgotten:
            waiting.cancel()
            self.failureResultOf(waiting, CancelledError)
        self.child.out(init() + result())
        self.child.exit()
        self.assertIsNone(self.successResultOf(kept))
        self.assertEqual((self.end().outcome, self.signals()), (Outcome.FINISHED, []))

    def test_a_wait_may_be_forgotten_by_one_that_has_just_fired(self) -> None:
        first, second, third = (self.turn.when_ended() for _ in range(3))
        first.addCallback(lambda _: second.cancel())
        self.child.out(result())
        self.child.exit()
        self.failureResultOf(second, CancelledError)
        self.assertIs(self.successResultOf(third), self.end())

    def test_one_who_is_told_of_the_end_and_raises_takes_it_from_nobody(self) -> None:
        def raises(_: TurnEnd) -> None:
            raise ValueError("a report path that is a directory")

        broken = Deferred.fromCoroutine(self.report(raises))
        later = self.turn.when_ended()
        self.child.out(init() + result())
        self.child.exit()
        self.failureResultOf(broken, ValueError)
        self.assertEqual(self.successResultOf(later).outcome, Outcome.FINISHED)

    async def report(self, end_of_turn: Any) -> None:
        end_of_turn(await self.turn.when_ended())


class Tools(TurnTestCase):
    def test_an_init_with_none_of_the_tools_asked_for_ends_the_turn_and_fails_it_saying_so(self) -> None:
        self.child.out(init(("mcp__subagent_control__goal_reached",)))
        self.assertEqual(self.signals(), [INT])
        self.child.exit(0)
        end = self.end()
        self.assertEqual((end.outcome, end.signal), (Outcome.FAILED, None))
        for words in ("Read, Write", "it lists: none"):
            self.assertIn(words, end.detail)

    def test_what_such_a_child_left_is_ended_too(self) -> None:
        self.kin.left = 1
        self.child.out(init(()))
        self.child.exit(0)
        self.assertEqual((self.kin.left, self.end().outcome), (0, Outcome.FAILED))

    def test_a_tool_that_was_not_granted_ends_the_turn_and_fails_it_by_name(self) -> None:
        self.child.out(init(("Read", "Write", "Bash")))
        self.assertEqual(self.signals(), [INT])
        self.child.exit(0)
        self.assertEqual(self.end().outcome, Outcome.FAILED)
        self.assertIn("tools that were not granted: Bash", self.end().detail)

    def test_a_server_that_was_not_granted_ends_the_turn_and_fails_it_by_name(self) -> None:
        servers = [{"name": name, "status": "connected"} for name in ("subagent_control", "stranger")]
        self.child.out(event(type="system", subtype="init", session_id="s", tools=["Read"], mcp_servers=servers))
        self.assertEqual(self.signals(), [INT])
        self.child.exit(0)
        self.assertIn("MCP servers that were not granted: stranger", self.end().detail)

    def test_an_init_without_a_list_of_tools_says_nothing_of_them(self) -> None:
        self.child.out(event(type="system", subtype="init", session_id="s"))
        self.assertEqual(self.signals(), [])

    def test_one_of_them_is_enough(self) -> None:
        self.child.out(init(("Read",)))
        self.assertEqual(self.signals(), [])

    def test_one_that_was_stopped_before_is_killed_whatever_init_lists(self) -> None:
        self.turn.stop("interrupted by the agent")
        self.child.out(init(()))
        self.child.exit(0)
        self.assertEqual((self.end().outcome, self.end().signal), (Outcome.KILLED, "SIGINT"))


class ControlRoute(TurnTestCase):
    def test_it_is_unknown_until_init_says(self) -> None:
        self.assertIs(self.turn.control, Control.UNKNOWN)
        for status, control in (
            ("connected", Control.CONNECTED),
            ("failed", Control.FAILED),
            ("pending", Control.UNKNOWN),
            (None, Control.FAILED),
        ):
            self.spawn()
            self.child.out(init(control=status))
            self.assertIs(self.turn.control, control, status)

    def test_an_init_without_a_list_of_servers_says_nothing_of_it(self) -> None:
        self.child.out(event(type="system", subtype="init", session_id="s", tools=["Read"]))
        self.assertIs(self.turn.control, Control.UNKNOWN)

    def test_a_request_by_the_turns_url_shows_that_it_is_connected(self) -> None:
        self.child.out(init(control="failed"))
        self.turn.request_began()
        self.assertIs(self.turn.control, Control.CONNECTED)

    def test_what_was_connected_once_did_not_fail_to_connect(self) -> None:
        self.child.out(init(control="failed"))
        self.child.out(init(control="connected"))
        self.child.out(init(control="failed"))
        self.assertIs(self.turn.control, Control.CONNECTED)


class Liveness(TurnTestCase):
    def test_the_clock_of_the_last_event_starts_at_the_spawn(self) -> None:
        self.assertEqual(self.turn.last_event_at, 0.0)

    def test_every_byte_counts_as_life_on_either_pipe_and_whatever_it_says(self) -> None:
        pieces = (b"\n", b"\r\n", b"\xef\xbb\xbf", b"{broken\n", b"[]\n", b"null\n42\n", b"\xff", CHATTER)
        for write in (self.child.out, self.child.err):
            for piece in pieces:
                self.reactor.advance(1)
                write(piece)
                self.assertEqual(self.turn.last_event_at, self.reactor.seconds(), piece)

    def test_a_megabyte_on_stderr_before_anything_else_is_life_and_its_end_is_kept(self) -> None:
        self.reactor.advance(1)
        for _ in range(128):
            self.child.err(b"x" * 8192)
        self.child.err(b"the last words")
        self.assertEqual((self.turn.last_event_at, self.turn.bytes_read), (1.0, 128 * 8192 + 14))
        self.child.exit(1)
        self.assertIn("the last words", self.end().detail)

    def test_it_is_dropped_when_the_turn_ends(self) -> None:
        self.child.exit(1)
        self.assertIsNone(self.turn.last_event_at)

    def test_silence_alone_never_ends_a_turn(self) -> None:
        self.child.out(init())
        self.pass_s(24 * 3600, 1)
        self.assertEqual(self.signals(), [])
        self.child.out(result())
        self.child.exit()
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_with_an_idle_timeout_a_silent_turn_is_interrupted_and_killed(self) -> None:
        self.spawn(idle_timeout_s=20.0)
        self.child.out(init())
        self.pass_s(19.5)
        self.assertEqual(self.signals(), [])
        self.pass_s(1)
        self.assertEqual(self.signals(), [INT])
        self.child.exit(0)
        self.assertEqual((self.end().outcome, self.end().signal), (Outcome.KILLED, "SIGINT"))
        self.assertIn("idle_timeout_s", self.end().detail)
        self.assertIn("20", self.end().detail)

    def test_a_child_that_never_says_anything_is_silent_from_its_spawn_on(self) -> None:
        self.spawn(idle_timeout_s=20.0)
        self.pass_s(20.5)
        self.assertEqual(self.signals(), [INT])

    def test_a_byte_on_stderr_puts_the_idle_timeout_off(self) -> None:
        self.spawn(idle_timeout_s=20.0)
        for _ in range(10):
            self.pass_s(19)
            self.child.err(b".")
        self.assertEqual(self.signals(), [])
        self.pass_s(20.5)
        self.assertEqual(self.signals(), [INT])

    def test_after_a_stall_of_the_daemon_the_pipes_are_read_before_the_verdict(self) -> None:
        self.spawn(idle_timeout_s=20.0)
        self.reactor.advance(3600)
        self.assertEqual(self.signals(), [])
        self.child.out(CHATTER)
        self.pass_s(19.5)
        self.assertEqual(self.signals(), [])
        self.pass_s(1)
        self.assertEqual(self.signals(), [INT])

    def test_after_a_stall_an_exit_that_went_unseen_is_no_idleness(self) -> None:
        self.spawn(idle_timeout_s=20.0)
        self.child.out(init())
        self.reactor.advance(3600)
        self.child.out(result())
        self.child.exit()
        self.assertEqual((self.end().outcome, self.signals()), (Outcome.FINISHED, []))

    def test_after_a_stall_a_turn_with_a_good_result_that_goes_on_does_not_linger(self) -> None:
        self.child.out(init() + result())
        self.reactor.advance(3600)
        self.child.out(init() + CHATTER)
        self.pass_s(600)
        self.assertEqual(self.signals(), [])


class Lingering(TurnTestCase):
    def test_thirty_seconds_of_silence_after_a_good_result_finish_it_and_it_says_that_it_lingered(self) -> None:
        self.child.out(init() + result())
        self.pass_s(29.875)
        self.assertEqual(self.signals(), [])
        self.pass_s(0.5)
        self.assertEqual(self.signals(), [INT])
        self.assertNoResult(self.ended)
        self.child.exit(0)
        self.assertEqual((self.end().outcome, self.end().lingered), (Outcome.FINISHED, True))
        self.assertIn("lingered", self.end().detail)

    def test_any_byte_starts_the_thirty_seconds_anew(self) -> None:
        self.child.out(init() + result())
        for write in (self.child.out, self.child.err, self.child.out):
            self.pass_s(29)
            write(b"x")
        self.assertEqual(self.signals(), [])
        self.pass_s(30.5)
        self.assertEqual(self.signals(), [INT])

    def test_a_live_background_task_is_waited_for_without_limit(self) -> None:
        self.child.out(init() + background("b1") + result())
        self.pass_s(7200, 1)
        self.assertEqual(self.signals(), [])

    def test_when_the_last_background_task_ends_the_thirty_seconds_begin(self) -> None:
        self.child.out(init() + background("b1") + result())
        self.pass_s(600)
        self.child.out(background())
        self.pass_s(29)
        self.assertEqual(self.signals(), [])
        self.pass_s(1.5)
        self.assertEqual(self.signals(), [INT])

    def test_a_background_task_that_is_listed_after_the_result_puts_an_end_to_the_wait(self) -> None:
        self.child.out(init() + result())
        self.pass_s(20)
        self.child.out(background("b1"))
        self.pass_s(7200, 1)
        self.assertEqual(self.signals(), [])

    def test_a_task_that_woke_claude_again_may_be_silent_over_its_answer(self) -> None:
        self.child.out(init() + result("first"))
        self.pass_s(5)
        self.child.out(init())
        self.pass_s(600)
        self.assertEqual(self.signals(), [])
        self.child.out(result("second"))
        self.child.exit()
        end = self.end()
        assert end.result is not None
        self.assertEqual((end.outcome, end.result.text, end.lingered), (Outcome.FINISHED, "second", False))

    def test_however_the_lingerer_goes_it_is_finished(self) -> None:
        for last_words, code in ((b"", 143), (result("cut", is_error=True, subtype="error_during_execution"), 1)):
            self.spawn()
            self.child.out(init() + result("good"))
            self.pass_s(31)
            self.child.out(last_words)
            self.child.exit(code)
            end = self.end()
            assert end.result is not None
            self.assertEqual((end.outcome, end.result.text), (Outcome.FINISHED, "good"))

    def test_a_lingerer_that_ignores_everything_is_killed_and_finished(self) -> None:
        self.child.out(init() + result())
        self.pass_s(37)
        self.assertEqual(self.signals(), [INT, TERM, KILL])
        self.child.die(KILL)
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_what_a_lingerer_started_is_ended_with_it(self) -> None:
        self.kin.left = 1
        self.kin.hears = {TERM}
        self.child.out(init() + result())
        self.pass_s(31)
        self.child.exit(0)
        self.assertEqual((self.kin.left, self.end().outcome), (0, Outcome.FINISHED))

    def test_an_interrupt_that_comes_while_it_is_being_ended_changes_nothing(self) -> None:
        self.child.out(init() + result())
        self.pass_s(31)
        self.turn.stop("interrupted by the agent")
        self.assertEqual(self.signals(), [INT])
        self.child.exit(0)
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_a_result_under_our_signals_makes_no_lingerer_of_a_stopped_turn(self) -> None:
        self.turn.stop("interrupted by the agent")
        self.child.out(init() + result())
        self.pass_s(60)
        self.child.die(KILL)
        self.assertEqual((self.end().outcome, self.end().lingered), (Outcome.KILLED, False))
        self.assertIn("a good result had been written before", self.end().detail)


class Announcer(TurnTestCase):
    def test_a_result_is_not_the_end_and_the_last_of_several_is_the_result(self) -> None:
        self.child.out(init() + result("first"))
        self.pass_s(5)
        self.assertNoResult(self.ended)
        self.child.out(result("second"))
        self.child.exit()
        end = self.end()
        assert end.result is not None
        self.assertEqual((end.outcome, end.result.text), (Outcome.FINISHED, "second"))

    def test_pipes_that_a_grandchild_holds_put_the_end_off_by_no_more_than_a_second(self) -> None:
        self.child.out(init() + result())
        self.child.exit(pipes=False)
        self.pass_s(1)
        self.assertTrue(self.child.pipes_closed)
        self.assertEqual((self.end().outcome, self.signals()), (Outcome.FINISHED, []))

    def test_a_grandchild_that_writes_for_ever_puts_the_end_off_by_no_more_than_a_second_either(self) -> None:
        self.child.out(init() + result())
        self.child.exit(pipes=False)
        for _ in range(21):
            if not self.child.pipes_closed:
                self.child.out(b"noise\n")
            self.reactor.advance(0.05)
        self.assertTrue(self.child.pipes_closed)
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_output_that_comes_after_the_exit_is_still_read(self) -> None:
        self.child.out(init())
        self.child.exit(pipes=False)
        for _ in range(4):
            self.reactor.advance(0.09)
            self.child.out(b"x" * 8192)
        self.child.out(b"\n" + result())
        self.assertNoResult(self.ended)
        self.pass_s(0.5)
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_after_a_stall_between_exit_and_reading_the_output_is_read(self) -> None:
        self.child.out(init())
        self.child.exit(pipes=False)
        self.child.out(b"x" * 8192)
        self.reactor.advance(3600)
        self.child.out(b"\n" + result())
        self.pass_s(0.5)
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_a_tick_that_falls_due_before_the_reactor_reads_again_does_not_lose_the_result(self) -> None:
        self.child.out(init())
        self.child.exit(pipes=False)
        # At the time of the first tick, but after it: what the next turn of the reactor reads.
        self.reactor.callLater(DRAIN_TICK_S, self.child.out, result())
        self.pass_s(0.5)
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_a_last_line_that_was_cut_raises_nothing(self) -> None:
        self.child.out(init() + result()[:40])
        self.child.exit(0)
        self.assertEqual(self.end().outcome, Outcome.FAILED)
        self.assertIn("exit 0 without a result", self.end().detail)

    def test_a_last_line_without_its_newline_is_read(self) -> None:
        self.child.out(init() + result().rstrip(b"\n"))
        self.child.exit(0)
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_nothing_at_all_and_exit_0_is_failed(self) -> None:
        self.child.exit(0)
        self.assertEqual(self.end().outcome, Outcome.FAILED)

    def test_signals_that_came_from_elsewhere_are_named(self) -> None:
        self.child.out(init())
        self.child.exit(143)
        self.assertEqual((self.end().outcome, self.end().signal), (Outcome.KILLED, "SIGTERM"))
        self.spawn()
        self.child.out(init() + result())
        self.child.die(KILL)
        self.assertEqual(
            (self.end().outcome, self.end().signal, self.end().exit_code), (Outcome.KILLED, "SIGKILL", None)
        )

    def test_what_a_killed_turn_left_running_is_ended_before_it_counts_as_ended(self) -> None:
        self.kin.left = 2
        self.kin.hears = {KILL}
        self.child.out(init())
        self.child.die(KILL)
        self.assertEqual(self.kin.sent, [(TERM, False)])
        self.assertNoResult(self.ended)
        self.pass_s(3.5)
        self.assertEqual((self.kin.left, self.end().outcome), (0, Outcome.KILLED))

    def test_an_end_that_cannot_be_judged_is_a_failed_one(self) -> None:
        self.patch(turn_module, "judge", self.broken)
        self.child.out(init() + result())
        self.child.exit()
        self.assertEqual((self.end().outcome, self.end().detail), (Outcome.FAILED, "internal error: ZeroDivisionError"))
        self.assertTrue(self.flushLoggedErrors(ZeroDivisionError))

    def broken(self, **seen: Any) -> TurnEnd:
        raise ZeroDivisionError

    def test_a_prompt_that_nobody_reads_any_more_does_not_hold_up_the_end(self) -> None:
        self.child.stdin_is_held()
        self.child.out(init())
        self.child.die(KILL, pipes=False)
        self.pass_s(1)
        self.assertEqual(self.end().signal, "SIGKILL")

    def test_what_outlived_sigkill_is_told(self) -> None:
        self.kin.left = 2
        self.kin.hears = set()
        self.child.die(KILL)
        self.pass_s(60)
        self.assertTrue(self.end().detail.endswith("; 2 processes that it started were still there after SIGKILL"))

    def test_what_a_finished_or_failed_turn_left_running_is_left_alone(self) -> None:
        for code, outcome in ((0, Outcome.FINISHED), (1, Outcome.FAILED)):
            self.spawn()
            self.kin.left = 2
            self.child.out(init() + result())
            self.child.exit(code)
            self.pass_s(1)
            end = self.end()
            self.assertEqual((end.outcome, self.kin.left, self.signals()), (outcome, 2, []))
            self.assertEqual([left.name for left in end.left], ["left0", "left1"])

    def test_the_exit_is_told_once_and_before_anything_else(self) -> None:
        self.child.out(init() + result())
        self.child.exit(pipes=False)
        self.assertEqual(self.exits, 1)
        self.assertNoResult(self.ended)
        self.pass_s(1)
        self.assertEqual(self.exits, 1)

    def test_no_timer_is_left_when_it_has_ended(self) -> None:
        self.spawn(idle_timeout_s=20.0)
        self.child.out(init() + result())
        self.child.exit()
        self.end()
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_a_secret_on_stderr_is_not_in_the_detail(self) -> None:
        self.child.err(b"the token is SECRET\n")
        self.child.exit(1)
        self.assertIn("the token is [redacted]", self.end().detail)
        self.assertNotIn("SECRET", repr(self.end()))


class Stopping(TurnTestCase):
    def test_a_stop_climbs_the_ladder_on_the_child_and_tells_the_last_signal(self) -> None:
        self.child.out(init())
        self.turn.stop("interrupted by the agent")
        self.pass_s(6)
        self.assertEqual(self.kin.sent, [(INT, True), (TERM, True), (KILL, True)])
        self.assertTrue(self.turn.escalated)
        self.assertIsNotNone(self.turn.pid)
        self.child.die(KILL)
        end = self.end()
        self.assertEqual((end.outcome, end.signal), (Outcome.KILLED, "SIGKILL"))
        self.assertIn("interrupted by the agent", end.detail)

    def test_exit_0_after_our_sigint_is_killed_and_no_escalation(self) -> None:
        self.turn.stop("interrupted by the agent")
        self.child.exit(0)
        self.assertEqual((self.end().outcome, self.end().signal), (Outcome.KILLED, "SIGINT"))
        self.assertFalse(self.turn.escalated)

    def test_an_error_result_under_our_signals_is_killed_whatever_the_exit_code(self) -> None:
        for code in (0, 1):
            self.spawn()
            self.child.out(init())
            self.turn.stop("interrupted by the agent")
            self.child.out(result("", is_error=True, subtype="error_during_execution"))
            self.child.exit(code)
            self.assertEqual(self.end().outcome, Outcome.KILLED)

    def test_two_stops_are_one_ladder_and_the_first_reason_is_told(self) -> None:
        self.turn.stop("interrupted by the agent")
        self.pass_s(1)
        self.turn.stop("the daemon stopped")
        self.assertEqual(self.signals(), [INT])
        self.pass_s(2)
        self.assertEqual(self.signals(), [INT, TERM])
        self.child.exit(143)
        self.assertIn("interrupted by the agent", self.end().detail)
        self.assertNotIn("the daemon stopped", self.end().detail)

    def test_a_stop_after_the_end_changes_nothing(self) -> None:
        self.child.out(init() + result())
        self.child.exit()
        end = self.end()
        self.turn.stop("interrupted by the agent")
        self.pass_s(20)
        self.assertEqual(self.signals(), [])
        self.assertIs(self.successResultOf(self.turn.when_ended()), end)

    def test_a_stop_while_the_pipes_drain_does_not_make_a_finished_turn_killed(self) -> None:
        self.child.out(init() + result())
        self.child.exit(pipes=False)
        self.turn.stop("interrupted by the agent")
        self.pass_s(1)
        self.assertEqual((self.end().outcome, self.kin.sent), (Outcome.FINISHED, []))

    def test_a_rung_that_falls_due_while_the_pipes_drain_does_not_go_to_the_childs_old_id(self) -> None:
        self.kin.left = 1
        self.kin.hears = set()
        self.turn.stop("interrupted by the agent")
        self.pass_s(2.875)
        self.child.exit(0, pipes=False)
        for _ in range(7):
            self.child.out(b"noise\n")
            self.reactor.advance(0.0625)
        self.assertFalse(self.child.pipes_closed)
        self.assertEqual([number for number, child in self.kin.sent if child], [INT])
        self.assertFalse(self.turn.escalated)
        self.pass_s(10)
        self.assertEqual(self.end().signal, "SIGINT")

    def test_who_holds_the_pipes_of_a_stopped_child_is_ended_at_its_exit(self) -> None:
        self.kin.left = 1
        self.turn.stop("interrupted by the agent")
        self.child.exit(0, pipes=False)
        self.assertEqual(self.kin.left, 0)
        self.child.close_pipes()
        self.assertEqual(self.end().outcome, Outcome.KILLED)

    def test_it_is_not_over_while_the_child_lives(self) -> None:
        self.turn.stop("interrupted by the agent")
        self.pass_s(600)
        self.assertNoResult(self.ended)
        self.assertIsNotNone(self.turn.pid)

    def test_a_stop_during_init_ends_a_turn_that_was_never_under_way(self) -> None:
        waiting = self.turn.when_under_way()
        self.turn.stop("interrupted by the agent")
        self.child.die(INT)
        self.assertIsNone(self.successResultOf(waiting))
        self.assertEqual((self.end().outcome, self.end().under_way), (Outcome.KILLED, False))


class Requests(TurnTestCase):
    def test_a_signal_that_is_under_way_at_the_exit_is_waited_for(self) -> None:
        self.turn.request_began()
        self.child.out(init() + result())
        self.child.exit()
        self.assertNoResult(self.ended)
        self.turn.request_ended()
        self.assertEqual(self.end().outcome, Outcome.FINISHED)

    def test_it_is_waited_for_no_longer_than_a_second(self) -> None:
        self.turn.request_began()
        self.child.out(init() + result())
        self.child.exit()
        self.pass_s(0.875)
        self.assertNoResult(self.ended)
        self.pass_s(0.25)
        self.end()

    def test_all_of_several_are_waited_for(self) -> None:
        for _ in range(2):
            self.turn.request_began()
        self.child.exit()
        self.turn.request_ended()
        self.assertNoResult(self.ended)
        self.turn.request_ended()
        self.end()

    def test_one_that_is_through_holds_nothing_and_one_too_many_is_no_credit(self) -> None:
        self.turn.request_began()
        self.turn.request_ended()
        self.turn.request_ended()
        self.turn.request_began()
        self.child.exit()
        self.assertNoResult(self.ended)
        self.turn.request_ended()
        self.end()

    def test_one_that_ends_after_the_turn_changes_nothing(self) -> None:
        self.turn.request_began()
        self.child.exit()
        self.pass_s(2)
        end = self.end()
        self.turn.request_ended()
        self.assertIs(self.successResultOf(self.turn.when_ended()), end)


class WaitingForTheApi(TurnTestCase):
    @staticmethod
    def retry(attempt: int) -> bytes:
        return event(
            type="system", subtype="api_retry", attempt=attempt, max_retries=10, retry_delay_ms=500,
            error_status=401, error="authentication_failed",
        )  # fmt: skip

    def test_it_is_seen_at_once_and_gone_with_the_next_other_event(self) -> None:
        self.child.out(init())
        self.assertIsNone(self.turn.retrying)
        self.child.out(self.retry(1))
        self.child.out(self.retry(2))
        retrying = self.turn.retrying
        assert retrying is not None
        self.assertEqual(retrying.retry, Retry(error="authentication_failed", status=401, attempt=2, max_attempts=10))
        self.child.out(event(type="assistant", message={"content": []}))
        self.assertIsNone(self.turn.retrying)

    def test_to_the_idle_timeout_it_is_silence(self) -> None:
        self.spawn(idle_timeout_s=20.0)
        self.child.out(init())
        for attempt in range(1, 43):
            self.reactor.advance(0.5)
            self.child.out(self.retry(attempt))
        self.reactor.pump([0.1] * 5)
        self.assertEqual(self.signals(), [INT])
        self.child.exit(0)
        self.assertIn("silent for 20 s, its idle_timeout_s, while it waited for its API", self.end().detail)

    def test_an_event_that_comes_with_the_first_retry_is_life(self) -> None:
        self.spawn(idle_timeout_s=20.0)
        self.pass_s(15)
        self.child.out(init() + self.retry(1))
        self.pass_s(19)
        self.assertEqual(self.signals(), [])
        self.child.out(self.retry(2))
        self.pass_s(2)
        self.assertEqual(self.signals(), [INT])

    def test_the_age_of_the_last_event_is_what_it_is(self) -> None:
        self.child.out(init())
        self.reactor.advance(5)
        self.child.out(self.retry(1))
        self.assertEqual(self.turn.last_event_at, self.reactor.seconds())
