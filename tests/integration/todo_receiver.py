"""A receiver of todos over twisted.web on a loopback port that stays its own while it is down."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field
from twisted.internet.interfaces import IListeningPort
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from tests.support.listening import listen, stopped


@define(eq=False)
class TodoReceiver:
    """Notes each todo that is posted. `statuses`: what it answers, the last one again and again; a todo that is not
    taken with a 2xx counts as refused.
    """

    statuses: list[int] = field(factory=lambda: [200])
    todos: list[Any] = field(factory=list)
    refused: list[Any] = field(factory=list)
    keys: list[str | None] = field(factory=list)
    port: int = 0
    _listening: IListeningPort | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/todos"

    def ids(self) -> list[str]:
        return [todo["id"] for todo in self.todos]

    async def up(self) -> None:
        """Listen, on the same port as before."""
        self._listening, self.port = listen(Site(_Todos(self)), self.port)

    async def down(self) -> None:
        """Listen no more."""
        listening, self._listening = self._listening, None
        if listening is not None:
            await stopped(listening)

    def take(self, request: Request) -> int:
        """Note a request; the status to answer with."""
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        todo = json.load(request.content)  # type: ignore[arg-type]
        (self.todos if 200 <= status < 300 else self.refused).append(todo)
        self.keys.append(request.getHeader("Idempotency-Key"))
        return status


class _Todos(Resource):
    isLeaf = True

    def __init__(self, receiver: TodoReceiver) -> None:
        Resource.__init__(self)
        self._receiver = receiver

    def render_POST(self, request: Request) -> bytes:
        request.setResponseCode(self._receiver.take(request))
        return b""
