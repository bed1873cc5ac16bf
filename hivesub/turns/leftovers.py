"""What daemons that died have left running: found by the mark in its environment, and ended."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from twisted.internet.interfaces import IReactorTime

_log = Logger()
WAIT_S = 3.0
"""Seconds between SIGTERM and SIGKILL where nobody waits."""
_LOOK_S = 0.1


def end_leftovers(
    marks: Iterable[str],
    *,
    clock: IReactorTime,
    marked: Callable[..., set[int]],
    whose: str = "a dead daemon",
    wait_s: float = WAIT_S,
    kill: Callable[[int, int], None] = os.kill,
) -> Deferred[int]:
    """End every process that bears one of the marks: SIGTERM, and SIGKILL for those that stay.

    :param marked: gives the ids of the living processes whose mark begins with one of the prefixes.
    :param whose: what the log says that they are left from.
    :param wait_s: seconds between SIGTERM and SIGKILL, and that SIGKILL is given.
    :returns: fires with how many were found, once they are gone or `wait_s` after SIGKILL.
    """
    return Deferred.fromCoroutine(_end(tuple(marks), clock, marked, whose, wait_s, kill))


async def _end(
    marks: tuple[str, ...],
    clock: IReactorTime,
    marked: Callable[..., set[int]],
    whose: str,
    wait_s: float,
    kill: Callable[[int, int], None],
) -> int:
    def left() -> set[int]:
        return marked(*marks) if marks else set()

    found = left()
    if not found:
        return 0
    _log.info("still there from {whose}, to be ended: {count} processes", whose=whose, count=len(found))
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in left():
            try:
                kill(pid, number)
            except OSError:
                continue
        deadline = clock.seconds() + wait_s
        while left() and clock.seconds() < deadline:
            await deferLater(clock, _LOOK_S)
    for pid in sorted(left()):
        _log.error("process {pid}, left from {whose}, outlived SIGKILL", pid=pid, whose=whose)
    return len(found)
