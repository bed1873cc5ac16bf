"""The machine of a run: turns toward a goal, one at a time, and the one reason why no further turn follows.

Owns the order of things: the next turn is never spawned before the last child is gone, and a run that is being stopped
spawns none, and ends as killed. What else follows from an end is decided in `decision`; what a run means to its name is
`fleet`'s.
"""

from __future__ import annotations

import secrets
from datetime import timedelta
from enum import Enum
from functools import partial
from signal import Signals
from typing import TYPE_CHECKING, Any, Protocol

from attrs import Factory, define, evolve, frozen
from automat import TypeMachineBuilder
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

# Automat evaluates the annotations of its inputs: these three are needed when the module is loaded.
from twisted.python.failure import Failure

from hivesub.errors import HivesubError
from hivesub.interfaces import ITurn
from hivesub.records import CheckEnd, CheckOutcome, Outcome, StopKind, StopReason, TurnEnd, TurnSpec
from hivesub.runs.decision import after_check, after_turn, is_checked_first, limit_wait_s, may_be_waited_out
from hivesub.runs.prompts import first_prompt, next_prompt
from hivesub.runs.record import shown_result
from hivesub.runs.signals import take_claim
from hivesub.runs.tally import Tally
from hivesub.wording import internal_error, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from twisted.internet.interfaces import IDelayedCall, IReactorTime

    from hivesub.interfaces import IChecks, ITurnSpawner
    from hivesub.records import SignalKind, UsageLimit
    from hivesub.runs.run import Run
    from hivesub.system.lookups import Look

LEAST_BUDGET_USD = 0.000001
"""What a turn is given when nothing is left: claude refuses a budget of 0."""


class Steps(Protocol):
    """The inputs of the machine."""

    def begin(self) -> None:
        """Spawn the first turn."""

    def spawned(self, turn: ITurn) -> None:
        """The process exists."""

    def spawn_failed(self, failure: Failure) -> None:
        """No process could be made, or its making was given up."""

    def ended(self, end: TurnEnd) -> None:
        """The process is gone and its output read."""

    def wait(self) -> None:
        """A usage limit refused the turn: it is run again once that is lifted."""

    def waited(self) -> None:
        """The limit should be lifted."""

    def check(self, reason: StopReason) -> None:
        """The run would stop by this, and is held against its check first."""

    def checked(self, end: CheckEnd) -> None:
        """The check is gone, and all that it started."""

    def go_on(self) -> None:
        """Nothing has said to stop: the next turn."""

    def finish(self, reason: StopReason) -> None:
        """No further turn follows."""

    def stop(self, why: str) -> None:
        """Somebody wants the run to stop."""


_log = Logger()


@frozen(kw_only=True)
class Limits:
    """How usage limits of the account are waited out. `most_s`: how long a run may wait in all. `spread_s`: gives what
    is added to each wait, by chance.
    """

    clock: IReactorTime
    most_s: float
    spread_s: Callable[[], float]


@define(kw_only=True, eq=False)
class Core:
    """What the machine works on and with.

    `redact`: replaces the daemon's secrets in what a subagent says. `look`: looks at the paths that it names.
    `began`: called when a process exists. `finished`: called once, when the run is over; it raises nothing.
    `ending`: the wait for the end of the turn in flight. `abandoned`: why that is not waited for.
    """

    run: Run
    source: ITurnSpawner
    now: Callable[[], datetime]
    redact: Callable[[str], str]
    limits: Limits
    checks: IChecks
    look: Look
    began: Callable[[], None]
    finished: Callable[[], None]
    spawning: Deferred[ITurn] | None = None
    ending: Deferred[None] | None = None
    waiting: IDelayedCall | None = None
    pending: StopReason | None = None
    checking: Deferred[None] | None = None
    stop_asked: str | None = None
    abandoned: str | None = None
    tally: Tally = Factory(Tally)


