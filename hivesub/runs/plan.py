"""From a call to the plan of its run: what is given, what carries over from the run before, what the daemon's own
default is.

Pure but for `find_dir`, which goes first. What is refused here has changed nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from hivesub.errors import AlreadyRunning, BadRequest
from hivesub.records import DEFAULT_MAX_TURNS
from hivesub.runs.decision import keeps_goal
from hivesub.runs.history import History
from hivesub.runs.report import resolve_report_path
from hivesub.runs.run import Run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from hivesub.records import ContinueRequest, StartRequest
    from hivesub.shapes import AnswerExtras


def find_dir(text: str) -> Path:
    """The directory that a `dir` names. Blocking.

    :raises BadRequest: when it is not absolute, not there, or no directory.
    """
    path = Path(os.path.expanduser(text))
    if not path.is_absolute():
        nobody = "names no user of this machine, so it " if text.startswith("~") else ""
        raise BadRequest(f"dir: {text!r} {nobody}is not absolute: give a path that begins with / or ~/")
    try:
        if path.is_dir():
            return path
        there = path.exists()
    except OSError as error:
        raise BadRequest(f"dir: {text!r} cannot be looked at: {error.strerror}") from error
    why = "is no directory" if there else "does not exist"
    raise BadRequest(f"dir: {text!r} {why}: give an existing directory")


def check_known(name: str | None, checks: tuple[str, ...], goal: str | None) -> None:
    """See that there is such a check, and something for it to be held against.

    :raises BadRequest: naming the checks that there are.
    """
    if name is None:
        return
    if not checks:
        raise BadRequest("check: this daemon has none; its operator names commands in a file that --checks gives")
    if name not in checks:
        raise BadRequest(f"check: {name!r} is none of the operator's checks; they are {', '.join(checks)}")
    if goal is None:
        raise BadRequest("check: needs `goal`, which it is held against; give a goal, or leave check out")


def plan_start(
    request: StartRequest,
    found: Path | None,
    *,
    default_dir: Path,
    tools: tuple[str, ...],
    checks: tuple[str, ...] = (),
    session_id: str,
    now: datetime,
) -> Run:
    """The run of a `start`: a new session.

    :param found: the directory that `dir` names, where it was given.
    """
    check_known(request.check, checks, request.goal)
    directory = found or default_dir
    return Run(
        name=request.name,
        prompt=request.prompt,
        dir=directory,
        tools=tools,
        goal=request.goal,
        max_turns=(request.max_turns or DEFAULT_MAX_TURNS) if request.goal is not None else None,
        report_file=_report(request.report_file, directory),
        check=request.check,
        options=request.options,
        session_id=session_id,
        started_at=now,
    )


def plan_continue(
    request: ContinueRequest,
    found: Path | None,
    earlier: Run | None,
    *,
    default_dir: Path,
    tools: tuple[str, ...],
    checks: tuple[str, ...] = (),
    now: datetime,
) -> Run:
    """The run of a `continue`: what is not given carries over from the earlier run of the name.

    A goal carries over; its budget of turns begins afresh, at the same size.
    """
    directory = found or (earlier.dir if earlier is not None else default_dir)
    goal = request.goal or None
    if request.goal is None and earlier is not None and keeps_goal(earlier.stop_reason):
        goal = earlier.goal
    if goal is None and request.max_turns is not None:
        raise BadRequest("max_turns: this run has no goal to work toward: give `goal` too, or leave `max_turns` out")
    check_known(request.check, checks, goal)
    check = request.check or (earlier.check if earlier is not None and goal is not None else None)
    max_turns = request.max_turns or (earlier.max_turns if earlier is not None else None) or DEFAULT_MAX_TURNS
    remembered = earlier.session_id if earlier is not None else None
    resume = request.session_id or remembered or request.name
    report_file = _report(request.report_file, directory)
    report_within = None
    if report_file is None and earlier is not None:
        report_file, report_within = earlier.report_file, earlier.report_within
    # Naming the directory or the session accepts what is there now.
    same = earlier is not None and request.dir is None and request.session_id is None
    return Run(
        name=request.name,
        prompt=request.prompt,
        dir=directory,
        tools=tools,
        goal=goal,
        max_turns=max_turns if goal is not None else None,
        report_file=report_file,
        report_within=report_within,
        check=check,
        options=request.options.over(earlier.options) if earlier is not None else request.options,
        session_id=resume if resume != request.name else None,
        resume=resume,
        session_cost=earlier.session_cost if earlier is not None and resume == remembered else None,
        cut_off_before=earlier.cut_off if earlier is not None else None,
        cost_restarts=earlier is not None and resume == remembered and earlier.cost_restarts,
        started_at=now,
        settings_seen=earlier.settings_seen if same and earlier is not None else None,
        history=earlier.history.continued() if earlier is not None and resume == remembered else History(),
    )


def carried_over(request: ContinueRequest, earlier: Run | None, run: Run) -> AnswerExtras:
    """What the answer of a `continue` has to say of what was not asked for."""
    extras: AnswerExtras = {}
    if run.cut_off_before is not None:
        extras["previous_signal"] = run.cut_off_before
    if request.goal is None and run.goal is not None:
        extras["same_goal"] = True
    if request.goal is None and earlier is None:
        extras["no_goal_remembered"] = True
    budget = run.options.max_budget_usd
    if budget is not None and request.options.max_budget_usd is None:
        extras["budget_anew_usd"] = budget
    return extras


def check_session_free(run: Run, going: Iterable[Run]) -> None:
    """See that no other run works in the session that this one is to resume.

    :raises AlreadyRunning: naming the subagent that does.
    """
    for other in going:
        if run.resume in {other.session_id, other.session}:
            raise AlreadyRunning(session_taken(other, run.resume, "nothing was queued"))


def find_clash(going: Sequence[Run]) -> tuple[Run, Run] | None:
    """The first run that works in the session of one that began before it, and that one: with a title, `init` alone
    says which session it is.

    :param going: those that have not been ended for this already, in the order in which they began.
    """
    known: dict[str, Run] = {}
    for run in going:
        if run.session is None:
            continue
        first = known.setdefault(run.session, run)
        if first is not run:
            return run, first
    return None


def session_taken(other: Run, session: str | None, consequence: str) -> str:
    """Why a call is refused whose session is that of another run, and what would work."""
    return (
        f"the session {session} is that of {other.name}, which is running (turn {other.turn_number}): "
        f"{consequence}, as two claudes would write one transcript. "
        f"Wait for {other.name} with `status` or stop it with `interrupt`, and continue the session then"
    )


def _report(text: str | None, directory: Path) -> str | None:
    return None if text is None else resolve_report_path(text, str(directory))
