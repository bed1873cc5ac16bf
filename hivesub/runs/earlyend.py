"""A `continue` that was over before its turn was under way: what its call answers, and whether it was a miss."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from hivesub.errors import AlreadyRunning, ContinueFailed, HivesubError
from hivesub.records import Outcome

if TYPE_CHECKING:
    from hivesub.records import TurnEnd
    from hivesub.runs.run import Run

_MISS = re.compile(r"No conversation found with session ID|does not match any session title", re.IGNORECASE)


def is_miss(end: TurnEnd) -> bool:
    """Whether claude said, before anything was under way, that it found no such session."""
    return end.outcome is Outcome.FAILED and not end.under_way and _MISS.search(end.error or end.detail) is not None


def early_end(run: Run, config_dir: str) -> HivesubError | None:
    """The error of the call that made a run which is over before its first turn was under way; None for any other.

    :param config_dir: where claude keeps its sessions.
    """
    end = run.last_turn
    if not run.over:
        return None
    if run.clash is not None:
        return AlreadyRunning(run.clash)
    if end is None:
        return run.error or HivesubError("the run was stopped before it had a process")
    if run.resume is None or run.turn_number > 1 or end.under_way:
        return None
    if end.outcome is Outcome.KILLED:
        return ContinueFailed(f"claude was killed before its turn was under way: {end.detail}")
    return ContinueFailed(continue_error(run, end, config_dir))


def continue_error(run: Run, end: TurnEnd, config_dir: str) -> str:
    """What a `continue` says of an exit before its turn was under way: claude's own message, and for a miss where it
    searched.
    """
    message = end.error or end.detail or f"it exited with code {end.exit_code} before its turn was under way"
    if _MISS.search(message):
        return (
            f"claude error: {message} (searched {config_dir} for cwd {run.dir}; "
            "if it was started elsewhere, pass the `dir` it was started in)"
        )
    return f"claude error: {message}"
