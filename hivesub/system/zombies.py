"""The zombies that a daemon inherits as PID 1 of a container: processes whose own parent died before them.

Twisted waits for the children that it spawned and for no others, so what a subagent's commands leave behind would stay
in the process table for ever. Elsewhere than as PID 1 they go to that machine's init, and nothing is to be done.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING

import psutil
from twisted.internet import process as twisted_process

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall, IReactorTime

LOOK_S = 1.0
"""Seconds between two looks. No signal is listened to: SIGCHLD is Twisted's."""


def zombie_children() -> list[int]:
    """The ids of this process's children that have exited and that nobody has waited for."""
    found = []
    for child in psutil.Process().children():
        try:
            if child.status() == psutil.STATUS_ZOMBIE:
                found.append(child.pid)
        except psutil.Error:
            continue
    return found


class Adopted:
    """Waits for the zombies that are not Twisted's own.

    :param own: holds the ids of the children that Twisted waits for itself.
    """

    def __init__(
        self,
        clock: IReactorTime,
        *,
        zombies: Callable[[], Iterable[int]] = zombie_children,
        own: Container[int] = twisted_process.reapProcessHandlers,
        wait: Callable[[int, int], object] = os.waitpid,
    ) -> None:
        self._clock = clock
        self._zombies = zombies
        self._own = own
        self._wait = wait
        self._call: IDelayedCall | None = None

    def begin(self) -> None:
        """Look from now on."""
        self._call = self._clock.callLater(LOOK_S, self._look)

    def end(self) -> None:
        """Look no more."""
        if self._call is not None and self._call.active():
            self._call.cancel()

    def _look(self) -> None:
        for pid in self._zombies():
            # Spawning and this look run on one thread, so a child of Twisted's is registered before it can be seen.
            if pid not in self._own:
                try:
                    self._wait(pid, os.WNOHANG)
                except ChildProcessError:
                    continue
        self._call = self._clock.callLater(LOOK_S, self._look)
