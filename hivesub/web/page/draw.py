"""The two drawings: output over time, and the turns one after another. SVG whose sizes are attributes: the page allows
no inline style.
"""

from __future__ import annotations

from math import log1p
from typing import TYPE_CHECKING

from twisted.web.template import Tag

from hivesub.readable import size, span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from twisted.web.template import Flattenable

    from hivesub.shapes import PastTurnRecord

_HEIGHT = 20
_WIDTH = 1000
_LEAST_WIDTH = 6
"""Of a turn in the timeline: the shortest can be seen, and pointed at."""


def _svg(name: str, children: Sequence[Flattenable] = (), **attributes: str) -> Tag:
    # `tags` knows HTML alone.
    return Tag(name, attributes={key.rstrip("_"): value for key, value in attributes.items()}, children=list(children))


def activity(slots: Sequence[int], slot_s: int, state: str, *, live: bool) -> Tag:
    """A bar for each slot, logarithmic: that something came is what is to be seen. One path, as there may be many."""
    most = log1p(max(slots, default=0)) or 1.0
    bars = []
    for at, count in enumerate(slots):
        if count:
            height = max(2.0, _HEIGHT * log1p(count) / most)
            bars.append(f"M{at + 0.1:g} {_HEIGHT}v-{height:.3g}h.8v{height:.3g}z")
    path: list[Flattenable] = [_svg("path", d="".join(bars))] if bars else []
    return Tag(
        "svg",
        attributes={
            "class": f"strip {state}",
            "viewBox": f"0 0 {len(slots)} {_HEIGHT}",
            "preserveAspectRatio": "none",
            "role": "img",
            "aria-label": activity_words(slots, slot_s, live=live),
        },
        children=path,
    )


def activity_words(slots: Sequence[int], slot_s: int, *, live: bool) -> str:
    """What the drawing of the output shows, in a sentence."""
    until = "the last" if live else "the"
    past = "" if live else " up to its last output"
    head = f"Output in {until} {span(len(slots) * slot_s)}{past}:"
    written = sum(1 for count in slots if count)
    if not written:
        return f"{head} none."
    return f"{head} {size(sum(slots))}, in {written} of {len(slots)} slots of {slot_s} s."


def timeline(turns: Sequence[PastTurnRecord], running_s: float | None) -> Tag:
    """The turns as blocks, each as wide as it was long, coloured by its outcome.

    :param running_s: how long the turn in flight runs already, None when there is none.
    """
    blocks = [(str(turn["outcome"]), float(turn["duration_s"]), _title(turn)) for turn in turns]
    if running_s is not None:
        blocks.append(("running", running_s, f"running for {span(running_s)}"))
    total = sum(length for _, length, _ in blocks) or 1.0
    free = max(0.0, _WIDTH - _LEAST_WIDTH * len(blocks))
    rects: list[Flattenable] = []
    x = 0.0
    for outcome, length, title in blocks:
        width = _LEAST_WIDTH + free * length / total
        rects.append(
            _svg("rect", [_svg("title", [title])],
                 x=f"{x + 1:.4g}", y="0", width=f"{max(1.0, width - 2):.4g}", height="20", class_=outcome)
        )  # fmt: skip
        x += width
    words = "; ".join(title for _, _, title in blocks)
    return Tag(
        "svg",
        attributes={
            "class": "timeline",
            "viewBox": f"0 0 {_WIDTH} 20",
            "preserveAspectRatio": "none",
            "role": "img",
            "aria-label": f"The turns by length and outcome: {words}." if blocks else "No turn yet.",
        },
        children=rects,
    )


def _title(turn: PastTurnRecord) -> str:
    run = f"run {turn['run']}, " if turn["run"] > 1 else ""
    return f"{run}turn {turn['number']} {turn['outcome']} after {span(turn['duration_s'])}"
