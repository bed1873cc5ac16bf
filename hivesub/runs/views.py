"""How runs are shown: one, or which of all and in which order; to an agent, and to the operator with their history.

Reads; changes nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, cast

from attrs import frozen
from twisted.internet.defer import Deferred
from zope.interface import implementer

from hivesub.interfaces import IOperatorView
from hivesub.records import State
from hivesub.runs.record import StillThere, minimal_record, record
from hivesub.runs.tally import Latencies, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from twisted.internet.interfaces import IReactorTime

    from hivesub.interfaces import IRedactor, ITranscripts
    from hivesub.runs.run import Run
    from hivesub.runs.tally import Tally
    from hivesub.shapes import AnswerExtras, OperatorList, OperatorRecord, Record, RunAnswer, StatusAnswer, Steps

LISTED = 20
"""How many ended subagents are listed for an agent, and for its operator."""
OPERATOR_LISTED = 30
LISTED_GOAL = 200
"""Characters of a goal in a list."""


def listed(runs: Sequence[Run], ended: int) -> list[Run]:
    """Which of all runs a list shows: those that go on, then so many of those that ended, the last one first.

    :param runs: those that ended in the order of ending.
    """
    over = [run for run in runs if run.over]
    return [run for run in runs if not run.over] + list(reversed(over[-ended:]))


async def find_transcript_of(run: Run, transcripts: ITranscripts, within_s: float = 5.0) -> None:
    """Look for the transcript of the session that a run works in, unless it is known already."""
    session = run.session
    if session is not None and (run.transcript is None or session not in run.transcript):
        run.transcript = await transcripts.find(session, str(run.dir), within_s)


def counts(runs: Sequence[Run]) -> dict[str, int]:
    """How many runs are in each state."""
    found = Counter(run.state for run in runs)
    return {state.value: found[state] for state in State}


@frozen(kw_only=True)
class Views:
    """The records of runs as they are now. If one cannot be built, a minimal one stands in, so that the others still
    appear.
    """

    clock: IReactorTime
    redactor: IRedactor
    still_there: StillThere | None = None

    def record(self, run: Run, *, result: bool = False, goal_limit: int | None = None) -> Record:
        """The record of a run."""
        try:
            return record(
                run,
                seconds=self.clock.seconds(),
                redact=self.redactor.redact,
                identifier=self.redactor.redact_identifier,
                goal_limit=goal_limit,
                result=result,
                still_there=self.still_there,
            )
        except Exception as error:
            return minimal_record(run, error)

    def made(self, run: Run, extras: AnswerExtras) -> RunAnswer:
        """The answer of the call that made a run; a session that claude has not taken up yet is not called resumed."""
        answer = cast("RunAnswer", {"subagent": self.record(run), **extras})
        if run.resume is not None and not run.over and run.turn_number == 1 and run.turn and run.turn.init is None:
            answer["under_way"] = False
        return answer

    def listed(self, runs: Sequence[Run], result: bool) -> StatusAnswer:
        """A list for the agent."""
        shown = [self.record(run, result=result, goal_limit=LISTED_GOAL) for run in listed(runs, LISTED)]
        return {"subagents": shown, "counts": counts(runs)}


@implementer(IOperatorView)
class OperatorView:
    """Looks at runs for the operator.

    :param runs: gives the last run of each name, those that ended in the order of ending.
    """

    def __init__(
        self,
        runs: Callable[[], list[Run]],
        *,
        tally: Tally,
        clock: IReactorTime,
        redactor: IRedactor,
        max_running: int,
        transcripts: ITranscripts,
        still_there: StillThere | None = None,
    ) -> None:
        self._runs = runs
        self._tally = tally
        self._clock = clock
        self._views = Views(clock=clock, redactor=redactor, still_there=still_there)
        self._max_running = max_running
        self._transcripts = transcripts

    def all(self) -> OperatorList:
        runs = self._runs()
        shown = [self._with_history(run, LISTED_GOAL) for run in listed(runs, OPERATOR_LISTED)]
        return {"subagents": shown, "counts": counts(runs)}

    def one(self, name: str) -> OperatorRecord | None:
        run = next((run for run in self._runs() if run.name == name), None)
        return None if run is None else self._with_history(run, None)

    def steps(self, name: str, after: int) -> Deferred[Steps | None]:
        return Deferred.fromCoroutine(self._steps(name, after))

    async def _steps(self, name: str, after: int) -> Steps | None:
        run = next((run for run in self._runs() if run.name == name), None)
        if run is None:
            return None
        await find_transcript_of(run, self._transcripts)
        if run.transcript is None:
            return {"transcript": None, "steps": [], "offset": 0}
        return await self._transcripts.steps(run.transcript, after)

    def _with_history(self, run: Run, goal_limit: int | None) -> OperatorRecord:
        history = run.history.record(run.turn, self._clock.seconds())
        return {**self._views.record(run, goal_limit=goal_limit), "history": history}

    def reading(self) -> Reading:
        tally, running = self._tally, [run for run in self._runs() if not run.over]
        in_flight = sum(run.turn.bytes_read for run in running if run.turn is not None)
        return Reading(
            running=len(running),
            max_running=self._max_running,
            runs=dict(tally.runs),
            turns=dict(tally.turns),
            todos=dict(tally.todos),
            checks=dict(tally.checks),
            bytes_read=tally.bytes_read + in_flight,
            spawn=_copied(tally.spawn),
            resume=_copied(tally.resume),
        )


def _copied(latencies: Latencies) -> tuple[tuple[int, ...], float]:
    return tuple(latencies.counts), latencies.sum_s
