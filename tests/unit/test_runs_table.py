"""Stop reason × outcome × state, and what todo, report and status say of each, in one table.

Each row is driven through the fleet, turn by turn, and becomes a test of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen

from hivesub.errors import SpawnError
from hivesub.records import CheckOutcome, Control, Outcome, SignalKind, State, StopKind
from hivesub.tools.texts import status_text
from tests.support.runfakes import FleetCase, turn_end, used

Step = Callable[[FleetCase], None]


def ends(outcome: Outcome = Outcome.FINISHED, **changes: Any) -> Step:
    """The turn in flight ends."""
    return lambda case: case.turn.end(turn_end(outcome, **changes))


def says(kind: SignalKind, message: str) -> Step:
    """The subagent calls a signal tool."""

    def step(case: FleetCase) -> None:
        case.turn.signalled(kind, message, None)

    return step


def checks(outcome: CheckOutcome, code: int | None, **changes: Any) -> Step:
    """The check that runs ends."""

    def step(case: FleetCase) -> None:
        case.checks.runs[-1].end(outcome, code, **changes)

    return step


def cannot_spawn(message: str) -> Step:
    """The next spawn fails."""

    def step(case: FleetCase) -> None:
        case.source.error = SpawnError(message)

    return step


def control_fails(case: FleetCase) -> None:
    """`init` said that the signal route failed to connect."""
    case.turn.control = Control.FAILED


def next_spawn_waits(case: FleetCase) -> None:
    """The next turn has no process yet when the last ends."""
    case.source.hold = True


def is_interrupted(case: FleetCase) -> None:
    """The agent interrupts; a turn in flight is left to its own end."""
    case.fleet.interrupt("alpha")


FINISHED, CUT, FAILED, KILLED = Outcome.FINISHED, Outcome.CUT, Outcome.FAILED, Outcome.KILLED
REACHED, HELP = SignalKind.GOAL_REACHED, SignalKind.NEED_HELP
DIES = ends(KILLED, signal="SIGKILL", exit_code=None, detail="died on SIGKILL; the daemon did not send it")
STOPPED = ends(KILLED, signal="SIGINT", detail="interrupted by the agent; exit code 0")
BREAKS = ends(FAILED, exit_code=1, detail="exit code 1: Not logged in")

UNVERIFIED = "self-reported, not verified"
MID_TURN = "killed mid-turn, not finished"
NEVER = "the goal was never reported reached"


@frozen
class Row:
    """`name`: a sentence, as the name of a test. `steps`: what happens. Then the three facts, `turn` as N of M or None,
    what both todo body and report tell, what the todo's title tells, and what neither may tell.
    """

    name: str
    steps: tuple[Step, ...]
    stop: StopKind
    outcome: Outcome
    state: State
    turn: tuple[int, int] | None
    tells: tuple[str, ...]
    title: str = ""
    never: tuple[str, ...] = ()
    budget: float | None = None
    check: str | None = None


GOAL = "all tests pass"
MAX_TURNS = 3

TABLE = (
    # Without a goal.
    Row(
        "a single turn that finished",
        (ends(),),
        *(StopKind.TURN_ENDED, FINISHED, State.IDLE, None),
        ("The turn finished", "nothing was signalled"),
        title="finished its turn",
        never=("goal", "Turn 1", "killed"),
    ),
    Row(
        "a single turn that failed",
        (BREAKS,),
        *(StopKind.FAILED, FAILED, State.FAILED, None),
        ("The turn failed", "exit code 1: Not logged in"),
        title="failed",
        never=("goal", "killed", "finished"),
    ),
    Row(
        "a single turn that was killed",
        (DIES,),
        *(StopKind.KILLED, KILLED, State.KILLED, None),
        (MID_TURN, "SIGKILL"),
        title=MID_TURN,
        never=("goal", "failed"),
    ),
    Row(
        "a single turn that reported its goal reached",
        (says(REACHED, "all green"), ends()),
        *(StopKind.GOAL_REACHED, FINISHED, State.IDLE, None),
        ("The turn finished", UNVERIFIED, '"all green"'),
        title=UNVERIFIED,
    ),
    Row(
        "a single turn that asked for help",
        (says(HELP, "which database?"), ends()),
        *(StopKind.NEED_HELP, FINISHED, State.BLOCKED, None),
        ("The turn finished", "asks for help", '"which database?"'),
        title="is blocked",
        never=(UNVERIFIED,),
    ),
    Row(
        "a single turn that claude stopped at its budget",
        (ends(budget_stop=True, exit_code=1, detail="stopped by claude at its --max-budget-usd: $0.30"),),
        *(StopKind.BUDGET_SPENT, FINISHED, State.IDLE, None),
        ("--max-budget-usd", "budget"),
        title="budget spent",
        never=("failed", "goal"),
        budget=0.3,
    ),
    # Toward a goal.
    Row(
        "a goal run to its cap",
        (ends(), ends(), ends()),
        *(StopKind.TURN_CAP, FINISHED, State.IDLE, (3, 3)),
        ("Turn 3 of 3 finished", "harness limit of 3 turns", NEVER, "the work stopped where it had got to"),
        title="limit of 3 turns",
        never=(UNVERIFIED, "failed", "killed"),
    ),
    Row(
        "goal_reached in turn two",
        (ends(), says(REACHED, "all green"), ends()),
        *(StopKind.GOAL_REACHED, FINISHED, State.IDLE, (2, 3)),
        ("Turn 2 of 3 finished", UNVERIFIED, '"all green"'),
        title=UNVERIFIED,
        never=("limit", NEVER),
    ),
    Row(
        "goal_reached in the last turn is no cap",
        (ends(), ends(), says(REACHED, ""), ends()),
        *(StopKind.GOAL_REACHED, FINISHED, State.IDLE, (3, 3)),
        ("Turn 3 of 3 finished", UNVERIFIED),
        title=UNVERIFIED,
        never=("limit", NEVER, '""'),
    ),
    Row(
        "need_help in turn one",
        (says(HELP, "which database?"), ends()),
        *(StopKind.NEED_HELP, FINISHED, State.BLOCKED, (1, 3)),
        ("Turn 1 of 3 finished", "asks for help", '"which database?"'),
        title="is blocked",
        never=(UNVERIFIED, NEVER),
    ),
    Row(
        "need_help after goal_reached",
        (says(REACHED, "all green"), says(HELP, "or is it?"), ends()),
        *(StopKind.NEED_HELP, FINISHED, State.BLOCKED, (1, 3)),
        ('asks for help: "or is it?"', "also signalled", UNVERIFIED, '"all green"'),
        title="is blocked",
    ),
    Row(
        "goal_reached after need_help",
        (says(HELP, "which?"), says(REACHED, "found it"), ends()),
        *(StopKind.GOAL_REACHED, FINISHED, State.IDLE, (1, 3)),
        (UNVERIFIED, '"found it"', "also signalled need_help", '"which?"'),
        title=UNVERIFIED,
    ),
    Row(
        "a goal run whose turn was killed",
        (ends(), DIES),
        *(StopKind.KILLED, KILLED, State.KILLED, (2, 3)),
        (f"Turn 2 of 3 was {MID_TURN}", "SIGKILL"),
        title=MID_TURN,
        never=("limit", "interrupted by the agent"),
    ),
    Row(
        "a goal run whose turn was killed after goal_reached",
        (says(REACHED, "all green"), DIES),
        *(StopKind.KILLED, KILLED, State.KILLED, (1, 3)),
        (f"Turn 1 of 3 was {MID_TURN}", "also signalled", UNVERIFIED),
        title=MID_TURN,
    ),
    Row(
        "a goal run whose turn was killed after need_help is not blocked",
        (says(HELP, "which?"), DIES),
        *(StopKind.KILLED, KILLED, State.KILLED, (1, 3)),
        (MID_TURN, "also signalled need_help"),
        title=MID_TURN,
        never=("is blocked",),
    ),
    Row(
        "a goal run that was interrupted in a turn",
        (ends(), is_interrupted, STOPPED),
        *(StopKind.KILLED, KILLED, State.KILLED, (2, 3)),
        (f"Turn 2 of 3 was {MID_TURN}", "interrupted by the agent"),
        title=MID_TURN,
    ),
    Row(
        "a goal run that was interrupted between two turns",
        (next_spawn_waits, ends(), is_interrupted),
        *(StopKind.KILLED, FINISHED, State.KILLED, (1, 3)),
        ("Turn 1 of 3", "finished", "interrupted by the agent"),
        title="stopped between two turns",
        never=("mid-turn", "failed", "Turn 2 of"),
    ),
    Row(
        "a goal run that was interrupted when its turn had just ended by itself",
        (is_interrupted, ends()),
        *(StopKind.KILLED, FINISHED, State.KILLED, (1, 3)),
        ("Turn 1 of 3", "finished", "interrupted by the agent"),
        title="stopped between two turns",
        never=("mid-turn", "failed"),
    ),
    Row(
        "a goal run whose turn failed",
        (ends(), BREAKS),
        *(StopKind.FAILED, FAILED, State.FAILED, (2, 3)),
        ("Turn 2 of 3 failed", "Not logged in"),
        title="failed",
        never=("limit", "killed"),
    ),
    Row(
        "a goal run whose turn failed after need_help is failed",
        (says(HELP, "which?"), BREAKS),
        *(StopKind.FAILED, FAILED, State.FAILED, (1, 3)),
        ("Turn 1 of 3 failed", "also signalled need_help"),
        title="failed",
        never=("is blocked",),
    ),
    Row(
        "a goal run whose turn failed after goal_reached",
        (says(REACHED, "all green"), BREAKS),
        *(StopKind.FAILED, FAILED, State.FAILED, (1, 3)),
        ("Turn 1 of 3 failed", "also signalled", UNVERIFIED),
        title="failed",
    ),
    Row(
        "a goal run whose next turn could not be spawned",
        (cannot_spawn("claude is not on PATH"), ends()),
        *(StopKind.FAILED, FINISHED, State.FAILED, (1, 3)),
        ("Turn 1 of 3", "finished", "claude is not on PATH"),
        title="failed",
        never=("mid-turn", "Turn 2 of"),
    ),
    Row(
        "a goal run that spent its budget",
        (ends(usage=used(0.1)), ends(usage=used(0.3))),
        *(StopKind.BUDGET_SPENT, FINISHED, State.IDLE, (2, 3)),
        ("Turn 2 of 3 finished", "max_budget_usd 0.3", NEVER),
        title="budget spent",
        never=("failed", "limit of"),
        budget=0.3,
    ),
    Row(
        "a goal run that claude stopped at its budget",
        (ends(), ends(budget_stop=True, exit_code=1, detail="stopped by claude at its --max-budget-usd: $0.30")),
        *(StopKind.BUDGET_SPENT, FINISHED, State.IDLE, (2, 3)),
        ("Turn 2 of 3 finished", "--max-budget-usd", NEVER),
        title="budget spent",
        never=("failed",),
        budget=0.3,
    ),
    Row(
        "a goal run that spent its budget and reported its goal reached",
        (says(REACHED, "all green"), ends(usage=used(0.3))),
        *(StopKind.GOAL_REACHED, FINISHED, State.IDLE, (1, 3)),
        (UNVERIFIED, '"all green"'),
        title=UNVERIFIED,
        never=("budget",),
        budget=0.3,
    ),
    Row(
        "a goal run whose claim its check confirms",
        (says(REACHED, "all green"), ends(), checks(CheckOutcome.PASSED, 0)),
        *(StopKind.CHECK_PASSED, FINISHED, State.IDLE, (1, 3)),
        ("heck `tests` passed, exit 0", UNVERIFIED, '"all green"'),
        title="as its check shows",
        never=("Check the work",),
        check="tests",
    ),
    Row(
        "a goal run whose claims its check never confirms",
        (
            says(REACHED, "done"),
            ends(),
            checks(CheckOutcome.FAILED, 2),
            ends(),
            says(REACHED, "now"),
            ends(),
            checks(CheckOutcome.FAILED, 1),
        ),
        *(StopKind.TURN_CAP, FINISHED, State.IDLE, (3, 3)),
        ("limit of 3 turns", "Check `tests` failed, exit 1."),
        title="limit of 3 turns",
        check="tests",
    ),
    Row(
        "a goal run whose check could not be run",
        (says(REACHED, "all green"), ends(), checks(CheckOutcome.NOT_RUN, None, detail="no program 'make'")),
        *(StopKind.GOAL_REACHED, FINISHED, State.IDLE, (1, 3)),
        (UNVERIFIED, '"all green"', "Check `tests` could not be run, no program 'make'."),
        title=UNVERIFIED,
        check="tests",
    ),
    Row(
        "a goal run whose last turn claimed nothing and whose check passes",
        (ends(), ends(), ends(), checks(CheckOutcome.PASSED, 0)),
        *(StopKind.CHECK_PASSED, FINISHED, State.IDLE, (3, 3)),
        ("heck `tests` passed, exit 0",),
        title="as its check shows",
        never=("signalled", "limit of 3"),
        check="tests",
    ),
    Row(
        "a single turn that claude cut off",
        (ends(CUT, detail="its last answer asked for a tool that was never run"),),
        *(StopKind.CUT, CUT, State.IDLE, None),
        ("was cut off by claude, not finished", "never run"),
        title="cut off",
        never=("finished its turn", "failed"),
    ),
    Row(
        "a goal run whose last turn claude cut off",
        (ends(), ends(), ends(CUT, detail="its last answer was cut")),
        *(StopKind.CUT, CUT, State.IDLE, (3, 3)),
        ("Turn 3 of 3 was cut off by claude, not finished", "broke its turn off"),
        title="cut off",
        never=("limit of 3 turns",),
    ),
    Row(
        "a goal run that claude stopped at its own budget",
        (ends(CUT, budget_stop=True, detail="stopped by claude at its --max-budget-usd"),),
        *(StopKind.BUDGET_SPENT, CUT, State.IDLE, (1, 3)),
        ("Turn 1 of 3 was cut off by claude", "max_budget_usd", NEVER),
        title="budget spent",
        budget=0.3,
    ),
    Row(
        "a goal run whose signal route failed to connect",
        (control_fails, ends()),
        *(StopKind.NO_CONTROL, FINISHED, State.IDLE, (1, 3)),
        ("Turn 1 of 3 finished", "signal route", "no turn could have reported"),
        title="signal route did not connect",
        never=("failed.", "limit"),
    ),
    Row(
        "a goal run whose signal route failed to connect and whose turn failed",
        (control_fails, BREAKS),
        *(StopKind.FAILED, FAILED, State.FAILED, (1, 3)),
        ("Turn 1 of 3 failed", "Not logged in"),
        title="failed",
    ),
)


class TheTable(FleetCase):
    def check(self, row: Row) -> None:
        goal: dict[str, Any] = {}
        if row.turn is not None:
            goal = {"goal": GOAL, "max_turns": MAX_TURNS, "check": row.check}
        self.start(report_file="r.md", max_budget_usd=row.budget, **goal)
        for step in row.steps:
            step(self)
        told = self.record()
        stop, last = told["stop_reason"], told["last_turn"]
        assert stop is not None and last is not None, "the run goes on"
        self.assertEqual(
            (stop["kind"], last["outcome"], told["state"]), (row.stop.value, row.outcome.value, row.state.value)
        )
        self.assertEqual((told["turn"], told["max_turns"]), row.turn or (None, None))
        self.assertEqual(told["goal"], GOAL if row.turn else None)

        (todo,) = self.outbox.todos
        ((path, report, within),) = self.report.appended
        self.assertEqual((path, within), (str(self.dir / "r.md"), None))
        self.assertIn(row.title, todo["title"])
        for text in (todo["body"], report):
            folded = text.replace(path, "<path>").casefold()
            for words in row.tells:
                self.assertIn(words.casefold(), folded, text)
            for words in row.never:
                self.assertNotIn(words.casefold(), folded, text)
        if row.turn is not None:
            phrase = f"Turn {row.turn[0]} of {row.turn[1]}"
            for text in (todo["body"], report, status_text({"subagents": [told]})):
                self.assertIn(phrase, text)
        # Whatever it says extras, the same three facts travel with the todo.
        self.assertEqual(todo["subagent"], told)
        self.assertEqual(self.fleet.running, 0)

    def test_it_covers_every_stop_reason_outcome_and_state(self) -> None:
        self.assertEqual({row.stop for row in TABLE}, set(StopKind))
        self.assertEqual({row.outcome for row in TABLE}, set(Outcome))
        self.assertEqual({row.state for row in TABLE}, set(State) - {State.RUNNING, State.WAITING})

    def test_turn_n_of_m_is_told_while_it_runs_too(self) -> None:
        self.start(goal=GOAL, max_turns=MAX_TURNS)
        for number in (1, 2, 3):
            told = self.record()
            self.assertEqual((told["state"], told["turn"], told["max_turns"]), ("running", number, 3))
            self.assertIn(f"Turn {number} of 3", status_text({"subagents": [told]}))
            self.end()

    def test_a_claim_is_labelled_wherever_it_is_told(self) -> None:
        self.start(goal=GOAL, report_file="r.md")
        self.turn.signalled(REACHED, "all green", None)
        self.end()
        texts = [self.outbox.todos[0]["title"], self.outbox.todos[0]["body"], self.report.appended[0][1]]
        texts += [status_text({"subagents": [self.record()]}), self.record()["stop_reason"]["message"]]
        texts.append(
            status_text(self.successResultOf(self.fleet.status(None, wait_s=0.0, wait_for_all=False, result=False)))
        )
        for text in texts:
            self.assertIn(UNVERIFIED, text)


def _test_of(row: Row) -> Callable[[TheTable], None]:
    return lambda case: case.check(row)


for _row in TABLE:
    setattr(TheTable, f"test_{_row.name.replace(' ', '_')}", _test_of(_row))
