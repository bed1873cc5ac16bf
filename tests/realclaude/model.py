"""A scripted Messages API on loopback: what the real claude CLI talks to in our tests.

It owns the wire format (streamed `message_start` … `message_stop`) and the choice of the step. A script is
filed under a marker, any text that a prompt contains. The marker seen last in the user's own text decides, so
that a re-prompt without a marker goes on with the script of the prompt before it. The server runs in
threads: it works the same beside a Twisted reactor, beside plain tests and as a program of its own
(`python -m tests.realclaude.model`).
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.realclaude.steps import Step, say, step_from_json

MODEL = "claude-scripted"


class ScriptedModel:
    """A Messages API server whose answers are written beforehand.

    Shape: `requests` holds every conversation request's body as parsed JSON, in the order of arrival, `arrived` when
    each came. `asked` counts them all, claude's own side questions among them.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[dict[str, Any]] = []
        self.arrived: list[datetime] = []
        self.asked = 0
        self._scripts: dict[str, list[Step]] = {}
        self._served: dict[str, int] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        model = self

        class Exchange(_Exchange):
            owner = model

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Exchange)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """What `ANTHROPIC_BASE_URL` has to be."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def script(self, marker: str, *steps: Step) -> None:
        """File `steps` under `marker`, replacing what was there. Past the last step the answer is `ok`."""
        with self._lock:
            self._scripts[marker] = list(steps)
            self._served[marker] = 0

    def requests_for(self, marker: str) -> list[dict[str, Any]]:
        """The conversation requests whose text contains `marker`."""
        with self._lock:
            return [body for body in self.requests if marker in json.dumps(body["messages"], ensure_ascii=False)]

    def start(self) -> ScriptedModel:
        """Serve from now on, in a thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """End the server and every hanging answer."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> ScriptedModel:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def step_for(self, body: dict[str, Any]) -> Step:
        """Record a request and take the next step of its script.

        Requests without tools are claude's own side questions (a title, a summary): they get a short text,
        take no step and are not recorded.
        """
        with self._lock:
            self.asked += 1
            if not body.get("tools"):
                return say("a short title")
            self.requests.append(body)
            self.arrived.append(datetime.now(UTC))
            marker = self._marker_of(body["messages"])
            if marker is None:
                return say("ok")
            served = self._served[marker]
            self._served[marker] = served + 1
            steps = self._scripts[marker]
        return steps[served] if served < len(steps) else say("ok")

    def _marker_of(self, messages: Sequence[Mapping[str, Any]]) -> str | None:
        for message in reversed(messages):
            if message.get("role") != "user":
                continue
            text = "\n".join(_user_texts(message.get("content")))
            found = [(text.rfind(marker), len(marker), marker) for marker in self._scripts if marker in text]
            if found:
                return max(found)[2]
        return None

    def wait_closing(self, timeout_s: float) -> bool:
        """True once `close` was called; waits for at most `timeout_s`."""
        return self._closing.wait(timeout_s)


def _user_texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
        return
    for block in content or ():
        if isinstance(block, Mapping) and block.get("type") == "text":
            yield str(block.get("text", ""))


def events(step: Step) -> Iterator[dict[str, Any]]:
    """The stream events of a step, in order. A hanging step's stop after the first text."""
    usage = {"input_tokens": step.input_tokens, "output_tokens": 1}
    message: dict[str, Any] = {
        "id": f"msg_{uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    yield {"type": "message_start", "message": message}
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if step.text:
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": step.text}))
    for name, arguments in step.tools:
        start = {"type": "tool_use", "id": f"toolu_{uuid4().hex[:24]}", "name": name, "input": {}}
        blocks.append((start, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}))
    for index, (start, delta) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": start}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        if step.hang:
            return
        yield {"type": "content_block_stop", "index": index}
    if step.hang:
        return
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": _stop_reason(step), "stop_sequence": None},
        "usage": {"output_tokens": step.output_tokens},
    }
    yield {"type": "message_stop"}


class _Exchange(BaseHTTPRequestHandler):
    """One HTTP connection of claude's."""

    owner: ScriptedModel
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Stay silent: the requests are recorded, not logged."""

    def do_HEAD(self) -> None:
        self._answer_json(200, {})

    def do_GET(self) -> None:
        self._answer_json(404, {"type": "error", "error": {"type": "not_found_error", "message": self.path}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        path = self.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            self._answer_json(200, {"input_tokens": 10})
        elif path == "/v1/messages":
            self._answer_message(self.owner.step_for(body), streaming=bool(body.get("stream")))
        else:
            self.do_GET()

    def _answer_message(self, step: Step, *, streaming: bool) -> None:
        if step.delay_s and self.owner.wait_closing(step.delay_s):
            return
        while step.after is not None and not step.after.wait(0.02):
            if self.owner.wait_closing(0):
                return
        if step.status != 200:
            error = {"type": "error", "error": {"type": step.error_type, "message": step.text}}
            self._answer_json(step.status, error, step.headers)
        elif streaming:
            self._stream(step)
        else:
            self._answer_json(200, _whole_message(step))

    def _stream(self, step: Step) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for event in events(step):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            while step.hang and not self.owner.wait_closing(0.2):
                self.wfile.write(b": still here\n\n")
        except OSError:
            return  # claude was interrupted or killed, which is what such scripts are for

    def _answer_json(self, status: int, body: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)


def _stop_reason(step: Step) -> str:
    return step.stop_reason or ("tool_use" if step.tools else "end_turn")


def _whole_message(step: Step) -> dict[str, Any]:
    first = next(events(step))
    message: dict[str, Any] = first["message"]
    content: list[dict[str, Any]] = [{"type": "text", "text": step.text}] if step.text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{uuid4().hex[:24]}", "name": name, "input": dict(arguments)}
        for name, arguments in step.tools
    ]
    return {**message, "content": content, "stop_reason": _stop_reason(step)}


def main(argv: Sequence[str] | None = None) -> int:
    """Serve scripts from a JSON file, `{marker: [step, …]}`, until stdin ends; say the URL on stdout."""
    parser = argparse.ArgumentParser(prog="python -m tests.realclaude.model", description=main.__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--scripts", type=Path, help="JSON file: {marker: [step, ...]}")
    parser.add_argument("--requests", type=Path, help="where to write the recorded requests at the end")
    options = parser.parse_args(argv)
    with ScriptedModel(options.port) as model:
        if options.scripts:
            for marker, steps in json.loads(options.scripts.read_text()).items():
                model.script(marker, *map(step_from_json, steps))
        print(model.url, flush=True)
        try:
            while input():
                pass
        except (EOFError, KeyboardInterrupt):
            pass
        if options.requests:
            options.requests.write_text("".join(json.dumps(body) + "\n" for body in model.requests))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
