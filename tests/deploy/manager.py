"""What the daemon needs of a service manager, emulated: a notify socket, and an open port handed over."""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

WAIT_S = 30.0
_HAND_OVER = """
import os, sys
port = int(sys.argv[1])
if port != 3:
    os.dup2(port, 3)
    os.close(port)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execvp(sys.argv[2], sys.argv[2:])
"""


class NotifySocket:
    """Where `NOTIFY_SOCKET` leads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.settimeout(WAIT_S)
        self._socket.bind(str(path))

    def read(self) -> tuple[int, dict[str, str]]:
        """The next datagram: the sender's process id, for which the kernel vouches, and what it assigns.

        :raises TimeoutError: when none comes in time.
        """
        data, ancillary, _, _ = self._socket.recvmsg(4096, socket.CMSG_SPACE(12))
        pid, _, _ = struct.unpack("3i", ancillary[0][2][:12])
        return pid, dict(line.split("=", 1) for line in data.decode().splitlines())

    def next(self) -> Deferred[tuple[int, dict[str, str]]]:
        """`read`, off the reactor's thread."""
        return deferToThread(self.read)

    def close(self) -> None:
        self._socket.close()


class Port:
    """A listening socket of loopback that a daemon inherits.

    `number`: its port. `prefix`: a command that puts it where systemd puts the first one, and execs the daemon.
    `environ`: what systemd sets beside; `LISTEN_PID` is the prefix's part, as it is the daemon's own id.
    """

    def __init__(self, name: str) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]
        self.prefix = [sys.executable, "-c", _HAND_OVER, str(self.fileno())]
        self.environ = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": name}

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()
