"""Watching runs live: asks `status` again and again, and lets the ages tick in between."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence

from rich.console import Console, RenderableType
from rich.live import Live

from hivesub.cli.show import last_words, line
from hivesub.shapes import Record

EVERY_S = 0.5
REFRESH_HZ = 4

Draw = Callable[[Sequence[Record], float], RenderableType]


class Screen:
    """Shows records that change: live in a terminal, else a line for each change.

    :param draw: makes a picture of the records, so many seconds after they were made.
    :param as_json: a JSON object a line for each change instead, whatever the console is.
    """

    def __init__(self, console: Console, draw: Draw, *, as_json: bool = False) -> None:
        self._console = console
        self._draw = draw
        self._as_json = as_json
        self._records: Sequence[Record] = ()
        self._made_at = time.monotonic()
        self._lines: dict[str, str] = {}
        self._live = Live(get_renderable=self._picture, console=console, refresh_per_second=REFRESH_HZ, transient=False)
        self._is_live = console.is_terminal and not as_json

    def __enter__(self) -> Screen:
        if self._is_live:
            self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_live:
            self._live.__exit__(None, None, None)

    def _picture(self) -> RenderableType:
        return self._draw(self._records, time.monotonic() - self._made_at)

    def show(self, records: Sequence[Record]) -> None:
        """Take what is so now."""
        self._records, self._made_at = records, time.monotonic()
        if self._is_live:
            return
        for record in records:
            # What only passes (the age) is no change.
            shown = json.dumps({**record, "last_event_age_s": None}) if self._as_json else line(record)
            if self._lines.get(record["name"]) != shown:
                self._lines[record["name"]] = shown
                self._console.out(json.dumps(record) if self._as_json else shown, highlight=False)
                if last_words(record) and not self._as_json:
                    self._console.out(last_words(record), highlight=False)


async def follow(
    screen: Screen, look: Callable[[], Awaitable[Sequence[Record]]], over: Callable[[Sequence[Record]], bool]
) -> Sequence[Record]:
    """Show what `look` gives until it is over; gives the last of it."""
    with screen:
        while True:
            records = await look()
            screen.show(records)
            if over(records):
                return records
            await asyncio.sleep(EVERY_S)
