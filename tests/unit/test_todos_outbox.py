"""From push to delivered: order, retries, several sinks, the disk, the bound, and the stop."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, maybeDeferred, succeed
from twisted.internet.task import Clock
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer
from zope.interface.verify import verifyObject

from hivesub.interfaces import IOutbox
from hivesub.records import TodoState
from hivesub.shapes import Todo
from hivesub.todos.outbox import Outbox
from hivesub.todos.sinks import Attempt, ISink, Verdict
from hivesub.todos.store import Kept, TodoStore
from tests.support.todofakes import todo

DELIVERED = Attempt(verdict=Verdict.DELIVERED)
REFUSED = Attempt(verdict=Verdict.REFUSED, why="it answered 400")
UNREACHABLE = Attempt(verdict=Verdict.UNREACHABLE, why="ConnectionRefusedError")
FAILED = Attempt(verdict=Verdict.FAILED, why="it answered 500")


@implementer(ISink)
@define
class FakeSink:
    """Answers each todo as `answer` says; a Deferred of its own when that is None. `seen`: the ids, in order."""

    key: str = "url-1"
    answer: Callable[[str], Attempt | None] = lambda todo_id: DELIVERED
    seen: list[str] = field(factory=list)
    in_flight: list[Deferred[Attempt]] = field(factory=list)
    at_once: int = 1

    @property
    def label(self) -> str:
        return f"fake {self.key}"

    def deliver(self, told: Todo) -> Deferred[Attempt]:
        self.seen.append(told["id"])
        answer = self.answer(told["id"])
        if answer is not None:
            return succeed(answer)
        self.in_flight.append(Deferred())
        return self.in_flight[-1]


class OutboxCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.state_dir = Path(self.mktemp())
        self.store = TodoStore(self.state_dir)
        self.states: dict[str, list[TodoState]] = {}

    def outbox(self, *sinks: Any, **options: Any) -> Outbox:
        options = {"clock": self.clock, "in_thread": maybeDeferred, "random": lambda: 1.0, **options}
        return Outbox(store=self.store, sinks=sinks, **options)

    def push(self, outbox: Outbox, todo_id: str, second: int = 0) -> None:
        told = self.states.setdefault(todo_id, [])
        outbox.push(todo(todo_id, f"2031-05-06T07:08:{second:02}.000Z"), told.append)

    def on_disk(self) -> list[str]:
        return [kept.todo["id"] for kept in self.store.load()]

    def dead_letters(self) -> list[dict[str, Any]]:
        path = self.store.root / "dead-letter.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Delivering(OutboxCase):
    def test_it_provides_the_interface(self) -> None:
        verifyObject(IOutbox, self.outbox(FakeSink()))

    def test_a_delivered_todo_leaves_the_disk_and_is_told(self) -> None:
        sink = FakeSink()
        self.push(self.outbox(sink), "a")
        self.assertEqual(self.states["a"], [TodoState.PENDING, TodoState.DELIVERED])
        self.assertEqual((sink.seen, self.on_disk(), self.clock.getDelayedCalls()), (["a"], [], []))

    def test_a_todo_is_on_disk_before_its_first_attempt(self) -> None:
        on_disk: list[list[str]] = []

        def look(todo_id: str) -> Attempt:
            on_disk.append(self.on_disk())
            return DELIVERED

        self.push(self.outbox(FakeSink(answer=look)), "a")
        self.assertEqual(on_disk, [["a"]])

    def test_a_dead_receiver_is_tried_again_with_growing_waits_for_as_long_as_it_takes(self) -> None:
        sink = FakeSink(answer=lambda todo_id: UNREACHABLE)
        self.push(self.outbox(sink), "a")
        times = [0.0]
        for _ in range(12):
            (timer,) = self.clock.getDelayedCalls()
            self.clock.advance(timer.getTime() - self.clock.seconds())
            times.append(self.clock.seconds())
        waits = [b - a for a, b in pairwise(times)]
        self.assertEqual(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300])
        self.assertEqual((self.states["a"], self.on_disk()), ([TodoState.PENDING], ["a"]))
        sink.answer = lambda todo_id: DELIVERED
        self.clock.advance(300)
        self.assertEqual(self.states["a"], [TodoState.PENDING, TodoState.DELIVERED])

    def test_while_nobody_can_be_reached_one_todo_asks_and_order_is_kept(self) -> None:
        sink = FakeSink(answer=lambda todo_id: UNREACHABLE)
        outbox = self.outbox(sink)
        for second, name in enumerate("abc"):
            self.push(outbox, name, second)
        self.assertEqual(sink.seen, ["a"])
        sink.answer = lambda todo_id: DELIVERED
        self.clock.advance(1)
        self.assertEqual(sink.seen, ["a", "a", "b", "c"])

    def test_a_todo_that_the_receiver_chokes_on_holds_up_no_other(self) -> None:
        sink = FakeSink(answer=lambda todo_id: FAILED if todo_id == "poison" else DELIVERED)
        outbox = self.outbox(sink)
        self.push(outbox, "poison", 0)
        self.push(outbox, "a", 1)
        self.push(outbox, "b", 2)
        self.clock.advance(1)
        self.assertEqual(self.states["a"][-1], TodoState.DELIVERED)
        self.assertEqual(self.states["b"][-1], TodoState.DELIVERED)
        self.clock.pump([1.0] * 60)
        self.assertLess(sink.seen.count("poison"), 8)
        self.assertEqual(self.on_disk(), ["poison"])

    def test_retry_after_is_waited_for(self) -> None:
        sink = FakeSink(answer=lambda todo_id: Attempt(verdict=Verdict.FAILED, why="429", retry_after_s=60))
        self.push(self.outbox(sink), "a")
        self.clock.advance(59)
        self.assertEqual(len(sink.seen), 1)
        self.clock.advance(1)
        self.assertEqual(len(sink.seen), 2)

    def test_a_refused_todo_is_undelivered_logged_and_a_dead_letter(self) -> None:
        with capturedLogs() as logs:
            self.push(self.outbox(FakeSink(answer=lambda todo_id: REFUSED)), "a")
        self.assertEqual(self.states["a"], [TodoState.PENDING, TodoState.UNDELIVERED])
        self.assertEqual(self.on_disk(), [])
        self.assertEqual([letter["why"] for letter in self.dead_letters()], ["fake url-1: it answered 400"])
        self.assertEqual([log["why"] for log in logs if log["log_level"] is LogLevel.error], ["it answered 400"])

    def test_a_sink_that_breaks_is_logged_and_tried_again(self) -> None:
        def broken(todo_id: str) -> Attempt:
            raise ZeroDivisionError

        sink = FakeSink(answer=broken)
        self.push(self.outbox(sink), "a")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        sink.answer = lambda todo_id: DELIVERED
        self.clock.advance(1)
        self.assertEqual(self.states["a"][-1], TodoState.DELIVERED)

    def test_a_listener_that_raises_is_logged_and_harms_nothing(self) -> None:
        def raises(state: TodoState) -> None:
            raise ZeroDivisionError

        sink = FakeSink()
        self.outbox(sink).push(todo(), raises)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        self.assertEqual((sink.seen, self.on_disk()), (["t-1"], []))


class SeveralSinks(OutboxCase):
    def test_a_dead_sink_holds_up_no_other_and_the_worst_is_told(self) -> None:
        dead, good = FakeSink("url-dead", lambda todo_id: UNREACHABLE), FakeSink("url-good")
        outbox = self.outbox(dead, good)
        self.push(outbox, "a")
        self.push(outbox, "b")
        self.assertEqual(good.seen, ["a", "b"])
        self.assertEqual(self.states["a"], [TodoState.PENDING])
        dead.answer = lambda todo_id: DELIVERED
        self.clock.advance(1)
        self.assertEqual(self.states["a"], [TodoState.PENDING, TodoState.DELIVERED])

    def test_undelivered_at_one_is_undelivered_whatever_the_others_do(self) -> None:
        strict, slow = FakeSink("url-strict", lambda todo_id: REFUSED), FakeSink("url-slow", lambda todo_id: None)
        self.push(self.outbox(strict, slow), "a")
        self.assertEqual(self.states["a"], [TodoState.PENDING, TodoState.UNDELIVERED])
        self.assertEqual(self.on_disk(), ["a"])
        slow.in_flight[0].callback(DELIVERED)
        self.assertEqual(self.states["a"], [TodoState.PENDING, TodoState.UNDELIVERED])
        self.assertEqual(self.on_disk(), [])

    def test_after_a_restart_only_those_that_are_owed_get_it(self) -> None:
        dead, good = FakeSink("url-dead", lambda todo_id: UNREACHABLE), FakeSink("url-good")
        self.push(self.outbox(dead, good), "a")
        dead_now, good_now = FakeSink("url-dead"), FakeSink("url-good")
        self.outbox(dead_now, good_now).startService()
        self.assertEqual((dead_now.seen, good_now.seen, self.on_disk()), (["a"], [], []))

    def test_a_sink_named_anew_gets_what_still_waits(self) -> None:
        self.push(self.outbox(FakeSink("url-typo", lambda todo_id: UNREACHABLE)), "a")
        right = FakeSink("url-right")
        self.outbox(right).startService()
        self.assertEqual((right.seen, self.on_disk()), (["a"], []))

    def test_a_sink_that_takes_several_at_once_gets_them_until_one_fails(self) -> None:
        answers: dict[str, Attempt | None] = {}
        sink = FakeSink(answer=answers.get, at_once=3)
        outbox = self.outbox(sink)
        for second, name in enumerate("abcde"):
            self.push(outbox, name, second)
        self.assertEqual(sink.seen, ["a", "b", "c"])
        sink.in_flight[1].callback(DELIVERED)
        self.assertEqual(sink.seen, ["a", "b", "c", "d"])
        for number in (0, 2, 3):
            sink.in_flight[number].callback(UNREACHABLE)
        # They failed together: that is one failure, and one asks first.
        self.clock.advance(1)
        self.assertEqual(sink.seen[4:], ["a"])
        sink.in_flight[4].callback(DELIVERED)
        self.assertEqual(sink.seen[5:], ["c", "d", "e"])

    def test_one_that_is_named_twice_gets_each_todo_once(self) -> None:
        sink = FakeSink()
        self.push(self.outbox(sink, sink), "a")
        self.assertEqual(sink.seen, ["a"])


class TheDisk(OutboxCase):
    def test_leftovers_are_sent_at_start_oldest_first(self) -> None:
        for second, name in enumerate("cab"):
            self.store.write(Kept(todo=todo(name, f"2031-05-06T07:08:{second:02}.000Z")))
        sink = FakeSink()
        self.outbox(sink).startService()
        self.assertEqual((sink.seen, self.on_disk()), (["c", "a", "b"], []))

    def test_a_full_disk_is_logged_and_the_todo_still_sent(self) -> None:
        def full(kept: Kept) -> None:
            raise OSError(28, "No space left on device")

        self.patch(TodoStore, "write", lambda store, kept: full(kept))
        with capturedLogs() as logs:
            self.push(self.outbox(FakeSink()), "a")
        self.assertEqual(self.states["a"][-1], TodoState.DELIVERED)
        self.assertIn("No space left", next(log["why"] for log in logs if log["log_level"] is LogLevel.error))

    def test_a_state_directory_that_cannot_be_read_stops_nothing(self) -> None:
        self.state_dir.write_text("no directory")
        outbox = self.outbox(FakeSink())
        with capturedLogs() as logs:
            outbox.startService()
            self.push(outbox, "a")
        self.assertEqual(self.states["a"][-1], TodoState.DELIVERED)
        self.assertGreaterEqual(len([log for log in logs if log["log_level"] is LogLevel.error]), 2)

    def test_a_blocked_disk_holds_a_todo_up_for_five_seconds_at_most(self) -> None:
        blocked: list[Deferred[Any]] = []

        def in_thread(function: object, *args: object) -> Deferred[Any]:
            blocked.append(Deferred())
            return blocked[-1]

        sink = FakeSink()
        self.push(self.outbox(sink, in_thread=in_thread), "a")
        self.clock.advance(4.9)
        self.assertEqual(sink.seen, [])
        self.clock.advance(0.2)
        self.assertEqual((sink.seen, self.states["a"][-1]), (["a"], TodoState.DELIVERED))
        self.assertEqual(len(blocked), 1)

    def test_the_disk_is_asked_one_thing_at_a_time_and_in_order(self) -> None:
        asked: list[tuple[str, Deferred[Any]]] = []

        def in_thread(function: Callable[..., Any], *args: object) -> Deferred[Any]:
            asked.append((function.__name__, Deferred()))
            return asked[-1][1]

        outbox = self.outbox(FakeSink(), in_thread=in_thread)
        outbox.startService()
        self.push(outbox, "a")
        self.assertEqual([name for name, _ in asked], ["load"])
        asked[0][1].callback([])
        self.assertEqual([name for name, _ in asked], ["load", "write"])
        asked[1][1].callback(None)
        self.assertEqual([name for name, _ in asked], ["load", "write", "remove"])

    def test_a_dead_letter_without_room_stays_for_the_next_start(self) -> None:
        self.store.load()
        (self.store.root / "dead-letter.jsonl").mkdir()
        self.push(self.outbox(FakeSink(answer=lambda todo_id: REFUSED)), "a")
        self.assertEqual(self.on_disk(), ["a"])

    def test_past_the_limit_the_oldest_become_dead_letters(self) -> None:
        sink = FakeSink(answer=lambda todo_id: UNREACHABLE)
        outbox = self.outbox(sink, waiting_limit=3)
        with capturedLogs() as logs:
            for second, name in enumerate("abcde"):
                self.push(outbox, name, second)
        self.assertEqual([letter["todo"]["id"] for letter in self.dead_letters()], ["a", "b"])
        self.assertEqual((self.on_disk(), outbox.waiting), (["c", "d", "e"], 3))
        self.assertEqual(self.states["a"], [TodoState.PENDING, TodoState.UNDELIVERED])
        said = [log for log in logs if "more than {limit} todos wait" in str(log["log_format"])]
        self.assertEqual([log["todo_id"] for log in said], ["a", "b"])
        sink.answer = lambda todo_id: DELIVERED
        self.clock.advance(1)
        self.assertEqual(sink.seen[1:], ["c", "d", "e"])

    def test_leftovers_past_the_limit_become_dead_letters_too(self) -> None:
        for second, name in enumerate("abc"):
            self.store.write(Kept(todo=todo(name, f"2031-05-06T07:08:{second:02}.000Z")))
        sink = FakeSink()
        self.outbox(sink, waiting_limit=2).startService()
        self.assertEqual((sink.seen, [letter["todo"]["id"] for letter in self.dead_letters()]), (["b", "c"], ["a"]))

    def test_a_thousand_that_waited_are_sent_without_deep_recursion(self) -> None:
        sink = FakeSink(answer=lambda todo_id: UNREACHABLE)
        outbox = self.outbox(sink, in_thread=lambda function, *args: succeed(None))
        for number in range(1000):
            self.push(outbox, f"t-{number:04}")
        sink.answer = lambda todo_id: DELIVERED
        self.clock.advance(1)
        self.assertEqual(outbox.waiting, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class Stopping(OutboxCase):
    def test_with_nothing_in_flight_it_stops_at_once(self) -> None:
        outbox = self.outbox(FakeSink(answer=lambda todo_id: UNREACHABLE))
        outbox.startService()
        self.push(outbox, "a")
        self.successResultOf(outbox.stopService())
        self.assertEqual((self.clock.getDelayedCalls(), self.on_disk()), ([], ["a"]))

    def test_an_attempt_in_flight_may_end_and_counts(self) -> None:
        sink = FakeSink(answer=lambda todo_id: None)
        outbox = self.outbox(sink)
        self.push(outbox, "a")
        stopped = outbox.stopService()
        self.clock.advance(1)
        self.assertNoResult(stopped)
        sink.in_flight[0].callback(DELIVERED)
        self.successResultOf(stopped)
        self.assertEqual((self.states["a"][-1], self.on_disk()), (TodoState.DELIVERED, []))

    def test_an_attempt_that_takes_longer_is_given_up_and_kept_for_the_next_start(self) -> None:
        sink = FakeSink(answer=lambda todo_id: None)
        outbox = self.outbox(sink)
        self.push(outbox, "a")
        stopped = outbox.stopService()
        self.clock.advance(2.1)
        self.successResultOf(stopped)
        self.assertEqual((self.states["a"], self.on_disk()), ([TodoState.PENDING], ["a"]))
        again = FakeSink()
        self.outbox(again).startService()
        self.assertEqual((again.seen, self.on_disk()), (["a"], []))

    def test_todos_pushed_while_it_stops_are_sent_or_kept(self) -> None:
        sink = FakeSink(answer=lambda todo_id: None)
        outbox = self.outbox(sink)
        self.push(outbox, "a")
        stopped = outbox.stopService()
        self.push(outbox, "b", 1)
        sink.in_flight[0].callback(DELIVERED)
        self.assertEqual(sink.seen, ["a", "b"])
        self.clock.advance(2.1)
        self.successResultOf(stopped)
        self.push(outbox, "c", 2)
        self.assertEqual((sink.seen, self.on_disk()), (["a", "b"], ["b", "c"]))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_blocked_disk_does_not_hold_the_stop_up(self) -> None:
        outbox = self.outbox(FakeSink(), in_thread=lambda function, *args: Deferred())
        self.push(outbox, "a")
        stopped = outbox.stopService()
        self.clock.advance(2.1)
        self.clock.advance(1)
        self.successResultOf(stopped)
