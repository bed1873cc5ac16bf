"""One attempt at one sink: what counts as delivered, refused, or worth another try."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any, cast

from treq.testing import StringStubbingResource, StubTreq
from twisted.internet.defer import CancelledError, Deferred, fail, maybeDeferred
from twisted.internet.error import ConnectionRefusedError, DNSLookupError
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import ResponseNeverReceived
from zope.interface.verify import verifyObject

from hivesub.errors import ConfigError
from hivesub.shapes import Todo
from hivesub.todos.sinks import Attempt, FileSink, ISink, UrlSink, Verdict, make_sink
from tests.support.todofakes import todo

TODO = todo()
SECRET_URL = "https://user:pa%24s@hooks.example:8443/services/T0K3N?key=k3y#frag"


class StubReceiver:
    def __init__(self, code: int = 200, headers: dict[bytes, bytes] | None = None, body: bytes = b"ok") -> None:
        self.answer = (code, headers or {}, body)
        self.requests: list[tuple[bytes, str, dict[bytes, list[bytes]], bytes]] = []
        # treq has no annotations here.
        stub: Any = StubTreq
        resource: Any = StringStubbingResource
        self.client: Any = stub(resource(self._render))

    def _render(
        self, method: bytes, url: str, params: object, headers: dict[bytes, list[bytes]], data: bytes
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        self.requests.append((method, url, headers, data))
        return self.answer


class BrokenClient:
    """Fails with what it is given, or never answers."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.cancelled = 0
        self.urls: list[str] = []

    def post(self, url: str, **options: Any) -> Deferred[Any]:
        self.urls.append(url)
        if self.error is not None:
            return fail(self.error)

        def cancel(d: Deferred[Any]) -> None:
            self.cancelled += 1

        return Deferred(cancel)


