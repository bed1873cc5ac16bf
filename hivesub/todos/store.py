"""The todos that wait, kept in the state directory so that a crash loses none. Blocking: the outbox calls it in a
thread, one call at a time.

todos/pending/<created_at>-<id>.json    {"todo": {...}, "settled": [sink keys that need it no more]}
todos/damaged/                          what was in pending and could not be read
todos/dead-letter.jsonl                 given up, one JSON object a line: {"why": ..., "todo": {...}}
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import cast

from attrs import define, field, frozen
from twisted.logger import Logger

from hivesub.shapes import Todo
from hivesub.system.appendfile import append_whole
from hivesub.todos.todo import todo_bytes
from hivesub.wording import valid_text

_MAX_BYTES = 64 * 1024 * 1024
_log = Logger()


@frozen(kw_only=True)
class Kept:
    """One todo on disk. `settled`: the keys of the sinks that have it or refused it; every other sink of the daemon
    still gets it, one that was configured later too. `file_name` sorts by age."""

    todo: Todo
    settled: frozenset[str] = frozenset()
    file_name: str = field()

    @file_name.default
    def _default_file_name(self) -> str:
        return file_name(self.todo)


def file_name(todo: Todo) -> str:
    """The name under which a todo waits: its time, then its id; a digest in place of what is no plain id."""
    created = re.sub(r"[^0-9TZ]", "", str(todo.get("created_at", "")))[:24]
    todo_id = str(todo["id"])
    if not re.fullmatch(r"[A-Za-z0-9-]{1,64}", todo_id):
        todo_id = sha256(todo_id.encode("utf-8", "replace")).hexdigest()[:32]
    return f"{created}-{todo_id}.json"


@define
class TodoStore:
    """Todos under `<state_dir>/todos`. Methods raise `OSError` (`AppendError` from `bury`) and leave nothing half
    done."""

    _state_dir: Path

    @property
    def root(self) -> Path:
        return self._state_dir / "todos"

    @property
    def pending(self) -> Path:
        return self.root / "pending"

    def load(self) -> list[Kept]:
        """What waits, oldest first. What cannot be read is put aside in `todos/damaged`, and logged."""
        self._make(self.pending)
        found = []
        for path in sorted(self.pending.iterdir()):
            if path.name.endswith(".tmp"):  # a write that a crash cut off: its todo was never counted as kept
                with suppress(OSError):
                    path.unlink()
                continue
            try:
                found.append(_read(path))
            except OSError as e:
                _log.error(
                    "a waiting todo cannot be read and stays where it is: {path}: {why}", path=str(path), why=e.strerror
                )
            except (ValueError, RecursionError) as e:
                self._put_aside(path, str(e))
        return found

    def write(self, kept: Kept) -> None:
        """Put a todo on disk, or what is known of it now in place of what was: whole, and safe from a power cut."""
        self._make(self.pending)
        target = self.pending / kept.file_name
        draft = target.with_suffix(".tmp")
        data = b'{"settled":%s,"todo":%s}\n' % (json.dumps(sorted(kept.settled)).encode(), todo_bytes(kept.todo))
        try:
            with open(
                os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0), 0o600), "wb"
            ) as f:
                f.write(data)
                f.flush()
                os.fsync(f.fileno())
            os.replace(draft, target)
        except OSError:
            with suppress(OSError):
                draft.unlink()
            raise
        _sync_folder(self.pending)

    def remove(self, kept: Kept) -> None:
        """Forget a todo; one that is not there is fine."""
        (self.pending / kept.file_name).unlink(missing_ok=True)

    def bury(self, todo: Todo, why: str) -> None:
        """Append a todo that was given up to the dead-letter file."""
        self._make(self.root)
        path = self.root / "dead-letter.jsonl"
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        reason = json.dumps(valid_text(why), ensure_ascii=False).encode()
        append_whole(str(path), b'{"why":%s,"todo":%s}\n' % (reason, todo_bytes(todo)))

    def _put_aside(self, path: Path, why: str) -> None:
        aside = self.root / "damaged"
        _log.error("damaged todo {name} is put aside in {folder}: {why}", name=path.name, folder=str(aside), why=why)
        try:
            self._make(aside)
            os.replace(path, aside / path.name)
        except OSError as e:
            _log.error("it could not be put aside: {why}", why=e.strerror)

    def _make(self, folder: Path) -> None:
        self._state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        # One by one: mkdir(parents=True) gives `mode` to the last one alone.
        for each in (self.root, folder):
            each.mkdir(mode=0o700, exist_ok=True)


def _read(path: Path) -> Kept:
    """
    :raises ValueError: it is not what `write` writes.
    """
    if not path.is_file():
        raise ValueError("it is not a file")
    with path.open("rb") as f:
        data = f.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError("it is too big")
    content = json.loads(data)
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")
    todo, settled = content.get("todo"), content.get("settled")
    if not isinstance(todo, dict) or not isinstance(todo.get("id"), str) or not isinstance(settled, list):
        raise ValueError("it holds no todo with an id")
    return Kept(todo=cast(Todo, todo), settled=frozenset(_texts(settled)), file_name=path.name)


def _texts(values: Iterable[object]) -> Iterable[str]:
    return (value for value in values if isinstance(value, str))


def _sync_folder(folder: Path) -> None:
    # Makes the rename itself safe. Not every system lets a folder be opened or synced; then the file alone is.
    with suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
