"""Records as a table and as a card, for a terminal. Whatever a subagent wrote is plain text here, never markup, and
without what a terminal would obey.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hivesub.cli.exits import is_over
from hivesub.readable import NOT_KNOWN, clean, clock, cut, dollars, liveliness, span, whole
from hivesub.shapes import Record
from hivesub.wording import (
    check_sentence,
    claims_sentence,
    outcome_sentence,
    report_sentence,
    stop_sentence,
    title_words,
    turn_phrase,
)

COLOURS = {
    "running": "cyan",
    "waiting": "blue",
    "idle": "green",
    "blocked": "yellow",
    "killed": "magenta",
    "failed": "red",
}
_AGE_COLOURS = {"": "", "quiet": "yellow", "silent": "red"}


def terminal(*, stderr: bool = False) -> Console:
    """A console that takes no text for markup."""
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def state(record: Record) -> Text:
    """The state, in words and colour."""
    return Text(record["state"], style=f"bold {COLOURS[record['state']]}")


def bar(record: Record, width: int = 12) -> RenderableType:
    """The turns: N of M as a bar and in figures."""
    if record["max_turns"] is None:
        return Text("single turn", style="dim")
    colour = COLOURS[record["state"]]
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        ProgressBar(
            total=record["max_turns"], completed=record["turn"] or 0, width=width, complete_style=colour,
            finished_style=colour,
        ),
        f"{record['turn']} of {record['max_turns']}",
    )  # fmt: skip
    return grid


def age(record: Record, passed_s: float = 0.0) -> Text:
    """The age of the last event.

    :param passed_s: seconds since the record was made.
    """
    age_s = record["last_event_age_s"]
    if age_s is None:
        return Text(f"ended {clock(record['ended_at'])}" if is_over(record) else "starting", style="dim")
    mark = liveliness(age_s + passed_s)
    text = f"{span(age_s + passed_s)} ago"
    return Text(f"{text}, {mark}" if mark else text, style=_AGE_COLOURS[mark])


def held_up(record: Record) -> str:
    """What a run that goes on waits for, other than its subagent; "" where nothing is known."""
    until, retry = record.get("waiting_until"), record["retrying"]
    if "checking" in record:
        return check_sentence(record).rstrip(".")
    if until is not None:
        return f"a usage limit holds it up: its turn is run again at {whole(until)}"
    if retry is not None:
        why = retry["error"] or (f"status {retry['status']}" if retry["status"] else "an error")
        return f"waits for the API: {why}, attempt {retry['attempt']} of {retry['max_attempts']}"
    return ""


def standing(record: Record) -> str:
    """How it stands, in a line."""
    if not is_over(record):
        return held_up(record) or cut(" ".join((record["goal"] or "").split()), 60)
    words = title_words(record)
    if record["state"] == "blocked" and record["signals"]:
        return f"{words}: “{cut(record['signals'][-1]['message'], 120)}”"
    if record["state"] in ("failed", "killed") and record["last_turn"]:
        last = record["last_turn"]
        cause = "; ".join(part for part in (last["signal"], " ".join((last["detail"] or "").split())) if part)
        if cause:
            return cut(cause, 120) if words == record["state"] else f"{words}: {cut(cause, 120)}"
    return words


def card(record: Record, passed_s: float = 0.0) -> RenderableType:
    """One subagent, all that a person asks."""
    record = clean(record)
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(ratio=1)
    facts.add_row("turn", bar(record, 24))
    facts.add_row("last event", age(record, passed_s))
    if not is_over(record) and held_up(record):
        facts.add_row("waits", Text(held_up(record), style="yellow"))
    if record["goal"]:
        facts.add_row("goal", Text(record["goal"]))
    if is_over(record):
        facts.add_row("outcome", Text(outcome_sentence(record)))
        facts.add_row("stopped", Text(stop_sentence(record)))
    if claims_sentence(record):
        facts.add_row("signals", Text(claims_sentence(record)))
    if check_sentence(record):
        facts.add_row("check", Text(check_sentence(record)))
    if report_sentence(record):
        facts.add_row("report", Text(report_sentence(record)))
    usage = record["usage"]
    facts.add_row(
        "cost", f"{dollars(usage['cost_usd'])}, {usage['input_tokens']} tokens in, {usage['output_tokens']} out"
    )
    facts.add_row("session", Text(f"{record['session_id'] or NOT_KNOWN} in {record['dir']}"))
    facts.add_row("todo", "none yet" if record["todo"] == "none" else record["todo"])
    parts: list[RenderableType] = [facts]
    if last_words(record):
        parts.append(Panel(Text(last_words(record)), title="its last words", title_align="left", border_style="dim"))
    return Panel(
        Group(*parts),
        title=Text.assemble((record["name"], "bold"), "  ", state(record)),
        title_align="left",
        border_style=COLOURS[record["state"]],
    )


def line(record: Record) -> str:
    """One subagent in a line of plain text, for where there is no terminal."""
    record = clean(record)
    parts = [f"{record['name']}: {record['state']}", turn_phrase(record), " ".join(standing(record).split())]
    return ". ".join(part for part in parts if part)


def last_words(record: Record) -> str:
    """The last thing that it said, in plain text: the JSON of a typed result, where it gave one."""
    typed = record.get("structured_output")
    if typed is not None:
        return json.dumps(clean(typed), ensure_ascii=False, indent=2)
    return str(clean(record.get("result") or ""))


def notes(answer: Mapping[str, Any]) -> list[str]:
    """What an answer says beside the record, a line each."""
    lines = [
        f"{note.replace('_', ' ')}: {answer[note]}"
        for note in ("replaced_session_id", "previous_signal", "escalated")
        if answer.get(note)
    ]
    if not answer.get("under_way", True):
        lines.append("not under way yet: claude has not said that it resumed the session")
    return lines
