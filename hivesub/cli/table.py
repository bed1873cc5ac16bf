"""Subagents as a table, which fits whatever width there is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hivesub.cli.exits import is_over
from hivesub.cli.show import age, bar, last_words, standing, state
from hivesub.readable import NOT_KNOWN, clean, dollars
from hivesub.shapes import Record

WIDE = 140
"""From so many columns on a table has all of its columns; below `NARROW` a subagent has two lines instead of a row."""
NARROW = 64


def table(records: Sequence[Record], passed_s: float = 0.0) -> RenderableType:
    """Subagents, a row each; where it is narrow, what matters less is left out."""
    if not records:
        return Text("No subagent has been started since the daemon came up.", style="dim")
    return _Table([clean(record) for record in records], passed_s)


def listing(records: Sequence[Record], passed_s: float = 0.0) -> RenderableType:
    """The table, and below it what those said last whose records have it."""
    said = [
        Panel(Text(last_words(record)), title=record["name"], title_align="left", border_style="dim")
        for record in records
        if last_words(record)
    ]
    return Group(table(records, passed_s), *said)


class _Table:
    """The table, made when its width is known."""

    def __init__(self, records: Sequence[Record], passed_s: float) -> None:
        self._records = records
        self._passed_s = passed_s

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.max_width >= WIDE:
            yield self._wide()
        elif options.max_width >= NARROW:
            yield self._medium(options.max_width)
        else:
            yield from self._narrow()

    def _wide(self) -> RenderableType:
        made = Table(header_style="dim", expand=True, box=None, pad_edge=False)
        made.add_column("subagent", overflow="fold", max_width=30)
        made.add_column("state", no_wrap=True)
        made.add_column("turn", no_wrap=True, width=21)
        made.add_column("last event", no_wrap=True, min_width=10)
        made.add_column("how it stands", ratio=1)
        made.add_column("cost", justify="right", no_wrap=True)
        made.add_column("todo", no_wrap=True)
        for record in self._records:
            made.add_row(
                Text(record["name"], style="bold"),
                state(record),
                bar(record),
                age(record, self._passed_s),
                Text(standing(record)),
                Text(dollars(record["usage"]["cost_usd"])),
                Text(NOT_KNOWN if record["todo"] == "none" else record["todo"], style="dim"),
            )
        return made

    def _medium(self, width: int) -> RenderableType:
        made = Table(header_style="dim", expand=True, box=None, pad_edge=False)
        made.add_column("subagent", overflow="fold", max_width=width // 4)
        made.add_column("state", no_wrap=True)
        made.add_column("turn", no_wrap=True)
        made.add_column("how it stands", ratio=1, overflow="fold")
        for record in self._records:
            turn = f"{record['turn']} of {record['max_turns']}" if record["max_turns"] is not None else "single"
            made.add_row(Text(record["name"], style="bold"), state(record), Text(turn), self._cause(record))
        return made

    def _narrow(self) -> Iterator[RenderableType]:
        for record in self._records:
            yield Text.assemble((record["name"], "bold"), "  ", state(record), overflow="fold")
            yield Padding(self._cause(record), (0, 0, 0, 2))

    def _cause(self, record: Record) -> Text:
        """How it stands, and while it runs the age of its last event before that."""
        words = Text(standing(record), overflow="fold")
        if is_over(record):
            return words
        return Text.assemble(age(record, self._passed_s), ". " if words else "", words, overflow="fold")
