"""What a daemon holds while it is under load: memory, descriptors, children that nobody waited for."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import psutil
from attrs import frozen

ZOMBIE_S = 3.0
"""A child is dead for a moment before the daemon's next turn of the reactor: longer on a machine that is busy."""


@frozen
class Sample:
    """One look. `at`: seconds of the monotonic clock; `rss`: bytes."""

    at: float
    rss: int
    descriptors: int


class Watch:
    """Looks at a process from a thread of its own, from `begin` to `end`.

    `zombies`: ids of children that were dead for `ZOMBIE_S` and that nobody had waited for.
    """

    def __init__(self, pid: int, every_s: float) -> None:
        self._process = psutil.Process(pid)
        self._every_s = every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._dead: dict[int, float] = {}
        self.samples: list[Sample] = []
        self.zombies: set[int] = set()

    def begin(self) -> Watch:
        self._thread.start()
        return self

    def end(self) -> None:
        self._over.set()
        self._thread.join()

    def between(self, first: float, last: float) -> list[Sample]:
        """The looks of that time."""
        return [sample for sample in self.samples if first <= sample.at <= last]

    def _look(self) -> None:
        while not self._over.wait(self._every_s):
            try:
                self.samples.append(
                    Sample(time.monotonic(), self._process.memory_info().rss, len(descriptors(self._process.pid)))
                )
                dead = {child.pid for child in self._process.children() if _is_zombie(child)}
            except psutil.NoSuchProcess:
                return
            now = time.monotonic()
            self._dead = {pid: self._dead.get(pid, now) for pid in dead}
            self.zombies |= {pid for pid, since in self._dead.items() if now - since >= ZOMBIE_S}


def descriptors(pid: int) -> list[str]:
    """What a process's descriptors are, less its sockets: clients come and go."""
    found = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.append(str(entry.readlink()))
        except OSError:
            continue
    return [what for what in found if not what.startswith("socket:")]


def thirds(samples: Sequence[Sample]) -> tuple[float, float]:
    """Resident memory in the first and in the last third of some looks: medians, in MB."""
    size = max(1, len(samples) // 3)
    first, last = samples[:size], samples[-size:]
    return median(sample.rss for sample in first) / 1e6, median(sample.rss for sample in last) / 1e6


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
