"""Of which ends an agent has heard: the ids of their todos, a line each, in a file beside each file of todos.

Shared with the plugin's hook, which reads it before it reports an end and adds what it has reported. Losing a line
costs one repetition.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger
from zope.interface import implementer

from hivesub.interfaces import IHeard
from hivesub.system.appendfile import InThread, append_whole
from hivesub.todos.inorder import InOrder

SUFFIX = ".heard"
KEPT = 1000
"""Ids that are kept of a file that has grown past `MOST_BYTES`."""
MOST_BYTES = 128 * 1024
READ_S = 1.0

_log = Logger()


@implementer(IHeard)
@define(eq=False)
class Heard:
    """Keeps the ids beside files of todos, and those of this daemon in memory.

    :param files: the todo files.
    """

    _files: Sequence[Path]
    _clock: IReactorTime
    _in_thread: InThread = field(converter=InOrder)
    _own: deque[str] = field(init=False, factory=lambda: deque(maxlen=KEPT))

    def note(self, todo_id: str) -> None:
        if todo_id in self._own:
            return
        self._own.append(todo_id)
        for path in self._files:
            self._in_thread(_add, _beside(path), todo_id).addErrback(
                lambda failure: _log.warn("it was not noted that an end was heard of: {why}", why=failure.value)
            )

    def ids(self) -> Deferred[frozenset[str]]:
        return Deferred.fromCoroutine(self._ids())

    async def _ids(self) -> frozenset[str]:
        found = set(self._own)
        for path in self._files:
            try:
                found |= await self._in_thread(_read, _beside(path)).addTimeout(READ_S, self._clock)
            except Exception:  # a mount that is dead, a file that is none: an end is then reported once more
                continue
        return frozenset(found)


def _beside(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def _add(path: Path, todo_id: str) -> None:
    append_whole(str(path), f"{todo_id}\n".encode())
    if os.path.getsize(path) > MOST_BYTES:
        kept = path.read_bytes().splitlines(keepends=True)[-KEPT:]
        fresh = path.with_name(path.name + ".new")
        fresh.write_bytes(b"".join(kept))
        fresh.replace(path)


def _read(path: Path) -> set[str]:
    try:
        with path.open("rb") as file:
            return set(file.read(2 * MOST_BYTES).decode("utf-8", "replace").split())
    except FileNotFoundError:
        return set()
