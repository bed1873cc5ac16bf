"""An agent at the wire: calls the daemon's tools by self-contained requests of protocol 2026-07-28, as today's claude
does.
"""

from __future__ import annotations

import json
from typing import Any

import treq
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.web.client import Agent as HTTPAgent
from twisted.web.client import HTTPConnectionPool

from tests.support.http import headers_of

PROTOCOL = "2026-07-28"
CALL_S = 60.0


class ToolError(Exception):
    """A tool's answer said `isError`; `str` is its text."""


class Agent:
    """Calls tools at one URL, such as `http://127.0.0.1:8787/mcp`."""

    def __init__(self, url: str, reactor: IReactorTime, *, token: str | None = None) -> None:
        self._url = url
        self._reactor = reactor
        self._token = token
        self._client = treq.client.HTTPClient(HTTPAgent(reactor, pool=HTTPConnectionPool(reactor, persistent=False)))
        self.texts: list[str] = []
        """The texts of all answers so far, for a model to read."""

    async def post(
        self, method: str, params: dict[str, Any], *, meta: dict[str, Any] | None = None
    ) -> tuple[int, bytes]:
        """One request; status and body of the response. It asks for the record, as no model does.

        :param meta: more keys of `_meta`; they win over these.
        """
        meta = {
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
            "hivesub/record": True,
            **(meta or {}),
        }
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": PROTOCOL,
            "Mcp-Method": method,
        }
        named = params.get("name", params.get("taskId"))
        if isinstance(named, str):
            headers["Mcp-Name"] = named
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        response = await self._client.post(
            self._url, headers=headers_of(headers), data=json.dumps(body).encode(), timeout=CALL_S
        )
        return response.code, await response.content()

    async def request(self, method: str, **params: Any) -> Any:
        """The result of a request that succeeds."""
        status, body = await self.post(method, params)
        assert status == 200, (status, body[:2000])
        answer = json.loads(body)
        assert "result" in answer, answer
        return answer["result"]

    async def call(self, tool: str, **arguments: Any) -> Any:
        """A tool's `structuredContent`, which the request asks for.

        :raises ToolError: when the answer says that it is an error.
        """
        result = await self.request("tools/call", name=tool, arguments=arguments)
        text = "\n".join(block["text"] for block in result["content"])
        self.texts.append(text)
        if result.get("isError"):
            raise ToolError(text)
        return result["structuredContent"]

    async def record(self, name: str, **arguments: Any) -> Any:
        """One subagent's record."""
        return (await self.call("status", name=name, **arguments))["subagents"][0]

    async def ended(self, name: str, within_s: float = 60.0) -> Any:
        """The record of a subagent once its run is over."""
        deadline = self._reactor.seconds() + within_s
        while self._reactor.seconds() < deadline:
            record = await self.record(name, wait_s=min(50.0, max(1.0, deadline - self._reactor.seconds())))
            if record["stop_reason"] is not None:
                return record
        raise AssertionError(f"{name} still runs after {within_s} s")


def pause(seconds: float, reactor: IReactorTime) -> Deferred[None]:
    """A bounded pause between two looks at something that no event tells of."""
    from twisted.internet.task import deferLater

    return deferLater(reactor, seconds, lambda: None)
