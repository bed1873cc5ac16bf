"""The routes and the order of checks, by bytes over an in-memory transport: all that is answered without the SDK."""

import json
from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import IResource, Resource
from zope.interface.verify import verifyObject

from hivesub.interfaces import ISignalTarget, ITokens
from hivesub.web.guard import Bearer, HostRule
from hivesub.web.site import MAX_BODY_BYTES, BoundedSite
from hivesub.web.tree import Plain, Tree
from tests.support.webfakes import LIVING, FakeTarget, FakeTokens, connection, never

HOST = b"Host: 127.0.0.1:8787\r\n"
METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"BREW")


class Page(Resource):
    isLeaf = True

    def render(self, request: Any) -> bytes:
        return b"the page"


class TreeCase(SynchronousTestCase):
    bearer: Bearer | None = None

    def setUp(self) -> None:
        self.tokens = FakeTokens()
        self.target = FakeTarget()
        self.tokens.mint(self.target)
        hosts = HostRule()
        hosts.bind("127.0.0.1", 8787)
        self.tree = Tree(
            agent=never,
            control=never,
            tokens=self.tokens,
            hosts=hosts,
            bearer=self.bearer,
            clock=Clock(),
            pages={"/": Page(), "/metrics": Page()},
        )
        self.site = BoundedSite(self.tree.resource(), Clock())

    def ask(self, method: bytes, path: bytes, headers: bytes = HOST, body: bytes = b"") -> bytes:
        """The whole answer, as bytes; its `Date` cut out."""
        channel, transport = connection(self.site)
        length = b"Content-Length: %d\r\n" % len(body)
        channel.dataReceived(b"%b %b HTTP/1.1\r\n%b%b\r\n%b" % (method, path, headers, length, body))
        head, _, text = transport.value().partition(b"\r\n\r\n")
        kept: list[bytes] = [line for line in head.split(b"\r\n") if not line.startswith(b"Date:")]
        return b"\r\n".join([*kept, b"", text])

    def status(self, *args: bytes) -> int:
        return int(self.ask(*args).split(b" ")[1])


class NotFoundTests(TreeCase):
    def test_all_that_is_no_route_is_the_same_plain_404_for_every_method(self) -> None:
        paths = (
            b"/.well-known/oauth-protected-resource",
            b"/.well-known/oauth-authorization-server",
            b"/.well-known/oauth-protected-resource/mcp",
            b"/register",
            b"/mcp/",
            b"//mcp",
            b"/mcp/x",
            b"/MCP",
            b"/%6dcp",
            b"/healthz/",
            b"/metrics/",
            b"/signal",
            b"/signal/mcp",
            b"/signal/mcp/",
            b"/other",
            b"/\xff",
            b"/a%00b",
            b"*",
            b"mcp",
            b"ftp://127.0.0.1:8787/mcp",
            b"http://127.0.0.1:8787//mcp",
            b"http:/mcp",
        )
        expected = self.ask(b"GET", b"/nothing")
        self.assertTrue(expected.startswith(b"HTTP/1.1 404 Not Found\r\n"))
        self.assertTrue(expected.endswith(b"\r\n\r\nnot found\n"))
        for path in paths:
            for method in METHODS:
                answer = self.ask(method, path)
                self.assertEqual(answer, expected if method != b"HEAD" else expected[: -len(b"not found\n")], path)

    def test_the_404_has_no_date_by_which_two_would_differ(self) -> None:
        channel, transport = connection(self.site)
        channel.dataReceived(b"GET /nothing HTTP/1.1\r\n" + HOST + b"\r\n")
        self.assertNotIn(b"Date", transport.value())


class DeadTokenTests(TreeCase):
    def test_a_token_that_resolves_to_nothing_is_the_plain_404_however_spelled(self) -> None:
        self.tokens.revoke(LIVING)
        tokens = (
            LIVING.encode(),
            LIVING.encode() + b"/",
            LIVING.encode() + b"/x",
            LIVING.encode() + b"?x=1",
            b"x",
            b".",
            b"..",
            b"%2e",
            b"%2e%2e",
            b"%00",
            b"\xc3\xa9",
            b"%c3%a9",
            b"A" * 10_000,
        )
        nothing = self.ask(b"GET", b"/nothing")
        for token in tokens:
            for method in METHODS:
                answer = self.ask(method, b"/signal/mcp/" + token)
                self.assertEqual(answer, nothing if method != b"HEAD" else nothing[: -len(b"not found\n")], token)

    def test_another_spelling_of_a_living_token_is_dead(self) -> None:
        escaped = b"%" + b"%02x" % ord(LIVING[0]) + LIVING[1:].encode()
        for path in (
            b"/signal/mcp/" + escaped,
            b"/signal%2fmcp/" + LIVING.encode(),
            b"//signal/mcp/" + LIVING.encode(),
            b"/signal/mcp//" + LIVING.encode(),
            b"/signal/./mcp/" + LIVING.encode(),
            b"/signal/mcp/" + LIVING.encode() + b"/",
        ):
            self.assertEqual(self.status(b"GET", path), 404, path)
        self.assertEqual(self.target.told, [])

    def test_a_body_past_the_limit_changes_nothing_of_it(self) -> None:
        small = self.ask(b"POST", b"/signal/mcp/dead")
        self.assertEqual(self.ask(b"POST", b"/signal/mcp/dead", HOST, b"x" * (MAX_BODY_BYTES + 1)), small)
        self.assertIn(b"404", small)


