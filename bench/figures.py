"""Figures: what was measured on two sides in turn, told as a ratio with its spread."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from statistics import median

from attrs import frozen

ROUNDS = 5
"""How often each side is measured, in turn with the other, so that a slow minute of the machine meets both."""


@frozen
class Goal:
    """What a figure should be: at most `limit`, or at least where `least`."""

    limit: float
    least: bool = False

    def met(self, value: float) -> bool:
        return value >= self.limit if self.least else value <= self.limit

    def __str__(self) -> str:
        return f"{'≥' if self.least else '≤'} {self.limit:g}"


@frozen(kw_only=True)
class Figure:
    """One line of the table.

    `ours`, `theirs`: one value a round; a round's ratio is between values measured right after each other. A figure
    without a peer has no `theirs`, and its goal is about the value itself.
    """

    what: str
    against: str
    unit: str
    ours: Sequence[float]
    theirs: Sequence[float] = ()
    goal: Goal | None = None

    @property
    def values(self) -> list[float]:
        """What the goal is about: the rounds' ratios, or the values."""
        if not self.theirs:
            return list(self.ours)
        return [ours / theirs for ours, theirs in zip(self.ours, self.theirs, strict=True)]

    def line(self) -> str:
        """The figure as a row of a Markdown table."""
        values = self.values
        sign = "×" if self.theirs else f" {self.unit}"
        told = f"{_short(median(values))}{sign} ({_short(min(values))}–{_short(max(values))})"
        sides = f"{_short(median(self.ours))} {self.unit}"
        if self.theirs:
            sides += f" / {_short(median(self.theirs))} {self.unit}"
        verdict = "" if self.goal is None else "met" if self.goal.met(median(values)) else "**missed**"
        goal = "" if self.goal is None else f"{self.goal}{sign}"
        return f"| {self.what} | {self.against} | {told} | {sides} | {goal} | {verdict} |"


HEAD = "| what | against | ratio, median (min–max) | ours / theirs | goal | |\n|---|---|---|---|---|---|"


def in_turn(sides: Sequence[Callable[[], float]], rounds: int = ROUNDS) -> list[list[float]]:
    """Measure each side once a round, the first side first in every other round; a list of values for each side."""
    values: list[list[float]] = [[] for _ in sides]
    for number in range(rounds):
        order = list(enumerate(sides))
        for index, side in order if number % 2 == 0 else reversed(order):
            values[index].append(side())
    return values


def machine() -> str:
    """The machine and the Python that the figures belong to."""
    return (
        f"{_processor()}, {os.cpu_count()} cores, Linux {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}; load {os.getloadavg()[0]:.1f} at the start"
    )


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = {line.partition(":")[2].strip() for line in file if line.startswith("model name")}
    return ", ".join(sorted(names)) or platform.machine()


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
