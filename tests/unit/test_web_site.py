"""The server's own limits, by bytes over an in-memory transport."""

from io import StringIO
from typing import Any

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.logger import FileLogObserver, formatEventAsClassicLogText, globalLogPublisher
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET

from hivesub.web.site import BoundedChannel, BoundedRequest, BoundedSite, loggable_path
from tests.support.webfakes import connection

TOKEN = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6"


class Seen(Resource):
    """Keeps what arrived, and answers `ok` at once, or later where `held`."""

    isLeaf = True

    def __init__(self, held: bool = False) -> None:
        Resource.__init__(self)
        self.held = held
        self.requests: list[BoundedRequest] = []
        self.bodies: list[bytes] = []

    def render(self, request: BoundedRequest) -> bytes | int:
        self.requests.append(request)
        self.bodies.append(request.content.read())
        return NOT_DONE_YET if self.held else b"ok"


class Broken(Resource):
    isLeaf = True

    def render(self, request: BoundedRequest) -> bytes:
        raise RuntimeError("no use")


class SiteCase(SynchronousTestCase):
    def connect(self, resource: Resource, **options: Any) -> tuple[BoundedChannel, StringTransport]:
        self.clock = Clock()
        self.site = BoundedSite(resource, self.clock, **options)
        channel, transport = connection(self.site)
        assert isinstance(channel, BoundedChannel)
        return channel, transport


def post(body: bytes, path: bytes = b"/x", headers: bytes = b"") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: h\r\n%bContent-Length: %d\r\n\r\n%b" % (path, headers, len(body), body)