class Url(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()

    def attempt(self, client: Any, url: str = "http://127.0.0.1:9/hook") -> Attempt:
        return self.successResultOf(UrlSink(url, client=client, clock=self.clock).deliver(TODO))

    def test_it_posts_json_with_the_id_as_idempotency_key(self) -> None:
        receiver = StubReceiver()
        self.assertEqual(self.attempt(receiver.client), Attempt(verdict=Verdict.DELIVERED))
        ((method, url, headers, data),) = receiver.requests
        self.assertEqual((method, url), (b"POST", "http://127.0.0.1:9/hook"))
        self.assertEqual(headers[b"Content-Type"], [b"application/json"])
        self.assertEqual(headers[b"Idempotency-Key"], [b"t-1"])
        self.assertEqual(json.loads(data), TODO)

    def test_each_kind_of_answer_has_its_verdict(self) -> None:
        for verdict, codes in {
            Verdict.DELIVERED: (200, 201, 202, 204, 299),
            Verdict.FAILED: (408, 409, 425, 429, 500, 502, 503, 504, 599),
            Verdict.REFUSED: (300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 410, 413, 422),
        }.items():
            for code in codes:
                receiver = StubReceiver(code, {b"Location": b"http://127.0.0.1:9/else"})
                self.assertIs(self.attempt(receiver.client).verdict, verdict, code)
                self.assertEqual(len(receiver.requests), 1)

    def test_a_redirect_is_said_not_to_be_followed(self) -> None:
        receiver = StubReceiver(307, {b"Location": b"http://127.0.0.1:9/else"})
        self.assertEqual(self.attempt(receiver.client).why, "it answered 307, and redirects are not followed")

    def test_retry_after_is_handed_on(self) -> None:
        receiver = StubReceiver(429, {b"Retry-After": b"17"})
        self.assertEqual(self.attempt(receiver.client).retry_after_s, 17)

    def test_a_retry_after_that_is_no_text_is_none(self) -> None:
        for headers in (
            {b"Retry-After": b"\xff17"},
            {b"Retry-After": b"Fri, 31 Dec 1999 23:59:59 GMT", b"Date": b"\xff"},
        ):
            attempt = self.attempt(StubReceiver(503, headers).client)
            self.assertEqual((attempt.verdict, attempt.retry_after_s), (Verdict.FAILED, None))

    def test_nobody_there_is_unreachable_and_a_lost_answer_a_failure(self) -> None:
        self.assertIs(self.attempt(BrokenClient(ConnectionRefusedError())).verdict, Verdict.UNREACHABLE)
        self.assertIs(self.attempt(BrokenClient(DNSLookupError())).verdict, Verdict.UNREACHABLE)
        lost = self.attempt(BrokenClient(ResponseNeverReceived([Failure(ValueError("T0K3N"))])))
        self.assertEqual((lost.verdict, lost.why), (Verdict.FAILED, "ResponseNeverReceived: ValueError"))

    def test_no_answer_within_thirty_seconds_is_a_failure_and_the_request_is_cancelled(self) -> None:
        client = BrokenClient()
        d = UrlSink("http://127.0.0.1:9/", client=client, clock=self.clock).deliver(TODO)
        self.clock.advance(29.9)
        self.assertNoResult(d)
        self.clock.advance(0.2)
        self.assertEqual(self.successResultOf(d), Attempt(verdict=Verdict.FAILED, why="no answer within 30 s"))
        self.assertEqual(client.cancelled, 1)

    def test_cancelling_gives_the_request_up(self) -> None:
        client = BrokenClient()
        d = UrlSink("http://127.0.0.1:9/", client=client, clock=self.clock).deliver(TODO)
        d.cancel()
        self.failureResultOf(d, CancelledError)
        self.assertEqual((client.cancelled, self.clock.getDelayedCalls()), (1, []))

    def test_userinfo_becomes_basic_authorisation_and_the_fragment_stays_here(self) -> None:
        receiver = StubReceiver()
        self.attempt(receiver.client, SECRET_URL)
        ((_, url, headers, _),) = receiver.requests
        self.assertEqual(url, "https://hooks.example:8443/services/T0K3N")
        self.assertEqual(headers[b"Authorization"], [b"Basic " + b64encode(b"user:pa$s")])
        client = BrokenClient(ConnectionRefusedError())
        self.attempt(client, SECRET_URL)
        self.assertEqual(client.urls, ["https://hooks.example:8443/services/T0K3N?key=k3y"])

    def test_its_label_key_and_repr_give_no_secret_away(self) -> None:
        sink = UrlSink(SECRET_URL, client=StubReceiver().client, clock=self.clock)
        self.assertEqual(sink.label, "https://hooks.example:8443")
        for secret in ("user", "pa", "T0K3N", "k3y"):
            self.assertNotIn(secret, f"{sink.label} {sink.key} {sink!r}".replace("sinks.UrlSink", ""))
        self.assertEqual(sink.key, UrlSink(SECRET_URL, client=StubReceiver().client, clock=Clock()).key)

    def test_unusable_urls_are_refused_without_being_quoted(self) -> None:
        for url in ("ftp://h0st/s3cret", "http://", "http:///s3cret", "http://h0st:99999/s3cret", "http://[h0st/s3cret",
                    "http://h0st/s3cret x", "http://h0st/s3cret\r\nX: y", "http://h0st/s3crét"):  # fmt: skip
            error = self.assertRaises(ConfigError, UrlSink, url, client=StubReceiver().client, clock=self.clock)
            self.assertIn("--todo: ", str(error))
            self.assertNotIn("s3cr", str(error))

    def test_an_ipv6_receiver_keeps_its_brackets(self) -> None:
        client = BrokenClient(ConnectionRefusedError())
        self.attempt(client, "http://[::1]:9")
        self.assertEqual(client.urls, ["http://[::1]:9/"])


class File(SynchronousTestCase):
    def setUp(self) -> None:
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()

    def sink(self, path: str) -> FileSink | UrlSink:
        client: Any = BrokenClient()
        return make_sink(path, base_dir=str(self.dir), client=client, clock=Clock(), in_thread=maybeDeferred)

    def test_it_appends_one_json_line_each(self) -> None:
        sink = self.sink("todos.jsonl")
        for _ in range(2):
            self.assertEqual(self.successResultOf(sink.deliver(TODO)), Attempt(verdict=Verdict.DELIVERED))
        lines = (self.dir / "todos.jsonl").read_text(encoding="utf-8").splitlines()
        self.assertEqual([json.loads(line) for line in lines], [TODO, TODO])

    def test_a_file_with_a_bound_is_moved_aside_before_it_grows_past_it_and_loses_no_line(self) -> None:
        client: Any = BrokenClient()
        path = self.dir / "todos.jsonl"
        sink = make_sink(str(path), base_dir="/", client=client, clock=Clock(), in_thread=maybeDeferred, most_bytes=100)
        for number in range(5):
            short = cast(Todo, {"id": str(number), "title": "x" * 20})
            attempt = self.successResultOf(sink.deliver(short))
            self.assertEqual(attempt, Attempt(verdict=Verdict.DELIVERED))
            path.chmod(0o640)
        self.assertEqual([json.loads(line)["id"] for line in path.read_text().splitlines()], ["4"])
        older = self.dir / "todos.jsonl.1"
        self.assertEqual([json.loads(line)["id"] for line in older.read_text().splitlines()], ["2", "3"])
        self.assertEqual(path.stat().st_mode & 0o777, 0o640)

    def test_a_line_without_its_newline_is_not_glued_to_a_todo(self) -> None:
        path = self.dir / "todos.jsonl"
        path.write_text('{"by": "hand"}')
        self.successResultOf(self.sink("todos.jsonl").deliver(TODO))
        lines = path.read_text(encoding="utf-8").splitlines()
        self.assertEqual([json.loads(line) for line in lines], [{"by": "hand"}, TODO])

    def test_an_error_is_worth_another_try(self) -> None:
        attempt = self.successResultOf(self.sink("missing/todos.jsonl").deliver(TODO))
        self.assertIs(attempt.verdict, Verdict.UNREACHABLE)
        self.assertIn("the folder", attempt.why)

    def test_what_todo_names_makes_the_sink(self) -> None:
        self.assertIsInstance(self.sink("HTTPS://h/"), UrlSink)
        self.assertEqual(self.sink("/var/t.jsonl").label, "/var/t.jsonl")
        self.assertEqual(self.sink("t.jsonl").label, str(self.dir / "t.jsonl"))
        for bad in ("", "a\0b", "ftp://h/x"):
            self.assertRaises(ConfigError, self.sink, bad)

    def test_both_provide_the_interface(self) -> None:
        verifyObject(ISink, self.sink("x"))
        verifyObject(ISink, self.sink("http://h/"))
