"""What a turn started, and how a signal reaches all of it.

Claude's Bash tool gives each command a session of its own, so a signal to claude's process group misses them; after a
SIGKILL they are handed to init, so the tree misses them too. What they keep is the environment: each turn's child
carries a mark in `HIVESUB_TURN`. A `Kin` unites the three: the group, the tree and the mark.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from hivesub.records import LeftProcess
from hivesub.turns.command import MARK_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_NAMED = 100

_PROC = Path("/proc")


def marked(*prefixes: str, proc: Path = _PROC) -> set[int]:
    """The ids of the living processes whose `HIVESUB_TURN` begins with one of the prefixes, this one left out.

    Reads `/proc/*/environ` itself, as psutil takes ten times as long for it and this runs on the reactor. Where there
    is no `/proc`, psutil is asked. Processes of other users cannot be read, and zombies have no environment: neither
    is given.
    """
    if not proc.is_dir():
        return {
            process.pid
            for process in psutil.process_iter(["environ"])
            if ((process.info["environ"] or {}).get(MARK_VARIABLE, "")).startswith(prefixes)
            and process.pid != os.getpid()
        }
    variable = f"{MARK_VARIABLE}=".encode()
    wanted = tuple(variable + prefix.encode() for prefix in prefixes)
    found = set()
    for entry in os.listdir(proc):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            environ = (proc / entry / "environ").read_bytes()
        except OSError:
            continue
        # Most processes bear none: only those that do are looked at closely.
        if variable in environ and any(each.startswith(wanted) for each in environ.split(b"\0")):
            found.add(int(entry))
    return found


def still_marked(prefix: str, pids: Iterable[int], *, proc: Path = _PROC) -> set[int]:
    """Which of these processes live and bear a mark that begins with a prefix."""
    if not proc.is_dir():
        return marked(prefix, proc=proc) & set(pids)
    return {pid for pid in pids if _bears(proc / str(pid), f"{MARK_VARIABLE}={prefix}".encode())}


def _bears(process: Path, wanted: bytes) -> bool:
    try:
        environ = (process / "environ").read_bytes()
    except OSError:
        return False
    return environ.startswith(wanted) or b"\0" + wanted in environ


def _alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running()) and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
    except OSError:
        return True  # it cannot be looked at now, as where descriptors are exhausted


def _process(pid: int) -> psutil.Process | None:
    try:
        return psutil.Process(pid)
    except (psutil.Error, OSError):
        return None


class Kin:
    """A child and all that it started, as far as it can be found.

    :param pid: the child's process id; also its group's, once `setsid` has run.
    :param mark: the value of `HIVESUB_TURN` that it was given.
    """

    def __init__(self, pid: int, mark: str) -> None:
        self._pid = pid
        self._mark = mark
        self._known: set[psutil.Process] = set()
        # Looked at when it is first signalled, not at the spawn: most are never, and it takes 0.1 ms (measured).
        self._child: psutil.Process | None = None

    def others(self) -> list[psutil.Process]:
        """The living processes of this turn apart from the child: marked, or once seen below it when it was signalled.

        `psutil.Process` compares by id and start time, so a reused id is never taken for one of them.

        :raises OSError: when they cannot be looked for, as where descriptors are exhausted.
        """
        if self._child is not None:
            try:
                self._known.update(self._child.children(recursive=True))
            except psutil.Error:
                self._child = None  # it is gone: the mark has to find the rest
        for pid in marked(self._mark) - {self._pid}:
            try:
                self._known.add(psutil.Process(pid))
            except psutil.Error:
                continue
        self._known = {process for process in self._known if process.pid != self._pid and _alive(process)}
        return sorted(self._known, key=lambda process: process.pid)

    def named(self) -> tuple[LeftProcess, ...]:
        """The same with their names, as many as are worth naming.

        :raises OSError: as `others`.
        """
        found = []
        for process in self.others()[:MOST_NAMED]:
            try:
                found.append(LeftProcess(pid=process.pid, name=process.name()))
            except (psutil.Error, OSError):
                continue
        return tuple(found)

    def send(self, number: int, *, child: bool) -> int:
        """Send a signal to the child's group and to everything else that it started. Where the latter cannot be looked
        for, the child's group and whatever was seen before still get it.

        :param child: whether the child itself has not been seen to exit yet: afterwards its id may be another's.
        :returns: how many others were signalled.
        """
        if child and self._child is None:
            self._child = _process(self._pid)
        try:
            others = self.others()  # looked up first: they may lose their parent by the signal
        except OSError:
            others = list(self._known)
        grouped = child and _send_to_group(self._pid, number)
        for process in others:
            try:
                # Nobody gets it twice: to a second SIGINT a program may answer otherwise than to the first.
                if not (grouped and os.getpgid(process.pid) == self._pid):
                    process.send_signal(number)
            except (psutil.Error, OSError):
                continue
        return len(others)


def _send_to_group(pid: int, number: int) -> bool:
    """To the group where there is one already, else to the process: right after the spawn `setsid` has not run yet.

    :returns: whether it went to a group.
    """
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
            return True
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # gone; or a launcher has made it another user's, and the ladder's end will report that it stays
    return False
