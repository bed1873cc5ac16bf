"""Runs under any order of calls, events of their children, refused spawns and passing time keep their promises."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hivesub.errors import (
    BadRequest,
    ContinueFailed,
    HivesubError,
    NotRunning,
    RequestKeyReused,
    SpawnError,
    Stopping,
    TooManyRunning,
)
from hivesub.records import ContinueRequest, Control, Outcome, SignalKind, StartRequest, TodoState, TurnOptions
from hivesub.shapes import Record
from tests.properties.hive import Call, Hive, Spawned, key_of
from tests.support.runfakes import init, said, turn_end, unborn

names = st.sampled_from(["ant", "bee"])
goals = st.sampled_from([None, "build it", "build it"])
picks = st.integers(0, 10)
controls = st.sampled_from([None, None, *Control])
budgets = st.sampled_from([None, 0.5, 0.5])
# Sums of these are exact, and some are just the budget.
costs = st.sampled_from([None, 0.0, 0.25, 0.25, 0.5, 4.0])


class Runs(RuleBasedStateMachine):
    """One rule for each thing that can happen; the invariants are looked at after each."""

    @initialize(cap=st.integers(1, 2))
    def begin(self, cap: int) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.hive = Hive(self.root, cap)
        self.stopping = False
        self.steps = 0

    @property
    def room(self) -> bool:
        return self.hive.fleet.running < self.hive.cap

    @property
    def patience(self) -> int:
        """Goes round with the steps: what seldom matters is possible at one step in five."""
        return self.steps % 5

    @invariant()
    def count_steps(self) -> None:
        self.steps += 1

    # What the agent does. Most calls come when there is room for a run: refusals alone lead nowhere.

    @precondition(lambda self: self.room or self.patience == 0)
    @rule(
        name=names,
        goal=goals,
        max_turns=st.integers(1, 4),
        budget=budgets,
        report=st.sampled_from([None, "r.md"]),
        key=st.sampled_from([None, None, "k"]),
    )
    def start(
        self, name: str, goal: str | None, max_turns: int, budget: float | None, report: str | None, key: str | None
    ) -> None:
        request = StartRequest(
            name=name,
            prompt="do it",
            goal=goal,
            max_turns=max_turns if goal is not None else None,
            options=TurnOptions(max_budget_usd=budget),
            report_file=report,
            request_key=key,
        )
        before = self.hive.record(name)
        self.called(self.hive.call("start", name, self.hive.fleet.start(request), before))

    @precondition(lambda self: self.room or self.patience == 0)
    @rule(name=names, goal=st.sampled_from([None, None, "", "build more"]), key=st.sampled_from([None, None, "k"]))
    def resume(self, name: str, goal: str | None, key: str | None) -> None:
        request = ContinueRequest(name=name, prompt="go on", goal=goal, request_key=key)
        before = self.hive.record(name)
        self.called(self.hive.call("continue", name, self.hive.fleet.resume(request), before))

    @precondition(lambda self: self.hive.fleet.running and self.patience < 2)
    @rule(name=names)
    def interrupt(self, name: str) -> None:
        before = self.hive.record(name)
        if before is not None and before["state"] == "running":
            self.hive.stopped.add(key_of(before))
        call = self.hive.call("interrupt", name, self.hive.fleet.interrupt(name), before)
        if before is None or before["state"] != "running":
            assert call.error is not None and call.error.check(HivesubError)
            assert before is None or call.error.check(NotRunning)
        for spawned in self.hive.living:
            if spawned.key[0] == name:
                assert spawned.turn.stopped

    @precondition(lambda self: self.patience == 1)
    @rule(name=names, wait_s=st.sampled_from([0.0, 3.0, 50.0]))
    def ask(self, name: str, wait_s: float) -> None:
        self.hive.call(
            "status", name, self.hive.fleet.status(name, wait_s=wait_s, wait_for_all=False, result=False), None
        )

    # Late: afterwards nothing more can begin.
    @precondition(lambda self: not self.stopping and len(self.hive.turns) > 8)
    @rule()
    def stop_the_daemon(self) -> None:
        self.stopping = True
        self.hive.stopped |= {key_of(record) for record in self.hive.records().values() if record["state"] == "running"}
        self.hive.fleet.stop()

    def called(self, call: Call) -> None:
        """A refusal that came at once has changed nothing."""
        self.hive.notice_turns()
        if call.error is not None:
            assert call.error.check(HivesubError), call.error
            self.same_as_before(call)
            if self.stopping:
                assert call.error.check(Stopping, RequestKeyReused)
            elif call.error.check(TooManyRunning):
                assert self.hive.fleet.running == self.hive.cap

    # What the system and the children do.

    @precondition(lambda self: self.patience == 2)
    @rule()
    def the_next_spawn_fails(self) -> None:
        self.hive.source.fake.error = SpawnError("no more processes")

    @precondition(lambda self: self.patience == 3 or self.hive.source.fake.hold)
    @rule(hold=st.booleans())
    def spawns_take_time(self, hold: bool) -> None:
        self.hive.source.fake.hold = hold
        if not hold:
            self.hive.source.fake.release()
            self.hive.notice_turns()

    @precondition(lambda self: self.hive.living)
    @rule(pick=picks, renamed=st.booleans(), control=controls)
    def a_turn_gets_under_way(self, pick: int, renamed: bool, control: Control | None) -> None:
        turn = self.one_of_the_living(pick).turn
        if control is not None:
            turn.control = control
        if turn.init is None:
            turn.begin(init(session_id=f"session-of-{turn.spec.name}" if renamed else None))

    @precondition(lambda self: self.hive.living)
    @rule(
        pick=picks,
        outcome=st.sampled_from([Outcome.FINISHED, Outcome.FINISHED, *Outcome]),
        budget_stop=st.booleans(),
        cost=costs,
        since=st.booleans(),
    )
    def a_turn_ends(self, pick: int, outcome: Outcome, budget_stop: bool, cost: float | None, since: bool) -> None:
        self.end(self.one_of_the_living(pick), outcome, budget_stop, cost, since)

    @precondition(lambda self: self.hive.living)
    @rule(pick=picks, control=controls, cost=costs, since=st.booleans())
    def a_turn_finishes(self, pick: int, control: Control | None, cost: float | None, since: bool) -> None:
        spawned = self.one_of_the_living(pick)
        spawned.turn.control = control or spawned.turn.control
        self.end(spawned, Outcome.FINISHED, False, cost, since)

    def end(self, spawned: Spawned, outcome: Outcome, budget_stop: bool, cost: float | None, since: bool) -> None:
        turn = spawned.turn
        if outcome in {Outcome.FINISHED, Outcome.CUT} and turn.init is None:
            turn.begin(init())  # claude comes to neither end without one
        # A `continue` that still waits for its turn to be under way gets the exit as its own error.
        unheard = [
            call
            for call in self.hive.calls
            if (call.tool, call.name, call.answered, turn.init) == ("continue", spawned.key[0], False, None)
        ]
        spawned.ended = True
        if turn.init is None and outcome is Outcome.FAILED:
            turn.end(unborn("No conversation found with session ID: 7"))
        else:
            turn.end(
                turn_end(
                    outcome,
                    budget_stop=budget_stop and outcome is Outcome.FINISHED,
                    under_way=turn.init is not None,
                    init=turn.init,
                    result=said("done") if outcome is Outcome.FINISHED else None,
                    usage=self.hive.bills.told(spawned, cost, since),
                )
            )
        if unheard:
            assert unheard[0].error is not None and unheard[0].error.check(ContinueFailed)
            missed = outcome is Outcome.FAILED
            assert (spawned.key in self.hive.told_todos()) is not missed
        self.hive.notice_turns()

    @precondition(lambda self: self.hive.turns)
    @rule(pick=picks, kind=st.sampled_from(SignalKind), path=st.sampled_from([None, "r.md", "../out.md"]))
    def a_subagent_signals(self, pick: int, kind: SignalKind, path: str | None) -> None:
        spawned = self.hive.turns[-1 - pick % len(self.hive.turns)]
        before = self.hive.records()
        try:
            spawned.turn.signalled(kind, "as I say", path)
        except BadRequest:
            assert spawned.ended
            assert self.hive.records() == before
        else:
            # The fleet cannot see that a child is gone before its turn has ended; a turn that ended is refused.
            assert not spawned.ended
            record = self.hive.record(spawned.key[0])
            assert record is not None
            assert record["signals"][-1]["kind"] == kind.value

    @precondition(lambda self: self.patience == 4)
    @rule(seconds=st.sampled_from([0.1, 4.0, 5.0, 9.5, 60.0]))
    def time_passes(self, seconds: float) -> None:
        self.hive.clock.advance(seconds)

    @precondition(lambda self: self.hive.outbox.changed and self.patience == 1)
    @rule(state=st.sampled_from([TodoState.DELIVERED, TodoState.UNDELIVERED]))
    def todos_arrive(self, state: TodoState) -> None:
        self.hive.todo_changed(state)

    def one_of_the_living(self, pick: int) -> Spawned:
        living = self.hive.living
        return living[pick % len(living)]

    # What always holds.

    @invariant()
    def every_turn_might_begin_when_it_did(self) -> None:
        assert not self.hive.wrongs

    @invariant()
    def no_more_run_than_the_cap(self) -> None:
        running = [record for record in self.hive.records().values() if record["state"] == "running"]
        assert len(running) == self.hive.fleet.running <= self.hive.cap
        assert len(self.hive.living) <= len(running)

    @invariant()
    def a_state_is_what_was_observed(self) -> None:
        living = {spawned.key: spawned for spawned in self.hive.living}
        for record in self.hive.records().values():
            reason, last = record["stop_reason"], record["last_turn"]
            if record["state"] == "running":
                assert reason is None and record["ended_at"] is None and record["todo"] == "none"
                if key_of(record) in living:
                    assert record["pid"] == living[key_of(record)].turn.pid
                continue
            assert reason is not None and record["ended_at"] is not None
            assert key_of(record) not in living
            if last is not None and last["outcome"] == "killed":
                assert (record["state"], reason["kind"]) == ("killed", "killed")
            elif last is not None and last["outcome"] == "failed":
                assert record["state"] in {"failed", "killed"} and str(reason["kind"]) == record["state"]
            if reason["kind"] == "goal_reached":
                assert record["signals"][-1]["kind"] == "goal_reached"
            if record["state"] == "blocked":
                assert reason["kind"] == "need_help" == record["signals"][-1]["kind"]
            if reason["kind"] == "turn_cap":
                assert record["turn"] == record["max_turns"] == self.hive.spawns[key_of(record)]
            if record["turn"] is not None and record["max_turns"] is not None:
                assert 1 <= record["turn"] <= record["max_turns"]

    @invariant()
    def a_run_costs_what_its_own_turns_told(self) -> None:
        for record in self.hive.records().values():
            assert record["usage"]["cost_usd"] == self.hive.bills.cost(key_of(record))

    @invariant()
    def one_todo_and_one_reason_a_run(self) -> None:
        told = self.hive.told_todos()
        assert len(told) == len(set(told))
        for todo in self.hive.outbox.todos:
            self.keeps_reason(todo["subagent"])
        for record in self.hive.records().values():
            if record["stop_reason"] is not None:
                assert key_of(record) in told
                self.keeps_reason(record)
            else:
                assert key_of(record) not in told

    def keeps_reason(self, record: Record) -> None:
        reason = record["stop_reason"]
        assert self.hive.reasons.setdefault(key_of(record), reason) == reason

    @invariant()
    def a_call_that_was_refused_leaves_the_record_as_it_was(self) -> None:
        for call in self.hive.calls:
            if call.error is not None and call.tool in {"start", "continue"}:
                self.same_as_before(call)
        self.hive.calls = [call for call in self.hive.calls if not call.answered]

    def same_as_before(self, call: Call) -> None:
        error = call.error.getErrorMessage() if call.error is not None else ""
        if call.tool == "continue" and ("claude was killed before" in error or "before it had a process" in error):
            return  # the error is that of a run that ended
        now = self.hive.record(call.name)
        if call.before is not None and call.before["state"] == "running":
            return  # a twin that was joined, or a refusal: the run that was going on has its own ways
        if call.before is None or now is None:
            assert call.before is None and now is None
        elif now["state"] != "running":
            told = {"todo"}
            assert {k: v for k, v in now.items() if k not in told} == {
                k: v for k, v in call.before.items() if k not in told
            }

    # The end: whatever happened, everything comes to rest.

    def teardown(self) -> None:
        if not hasattr(self, "hive"):
            return
        hive = self.hive
        hive.stopped |= {key_of(record) for record in hive.records().values() if record["state"] == "running"}
        hive.source.fake.hold = False
        hive.source.fake.error = None
        stopped: list[None] = []
        hive.fleet.stop().addCallback(stopped.append)
        hive.source.fake.release()
        hive.notice_turns()
        for spawned in hive.living:
            assert spawned.turn.stopped
            spawned.ended = True
            spawned.turn.end(turn_end(Outcome.KILLED))
        assert stopped == [None]
        self.every_turn_might_begin_when_it_did()
        self.one_todo_and_one_reason_a_run()
        assert hive.fleet.running == 0
        hive.clock.advance(60.0)
        assert not [call for call in hive.calls if not call.answered]
        assert not hive.clock.getDelayedCalls()
        shutil.rmtree(self.root)


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=80, stateful_step_count=60, report_multiple_bugs=False)
