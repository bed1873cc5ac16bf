"""Records as a table and as a card, for a terminal. Whatever a subagent wrote is plain text here, never markup, and
without what a terminal would obey.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from hivesub.endings import GOING_ON
from hivesub.readable import NOT_KNOWN, clean, clock, cut, dollars, liveliness, span
from hivesub.shapes import Record
from hivesub.wording import claims_sentence, outcome_sentence, report_sentence, stop_sentence, title_words, turn_phrase

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

    :param passed_s: seconds since the record was told.
    """
    age_s = record["last_event_age_s"]
    if age_s is None:
        return Text("starting" if record["state"] in GOING_ON else f"ended {clock(record['ended_at'])}", style="dim")
    mark = liveliness(age_s + passed_s)
    text = f"{span(age_s + passed_s)} ago"
    return Text(f"{text}, {mark}" if mark else text, style=_AGE_COLOURS[mark])


def standing(record: Record) -> str:
    """How it stands, in a line."""
    if record["state"] in GOING_ON:
        return cut(" ".join((record["goal"] or "").split()), 60)
    words = title_words(record)
    if record["state"] == "blocked" and record["signals"]:
        return f"{words}: “{cut(record['signals'][-1]['message'], 120)}”"
    return words


def table(records: Sequence[Record], passed_s: float = 0.0) -> RenderableType:
    """Subagents, a row each."""
    if not records:
        return Text("No subagent has been started yet.", style="dim")
    made = Table(header_style="dim", expand=True, box=None, pad_edge=False)
    made.add_column("subagent", no_wrap=True)
    made.add_column("state", no_wrap=True)
    made.add_column("turn", no_wrap=True, width=21)
    made.add_column("last event", no_wrap=True, min_width=10)
    made.add_column("how it stands", ratio=1)
    made.add_column("cost", justify="right", no_wrap=True)
    made.add_column("todo", no_wrap=True)
    for record in records:
        record = clean(record)
        made.add_row(
            Text(record["name"], style="bold"),
            state(record),
            bar(record),
            age(record, passed_s),
            Text(standing(record)),
            Text(dollars(record["usage"]["cost_usd"])),
            Text(NOT_KNOWN if record["todo"] == "none" else record["todo"], style="dim"),
        )
    return made


def card(record: Record, passed_s: float = 0.0) -> RenderableType:
    """One subagent, all that a person asks."""
    record = clean(record)
    running = record["state"] in GOING_ON
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    facts.add_column(ratio=1)
    facts.add_row("turn", bar(record, 24))
    facts.add_row("last event", age(record, passed_s))
    if record["goal"]:
        facts.add_row("goal", Text(record["goal"]))
    if not running:
        facts.add_row("outcome", Text(outcome_sentence(record)))
        facts.add_row("stopped", Text(stop_sentence(record)))
    if claims_sentence(record):
        facts.add_row("signals", Text(claims_sentence(record)))
    if report_sentence(record):
        facts.add_row("report", Text(report_sentence(record)))
    usage = record["usage"]
    facts.add_row(
        "cost", f"{dollars(usage['cost_usd'])}, {usage['input_tokens']} tokens in, {usage['output_tokens']} out"
    )
    facts.add_row("session", Text(f"{record['session_id'] or NOT_KNOWN} in {record['dir']}"))
    facts.add_row("todo", "none yet" if record["todo"] == "none" else record["todo"])
    parts: list[RenderableType] = [facts]
    if record.get("result"):
        parts.append(
            Panel(Text(record["result"] or ""), title="its last words", title_align="left", border_style="dim")
        )
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
