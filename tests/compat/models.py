"""A scripted model for agents other than claude, in the three wire formats that they speak: OpenAI's Responses API, its
Chat Completions, and Gemini's `generateContent`; and a relay that records what an agent asks of the daemon.

A script is a list of calls. Which one is next follows from the results in the request, so that a request that is made
again gets the same answer; after the last one the model says that it is done.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from attrs import define

DONE = "that was it"
Call = tuple[str, Mapping[str, Any]]
RELAY_S = 60


class OtherModel:
    """`requests`: the bodies of all requests that offered tools."""

    def __init__(self, *calls: Call) -> None:
        self.calls = calls
        self.requests: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def answer(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of an answer."""
        with self._lock:
            if "input" in body:
                return self._responses(body)
            if "contents" in body:
                return self._gemini(body)
            return self._chat(body)

    def offered(self) -> list[str]:
        """The names of the daemon's tools as the model was given them."""
        names = {name for body in self.requests for name in _tool_names(body)}
        return sorted(name for name in names if name.rpartition("_")[2] in dict(self.calls) or name in dict(self.calls))

    def read(self) -> list[str]:
        """What the model read of each call, in order, in the last request."""
        return _results(self.requests[-1])

    def _next(self, body: dict[str, Any]) -> tuple[str, str] | None:
        """The name and the arguments of the next call, None where none is left."""
        if not _tool_names(body):
            return None
        self.requests.append(body)
        made = len(_results(body))
        if made >= len(self.calls):
            return None
        tool, arguments = self.calls[made]
        for name in _tool_names(body):
            if name.rpartition("_")[2] == tool:
                return name, json.dumps(arguments)
        return None

    def _responses(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        call = self._next(body)
        if call is None:
            item: dict[str, Any] = {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": DONE, "annotations": []}],
            }
        else:
            item = {
                "type": "function_call",
                "id": f"fc_{len(self.requests)}",
                "call_id": f"call_{len(self.requests)}",
                "name": call[0],
                "arguments": call[1],
                "status": "completed",
            }
            if (namespace := _namespace(body, call[0])) is not None:
                item["namespace"] = namespace
        usage = {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        response = {"id": f"resp_{len(self.requests)}", "object": "response", "status": "in_progress", "output": []}
        return [
            {"type": "response.created", "response": response},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {
                "type": "response.completed",
                "response": {**response, "status": "completed", "output": [item], "usage": usage},
            },
        ]

    def _chat(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        call = self._next(body)
        delta: dict[str, Any] = {"role": "assistant"}
        if call is None:
            delta["content"] = DONE
        else:
            function = {"name": call[0], "arguments": call[1]}
            delta["tool_calls"] = [
                {"index": 0, "id": f"call_{len(self.requests)}", "type": "function", "function": function}
            ]
        head = {"id": "chat_1", "object": "chat.completion.chunk", "created": 0, "model": "scripted"}
        reason = "stop" if call is None else "tool_calls"
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return [
            {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ]

    def _gemini(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        call = self._next(body)
        part: dict[str, Any] = (
            {"text": DONE} if call is None else {"functionCall": {"name": call[0], "args": json.loads(call[1])}}
        )
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return [{"candidates": [{"content": content, "finishReason": "STOP", "index": 0}], "usageMetadata": usage}]


def _tool_names(body: Mapping[str, Any]) -> list[str]:
    names = []
    for tool in body.get("tools") or ():
        inner = [*tool.get("functionDeclarations", ()), *tool.get("tools", ())]
        names += [each["name"] for each in inner if "name" in each]
        named = tool.get("function", tool).get("name")
        if named is not None and not inner:
            names.append(named)
    return names


def _namespace(body: Mapping[str, Any], name: str) -> str | None:
    for tool in body.get("tools") or ():
        if any(each.get("name") == name for each in tool.get("tools", ())):
            return str(tool["name"])
    return None


def _results(body: Mapping[str, Any]) -> list[str]:
    if "input" in body:
        return [_text(item["output"]) for item in body["input"] if item.get("type") == "function_call_output"]
    if "contents" in body:
        return [
            _text(part["functionResponse"]["response"])
            for content in body["contents"]
            for part in content.get("parts", ())
            if "functionResponse" in part
        ]
    return [_text(message["content"]) for message in body["messages"] if message["role"] == "tool"]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@contextmanager
def serving(model: OtherModel) -> Iterator[str]:
    """The base URL of a server of this model."""

    class Exchange(_Exchange):
        def do_POST(self) -> None:
            events = model.answer(self.path, self.body())
            named = "/responses" in self.path
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            self.close_connection = True
            for event in events:
                head = f"event: {event['type']}\n" if named else ""
                self.wfile.write(f"{head}data: {json.dumps(event)}\n\n".encode())
            if "/chat/" in self.path:
                self.wfile.write(b"data: [DONE]\n\n")

        def do_GET(self) -> None:
            self.answer(200, b'{"object": "list", "data": [], "models": []}')

    with _served(Exchange) as url:
        yield url


@define
class Relay:
    """A relay to a daemon. `protocol`: the version that the two agreed on. `with_progress`: whether the agent asked for
    progress in a call.
    """

    url: str = ""
    protocol: str = ""
    with_progress: bool = False


@contextmanager
def recording(daemon: str) -> Iterator[Relay]:
    """A relay that runs, and notes what passes."""
    relay = Relay()

    class Exchange(_Exchange):
        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            connection = http.client.HTTPConnection(urlsplit(daemon).netloc, timeout=RELAY_S)
            headers = {key: value for key, value in self.headers.items() if key.lower() not in ("host", "connection")}
            try:
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                data = answer.read()
            finally:
                connection.close()
            asked = json.loads(body) if body else {}
            if asked.get("method") == "initialize":
                relay.protocol = json.loads(data)["result"]["protocolVersion"]
            if asked.get("method") == "tools/call":
                relay.with_progress |= "progressToken" in asked["params"].get("_meta", {})
            self.answer(answer.status, data, answer.headers.get("Content-Type"))

        do_GET = do_POST = do_DELETE = _pass

    with _served(Exchange) as relay.url:
        yield relay


class _Exchange(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}"))

    def answer(self, status: int, data: bytes, kind: str | None = "application/json") -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def _served(exchange: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), exchange)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
