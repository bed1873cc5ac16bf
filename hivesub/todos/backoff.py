"""How long to wait before the next attempt: growing, jittered, bounded. Pure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from attrs import frozen

RETRY_AFTER_CAP_S = 900.0
"""A receiver's Retry-After is honoured up to this: a wrong one must not put todos off for a day."""


@frozen(kw_only=True)
class Backoff:
    """Waits that double from `first_s` to `cap_s`, each cut to between half of it and all of it by chance, so that
    many daemons do not come back at once.

    `random`: gives a float in [0, 1).
    """

    random: Callable[[], float]
    first_s: float = 1.0
    cap_s: float = 300.0

    def wait_s(self, failures: int, retry_after_s: float | None = None) -> float:
        """Seconds to wait after so many failures in a row (1 and up), and no less than what the receiver asked for."""
        # The exponent is bounded, since a float is.
        whole = min(self.cap_s, self.first_s * 2.0 ** min(failures - 1, 64))
        wait = whole * (0.5 + 0.5 * self.random())
        return max(wait, min(retry_after_s, RETRY_AFTER_CAP_S)) if retry_after_s is not None else wait


def retry_after_s(value: str | None, date: str | None) -> float | None:
    """A `Retry-After` header in seconds, or None when there is none to be made sense of.

    :param date: the same response's `Date` header. A date in `value` is counted from it: the two clocks need not
        agree with ours.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        # "-0000" dates come back naive; HTTP dates are UTC all the same.
        until, now = (parsedate_to_datetime(each).replace(tzinfo=UTC) for each in (text, date or ""))
    except (ValueError, TypeError, OverflowError):  # a year or an offset may be of any size
        return None
    return max(0.0, _seconds_between(now, until))


def _seconds_between(start: datetime, end: datetime) -> float:
    return (end - start).total_seconds()