def _spec(run: Run) -> TurnSpec:
    """The next turn: the first goes where the plan says, each later one to the session that `init` named."""
    first = run.turn_number == 1
    resume = run.resume if first else run.session_id or run.resume
    options = run.options
    if options.max_budget_usd is not None:
        options = evolve(options, max_budget_usd=max(LEAST_BUDGET_USD, options.max_budget_usd - run.spent_usd))
    return TurnSpec(
        name=run.name,
        prompt=_prompt(run),
        dir=run.dir,
        tools=run.tools,
        session_id=run.session_id if resume is None else None,
        resume=resume,
        options=options,
        run_mark=run.mark,
        settings_seen=run.settings_seen,
    )


def _prompt(run: Run) -> bytes:
    if run.turn_number > 1:
        assert run.goal is not None and run.max_turns is not None
        last = run.last_turn
        return next_prompt(
            goal=run.goal,
            turn=run.turn_number,
            max_turns=run.max_turns,
            report_file=run.report_file,
            failed_check=run.failed_check,
            cut=last.detail if last is not None and last.outcome is Outcome.CUT else "",
        )
    return first_prompt(
        run.prompt, goal=run.goal, turn=run.turn_number, max_turns=run.max_turns, report_file=run.report_file
    )


def _spawn(steps: Steps, core: Core) -> None:
    try:
        spawning = core.source.spawn(_spec(core.run), partial(_claimed, core, core.run.turn_number))
    except Exception as error:  # a bug of ours: the run ends by it, the daemon does not
        _log.failure("the turn of {name} could not be described", name=core.run.name)
        message = internal_error(error)
        core.run.error = HivesubError(message)
        _finish_without_process(steps, core, StopReason(kind=StopKind.FAILED, message=message))
        return
    core.spawning = spawning
    spawning.addCallbacks(steps.spawned, steps.spawn_failed)
    spawning.addErrback(lambda failure: _log.failure("a step of {name} failed", failure, name=core.run.name))


def _claimed(core: Core, turn: int, kind: SignalKind, message: str, path: str | None) -> Deferred[str]:
    return Deferred.fromCoroutine(
        take_claim(core.run, turn, kind, message, path, redact=core.redact, look=core.look, at=core.now())
    )


def _attach(steps: Steps, core: Core, turn: ITurn) -> None:
    core.spawning = None
    core.run.turn_began(turn, core.now())
    core.began()
    ending = turn.when_ended().addErrback(partial(_lost, core, turn))
    core.ending = ending.addCallback(steps.ended)
    core.ending.addErrback(lambda why: _log.failure("the end of a turn of {name} failed", why, name=core.run.name))


def _lost(core: Core, turn: ITurn, failure: Failure) -> TurnEnd:
    """The end of a turn whose own is not known: it was given up, or a bug of ours lost it."""
    why, outcome, signal = core.abandoned, Outcome.FAILED, None
    if why is None:
        _log.failure("the end of a turn of {name} is not known", failure, name=core.run.name)
        why = internal_error(failure.value)
        _tell_to_stop(core, turn, "its end is not known")
    elif turn.pid is None and turn.signals_sent:
        outcome, signal = Outcome.KILLED, Signals(turn.signals_sent[-1]).name
    return TurnEnd(
        outcome=outcome,
        signal=signal,
        exit_code=None,
        detail=why,
        ended_at=core.now(),
        under_way=turn.init is not None,
        init=turn.init,
        result=turn.result,
    )


def _attach_and_stop(steps: Steps, core: Core, turn: ITurn) -> None:
    _attach(steps, core, turn)
    _tell_to_stop(core, turn, core.stop_asked or "stopped")


def _tell_to_stop(core: Core, turn: ITurn, why: str) -> None:
    try:
        turn.stop(why)
    except Exception:  # a bug of ours: its end is waited for all the same
        _log.failure("the turn of {name} could not be stopped", name=core.run.name)


