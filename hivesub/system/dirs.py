"""The daemon's two directories: where they are when nobody says, and how they are made so that they are private.

The runtime directory holds what lives as long as the daemon (the config files with signal URLs), the state directory
what outlives it (undelivered todos).
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from pathlib import Path


def default_runtime_dir(environ: Mapping[str, str]) -> Path:
    """systemd's `$RUNTIME_DIRECTORY`, else `$XDG_RUNTIME_DIR/hivesub`, else this user's own in the temporary one."""
    given = _systemd(environ, "RUNTIME_DIRECTORY")
    if given is not None:
        return given
    base = _absolute(environ.get("XDG_RUNTIME_DIR"))
    if base is not None:
        return base / "hivesub"
    # In a directory that all may write to: `make_private_dir` refuses it when somebody else was there first.
    return Path(tempfile.gettempdir()) / f"hivesub-{_uid()}"


def default_state_dir(environ: Mapping[str, str]) -> Path:
    """systemd's `$STATE_DIRECTORY`, else `${XDG_STATE_HOME:-~/.local/state}/hivesub`, else one as above."""
    given = _systemd(environ, "STATE_DIRECTORY")
    if given is not None:
        return given
    base = _absolute(environ.get("XDG_STATE_HOME"))
    if base is not None:
        return base / "hivesub"
    home = _absolute(environ.get("HOME"))
    if home is not None:
        return home / ".local" / "state" / "hivesub"
    return Path(tempfile.gettempdir()) / f"hivesub-state-{_uid()}"


def make_private_dir(path: Path) -> Path:
    """Make a directory that only this user can enter, or take one that is there already and is this user's own.

    Gives `path`, mode 0700; missing parents are made too, with the usual mode. Nothing is done to a directory that was
    there before: closing one to others that they use (`/tmp`, a home) would be worse than refusing it.
    :raises ValueError: saying why, where it is a symlink or a file, somebody else's, open to others or cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            pass
        seen = path.lstat()
        if not stat.S_ISDIR(seen.st_mode):
            what = "a symlink" if stat.S_ISLNK(seen.st_mode) else "no directory"
            raise ValueError(f"{path} is {what}; give a directory of your own")
        if os.name == "posix" and seen.st_uid != _uid():
            raise ValueError(f"{path} belongs to user {seen.st_uid}, not to {_uid()}; give a directory of your own")
        if os.name == "posix" and seen.st_mode & 0o077:
            raise ValueError(f"{path} is open to others; chmod 700 it, or give a directory that does not exist yet")
        if not os.access(path, os.W_OK | os.X_OK):
            raise ValueError(f"{path} cannot be written to; give a directory that can")
    except OSError as error:
        raise ValueError(f"{error.filename or path}: {error.strerror}; give a directory that can be made") from None
    return path


def _systemd(environ: Mapping[str, str], variable: str) -> Path | None:
    """The first of systemd's colon-separated list."""
    return _absolute(environ.get(variable, "").split(":")[0])


def _absolute(text: str | None) -> Path | None:
    """The path, or None where there is none or it is relative: the XDG specification says to ignore such."""
    return Path(text) if text and os.path.isabs(text) else None


def _uid() -> int:
    return os.geteuid() if os.name == "posix" else 0
