"""A fleet whose turns are played by a test, with every spawn, todo and answer looked at as it happens."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from zope.interface import implementer

from hivesub.interfaces import ITurn, ITurnSpawner
from hivesub.records import Control, TodoState, TurnSpec, TurnUsage
from hivesub.shapes import Record, RunAnswer, StatusAnswer
from hivesub.testing import FakeTurn, FakeTurnSpawner
from tests.support.runfakes import NOW, FakeOutbox, FakeReport, a_fleet, session, used

Key = tuple[str, str]
"""A run: its name and the time it was started at, of which no two are the same here."""


@define(eq=False)
class Call:
    """A tool call whose answer may be still to come. `before`: the name's record when it was made, or None."""

    tool: str
    name: str
    before: Record | None
    answer: RunAnswer | StatusAnswer | None = None
    error: Failure | None = None

    @property
    def answered(self) -> bool:
        return self.answer is not None or self.error is not None


@define(eq=False)
class Spawned:
    """What is known of a turn from outside."""

    key: Key
    number: int
    turn: FakeTurn
    ended: bool = False


class Bills:
    """What claude told of costs, reckoned from outside: a total by session, of which a run pays its own turns."""

    before_usd = 5.0
    """What a session that the fleet knows by its title alone has cost before."""

    def __init__(self) -> None:
        self._budgets: dict[Key, float | None] = {}
        self._totals: dict[object, float | None] = {}
        self._costs: dict[Key, float] = {}
        self._unknown: set[Key] = set()

    def budget(self, key: Key, spec: TurnSpec) -> float | None:
        """What a run may cost: all of it is left when its first turn begins."""
        if spec.session_id is not None:
            self._totals[spec.session_id] = 0.0
        return self._budgets.setdefault(key, spec.options.max_budget_usd)

    def told(self, spawned: Spawned, cost: float | None, since: bool) -> TurnUsage:
        """What a turn that cost so much tells, None if nothing. `since`: it tells the difference too."""
        spec, init, key = spawned.turn.spec, spawned.turn.init, spawned.key
        if init is None:
            return used(cost)  # nothing was under way, and nobody pays for it
        resumed = (key, spec.name) if spec.resume == spec.name else spec.resume
        session = spec.session_id or resumed
        known = self._totals.get(session)
        total = None if cost is None else (self.before_usd if known is None else known) + cost
        self._totals[init.session_id or session] = known if total is None else total
        if cost is None or (known is None and not since):
            self._unknown.add(key)
            return used(total)
        self._costs[key] = self._costs.get(key, 0.0) + cost
        if not cost and not since:
            return TurnUsage(total_cost_usd=total)  # an answer for nothing looks like one of a new counter
        return used(total, cost if since else None)

    def spent(self, key: Key) -> float:
        """What a run is known to have cost, whatever of it is not known."""
        return self._costs.get(key, 0.0)

    def cost(self, key: Key) -> float | None:
        """What a run has cost; None where that cannot be told."""
        return None if key in self._unknown else self._costs.get(key)


@implementer(ITurnSpawner)
@define(eq=False)
class WatchedSource:
    """Gives `FakeTurn`s, and looks at each spawn whether it may be made."""

    hive: Hive
    fake: FakeTurnSpawner = field(factory=FakeTurnSpawner)

    def spawn(self, spec: TurnSpec, signalled: Any) -> Deferred[ITurn]:
        self.hive.about_to_spawn(spec)
        return self.fake.spawn(spec, signalled)

    def end_left(self, run_mark: str) -> Deferred[int]:
        return self.fake.end_left(run_mark)

    def still_there(self, run_mark: str, pids: Iterable[int]) -> set[int]:
        return self.fake.still_there(run_mark, pids)


