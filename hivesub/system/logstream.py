"""A text stream for the log that never holds up who writes: what nobody reads is dropped, and counted.

A log goes to a terminal that can be stopped, or to a pipe or a socket whose reader can be. `write` to such a one
blocks, and with it everything else that the reactor's thread does, a stop included.
"""

from __future__ import annotations

import atexit
import io
import os
import select
import stat
import threading
from collections import deque
from typing import TextIO, cast

MOST_BYTES = 1 << 20
"""What is held for a reader that is slow."""
LAST_WAIT_S = 1.0
"""How long the exit waits for the last lines to be read."""


class LogStream(io.TextIOBase):
    """Writes to a descriptor from a thread of its own; the exit does not wait for that one without bound."""

    def __init__(self, descriptor: int, most_bytes: int = MOST_BYTES) -> None:
        self._descriptor = descriptor
        self._most_bytes = most_bytes
        self._lines: deque[bytes] = deque()
        self._held_bytes = 0
        self._dropped = 0
        self._writing = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str) -> int:
        """Take a text: all of it, or none where too much waits already."""
        data = text.encode("utf-8", "backslashreplace")
        with self._changed:
            if self._held_bytes + len(data) > self._most_bytes:
                self._dropped += 1
            else:
                self._lines.append(data)
                self._held_bytes += len(data)
                self._changed.notify_all()
            if self._thread is None:  # not before: a process that forks into the background would lose it
                self._thread = threading.Thread(target=self._run, name="hivesub-log", daemon=True)
                self._thread.start()
                atexit.register(self.drain, LAST_WAIT_S)
        return len(text)

    def drain(self, wait_s: float) -> None:
        """Wait until all that was taken is written, but no longer than `wait_s`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines and not self._writing, wait_s)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                data = b"".join(self._lines)
                self._lines.clear()
                self._held_bytes = 0
                dropped, self._dropped = self._dropped, 0
                self._writing = True
            if dropped:
                data += f"hivesub: {dropped} log lines were dropped here, as nobody read them\n".encode()
            self._write_all(data)
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _write_all(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:  # another process has made it so
                select.select([], [self._descriptor], [])
            except OSError:  # the reader is gone, or the disk is full: the daemon goes on without a log
                return


def unblocked(stream: TextIO) -> TextIO:
    """A stream in place of one whose writes could block; a file's do not, and it is given back itself.

    Either takes any text: what its encoding cannot carry, such as a path that is no UTF-8, is escaped.
    """
    try:
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
            return stream
        stream.flush()
        return cast(TextIO, LogStream(stream.fileno()))
    except (OSError, ValueError, AttributeError):  # it is closed, none of the system's, or not there at all
        return stream