class LivingTokenTests(TreeCase):
    def test_the_method_is_asked_after_the_token(self) -> None:
        for method in METHODS:
            if method != b"POST":
                answer = self.ask(method, b"/signal/mcp/" + LIVING.encode())
                self.assertIn(b"405 Method Not Allowed", answer)
                self.assertIn(b"Allow: POST", answer)

    def test_the_size_is_asked_after_the_method(self) -> None:
        body = b"x" * (MAX_BODY_BYTES + 1)
        self.assertEqual(self.status(b"POST", b"/signal/mcp/" + LIVING.encode(), HOST, body), 413)
        self.assertEqual(self.status(b"PUT", b"/signal/mcp/" + LIVING.encode(), HOST, body), 405)

    def test_the_target_hears_of_each_request_and_of_its_end(self) -> None:
        self.ask(b"GET", b"/signal/mcp/" + LIVING.encode())
        self.assertEqual(self.target.told, ["began", "ended"])

    def test_a_foreign_host_is_refused_before_the_token_is_looked_at(self) -> None:
        self.assertEqual(self.status(b"POST", b"/signal/mcp/" + LIVING.encode(), b"Host: evil.example\r\n"), 421)
        self.assertEqual(self.tokens.asked, [])


class AgentRouteTests(TreeCase):
    def test_every_method_but_post_is_405(self) -> None:
        for method in METHODS:
            if method != b"POST":
                answer = self.ask(method, b"/mcp", HOST + b"Accept: text/event-stream\r\n")
                self.assertTrue(answer.startswith(b"HTTP/1.1 405 Method Not Allowed\r\n"), method)
                self.assertIn(b"Allow: POST\r\n", answer)

    def test_a_body_past_the_limit_is_413(self) -> None:
        body = b"x" * (MAX_BODY_BYTES + 1)
        self.assertEqual(self.status(b"POST", b"/mcp", HOST, body), 413)

    def test_the_413_names_the_limit_and_what_would_fit(self) -> None:
        body = json.dumps({"prompt": "\N{CYRILLIC SMALL LETTER ZHE}" * 1_000_000}).encode()
        for path in (b"/mcp", b"/signal/mcp/" + LIVING.encode()):
            answer = self.ask(b"POST", path, HOST, body)
            self.assertIn(b"a whole request may have 4194304 bytes", answer)
            self.assertIn(b"send the text unescaped", answer)

    def test_foreign_hosts_and_origins_are_refused_on_every_route(self) -> None:
        for path in (b"/mcp", b"/healthz", b"/", b"/metrics", b"/nothing", b"/signal/mcp/" + LIVING.encode()):
            self.assertEqual(self.status(b"POST", path, b"Host: evil.example\r\n"), 421, path)
            self.assertEqual(self.status(b"POST", path, HOST + b"Origin: http://evil\r\n"), 403, path)
            self.assertEqual(self.status(b"POST", path, b""), 421, path)


class AbsoluteFormTests(TreeCase):
    """`GET http://127.0.0.1:8787/healthz`, as a client writes it that takes us for a proxy."""

    def test_it_is_served_as_the_path_in_it(self) -> None:
        for target in (
            b"http://127.0.0.1:8787/healthz",
            b"HTTP://LOCALHOST:8787/healthz",
            b"http://[::1]:8787/healthz?x=1",
            b"https://localhost:8787/healthz",
        ):
            self.assertEqual(self.status(b"GET", target), 200, target)
        for target in (b"http://127.0.0.1:8787", b"http://127.0.0.1:8787?x=1", b"http://127.0.0.1:8787/"):
            self.assertTrue(self.ask(b"GET", target).endswith(b"the page"), target)
        self.assertEqual(self.status(b"GET", b"http://127.0.0.1:8787/mcp"), 405)
        self.assertEqual(self.status(b"GET", b"http://127.0.0.1:8787/signal/mcp/" + LIVING.encode()), 405)

    def test_its_authority_is_asked_and_the_host_header_is_not(self) -> None:
        for foreign in (b"http://evil.example/mcp", b"http://127.0.0.1:8787@evil.example/mcp", b"http:///mcp"):
            self.assertEqual(self.status(b"POST", foreign), 421, foreign)
        for headers in (b"", b"Host: evil.example\r\n", HOST + HOST):
            self.assertEqual(self.status(b"GET", b"http://127.0.0.1:8787/healthz", headers), 200, headers)

    def test_its_origin_is_asked_too(self) -> None:
        answer = self.status(b"POST", b"http://127.0.0.1:8787/mcp", HOST + b"Origin: http://evil\r\n")
        self.assertEqual(answer, 403)

    def test_a_dead_token_in_it_is_the_plain_404(self) -> None:
        nothing = self.ask(b"GET", b"/nothing")
        self.assertEqual(self.ask(b"POST", b"http://127.0.0.1:8787/signal/mcp/dead"), nothing)