def _decide(steps: Steps, core: Core, end: TurnEnd) -> None:
    core.ending = None
    try:
        reason = _reason(core, end)
    except Exception as error:  # a bug of ours: this run ends by it, and no other
        _log.failure("the end of a turn of {name} could not be taken over", name=core.run.name)
        core.run.turn_lost(end)
        kind = StopKind.KILLED if end.outcome is Outcome.KILLED else StopKind.FAILED
        reason = StopReason(kind=kind, message=internal_error(error))
    if reason is None:
        steps.go_on()
    elif core.stop_asked is None and _may_wait(core, end, reason):
        steps.wait()
    elif core.stop_asked is None and _is_checked(core.run, reason):
        steps.check(reason)
    else:
        if end.limit is not None and reason.kind is StopKind.FAILED and core.stop_asked is None:
            when = rfc3339(end.limit.resets_at)
            why = f"its usage limit resets at {when}, and the run did not wait for that (--limit-wait)"
            reason = evolve(reason, message=why)
        steps.finish(reason)


def _may_wait(core: Core, end: TurnEnd, reason: StopReason) -> bool:
    if end.limit is None:
        return False
    left_s = core.limits.most_s - core.run.limit_waited_s
    wait_s = _limit_wait_s(core, end.limit)
    return may_be_waited_out(end, reason, signals=core.run.signals, wait_s=wait_s, left_s=left_s)


def _limit_wait_s(core: Core, limit: UsageLimit) -> float:
    return limit_wait_s(limit, now=core.now(), in_a_row=core.run.limits_in_a_row)


def _is_checked(run: Run, reason: StopReason) -> bool:
    return run.check is not None and is_checked_first(reason, turn=run.turn_number, max_turns=run.max_turns)


def _check(steps: Steps, core: Core, reason: StopReason) -> None:
    run = core.run
    assert run.check is not None and run.mark is not None
    core.pending = reason
    run.checking_since = core.now()
    # Its mark begins as those of the turns do, so that what ends the run's leftovers ends its too.
    run.checking = core.checks.start(run.check, str(run.dir), f"{run.mark}.{secrets.token_hex(8)}")
    core.checking = run.checking.when_ended().addErrback(partial(_check_lost, core)).addCallback(steps.checked)
    core.checking.addErrback(lambda why: _log.failure("the end of a check of {name} failed", why, name=run.name))


def _check_lost(core: Core, failure: Failure) -> CheckEnd:
    """The end of a check that is not waited for any longer."""
    name, why = core.run.check or "", core.abandoned or internal_error(failure.value)
    return CheckEnd(name=name, outcome=CheckOutcome.KILLED, exit_code=None, detail=why, tail="", ended_at=core.now())


def _stop_check(steps: Steps, core: Core, why: str) -> None:
    core.stop_asked = core.stop_asked or why
    if core.run.checking is not None:
        core.run.checking.stop(why)


def _apply_check(steps: Steps, core: Core, end: CheckEnd) -> None:
    run, pending = core.run, core.pending
    assert pending is not None
    core.pending = core.checking = None
    run.checking, run.checking_since, run.last_check = None, None, end
    run.history.checked(end.outcome)
    core.tally.checks[end.outcome] += 1
    if core.stop_asked is not None:
        steps.finish(
            StopReason(kind=StopKind.KILLED, message=f"{core.stop_asked} while its check `{end.name}` was running")
        )
        return
    reason = after_check(end, pending)
    if reason is None:  # the claim does not stand: what follows is decided as if it had not been made
        run.standing = []
        assert run.last_turn is not None
        reason = _after(core, run.last_turn)
        run.failed_check = end if reason is None else run.failed_check
    if reason is None:
        steps.go_on()
    else:
        steps.finish(reason)


def _wait(steps: Steps, core: Core) -> None:
    run = core.run
    assert run.last_turn is not None and run.last_turn.limit is not None
    limit = run.last_turn.limit
    # Many daemons of one account would come back at once.
    wait_s = _limit_wait_s(core, limit) + core.limits.spread_s()
    run.limit_waited_s += wait_s
    run.limits_in_a_row += 1
    run.waiting_until = core.now() + timedelta(seconds=wait_s)
    _log.info("{name} waits until {when} for its usage limit to reset", name=run.name, when=rfc3339(run.waiting_until))
    core.waiting = core.limits.clock.callLater(wait_s, steps.waited)


