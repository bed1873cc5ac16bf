"""The bound of a file that the daemon appends to for ever: it is moved aside before it grows past it."""

from __future__ import annotations

import os
import stat

from twisted.logger import Logger

_log = Logger()


def rotate(path: str, coming_bytes: int, most_bytes: int) -> None:
    """Move a file that would grow past a bound to `PATH.1`, over the one before; an empty one takes its place, with the
    same mode. Blocking.

    A reader that has the file open goes on in `PATH.1`. Where it cannot be moved it grows on, and the log says so. What
    is no regular file, or not there, is left to the append.
    """
    try:
        real = os.path.realpath(path)
        seen = os.stat(real)
        if not stat.S_ISREG(seen.st_mode) or not seen.st_size or seen.st_size + coming_bytes <= most_bytes:
            return
        os.replace(real, f"{real}.1")
        fd = os.open(real, os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            os.fchmod(fd, stat.S_IMODE(seen.st_mode))  # who could read it still can
        finally:
            os.close(fd)
    except FileNotFoundError:
        return
    except OSError as error:
        _log.warn("{path} is full and could not be moved to {path}.1: {why}", path=path, why=error.strerror)
