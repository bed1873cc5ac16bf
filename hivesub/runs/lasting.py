"""What is said of a run that was told to stop and has not ended: only what was really done, and what is still there."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivesub.interfaces import ITurn


def why_not_over(turn: ITurn | None) -> str:
    """What holds up the end of a run.

    :param turn: the one in flight.
    """
    if turn is None:
        return "the process of its next turn is still being made"
    if turn.pid is None:
        return "its process is gone, but its output is still being read, or what it started is still being ended"
    sent = [signal.Signals(number).name for number in turn.signals_sent]
    if not sent:
        return f"pid {turn.pid} has not gone, and no signal could be sent to it"
    *names, last = sent
    after = f"{', '.join(names)} and {last}" if names else last
    return f"pid {turn.pid} has not gone after {after}"