def _run_again(steps: Steps, core: Core) -> None:
    """Spawn the turn that the limit refused: it was not counted, and its session has what it was asked."""
    core.waiting = None
    core.run.waiting_until = None
    core.run.resume = core.run.session_id or core.run.resume
    _spawn(steps, core)


def _stop_waiting(steps: Steps, core: Core, why: str) -> None:
    assert core.waiting is not None
    core.waiting.cancel()
    core.waiting = None
    core.run.waiting_until = None
    steps.finish(StopReason(kind=StopKind.KILLED, message=f"{why} while it waited for a usage limit to reset"))


def _reason(core: Core, end: TurnEnd) -> StopReason | None:
    """Take over how a turn ended, and say why no further one follows."""
    run = core.run
    turn = run.turn
    assert turn is not None
    run.turn_ended(turn, end)
    if end.limit is None:
        run.failed_check = None  # the turn that it was for has heard of it
    run.said = shown_result(end.result, core.redact)
    run.structured = end.result.structured if end.result is not None else None
    run.limits_in_a_row = run.limits_in_a_row if end.limit is not None else 0
    core.tally.turn_ended(end.outcome, turn.bytes_read)
    reason = _after(core, end)
    if reason is None and core.stop_asked is not None:
        reason = StopReason(
            kind=StopKind.KILLED, message=f"{core.stop_asked} after turn {run.turn_number} had ended by itself"
        )
    return reason


def _after(core: Core, end: TurnEnd) -> StopReason | None:
    run = core.run
    return after_turn(
        end,
        signals=run.standing,
        goal=run.goal,
        turn=run.turn_number,
        max_turns=run.max_turns,
        control=run.control,
        spent_usd=run.spent_usd,
        cost_unknown=run.cost_unknown,
        max_budget_usd=run.options.max_budget_usd,
    )


def _not_spawned(steps: Steps, core: Core, failure: Failure) -> None:
    """The spawn failed: the run ends as `failed`, or as what it was stopped for."""
    core.spawning = None
    run = core.run
    if core.stop_asked is not None and failure.check(CancelledError, HivesubError):
        why = f"{core.stop_asked} before turn {run.turn_number} had a process"
        _finish_without_process(steps, core, StopReason(kind=StopKind.KILLED, message=why))
        return
    if failure.check(HivesubError):
        run.error = failure.value  # type: ignore[assignment]
        message = str(failure.value)
    else:
        _log.failure("no process for {name}", failure, name=run.name)
        message = internal_error(failure.value)
        run.error = HivesubError(message)
    _finish_without_process(steps, core, StopReason(kind=StopKind.FAILED, message=message))


def _finish_without_process(steps: Steps, core: Core, reason: StopReason) -> None:
    """End a run whose next turn never was one: N of M stays that of the turn that ended last."""
    core.run.turn_number = max(1, core.run.turn_number - 1)
    steps.finish(reason)


def _give_up_spawn(steps: Steps, core: Core, why: str) -> None:
    core.stop_asked = why
    if core.spawning is not None:
        core.spawning.cancel()


def _stop_turn(steps: Steps, core: Core, why: str) -> None:
    core.stop_asked = why
    assert core.run.turn is not None
    _tell_to_stop(core, core.run.turn, why)


def _close(steps: Steps, core: Core, reason: StopReason) -> None:
    _note_left(core)
    core.run.stop_reason = reason
    core.run.prompt = ""
    core.run.ended_at = core.now()
    core.finished()


