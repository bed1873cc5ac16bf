"""What becomes of a claim that came by a turn's URL: it is kept in the run, and the path that it names is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hivesub.errors import BadRequest
from hivesub.runs.report import check_within
from hivesub.wording import visible

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from hivesub.records import SignalKind
    from hivesub.runs.run import Run


def take_claim(
    run: Run,
    turn: int,
    kind: SignalKind,
    message: str,
    path: str | None,
    *,
    redact: Callable[[str], str],
    at: datetime,
) -> str:
    """Keep a claim of the nth turn (spec section 4).

    :returns: the note for the answer.
    :raises BadRequest: when that turn has ended.
    """
    if run.over or run.turn_number != turn:
        raise BadRequest("this turn has ended: nothing was recorded")
    run.claim(kind, redact(message), at)
    note = "Recorded as your claim. No further turn follows this one: end it now."
    if path is None:
        return note
    if run.report_file is not None and run.report_within is None:
        return f"{note} The report file stays {redact(run.report_file)}, as the agent that started you said."
    if visible(path) != path:
        run.report_error = "the path that the subagent named holds control characters: dropped"
        return f"{note} The report_file was dropped: it holds control characters."
    run.read_init(run.turn.init if run.turn is not None else None)  # the directory is the one that it is in
    inside = check_within(path, run.dir)
    if inside is None:
        where = redact(str(run.dir))
        run.report_error = f"the path that the subagent named is not inside {where}: dropped"
        return f"{note} The report_file was dropped: it is not inside {where}."
    run.report_file, run.report_within = inside, str(run.dir)
    return note
