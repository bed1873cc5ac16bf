"""Faults from inside the daemon: python imports this before anything else where this folder is on `PYTHONPATH`.

The folder that `FAULT_DIR` names holds what is to go wrong now: `spawn`, the name of an errno that every spawn fails
with; `wall`, the seconds that the wall clock is off by; `resolver`, the seconds that each look-up of a host name takes;
`mount`, a path below which each look at a file takes two minutes. A file that is not there is a fault that is not.
"""

import datetime
import errno
import os
import socket
import time

_DIR = os.environ.get("FAULT_DIR")


def _said(what: str) -> str:
    try:
        with open(os.path.join(_DIR or "", what), encoding="ascii") as told:
            return told.read().strip()
    except OSError:
        return ""


def _spawn(*args: object, **options: object) -> int:
    name = _said("spawn")
    if name:
        number = getattr(errno, name)
        raise OSError(number, os.strerror(number))
    return _real_spawn(*args, **options)  # type: ignore[arg-type]


def _getaddrinfo(*args: object, **options: object) -> object:
    time.sleep(float(_said("resolver") or 0))
    return _real_getaddrinfo(*args, **options)  # type: ignore[arg-type]


def _hanging(real):  # type: ignore[no-untyped-def]
    def look(path, *args, **options):  # type: ignore[no-untyped-def]
        below = _said("mount")
        if below and isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(below):
            time.sleep(120)
        return real(path, *args, **options)

    return look


def _time() -> float:
    return _real_time() + float(_said("wall") or 0)


class _Stepped(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> "_Stepped":
        return cls.fromtimestamp(_time(), tz)


if _DIR:
    _real_spawn, os.posix_spawnp = os.posix_spawnp, _spawn
    _real_getaddrinfo, socket.getaddrinfo = socket.getaddrinfo, _getaddrinfo  # type: ignore[assignment]
    os.stat, os.lstat, os.readlink, os.open = map(_hanging, (os.stat, os.lstat, os.readlink, os.open))
    _real_time, time.time = time.time, _time
    datetime.datetime = _Stepped  # type: ignore[misc]
