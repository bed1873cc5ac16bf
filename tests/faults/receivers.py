"""A todo receiver that misbehaves as a test says."""

from __future__ import annotations

import json
import re
from typing import Any

from attrs import define, field
from twisted.internet.protocol import Factory, Protocol

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
BROKEN = b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"
BUSY = b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n"
ELSEWHERE = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
HALF = b"HTTP/1.1 200 OK\r\nContent-Le"


@define(eq=False)
class Receiver(Factory):
    """Notes the id of each whole POST in `asked`, and in `took` those answered well.

    `answer`: given to each, with the connection closed after it; None leaves them `waiting`.
    """

    answer: bytes | None = OK
    asked: list[str] = field(factory=list)
    took: list[str] = field(factory=list)
    waiting: list[tuple[Any, str]] = field(factory=list)

    def asked_beyond(self, count: int) -> bool:
        """Whether more than so many POSTs have come."""
        return len(self.asked) > count

    def buildProtocol(self, addr: object) -> Protocol:
        return _Post(self)

    def reply(self, transport: Any, todo_id: str) -> None:
        if self.answer is None:
            self.waiting.append((transport, todo_id))
            return
        if self.answer == OK:
            self.took.append(todo_id)
        transport.write(self.answer)
        transport.loseConnection()

    def wake(self) -> None:
        """Answer those that wait, as all others now."""
        waiting, self.waiting = self.waiting, []
        for transport, todo_id in waiting:
            self.reply(transport, todo_id)


class _Post(Protocol):
    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._data = b""

    def dataReceived(self, data: bytes) -> None:
        self._data += data
        head, end, body = self._data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if end and length is not None and len(body) >= int(length[1]):
            todo_id = json.loads(body)["id"]
            self._receiver.asked.append(todo_id)
            self._receiver.reply(self.transport, todo_id)
