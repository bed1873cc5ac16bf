"""The stand-in as an MCP client: self-contained requests of protocol 2026-07-28 over plain HTTP.

Over a bare socket, because `http.client` alone would double the stand-in's start (measured: 30 ms against 60 ms).
"""

from __future__ import annotations

import json
import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = "2026-07-28"
USER_AGENT = "claude-code/2.1.332 (sdk-cli)"
WAIT_S = 30.0


class Unreachable(Exception):
    """No HTTP answer came, or not one of this protocol."""


class Server:
    """One entry of an MCP config.

    Shape: `status` is `connected` or `failed` once `connect` ran; `tools` are the names it offers.
    """

    def __init__(self, name: str, entry: dict[str, Any]) -> None:
        self.name = name
        self.url: str = entry.get("url", "")
        self.headers: dict[str, str] = entry.get("headers", {})
        self.status = "failed"
        self.tools: list[str] = []

    def connect(self) -> None:
        """Discover the server and list its tools, as claude does before its `init`."""
        try:
            request(self.url, "server/discover", {}, self.headers)
            _, answer = request(self.url, "tools/list", {}, self.headers)
        except Unreachable:
            return
        result = answer.get("result") if answer else None
        if isinstance(result, dict):
            self.tools = [tool["name"] for tool in result.get("tools", [])]
            self.status = "connected"

    def call(self, tool: str, arguments: dict[str, Any]) -> tuple[bool, str]:
        """Call a tool. Shape: whether it is an error, and the text that a model would see."""
        try:
            status, answer = request(self.url, "tools/call", {"name": tool, "arguments": arguments}, self.headers)
        except Unreachable as why:
            return True, str(why)
        if answer is None or "error" in answer:
            return True, f"HTTP {status}" if answer is None else str(answer["error"].get("message"))
        result = answer["result"]
        text = "\n".join(block.get("text", "") for block in result.get("content", []))
        return bool(result.get("isError")), text


def request(
    url: str, method: str, params: dict[str, Any], headers: dict[str, str]
) -> tuple[int, dict[str, Any] | None]:
    """Send one request. Shape: the HTTP status, and the JSON-RPC answer or None where the body is none.

    Raises: Unreachable where no answer came, or one other than 200 with no JSON-RPC body.
    """
    meta = {
        "io.modelcontextprotocol/protocolVersion": PROTOCOL,
        "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.332"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    sent = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "User-Agent": USER_AGENT,
        "Mcp-Protocol-Version": PROTOCOL,
        "Mcp-Method": method,
        **({"Mcp-Name": params["name"]} if "name" in params else {}),
        **headers,
    }
    status, raw = post(url, json.dumps(body).encode(), sent)
    try:
        answer = json.loads(raw)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise Unreachable(f"HTTP {status}")
    return status, answer


def post(url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """POST `body` and read the whole answer. Raises: Unreachable."""
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    if scheme != "http" or not authority:
        raise Unreachable("only http URLs are reachable for the stand-in")
    host, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = authority, "80"
    head = [f"POST {slash or '/'}{path} HTTP/1.1", f"Host: {authority}", f"Content-Length: {len(body)}"]
    head += ["Connection: close", *(f"{name}: {value}" for name, value in headers.items())]
    try:
        with socket.create_connection((host.strip("[]"), int(port)), WAIT_S) as connection:
            connection.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
            with connection.makefile("rb") as answer:
                return _read(answer)
    except (OSError, ValueError) as why:
        raise Unreachable(str(why)) from why


def _read(answer: Any) -> tuple[int, bytes]:
    status = int(answer.readline().split()[1:2][0] or b"0")
    fields: dict[bytes, bytes] = {}
    while (line := answer.readline().strip()) != b"":
        name, _, value = line.partition(b":")
        fields[name.strip().lower()] = value.strip()
    if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
        body = b""
        while size := int(answer.readline().split(b";")[0], 16):
            body += answer.read(size)
            answer.readline()
        return status, body
    length = fields.get(b"content-length")
    return status, answer.read(int(length)) if length else answer.read()
