"""One line of the daemon's log for each start and each end of a run: its name and how it ended, nothing that an agent
or a subagent said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twisted.logger import Logger

from hivesub.wording import title_words, turn_phrase

if TYPE_CHECKING:
    from hivesub.runs.run import Run
    from hivesub.shapes import Record

_log = Logger()


def began(run: Run) -> None:
    """The first process of a run exists."""
    verb = "started" if run.resume is None else "continues"
    budget = "a single turn" if run.max_turns is None else f"at most {run.max_turns} turns"
    pid = run.turn.pid if run.turn is not None else None
    _log.info("{name} {verb}: {budget}, pid {pid}", name=run.name, verb=verb, budget=budget, pid=pid)


def ended(record: Record) -> None:
    """A run is over."""
    phrase = turn_phrase(record)
    _log.info("{name} {how}{turn}", name=record["name"], how=title_words(record), turn=phrase and f": {phrase}")


def came_to_nothing(run: Run) -> None:
    """No process could be made, or claude found no session; the call's own error says more."""
    what = "no process could be made for it" if run.last_turn is None else "claude found no session to resume"
    _log.info("{name}: {what}; nothing was run", name=run.name, what=what)
