"""What is said of a run that was told to stop and has not ended: only what was really done, and what is still there."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from hivesub.turns.stop import RUNG_S, RUNGS

if TYPE_CHECKING:
    from hivesub.interfaces import ITurn


def why_not_over(turn: ITurn | None, told_to_stop_s: float | None) -> str:
    """What holds up the end of a run.

    :param turn: the one in flight.
    :param told_to_stop_s: seconds since that turn was told to stop, None when it could not be told.
    """
    if turn is None:
        return "the process of its next turn is still being made"
    if turn.pid is None:
        return "its process is gone, but its output is still being read, or what it started is still being ended"
    if told_to_stop_s is None:
        return f"pid {turn.pid} has not gone, and no signal could be sent to it"
    return f"pid {turn.pid} has not gone after {_sent(turn, told_to_stop_s)}"


def _sent(turn: ITurn, seconds: float) -> str:
    sent = RUNGS[: max(2, 1 + int(seconds // RUNG_S))] if turn.escalated else RUNGS[:1]
    *names, last = [signal.Signals(number).name for number in sent]
    return f"{', '.join(names)} and {last}" if names else last
