"""Places that fail a writer: a file system that is full or read-only. Never skipped: where no mount is allowed, what
comes next to it on that machine.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(at: Path, size: str = "256k") -> Iterator[Path]:
    """A file system of that size.

    :raises AssertionError: when this machine allows no mount: run the tests as root.
    """
    at.mkdir(parents=True, exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", str(at)], capture_output=True)
    assert made.returncode == 0, made.stderr
    try:
        yield at
    finally:
        # Lazily: a process that a test has failed to end may still hold it.
        subprocess.run(["umount", "-l", str(at)], check=True)


def mounts_allowed(at: Path) -> bool:
    """Whether this machine lets us mount."""
    if os.geteuid() != 0:
        return False
    try:
        with small_disk(at):
            return True
    except (AssertionError, OSError):
        return False


def fill(directory: Path) -> Path:
    """Fill its file system to the last byte; the file that does it, to be removed."""
    path = directory / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
    return path


@contextmanager
def read_only(at: Path) -> Iterator[Path]:
    """A file that exists and that nobody here may write to, root included."""
    if mounts_allowed(at):
        with small_disk(at):
            file = at / "report.md"
            file.write_text("as it was\n")
            subprocess.run(["mount", "-o", "remount,ro", str(at)], check=True)
            yield file
        return
    at.mkdir(parents=True, exist_ok=True)
    file = at / "report.md"
    file.write_text("as it was\n")
    file.chmod(0o444)
    # Root may write there all the same; where it may not mount, these are on file systems that are mounted read-only.
    found = [path for path in (file, Path("/proc/sys/kernel/ostype"), Path("/sys/kernel/notes")) if refused(path)]
    assert found, "no file is read-only for this user: let it mount"
    yield found[0]


def refused(path: Path) -> bool:
    """Whether a write to a file that is there is refused to us."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_APPEND))
    except PermissionError:
        return True
    except OSError as error:
        return error.errno == errno.EROFS
    return False