def _note_left(core: Core) -> None:
    """Name what the turns left running; of a run that was stopped, whatever does not go is ended or was named so."""
    run = core.run
    if run.last_turn is None or run.mark is None:
        return
    among = run.left if core.stop_asked is None else run.last_turn.left
    try:
        there = core.source.still_there(run.mark, [process.pid for process in among]) if among else ()
        run.note_left(there, [evolve(process, name=core.redact(process.name)) for process in among])
    except Exception:  # a bug of ours: the run ends all the same
        _log.failure("what {name} left running could not be named", name=run.name)


def _ignore(steps: Steps, core: Core, why: str) -> None:
    """Nothing to do: it is stopping, or over."""


def _respawn(steps: Steps, core: Core) -> None:
    core.run.turn_number += 1
    core.run.prompt = ""  # the first turn's alone, and up to 2 MiB of it would be remembered
    _spawn(steps, core)


class Phase(Enum):
    """Where a run is in its order of things."""

    FRESH = "fresh"
    SPAWNING = "spawning"
    GIVING_UP = "giving_up"
    TURNING = "turning"
    STOPPING = "stopping"
    DECIDING = "deciding"
    WAITING = "waiting"
    CHECKING = "checking"
    OVER = "over"


TRANSITIONS: tuple[tuple[Phase, Any, Phase, Any], ...] = (
    (Phase.FRESH, Steps.begin, Phase.SPAWNING, _spawn),
    (Phase.SPAWNING, Steps.spawned, Phase.TURNING, _attach),
    (Phase.SPAWNING, Steps.spawn_failed, Phase.DECIDING, _not_spawned),
    (Phase.SPAWNING, Steps.finish, Phase.OVER, _close),
    (Phase.SPAWNING, Steps.stop, Phase.GIVING_UP, _give_up_spawn),
    (Phase.GIVING_UP, Steps.spawned, Phase.STOPPING, _attach_and_stop),
    (Phase.GIVING_UP, Steps.spawn_failed, Phase.DECIDING, _not_spawned),
    (Phase.GIVING_UP, Steps.stop, Phase.GIVING_UP, _ignore),
    (Phase.TURNING, Steps.ended, Phase.DECIDING, _decide),
    (Phase.TURNING, Steps.stop, Phase.STOPPING, _stop_turn),
    (Phase.STOPPING, Steps.ended, Phase.DECIDING, _decide),
    (Phase.STOPPING, Steps.stop, Phase.STOPPING, _ignore),
    (Phase.DECIDING, Steps.go_on, Phase.SPAWNING, _respawn),
    (Phase.DECIDING, Steps.finish, Phase.OVER, _close),
    (Phase.DECIDING, Steps.stop, Phase.DECIDING, _ignore),
    (Phase.DECIDING, Steps.wait, Phase.WAITING, _wait),
    (Phase.WAITING, Steps.waited, Phase.SPAWNING, _run_again),
    (Phase.WAITING, Steps.stop, Phase.DECIDING, _stop_waiting),
    (Phase.DECIDING, Steps.check, Phase.CHECKING, _check),
    (Phase.CHECKING, Steps.checked, Phase.DECIDING, _apply_check),
    (Phase.CHECKING, Steps.stop, Phase.CHECKING, _stop_check),
    (Phase.OVER, Steps.stop, Phase.OVER, _ignore),
)
"""Phase, input, next phase, what is done on the way. The documentation draws the machine from this table."""


def abandon(steps: Steps, core: Core, why: str) -> None:
    """End a run that is being stopped without waiting for its turn, which then failed by this, or for its check."""
    core.abandoned = why
    if core.ending is not None:
        core.ending.cancel()
    elif core.spawning is not None:
        steps.spawn_failed(Failure(CancelledError()))
    elif core.checking is not None:
        core.checking.cancel()


def build_machine() -> Callable[[Core], Steps]:
    """The machine's factory."""
    machine = TypeMachineBuilder(Steps, Core)
    states = {phase: machine.state(phase.value) for phase in Phase}
    for phase, step, following, output in TRANSITIONS:
        states[phase].upon(step).to(states[following])(output)
    return machine.build()


new_steps = build_machine()