class Hive:
    """The fleet and what was seen of it. `cap`: its `--max-running`."""

    def __init__(self, root: Path, cap: int) -> None:
        self.cap = cap
        self.clock = Clock()
        self.source = WatchedSource(self)
        self.outbox = FakeOutbox([])
        self.report = FakeReport([])
        self.calls: list[Call] = []
        self.turns: list[Spawned] = []
        self.spawns: dict[Key, int] = {}
        self.stopped: set[Key] = set()
        """Runs that somebody told to stop: no further turn may come."""
        self.reasons: dict[Key, Any] = {}
        """The stop reason that each run was first told with."""
        self.wrongs: list[str] = []
        """What a turn began against."""
        self.bills = Bills()
        self.ticks = 0
        self.sessions = 0
        self.fleet = a_fleet(
            self.source,
            self.clock,
            now=self.now,
            report=self.report,
            outbox=self.outbox,
            default_dir=root,
            max_running=cap,
            new_session_id=self.new_session_id,
        )

    def now(self) -> datetime:
        self.ticks += 1
        return NOW + timedelta(milliseconds=self.ticks)

    def new_session_id(self) -> str:
        self.sessions += 1
        return session(self.sessions)

    # Looking.

    def records(self) -> dict[str, Record]:
        """All that is told, by name."""
        told: list[Record] = []
        self.fleet.status(None, wait_s=0.0, wait_for_all=False, result=True).addCallback(
            lambda answer: told.extend(answer["subagents"])
        )
        return {record["name"]: record for record in told}

    def record(self, name: str) -> Record | None:
        return self.records().get(name)

    @property
    def living(self) -> list[Spawned]:
        return [spawned for spawned in self.turns if not spawned.ended]

    def told_todos(self) -> list[Key]:
        return [key_of(todo["subagent"]) for todo in self.outbox.todos]

    # Calling.

    def call(self, tool: str, name: str, answer: Deferred[Any], before: Record | None) -> Call:
        call = Call(tool, name, before)
        self.calls.append(call)

        def answered(given: RunAnswer | StatusAnswer) -> None:
            assert not call.answered
            call.answer = given

        def refused(failure: Failure) -> None:
            assert not call.answered
            call.error = failure

        answer.addCallbacks(answered, refused)
        return call

    # The children.

    def about_to_spawn(self, spec: TurnSpec) -> None:
        """Note whatever forbids that this turn begins now. Raises nothing: the machine would take it for a bug."""
        record = self.record(spec.name)
        if record is None:
            self.wrongs.append(f"a turn of {spec.name}, which nobody tells of")
            return
        key = key_of(record)
        number = self.spawns[key] = self.spawns.get(key, 0) + 1
        ids = [earlier.turn.spec.session_id for earlier in self.turns if earlier.turn.spec.session_id is not None]
        budget, spent = self.bills.budget(key, spec), self.bills.spent(key)
        controls = [one.turn.control for one in self.turns if one.key == key]
        heard = [control for control in controls if control is not Control.UNKNOWN]
        rules = {
            "two children of one name": not [one for one in self.living if one.key[0] == spec.name],
            "a turn after the stop": record["state"] == "running" and record["stop_reason"] is None,
            "a turn after somebody said to stop": key not in self.stopped,
            "a turn after a signal": not record["signals"],
            "more turns than the budget": number <= (record["max_turns"] or 1),
            "a turn with another number": record["turn"] == (None if record["goal"] is None else number),
            "a turn after the budget was spent": budget is None or spent < budget,
            "a turn with more than what is left": budget is None or spec.options.max_budget_usd == budget - spent,
            "a turn after control failed": heard[-1:] != [Control.FAILED],
            "a turn after the todo": key not in self.told_todos(),
            "a session id used twice": spec.session_id is None or spec.session_id not in ids,
        }
        self.wrongs += [f"{what}: {key}, turn {number}" for what, kept in rules.items() if not kept]

    def notice_turns(self) -> None:
        """Take over the turns that came about since the last look."""
        for turn in self.source.fake.turns[len(self.turns) :]:
            record = self.record(turn.spec.name)
            assert record is not None
            key = key_of(record)
            self.turns.append(Spawned(key, self.spawns[key], turn))

    def todo_changed(self, state: TodoState) -> None:
        for changed in self.outbox.changed:
            changed(state)


def key_of(record: Record) -> Key:
    """Which run a record tells of."""
    return record["name"], record["started_at"]
