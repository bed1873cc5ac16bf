"""How much a turn's child writes over time, in slots, so that "working or wedged" can be seen.

Owns the counting, which stands on the path of every read: one comparison of integers, and once a slot an entry. What is
drawn of it is the operator's page's.
"""

from __future__ import annotations

from collections.abc import Mapping

SLOT_S = 5
"""Seconds of the monotonic clock in a slot; slot n begins at n × `SLOT_S`."""
SLOTS = 120
"""How many slots with output are kept: ten minutes of one that writes without a pause, longer of one that rests."""


class Activity:
    """Bytes by slot. `slots`: slot -> bytes, oldest first, those without output left out, at most `SLOTS`."""

    __slots__ = ("_now", "slots")

    def __init__(self) -> None:
        self.slots: dict[int, int] = {}
        self._now = -1

    def note(self, seconds: float, count: int) -> None:
        """So many bytes came, at this monotonic time."""
        now = int(seconds) // SLOT_S
        if now == self._now:
            self.slots[now] += count
            return
        self._now = now
        self.slots[now] = count
        if len(self.slots) > SLOTS:
            del self.slots[next(iter(self.slots))]


def merged(earlier: Mapping[int, int], later: Mapping[int, int]) -> dict[int, int]:
    """Two turns' slots as one; the newest `SLOTS` of them. They may share the slot in which one followed the other."""
    both = dict(earlier)
    for slot, count in later.items():
        both[slot] = both.get(slot, 0) + count
    return dict(list(both.items())[-SLOTS:])


def strip(slots: Mapping[int, int], last: int, length: int = SLOTS) -> list[int]:
    """The bytes of each slot up to and with `last`, oldest first, silent slots as 0: `length` numbers."""
    return [slots.get(slot, 0) for slot in range(last - length + 1, last + 1)]
