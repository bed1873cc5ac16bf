"""Reports to the service manager that started the daemon: one datagram a message to `$NOTIFY_SOCKET` (sd_notify(3)).

Owns the wire and nothing else: what is reported, and when, is the service's. Where no manager listens nothing is sent.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from attrs import frozen
from twisted.logger import Logger

if TYPE_CHECKING:
    from twisted.internet.interfaces import IDelayedCall, IReactorTime

VARIABLE = "NOTIFY_SOCKET"
LOOK_S = 2.0
"""Seconds between two looks at whether the status has changed."""
_log = Logger()


@frozen
class Notify:
    """Sends to one socket, or nowhere.

    `address`: a path, `@` and a name in Linux's abstract namespace, or None.
    """

    address: str | None

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return self.address is not None

    def ready(self, status: str) -> None:
        """The daemon listens. `status` is one line for `systemctl status`, like those below."""
        self._send("READY=1", f"STATUS={_line(status)}")

    def status(self, status: str) -> None:
        """How things stand."""
        self._send(f"STATUS={_line(status)}")

    def stopping(self, status: str) -> None:
        """The daemon has begun to stop."""
        self._send("STOPPING=1", f"STATUS={_line(status)}")

    def _send(self, *assignments: str) -> None:
        if self.address is None:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)  # a manager that does not read must not hold the reactor
                out.sendto("\n".join(assignments).encode("utf-8", "replace"), _kernel_address(self.address))
        except OSError as error:
            _log.warn(
                "{what} could not be sent to the service manager: {why}",
                what=assignments[0],
                why=error.strerror or str(error),
            )


def notify_from(environ: Mapping[str, str]) -> Notify:
    """By the daemon's environment. An address of a kind that is not spoken here, such as `vsock:`, is logged once."""
    address = environ.get(VARIABLE) or None
    if address is not None and (address[0] not in "/@" or not hasattr(socket, "AF_UNIX")):
        _log.warn("{variable} is of a kind that is not known here; nothing is sent to it", variable=VARIABLE)
        address = None
    return Notify(address)


def _kernel_address(address: str) -> str:
    return "\0" + address[1:] if address.startswith("@") else address


def _line(status: str) -> str:
    """A newline would begin another assignment."""
    return " ".join(status.split())


class StandingReport:
    """Reports how things stand, whenever that has changed.

    :param standing: gives one line.
    """

    def __init__(self, notify: Notify, clock: IReactorTime, standing: Callable[[], str]) -> None:
        self._notify = notify
        self._clock = clock
        self._standing = standing
        self._last = ""
        self._call: IDelayedCall | None = None

    def begin(self) -> None:
        """Say that the daemon is ready, and go on from there."""
        self._last = self._standing()
        self._notify.ready(self._last)
        if self._notify.heard:
            self._call = self._clock.callLater(LOOK_S, self._look)

    def end(self) -> None:
        """Say that the daemon is stopping."""
        if self._call is not None and self._call.active():
            self._call.cancel()
        self._notify.stopping(f"stopping; {self._standing()}")

    def _look(self) -> None:
        now = self._standing()
        if now != self._last:
            self._last = now
            self._notify.status(now)
        self._call = self._clock.callLater(LOOK_S, self._look)
