"""A relay before the daemon that says when certain bytes have gone through: then a call is being answered."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PIECE_BYTES = 65_536


class Relay:
    """Listens on a free port of loopback and connects each client to the port `target`.

    `seen` is set when a client has sent `awaited`, in one piece; `times` is how often that was.
    """

    def __init__(self, awaited: bytes, target: int) -> None:
        self.seen = threading.Event()
        self.times = 0
        self._target = target
        self._awaited = awaited
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                daemon = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            self._sockets += (client, daemon)
            for source, sink in ((client, daemon), (daemon, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        for each in (self._listener, *self._sockets):
            each.close()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(PIECE_BYTES):
                sink.sendall(piece)
                if self._awaited in piece:
                    self.times += piece.count(self._awaited)
                    self.seen.set()
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._cut(source)
            self._cut(sink)

    @staticmethod
    def _cut(end: socket.socket) -> None:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is cut already


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def relaying(awaited: bytes, target: int) -> Iterator[Relay]:
    relay = Relay(awaited, target)
    serving = threading.Thread(target=relay.serve, daemon=True)
    serving.start()
    try:
        yield relay
    finally:
        relay.close()
        serving.join(5)
