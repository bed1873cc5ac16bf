"""Whatever order things come in: one child a name at most, one end told for each run, nothing left behind."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from twisted.internet.defer import Deferred

from hivesub.errors import BadRequest, HivesubError, SpawnError
from hivesub.records import Outcome, SignalKind
from hivesub.shapes import Record
from hivesub.testing import FakeTurn
from tests.support.runfakes import FleetCase, init, turn_end

NAMES = ("alpha", "beta", "gamma")
WALKS = 40
STEPS = 80


class AnyOrder(FleetCase):
    max_running = 2

    def test_of_calls_and_events_keeps_the_rules(self) -> None:
        for seed in range(WALKS):
            self.setUp()
            try:
                self.walk(Random(seed))
            except Exception as error:
                raise AssertionError(f"walk {seed}: {error}") from error

    def walk(self, random: Random) -> None:
        calls: list[Deferred[Record]] = []
        for _ in range(STEPS):
            step = random.choice((self.a_call, self.a_call, self.an_event, self.an_event, self.an_event))
            call = step(random)
            if call is not None:
                calls.append(call)
            self.check_now()
        stopped = self.fleet.stop()
        self.source.release()
        while living := self.living():
            living[0].end(turn_end(Outcome.KILLED))
        self.successResultOf(stopped)
        self.check_now()
        for call in calls:
            self.check_answered(call)
        self.assertEqual((self.fleet.running, self.clock.getDelayedCalls()), (0, []))
        # What status tells of a name is what the last todo of it told; no todo tells of a run that goes on.
        told = {todo["subagent"]["name"]: todo["subagent"] for todo in self.outbox.todos}
        listed = self.successResultOf(self.fleet.status(None, wait_s=0.0, wait_for_all=False, result=False))[
            "subagents"
        ]
        self.assertEqual({record["name"]: record for record in listed}, told)
        self.assertNotIn("running", [todo["subagent"]["state"] for todo in self.outbox.todos])

    def living(self) -> list[FakeTurn]:
        return [turn for turn in self.source.turns if turn.pid is not None]

    def check_now(self) -> None:
        living = Counter(turn.spec.name for turn in self.living())
        self.assertTrue(all(count == 1 for count in living.values()), living)
        self.assertLessEqual(self.fleet.running, self.max_running)
        listed = self.successResultOf(self.fleet.status(None, wait_s=0.0, wait_for_all=False, result=False))
        running = {told["name"] for told in listed["subagents"] if told["state"] == "running"}
        self.assertEqual((len(running), listed["counts"]["running"]), (self.fleet.running, self.fleet.running))
        self.assertTrue(set(living) <= running, (living, running))

    def check_answered(self, call: Deferred[Record]) -> None:
        """Every call has been answered or refused by a text; none hangs, none breaks."""
        seen: list[object] = []
        call.addBoth(seen.append)
        self.assertEqual(len(seen), 1)
        error = getattr(seen[0], "value", None)
        self.assertTrue(error is None or isinstance(error, HivesubError), repr(error))

    def a_call(self, random: Random) -> Deferred[Any] | None:
        name = random.choice(NAMES)
        goal: dict[str, Any] = {"goal": "g", "max_turns": random.choice((1, 2, 3))} if random.random() < 0.6 else {}
        kind = random.choice(("start", "continue", "continue", "interrupt", "status"))
        if kind == "start":
            return self.starting(name, request_key=random.choice((None, "k")), **goal)
        if kind == "continue":
            return self.continuing(name, request_key=random.choice((None, "k")), **goal)
        if kind == "interrupt":
            return self.fleet.interrupt(name)
        return self.fleet.status(
            random.choice((None, name)), wait_s=random.choice((0.0, 30.0)), wait_for_all=False, result=False
        )

    def an_event(self, random: Random) -> None:
        living = self.living()
        event = random.choice(("hold", "release", "no process", "time", "begin", "end", "end", "signal", "late"))
        if event == "hold":
            self.source.hold = True
        elif event == "release":
            self.source.hold = False
            self.source.release()
        elif event == "no process":
            self.source.error = SpawnError("no process")
        elif event == "time":
            self.clock.advance(random.choice((0.01, 3, 6)))
        elif event == "late" and self.source.turns:
            turn = random.choice(self.source.turns)
            if turn.pid is None:
                self.assertRaises(BadRequest, turn.signalled, SignalKind.GOAL_REACHED, "late", None)
        elif living:
            turn = random.choice(living)
            if event == "begin":
                turn.begin(init())
            elif event == "signal":
                turn.signalled(random.choice(list(SignalKind)), "x", None)
            else:
                outcome = Outcome.KILLED if turn.stopped else random.choice(list(Outcome))
                turn.end(turn_end(outcome, under_way=turn.init is not None, init=turn.init))
