"""Why the system made no process, and what would help: the same words for a turn and for the asking of claude."""

from __future__ import annotations

import errno
import os

_ADVICE = {
    errno.EAGAIN: "the system's limit on processes is reached: wait for one to end, or raise it",
    errno.EMFILE: "the daemon is out of file descriptors: wait for a run to end, or raise its limit",
    errno.ENFILE: "the system is out of file descriptors",
    errno.ENOMEM: "the system is out of memory",
    errno.ENOSPC: "the disk of --runtime-dir is full",
    errno.E2BIG: "the arguments and environment are too long for the system",
}


def is_the_programs(error: OSError) -> bool:
    """Whether it is the program that cannot be run, rather than that something ran out."""
    return error.errno not in _ADVICE


def no_process(error: OSError) -> str:
    """What the system said, and of what, with advice where there is some."""
    advice = _ADVICE.get(error.errno or 0, "")
    name = f" ({os.fspath(error.filename)})" if isinstance(error.filename, str) else ""
    return f"no process could be started: {error.strerror or error}{name}" + (f"; {advice}" if advice else "")
