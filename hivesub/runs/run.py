"""What is known of one run: the plan that it was started with, and what has happened so far.

Owns the bookkeeping of a run's facts; the order of its turns is `machine`'s, what an end leads to is `decision`'s.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attrs import Factory, define, evolve

from hivesub.endings import ENDINGS
from hivesub.records import (
    CheckEnd,
    Control,
    Init,
    LeftProcess,
    Outcome,
    SettingsSeen,
    Signal,
    SignalKind,
    State,
    StopReason,
    TodoState,
    TurnEnd,
    TurnOptions,
    TurnUsage,
    Usage,
)
from hivesub.runs.history import History
from hivesub.turns.outcome import with_note
from hivesub.wording import valid_text, visible

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from datetime import datetime

    from hivesub.errors import HivesubError
    from hivesub.interfaces import ICheck, ITurn

MAX_MESSAGE = 4000
"""Characters of a signal's message that are kept."""
MAX_LEFT = 200
"""How many of the processes that its turns left are remembered."""
NAMED_LEFT = 5
"""How many of them are named at the end of a run."""
MAX_SIGNALS = 100
"""How many signals of a run are kept."""
MAX_SIGNAL_CHARS = 40_000
"""Characters of all their messages that are kept."""


@define(kw_only=True, eq=False)
class Run:
    """One run. Changed by its machine; claims are added by `signals`, what became of its end by `announcement`, a clash
    by `active`, and what the agent has heard of by `fleet`.

    `resume`: what claude is to resume at the first turn, None for a new session of the id `session_id`.
    `settings_seen`: what the settings of claude were at the session's first turn, None before.
    `mark`: what the marks of all its turns begin with, None before the first.
    `session_cost`: US dollars that the session is known to have cost by now, None when that is not known.
    `cost_restarts`: its claude is known to count from 0 in each process.
    `report_within`: the directory that the report must lie in, where a subagent named the path.
    `error`: why a process could not be started.
    `waiting_until`: when a turn that a usage limit refused is run again, None while none waits for that.
    `transcript`: the path of claude's own record of the session, once it has been found.
    `left`: what its turns left running when they ended.
    `cut_off_before`: the signal that killed the turn before this run, None where none did.
    `clash`: why the run was ended for the sake of another that works in the same session.
    `limit_waited_s`: how long it has waited so in all; `limits_in_a_row`: how often since a turn went through.
    `missed`: claude found no session to resume, and the call that asked for it had been answered or given up;
    `before_miss`: what the name is continued from then, None where nothing was known of it.
    `said`: what the subagent said last, redacted and cut; `structured`: its typed result as JSON.
    `check`: the name of the check that it is held against. `checking`: the one that runs. `standing`: the signals
    that no failed check has answered. `failed_check`: what the next turn's prompt says of the last one's check.
    `task_id`: of the task that it is to a client, None where it is none. `todo_id`: of the todo of its end.
    `announced`: the end has been announced. `heard`: the agent has heard of it.
    `spent_usd`: the least that the run has cost, whatever of it is not known (`cost_unknown`).
    """

    name: str
    prompt: str
    dir: Path
    tools: tuple[str, ...]
    goal: str | None = None
    max_turns: int | None = None
    report_file: str | None = None
    report_within: str | None = None
    check: str | None = None
    options: TurnOptions = Factory(TurnOptions)
    session_id: str | None = None
    resume: str | None = None
    session_cost: float | None = 0.0
    cut_off_before: str | None = None
    cost_restarts: bool = False
    started_at: datetime

    ended_at: datetime | None = None
    turn_number: int = 1
    turn: ITurn | None = None
    mark: str | None = None
    settings_seen: SettingsSeen | None = None
    last_turn: TurnEnd | None = None
    said: str | None = None
    structured: str | None = None
    signals: list[Signal] = Factory(list)
    standing: list[Signal] = Factory(list)
    signals_left_out: int = 0
    checking: ICheck | None = None
    checking_since: datetime | None = None
    last_check: CheckEnd | None = None
    failed_check: CheckEnd | None = None
    stop_reason: StopReason | None = None
    control: Control = Control.UNKNOWN
    missing_tools: tuple[str, ...] = ()
    usage: Usage = Factory(Usage)
    cost_unknown: bool = False
    spent_usd: float = 0.0
    waiting_until: datetime | None = None
    limit_waited_s: float = 0.0
    limits_in_a_row: int = 0
    report_error: str | None = None
    error: HivesubError | None = None
    escalated: bool = False
    transcript: str | None = None
    left: tuple[LeftProcess, ...] = ()
    clash: str | None = None
    missed: bool = False
    before_miss: Run | None = None
    todo: TodoState = TodoState.NONE
    todo_id: str | None = None
    task_id: str | None = None
    announced: bool = False
    heard: bool = False
    history: History = Factory(History)

    @property
    def over(self) -> bool:
        """Whether no further turn follows and none is in flight."""
        return self.stop_reason is not None

    @property
    def state(self) -> State:
        """As `status` names it: running while a turn is in flight, signals or not."""
        if self.stop_reason is not None:
            return ENDINGS[self.stop_reason.kind].state
        return State.RUNNING if self.waiting_until is None else State.WAITING

    @property
    def session(self) -> str | None:
        """The session that it works in, as far as it is known now: what `init` says, else what was asked for."""
        init = self.turn.init if self.turn is not None else None
        return (init.session_id if init is not None else None) or self.session_id

    @property
    def cut_off(self) -> str | None:
        """The signal that cut the session's work off, with no turn under way since; None where none did."""
        end = self.last_turn
        if end is not None and end.outcome is Outcome.KILLED:
            return end.signal
        return self.cut_off_before if self.turn_number == 1 and (end is None or not end.under_way) else None

    def note_miss(self, earlier: Run | None) -> None:
        """Leave the name's session where the run before had it: this one found none."""
        self.missed, self.before_miss = True, earlier
        self.session_id = earlier.session_id if earlier is not None else None
        self.dir = earlier.dir if earlier is not None else self.dir

    def claim(self, kind: SignalKind, message: str, at: datetime) -> Signal:
        """Keep what the subagent reported, cut to `MAX_MESSAGE` characters and said to be."""
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]} [cut: {len(message)} characters]"
        signal = Signal(kind=kind, message=message, at=at)
        self.signals.append(signal)
        self.standing = [*self.standing, signal][-MAX_SIGNALS:]
        while len(self.signals) > MAX_SIGNALS or sum(len(kept.message) for kept in self.signals) > MAX_SIGNAL_CHARS:
            del self.signals[0]  # the last decides
            self.signals_left_out += 1
        return signal

    def add_report_error(self, text: str) -> None:
        """Note what went wrong with the report; a path that was dropped before is still named."""
        self.report_error = text if self.report_error is None else f"{self.report_error}; {text}"

    def read_init(self, init: Init | None) -> None:
        """Follow what `init` says: the session, its directory, the tools that are missing."""
        if init is None:
            return
        self.session_id = init.session_id or self.session_id
        # The same `Path` is most runs', a thousand are remembered. A name that is no UTF-8 cannot be in JSON.
        if init.cwd and valid_text(init.cwd) != valid_text(str(self.dir)):
            self.dir = Path(init.cwd)
        if init.tools is not None:
            self.missing_tools = tuple(tool for tool in self.tools if tool not in init.tools)

    def turn_began(self, turn: ITurn, at: datetime) -> None:
        """The process of a turn exists."""
        self.turn = turn
        self.mark = self.mark or turn.mark
        if self.settings_seen is None:
            self.settings_seen = turn.settings_seen
        self.history.turn_began(at)

    def turn_ended(self, turn: ITurn, end: TurnEnd) -> None:
        """Take over what is known of a turn that ended."""
        cost_before = self.usage.cost_usd or 0.0
        self.turn_lost(end)
        self.escalated = turn.escalated
        if turn.control is not Control.UNKNOWN:
            self.control = turn.control
        self.read_init(end.init)
        if end.under_way:
            # The result of a resume that found nothing says a cost of 0, which would undo what is known.
            self._count(end.usage or TurnUsage())
        cost = self.usage.cost_usd
        self.history.turn_ended(self.turn_number, turn, end, None if cost is None else cost - cost_before)

    def note_left(self, there: Container[int], among: Sequence[LeftProcess]) -> None:
        """Name in the detail of its last turn what the turns of this run left running.

        :param there: the ids of those that are still there.
        """
        left = [process for process in among if process.pid in there]
        if self.last_turn is None or not left:
            return
        named = ", ".join(f"{visible(process.name)} (pid {process.pid})" for process in left[:NAMED_LEFT])
        more = f" and {len(left) - NAMED_LEFT} more" if len(left) > NAMED_LEFT else ""
        self.last_turn = evolve(self.last_turn, detail=with_note(self.last_turn.detail, f"left running: {named}{more}"))

    def turn_lost(self, end: TurnEnd) -> None:
        """Take over of a turn that ended no more than that it did."""
        self.turn = None
        self.left = (*self.left, *end.left)[-MAX_LEFT:]
        self.last_turn = evolve(end, init=None, result=None)  # what it said is kept apart, as it may be shown

    def _count(self, used: TurnUsage) -> None:
        """Add a turn's usage. Claude's cost is its session's, so a turn's is the difference that it made.

        What claude used since its last result is that difference, where it says so. Where it does not, it is computed
        from the totals. Where that cannot be done either, as of a turn that was killed before its result, the run's
        cost is unknown from then on, and the budget counts the differences that are known.
        """
        total, cost = used.total_cost_usd, used.since_usd
        if total is not None and cost is None and self.session_cost is not None:
            # Releases without that difference begin at 0 in each process (measured, 2.1.83): a total that has not
            # grown although the model answered is such a one's, and so is all that comes after it in the session.
            answered_for_nothing = total == self.session_cost > 0 and used.output_tokens > 0
            self.cost_restarts |= total < self.session_cost or answered_for_nothing
            cost = total if self.cost_restarts else total - self.session_cost
        self.session_cost = self.session_cost if total is None else total
        self.cost_unknown = self.cost_unknown or cost is None
        self.spent_usd += cost or 0.0
        so_far = self.usage
        self.usage = Usage(
            cost_usd=None if self.cost_unknown else _sum(so_far.cost_usd, cost),
            claude_turns=so_far.claude_turns + used.claude_turns,
            input_tokens=so_far.input_tokens + used.input_tokens,
            output_tokens=so_far.output_tokens + used.output_tokens,
        )


def _sum(so_far: float | None, more: float | None) -> float | None:
    return so_far if more is None else (so_far or 0.0) + more
