"""The state directory's owner: one daemon at a time, and who owned it before.

Owns the lock and the list of marks; what is kept in the directory is its users' business. A daemon's mark begins the
`HIVESUB_TURN` of every turn it spawns, so that its successor finds what a daemon that was killed has left.
"""

from __future__ import annotations

import errno
import json
import os
from typing import TYPE_CHECKING

from attrs import define, field
from twisted.logger import Logger

from hivesub.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_KEPT_MARKS = 10_000
"""More than daemons can die before one lives long enough to look for what they left."""

_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})
"""What `flock` fails with where a file system has none, such as NFS without its lock service."""
_log = Logger()


@define(eq=False)
class StateDir:
    """A claimed state directory.

    `dead`: marks of daemons that owned it before and may have left processes.
    """

    path: Path
    mark: str
    dead: tuple[str, ...]
    _lock: int | None = field(repr=False)

    def forget_dead(self, still_there: Iterable[str] = ()) -> None:
        """Note that nothing bears the marks of the dead any more, but for those that are still there."""
        self.dead = tuple(still_there)
        _write_marks(self.path, [*self.dead, self.mark])

    def withdraw(self) -> None:
        """Give the directory up as if it had never been claimed: this daemon has started nothing.

        A mark that nothing bears must not push out those of daemons that did leave something.
        """
        if self._lock is not None:
            try:
                _write_marks(self.path, list(self.dead))
            except OSError as error:
                _log.warn("the mark of this start stays in {path}: {why}", path=self.path, why=error.strerror)
        self.release()

    def release(self) -> None:
        """Give the directory up, at a clean stop that left nothing running."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def claim(path: Path, mark: str) -> StateDir:
    """Claim a state directory for this process, for as long as it lives.

    :param mark: this daemon's, random.
    :raises ConfigError: when another daemon has it, or it cannot be written.
    """
    try:
        lock = _lock(path)
        dead = [old for old in _read_marks(path) if old != mark]
        try:
            _write_marks(path, [*dead[-_KEPT_MARKS:], mark])
        except BaseException:
            if lock is not None:
                os.close(lock)
            raise
    except BlockingIOError:
        raise ConfigError(
            f"--state-dir: {path} is in use by another hivesub: give each daemon a state directory of its own"
        ) from None
    except OSError as error:
        raise ConfigError(f"--state-dir: {path} cannot be used: {error.strerror}") from error
    return StateDir(path, mark, tuple(dead), lock)


def _lock(path: Path) -> int | None:
    try:
        import fcntl
    except ImportError:  # not on this platform: two daemons would not notice each other
        return None
    fd = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _NO_LOCKS:
            _log.warn(
                "--state-dir: the file system of {path} knows no locks ({why}): nothing keeps a second daemon out of "
                "it; see that only one uses it, or give a directory on a local disk",
                path=str(path),
                why=error.strerror,
            )
            return fd
        os.close(fd)
        raise
    return fd


def _read_marks(path: Path) -> list[str]:
    try:
        marks = json.loads((path / "marks.json").read_text())
    except (OSError, ValueError):
        return []
    return [mark for mark in marks if isinstance(mark, str) and mark] if isinstance(marks, list) else []


def _write_marks(path: Path, marks: list[str]) -> None:
    fresh = path / "marks.json.new"
    fresh.write_text(json.dumps(marks))
    fresh.replace(path / "marks.json")
