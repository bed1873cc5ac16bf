"""How a run can end: one row for each stop reason, and one for each signal of a subagent.

A row holds what follows from the kind alone: the state, the title and the sentence, the next step that a tool's answer
names and the exit code of the command line. Both tables are checked for completeness when this module is imported. When
a run ends with which kind is `hivesub.runs.decision`'s, or its machine's where somebody stopped it; which sentence
stands where is `hivesub.wording`'s; a todo's next step is `hivesub.todos.todo`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from attrs import frozen

from hivesub.records import CheckOutcome, Outcome, SignalKind, State, StopKind

UNVERIFIED = "self-reported, not verified"
"""What every surface adds to `goal_reached`."""

KILLED = "killed mid-turn, not finished"
"""What every surface calls a killed turn."""

CUT = "was cut off by claude, not finished"
"""What every surface calls a turn that claude broke off by itself."""

GOING_ON = frozenset({State.RUNNING, State.WAITING})
"""The states of a run that is not over."""

NEVER_REACHED = "the goal was never reported reached, and the work stopped where it had got to"


@frozen(kw_only=True)
class Ending:
    """What follows from a stop reason.

    `title`: how the run ended, in words that follow the subagent's name. `sentence`: why no further turn follows, where
    the run gives no message of its own. `{turns}` in either stands for the budget, such as `5 turns`. `next_step`: what
    the agent can do. `exit_code`: of the command line, when it waited for the run.

    `claim`: the message is the subagent's own, and is quoted behind the sentence. `is_turn_outcome`: a turn can end as
    this too, and its detail may then say all that the message does. `title_outside_turn` and `sentence_outside_turn`
    are for a run that ended as this between two turns or before its first: `{which}` is `next` or `first`, `{where}`
    is `between two turns` or `before its first turn`.
    """

    state: State
    title: str
    sentence: str
    next_step: str
    exit_code: int
    claim: bool = False
    is_turn_outcome: bool = False
    title_outside_turn: str = ""
    sentence_outside_turn: str = ""


@frozen(kw_only=True)
class SignalRow:
    """What follows from a signal. `stop`: the kind with which it stops a run. `label`: how a claim is listed. `reason`:
    what stands before its message in a stop reason.
    """

    stop: StopKind
    label: str
    reason: str = ""


K = TypeVar("K", bound=Enum)
V = TypeVar("V")


def complete(kinds: type[K], table: dict[K, V]) -> Mapping[K, V]:
    """The table, which has a row for each member.

    :raises LookupError: naming the members without one.
    """
    missing = [kind.name for kind in kinds if kind not in table]
    if missing:
        raise LookupError(f"no row for {kinds.__name__} {', '.join(missing)}")
    return table


ENDINGS = complete(
    StopKind,
    {
        StopKind.TURN_ENDED: Ending(
            state=State.IDLE,
            title="finished its turn",
            sentence="The turn ended by itself and nothing was signalled",
            next_step="`continue` gives it another prompt.",
            exit_code=0,
        ),
        StopKind.GOAL_REACHED: Ending(
            state=State.IDLE,
            title=f"reports its goal reached ({UNVERIFIED})",
            sentence=f"The subagent reported its goal reached ({UNVERIFIED})",
            next_step="Check the work; `continue` asks for more.",
            exit_code=14,
            claim=True,
        ),
        StopKind.NEED_HELP: Ending(
            state=State.BLOCKED,
            title="is blocked and asks for help",
            sentence="The subagent is blocked and asks for help",
            next_step="Answer it with `continue`.",
            exit_code=10,
            claim=True,
        ),
        StopKind.TURN_CAP: Ending(
            state=State.IDLE,
            title="stopped at its limit of {turns}, goal not reported reached",
            sentence=f"The harness limit of {{turns}} was reached; {NEVER_REACHED}",
            next_step="`continue` gives it as many turns again toward the same goal.",
            exit_code=11,
        ),
        StopKind.BUDGET_SPENT: Ending(
            state=State.IDLE,
            title="stopped, its budget spent",
            sentence=f"The run's budget in dollars is spent; {NEVER_REACHED}",
            next_step="`continue` gives it as much money again.",
            exit_code=11,
        ),
        StopKind.NO_CONTROL: Ending(
            state=State.IDLE,
            title="stopped, its signal route did not connect",
            sentence="Claude could not connect to the signal route of this run: no turn could have reported its goal "
            "reached",
            next_step="`continue` tries once more.",
            exit_code=11,
        ),
        StopKind.CHECK_PASSED: Ending(
            state=State.IDLE,
            title="reached its goal, as its check shows",
            sentence="Its check passed",
            next_step="`continue` gives it another prompt.",
            exit_code=0,
        ),
        StopKind.CUT: Ending(
            state=State.IDLE,
            title=CUT,
            sentence="The run stopped because claude broke its turn off",
            next_step="Its work is not complete; `continue` takes it up where it was cut off.",
            exit_code=11,
            is_turn_outcome=True,
        ),
        StopKind.KILLED: Ending(
            state=State.KILLED,
            title=f"was {KILLED}",
            sentence="The run stopped because its turn was killed",
            next_step="Its work may be cut off in the middle; `continue` resumes its session.",
            exit_code=12,
            is_turn_outcome=True,
            title_outside_turn="was stopped {where}",
            sentence_outside_turn="The run was stopped before its {which} turn",
        ),
        StopKind.FAILED: Ending(
            state=State.FAILED,
            title="failed",
            sentence="The run stopped because its turn failed",
            next_step="`continue` resumes its session, once the cause is gone.",
            exit_code=13,
            is_turn_outcome=True,
            title_outside_turn="failed",
            sentence_outside_turn="The {which} turn could not be run",
        ),
    },
)

OUTCOMES = complete(
    Outcome,
    {
        Outcome.FINISHED: "finished",
        Outcome.CUT: CUT,
        Outcome.FAILED: "failed",
        Outcome.KILLED: f"was {KILLED}",
    },
)
"""What a turn did, by its outcome."""

CHECKS = complete(
    CheckOutcome,
    {
        CheckOutcome.PASSED: "passed",
        CheckOutcome.FAILED: "failed",
        CheckOutcome.KILLED: "was killed",
        CheckOutcome.TIMED_OUT: "ran out of time",
        CheckOutcome.NOT_RUN: "could not be run",
    },
)
"""What a check did, by its outcome."""

SIGNALS = complete(
    SignalKind,
    {
        SignalKind.GOAL_REACHED: SignalRow(
            stop=StopKind.GOAL_REACHED, label=f"goal_reached ({UNVERIFIED})", reason=f"goal reached ({UNVERIFIED})"
        ),
        SignalKind.NEED_HELP: SignalRow(stop=StopKind.NEED_HELP, label="need_help"),
    },
)
