"""Load: the short form of `python -m bench.soak`, and that the soak sees what it is there to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.ledger import Ledger
from bench.soak import grown, shorts, streams
from bench.watch import Sample
from tests.support.world import Table


def test_children_that_stream_while_others_start_and_stop_lose_no_outcome(tmp_path: Path, table: Table) -> None:
    lost, told = streams(tmp_path, children=10, seconds=3.0)
    table.note("10 children at 1 MB/s while 15 clients poll, start and interrupt", 1, lost=len(lost), said=told[-1:])
    assert lost == []


def test_short_runs_in_a_row_leave_nothing_behind(tmp_path: Path, table: Table) -> None:
    lost, told = shorts(tmp_path, runs=80)
    table.note("80 short runs, six at a time", 1, lost=len(lost), said=told[-1:])
    assert lost == []


def _record(outcome: str | None, session: str = "s1") -> dict[str, Any]:
    state = {None: "running", "finished": "idle"}.get(outcome, outcome)
    return {
        "name": "alpha",
        "session_id": session,
        "state": state,
        "last_turn": outcome and {"outcome": outcome, "detail": "why"},
    }


def _todo(outcome: str, session: str = "s1") -> dict[str, Any]:
    return {"subagent": _record(outcome, session)}


def _ledger() -> Ledger:
    ledger = Ledger()
    ledger.started(_record(None), "finished")
    return ledger


def test_the_ledger_is_content_with_one_true_todo_a_run() -> None:
    ledger = _ledger()
    ledger.seen(_record("finished"))
    assert ledger.audit([_todo("finished")]) == []


@pytest.mark.parametrize(
    ("todos", "fault"),
    [
        ([], "alpha: 0 todos"),
        ([_todo("finished"), _todo("finished")], "alpha: 2 todos"),
        ([_todo("killed")], "alpha: told as killed, was finished (why)"),
        ([_todo("finished"), _todo("finished", "s2")], "a todo of a run that nobody started: s2"),
    ],
)
def test_the_ledger_tells_a_todo_that_is_missing_doubled_untrue_or_strange(todos: list[Any], fault: str) -> None:
    assert _ledger().audit(todos) == [fault]


def test_the_ledger_tells_an_answer_that_the_todo_contradicts() -> None:
    ledger = _ledger()
    ledger.stopped("s1")
    ledger.seen(_record("finished"))
    assert ledger.audit([_todo("killed")]) == ["alpha: its todo tells killed, an answer said finished"]


@pytest.mark.parametrize(("last_mb", "fault"), [(104, False), (130, True)])
def test_memory_counts_as_grown_beyond_what_an_allocator_does(last_mb: int, fault: bool) -> None:
    samples = [
        Sample(at=float(number), rss=(100 if number < 6 else last_mb) * 10**6, descriptors=9) for number in range(9)
    ]
    assert bool(grown(samples)) is fault
