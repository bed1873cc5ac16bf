"""A load of tool calls over keep-alive connections: bytes on sockets, so that the client costs next to nothing."""

from __future__ import annotations

import json
import math
import selectors
import socket
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
_LIMIT_S = 60.0


def call_bytes(
    port: int,
    protocol: str,
    tool: str,
    arguments: Mapping[str, Any],
    method: str = "tools/call",
    *,
    record: bool = False,
    meta: Mapping[str, Any] = MappingProxyType({}),
) -> bytes:
    """One tool call as a whole HTTP request; the answer is the text for a model.

    :param record: ask for the record beside it.
    :param meta: more keys of `_meta`, in the newer protocol.
    """
    called = method == "tools/call"
    params: dict[str, Any] = {"name": tool, "arguments": dict(arguments)} if called else dict(arguments)
    headers = {
        "Host": f"127.0.0.1:{port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": protocol,
    }
    if protocol == MODERN:
        params["_meta"] = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": {},
            **meta,
        }
        if record:
            params["_meta"]["hivesub/record"] = True
        headers["Mcp-Method"] = method
        if named := params.get("name", params.get("taskId")):
            headers["Mcp-Name"] = named
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers["Content-Length"] = str(len(body))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


class Connection:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sent_at = 0.0

    def send(self, request: bytes) -> None:
        self.sent_at = time.perf_counter()
        self.socket.sendall(request)

    def answer(self) -> bytes:
        """The body of the response; its parts may be events of a stream."""
        data = b""
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        head, body = data[:end].lower(), data[end + 4 :]
        if b" 200" not in head.split(b"\r\n", 1)[0]:
            raise RuntimeError(f"not answered: {data[:500]!r}")
        if b"transfer-encoding: chunked" in head:
            while not body.endswith(b"0\r\n\r\n"):
                body += self._more()
            return body
        length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
        while len(body) < length:
            body += self._more()
        return body

    def close(self) -> None:
        self.socket.close()

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 18)
        if not data:
            raise RuntimeError("the connection was closed")
        return data


def call(port: int, tool: str, **arguments: Any) -> Any:
    """One call; the result of it, as JSON, with the record as `structuredContent`."""
    return _once(port, call_bytes(port, MODERN, tool, arguments, record=True))


def listed(port: int) -> Any:
    """The server's tools."""
    return _once(port, call_bytes(port, MODERN, "", {}, method="tools/list"))


def _once(port: int, request: bytes) -> Any:
    connection = Connection(port)
    try:
        connection.send(request)
        answer = json.loads(connection.answer())
        return answer["result"]
    finally:
        connection.close()


def latencies(port: int, request: bytes, *, connections: int, seconds: float) -> tuple[list[float], float]:
    """Send the request over and over, one at a time on each connection.

    :returns: how long each answer took, in seconds; and how many came a second.
    """
    ends = [Connection(port) for _ in range(connections)]
    took: list[float] = []
    try:
        with selectors.DefaultSelector() as selector:
            for end in ends:
                for _ in range(3):
                    end.send(request)
                    end.answer()
                selector.register(end.socket, selectors.EVENT_READ, end)
            began = time.perf_counter()
            for end in ends:
                end.send(request)
            while (now := time.perf_counter()) - began < seconds:
                for key, _ in selector.select(seconds):
                    key.data.answer()
                    now = time.perf_counter()
                    took.append(now - key.data.sent_at)
                    key.data.send(request)
    finally:
        for end in ends:
            end.close()
    return took, len(took) / (now - began)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
