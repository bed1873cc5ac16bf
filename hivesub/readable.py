"""Numbers, times and foreign texts as a person reads them, on the page and in a terminal."""

from __future__ import annotations

import re
from typing import Any

from hivesub.wording import valid_text

QUIET_S = 60
"""From so many seconds without a word on, a turn is shown as quiet, from `SILENT_S` on as silent."""
SILENT_S = 300

NOT_KNOWN = "–"

_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def span(seconds: float) -> str:
    """A duration, such as ``4 s``, ``2 min 5 s`` or ``3 h 20 min``. `page.js` says it the same."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def liveliness(age_s: float) -> str:
    """``""``, ``quiet`` or ``silent``: how long ago a turn last wrote anything, in a word."""
    return "" if age_s < QUIET_S else "quiet" if age_s < SILENT_S else "silent"


def size(count: int | None) -> str:
    """An amount of bytes, such as ``312 B`` or ``1.2 MB``."""
    if count is None:
        return NOT_KNOWN
    if count < 1000:
        return f"{count} B"
    for unit, one in (("kB", 1e3), ("MB", 1e6)):
        if count < one * 999.5:
            return f"{count / one:.3g} {unit}"
    return f"{count / 1e9:.3g} GB"


def dollars(cost_usd: float | None) -> str:
    """US dollars: to the cent from one on, smaller sums as exactly as claude gives them."""
    if cost_usd is None:
        return NOT_KNOWN
    return f"${cost_usd:.2f}" if cost_usd >= 1 else f"${cost_usd:.4f}"


def clock(when: str | None) -> str:
    """The time of day of an RFC 3339 text in UTC, such as ``14:02:11 UTC``."""
    return NOT_KNOWN if when is None else f"{when[11:19]} UTC"


def whole(when: str | None) -> str:
    """Date and time of an RFC 3339 text in UTC, to the second."""
    return NOT_KNOWN if when is None else f"{when[:10]} {clock(when)}"


def cut(text: str, limit: int = 200) -> str:
    """At most so many characters of a text."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def clean(value: Any) -> Any:
    """JSON whose texts can be shown: no lone surrogates, no control characters but white space (a terminal would obey
    them), none that turn the direction of what follows.
    """
    if isinstance(value, str):
        text = valid_text(value)
        return text if text.isprintable() else _UNSHOWN.sub("\ufffd", text)
    if isinstance(value, dict):
        return {key: clean(each) for key, each in value.items()}
    if isinstance(value, list):
        return [clean(each) for each in value]
    return value