class HealthTests(TreeCase):
    def test_it_answers_ok_to_get_and_head(self) -> None:
        self.assertTrue(self.ask(b"GET", b"/healthz").endswith(b"\r\n\r\nok\n"))
        head = self.ask(b"HEAD", b"/healthz")
        self.assertTrue(head.startswith(b"HTTP/1.1 200 OK\r\n"))
        self.assertTrue(head.endswith(b"\r\n\r\n"))

    def test_it_answers_by_every_name_of_loopback(self) -> None:
        for host in (b"localhost:8787", b"[::1]:8787", b"127.0.0.1:8787"):
            self.assertEqual(self.status(b"GET", b"/healthz", b"Host: " + host + b"\r\n"), 200, host)

    def test_other_methods_are_405(self) -> None:
        self.assertIn(b"Allow: GET, HEAD", self.ask(b"POST", b"/healthz"))


class PageTests(TreeCase):
    def test_pages_answer_at_their_paths(self) -> None:
        for path in (b"/", b"/metrics", b"/?x=1"):
            self.assertTrue(self.ask(b"GET", path).endswith(b"the page"), path)


class StoppedTests(TreeCase):
    def test_every_request_after_the_stop_is_a_503_and_the_connection_s_last(self) -> None:
        self.tree.stop()
        for path in (b"/mcp", b"/signal/mcp/" + LIVING.encode(), b"/signal/mcp/dead", b"/", b"/healthz", b"/nothing"):
            channel, transport = connection(self.site)
            channel.dataReceived(b"POST %b HTTP/1.1\r\n%bContent-Length: 0\r\n\r\n" % (path, HOST))
            head, _, text = transport.value().partition(b"\r\n\r\n")
            self.assertTrue(head.startswith(b"HTTP/1.1 503 Service Unavailable\r\n"), path)
            self.assertIn(b"Connection: close", head)
            self.assertIn(b"the daemon is stopping", text)
            self.assertTrue(transport.disconnecting)
        self.assertEqual(self.target.told, [])


class LockedTests(TreeCase):
    bearer = Bearer("s3cret")

    def test_the_agent_s_route_and_the_pages_ask_for_the_token(self) -> None:
        for path in (b"/mcp", b"/", b"/metrics"):
            for method in (b"GET", b"POST"):
                answer = self.ask(method, path)
                self.assertTrue(answer.startswith(b"HTTP/1.1 401 Unauthorized\r\n"), path)
                self.assertIn(b"WWW-Authenticate: Bearer", answer)
                self.assertIn(b"WWW-Authenticate: Basic", answer)

    def test_who_shows_the_token_is_asked_for_the_method_next(self) -> None:
        self.assertEqual(self.status(b"GET", b"/mcp", HOST + b"Authorization: Bearer s3cret\r\n"), 405)
        self.assertEqual(self.status(b"GET", b"/metrics", HOST + b"Authorization: Bearer s3cret\r\n"), 200)

    def test_size_is_asked_last(self) -> None:
        body = b"x" * (MAX_BODY_BYTES + 1)
        self.assertEqual(self.status(b"POST", b"/mcp", HOST, body), 401)
        self.assertEqual(self.status(b"POST", b"/mcp", HOST + b"Authorization: Bearer s3cret\r\n", body), 413)

    def test_what_is_not_there_is_404_before_any_question_of_authorisation(self) -> None:
        for path in (
            b"/nothing",
            b"/.well-known/oauth-protected-resource",
            b"/register",
            b"/signal/mcp/dead",
            b"/mcp/",
        ):
            self.assertEqual(self.status(b"POST", path), 404, path)

    def test_who_looks_for_a_sign_in_is_told_that_a_header_does_it(self) -> None:
        answer = self.ask(b"POST", b"/register", HOST, b"{}")
        self.assertTrue(answer.startswith(b"HTTP/1.1 404 Not Found\r\n"))
        self.assertIn(b"no sign-in here", answer)
        self.assertIn(b"Authorization: Bearer TOKEN", answer)

    def test_health_and_the_signal_route_do_not_ask_for_it(self) -> None:
        self.assertEqual(self.status(b"GET", b"/healthz"), 200)
        self.assertEqual(self.status(b"GET", b"/signal/mcp/" + LIVING.encode()), 405)


class InterfaceTests(TreeCase):
    def test_what_is_served_are_resources(self) -> None:
        verifyObject(IResource, self.tree.resource())
        verifyObject(IResource, Plain(200, "x"))

    def test_the_fakes_are_what_they_stand_for(self) -> None:
        verifyObject(ITokens, self.tokens)
        verifyObject(ISignalTarget, self.target)