class BodyTests(SiteCase):
    def test_a_body_up_to_the_limit_arrives_whole(self) -> None:
        seen = Seen()
        channel, transport = self.connect(seen, max_body_bytes=10)
        channel.dataReceived(post(b"0123456789"))
        self.assertEqual(seen.bodies, [b"0123456789"])
        self.assertFalse(seen.requests[0].too_large)
        self.assertIn(b"200 OK", transport.value())

    def test_a_declared_body_past_the_limit_is_marked_and_not_kept(self) -> None:
        seen = Seen()
        channel, _ = self.connect(seen, max_body_bytes=10)
        channel.dataReceived(post(b"0123456789a"))
        self.assertEqual(seen.bodies, [b""])
        self.assertTrue(seen.requests[0].too_large)

    def test_a_chunked_body_past_the_limit_is_marked_and_let_go_of(self) -> None:
        seen = Seen()
        channel, _ = self.connect(seen, max_body_bytes=10)
        channel.dataReceived(b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        channel.dataReceived(b"8\r\n01234567\r\n")
        self.assertEqual(len(channel.requests[-1].content.getvalue()), 8)
        channel.dataReceived(b"8\r\n01234567\r\n")
        self.assertEqual(len(channel.requests[-1].content.getvalue()), 0)
        channel.dataReceived(b"8\r\n01234567\r\n0\r\n\r\n")
        self.assertEqual(seen.bodies, [b""])
        self.assertTrue(seen.requests[0].too_large)

    def test_the_connection_goes_on_after_a_body_past_the_limit(self) -> None:
        seen = Seen()
        channel, transport = self.connect(seen, max_body_bytes=10)
        channel.dataReceived(post(b"x" * 50) + post(b"small"))
        self.assertEqual(seen.bodies, [b"", b"small"])
        self.assertFalse(transport.disconnecting)

    def test_a_body_without_an_end_is_cut_off(self) -> None:
        channel, transport = self.connect(Seen(), max_body_bytes=10, max_discard_bytes=30)
        channel.dataReceived(b"POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
        channel.dataReceived(b"1e\r\n" + b"x" * 30 + b"\r\n")
        self.assertFalse(transport.disconnecting)
        channel.dataReceived(b"1\r\nx\r\n")
        self.assertTrue(transport.disconnected)

    def test_a_body_declared_past_all_bounds_is_cut_off_at_once(self) -> None:
        channel, transport = self.connect(Seen(), max_body_bytes=10, max_discard_bytes=30)
        channel.dataReceived(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 31\r\n\r\n")
        self.assertTrue(transport.disconnected)

    def test_a_form_is_not_parsed(self) -> None:
        seen = Seen()
        channel, _ = self.connect(seen)
        form = b"Content-Type: application/x-www-form-urlencoded\r\n"
        multipart = b"Content-Type: multipart/form-data; boundary=x\r\n"
        channel.dataReceived(post(b"a=1", b"/x?b=2", form) + post(b"--x\r\nbroken", headers=multipart))
        self.assertEqual([request.args for request in seen.requests], [{b"b": [b"2"]}, {}])
        self.assertEqual(seen.bodies, [b"a=1", b"--x\r\nbroken"])


class AnswerTests(SiteCase):
    def test_no_product_is_named_and_no_type_invented(self) -> None:
        channel, transport = self.connect(Seen())
        channel.dataReceived(post(b""))
        head = transport.value().lower()
        self.assertNotIn(b"server:", head)
        self.assertNotIn(b"twisted", head)
        self.assertNotIn(b"content-type:", head)
        self.assertIn(b"date:", head)

    def test_a_resource_that_raises_gets_a_plain_500_and_a_log_entry(self) -> None:
        channel, transport = self.connect(Broken())
        channel.dataReceived(post(b"", b"/signal/mcp/" + TOKEN.encode()))
        self.assertIn(b"500 Internal Server Error", transport.value())
        self.assertTrue(transport.value().endswith(b"\r\n\r\ninternal error\n"))
        [failure] = self.flushLoggedErrors(RuntimeError)
        self.assertNotIn(TOKEN, failure.getTraceback(detail="verbose"))

    def test_a_request_s_repr_does_not_tell_its_path(self) -> None:
        seen = Seen()
        channel, _ = self.connect(seen)
        channel.dataReceived(post(b"", b"/signal/mcp/" + TOKEN.encode()))
        self.assertNotIn("signal", repr(seen.requests[0]))


class TimeTests(SiteCase):
    def test_an_idle_connection_is_closed_and_then_cut(self) -> None:
        channel, transport = self.connect(Seen(), idle_timeout_s=60)
        channel.dataReceived(post(b""))
        self.clock.advance(59)
        self.assertFalse(transport.disconnecting)
        self.clock.advance(1)
        self.assertTrue(transport.disconnecting)
        self.assertFalse(transport.disconnected)
        self.clock.advance(15)
        self.assertTrue(transport.disconnected)

    def test_a_request_that_dribbles_is_cut_off_at_its_deadline(self) -> None:
        channel, transport = self.connect(Seen(), idle_timeout_s=60, request_deadline_s=100)
        channel.dataReceived(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(3):
            self.clock.advance(33)
            channel.dataReceived(b"x")
        self.assertFalse(transport.disconnected)
        self.clock.advance(2)
        channel.dataReceived(b"x")
        self.assertTrue(transport.disconnected)

    def test_headers_that_dribble_are_cut_off_too(self) -> None:
        channel, transport = self.connect(Seen(), idle_timeout_s=60, request_deadline_s=100)
        channel.dataReceived(b"POST /x HTTP/1.1\r\n")
        for _ in range(4):
            self.clock.advance(26)
            channel.dataReceived(b"X: y\r\n")
        self.assertTrue(transport.disconnected)

    def test_a_request_line_that_dribbles_is_cut_off_too(self) -> None:
        for before in (b"", post(b"x"), post(b"x") + b"G"):
            channel, transport = self.connect(Seen(), idle_timeout_s=60, request_deadline_s=100)
            channel.dataReceived(before)
            for _ in range(4):
                self.assertFalse(transport.disconnected)
                channel.dataReceived(b"G")
                self.clock.advance(34)
            channel.dataReceived(b"G")
            self.assertTrue(transport.disconnected)

    def test_a_request_that_comes_during_an_answer_begins_after_it(self) -> None:
        seen = Seen(held=True)
        channel, transport = self.connect(seen, idle_timeout_s=60, request_deadline_s=100)
        whole = post(b"2")
        channel.dataReceived(post(b"1") + whole[:3])
        for byte in (whole[3:4], whole[4:5]):
            self.clock.advance(500)
            channel.dataReceived(byte)
        seen.requests[0].finish()
        self.clock.advance(59)
        channel.dataReceived(whole[5:])
        self.assertEqual(seen.bodies, [b"1", b"2"])
        self.assertFalse(transport.disconnecting)
        seen.requests[1].finish()

    def test_a_connection_between_requests_has_no_deadline(self) -> None:
        seen = Seen()
        channel, transport = self.connect(seen, idle_timeout_s=60, request_deadline_s=10)
        for _ in range(3):
            self.clock.advance(59)
            channel.dataReceived(post(b"x")[:5])
            channel.dataReceived(post(b"x")[5:])
        self.assertEqual(seen.bodies, [b"x"] * 3)
        self.assertFalse(transport.disconnecting)

    def test_the_beginning_of_the_next_request_is_no_part_of_the_one_before(self) -> None:
        seen = Seen()
        channel, transport = self.connect(seen, idle_timeout_s=60, request_deadline_s=100)
        whole = post(b"x")
        channel.dataReceived(whole[:5])
        for _ in range(4):
            self.clock.advance(50)
            channel.dataReceived(whole[5:] + whole[:5])
        self.assertEqual(seen.bodies, [b"x"] * 4)
        self.assertFalse(transport.disconnected)

    def test_each_request_of_a_connection_has_its_own_deadline(self) -> None:
        seen = Seen()
        channel, transport = self.connect(seen, idle_timeout_s=60, request_deadline_s=100)
        for _ in range(5):
            channel.dataReceived(b"POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\n")
            self.clock.advance(50)
            channel.dataReceived(b"x")
        self.assertEqual(seen.bodies, [b"x"] * 5)
        self.assertFalse(transport.disconnected)

    def test_an_answer_that_takes_its_time_is_waited_for(self) -> None:
        seen = Seen(held=True)
        channel, transport = self.connect(seen, idle_timeout_s=60, request_deadline_s=60)
        channel.dataReceived(post(b"x"))
        self.clock.advance(500)
        channel.dataReceived(b"")
        self.assertFalse(transport.disconnecting)
        seen.requests[0].finish()
        self.assertIn(b"200 OK", transport.value())

    def test_no_timer_runs_while_nobody_is_connected(self) -> None:
        clock = Clock()
        site: Any = BoundedSite(Seen(), clock)
        site.doStart()
        self.assertEqual(clock.getDelayedCalls(), [])
        site.doStop()


class SentAheadTests(SiteCase):
    """Requests that a client sends without reading the answers to those before."""

    def test_the_next_is_answered_when_the_transport_has_room_again(self) -> None:
        seen = Seen(held=True)
        channel, transport = self.connect(seen)
        channel.dataReceived(post(b"1") + post(b"2") + post(b"3"))
        channel.pauseProducing()
        self.assertEqual(transport.producerState, "paused")
        seen.requests[0].finish()
        self.assertEqual(seen.bodies, [b"1"])
        channel.resumeProducing()
        self.assertEqual((seen.bodies, transport.producerState), ([b"1", b"2"], "producing"))
        seen.requests[1].finish()
        seen.requests[2].finish()
        self.assertEqual((seen.bodies, transport.value().count(b"200 OK")), ([b"1", b"2", b"3"], 3))

    def test_nothing_is_read_while_the_transport_is_full(self) -> None:
        seen = Seen(held=True)
        channel, transport = self.connect(seen)
        channel.dataReceived(post(b"1"))
        channel.pauseProducing()
        self.assertEqual(transport.producerState, "paused")
        channel.resumeProducing()
        self.assertEqual(transport.producerState, "producing")
        seen.requests[0].finish()

    def test_no_more_is_read_ahead_however_many_are_answered(self) -> None:
        seen = Seen(held=True)
        channel, transport = self.connect(seen)
        some = post(b"x" * 100) * 300
        taken = 0
        for answered in range(200):
            while transport.producerState == "producing" and taken < 20:
                channel.dataReceived(some)
                taken += 1
            # The transport is full, and has room again.
            channel.pauseProducing()
            channel.resumeProducing()
            seen.requests[answered].finish()
        self.assertLessEqual(taken, 3)
        while seen.requests[-1].finished == 0:
            seen.requests[-1].finish()
        self.assertEqual((len(seen.bodies), transport.producerState), (taken * 300, "producing"))

    def test_who_never_reads_is_cut_off(self) -> None:
        seen = Seen(held=True)
        channel, transport = self.connect(seen, idle_timeout_s=60)
        channel.dataReceived(post(b"1") + post(b"2"))
        channel.pauseProducing()
        seen.requests[0].finish()
        self.clock.advance(60)
        self.clock.advance(15)
        self.assertTrue(transport.disconnected)
        channel.connectionLost(Failure(ConnectionDone()))
        self.assertEqual((seen.bodies, self.clock.getDelayedCalls()), ([b"1"], []))


class LogTests(SiteCase):
    def logged(self, path: bytes, **options: object) -> str:
        text = StringIO()
        observer = FileLogObserver(text, formatEventAsClassicLogText)
        globalLogPublisher.addObserver(observer)
        try:
            channel, _ = self.connect(Seen(), **options)
            site: Any = self.site
            site.doStart()
            channel.dataReceived(post(b"", path, b"Referer: http://h/signal/mcp/" + TOKEN.encode() + b"\r\n"))
            site.doStop()
        finally:
            globalLogPublisher.removeObserver(observer)
        return text.getvalue()

    def test_nothing_is_logged_of_a_request_by_default(self) -> None:
        self.assertNotIn("POST", self.logged(b"/mcp"))

    def test_the_access_log_tells_method_path_status_and_length(self) -> None:
        self.assertIn("POST /mcp 200 2", self.logged(b"/mcp?secret=x", access_log=True))
        self.assertNotIn("secret", self.logged(b"/mcp?secret=x", access_log=True))

    def test_the_access_log_never_tells_a_token(self) -> None:
        line = self.logged(b"/signal/mcp/" + TOKEN.encode(), access_log=True)
        self.assertIn("/signal/mcp/…", line)
        self.assertNotIn(TOKEN, line)

    def test_no_spelling_of_a_path_tells_a_token(self) -> None:
        escaped = "".join(f"%{ord(letter):02x}" for letter in TOKEN)
        for path in (
            f"//signal/mcp/{TOKEN}",
            f"/mcp/{TOKEN}",
            f"/signal%2fmcp%2f{TOKEN}",
            f"/x/{escaped}",
            f"/{TOKEN}/",
        ):
            shown = loggable_path(path.encode())
            self.assertNotIn(TOKEN, shown)
            self.assertNotIn(escaped, shown)

    def test_a_path_cannot_forge_a_line(self) -> None:
        self.assertEqual(loggable_path(b"/a\nb\x1b[1m\xff"), "/a?b?[1m?")

    def test_a_plain_path_is_told_as_it_is(self) -> None:
        for path in ("/mcp", "/healthz", "/.well-known/oauth-protected-resource"):
            self.assertEqual(loggable_path(path.encode()), path)
