"""Who may come in."""

from base64 import b64encode
from hashlib import sha256

from twisted.trial.unittest import SynchronousTestCase
from twisted.web.http_headers import Headers

from hivesub.errors import ConfigError
from hivesub.web.guard import Bearer, HostRule


def _headers(host: bytes | None = b"127.0.0.1:8787", **more: bytes) -> Headers:
    headers = Headers({name.encode(): [value] for name, value in more.items()})
    if host is not None:
        headers.addRawHeader(b"host", host)
    return headers


def _status(rule: HostRule, host: bytes | None, **more: bytes) -> int | None:
    refusal = rule.refusal(_headers(host, **more))
    return None if refusal is None else refusal.status


class HostTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.rule = HostRule()
        self.rule.bind("127.0.0.1", 8787)

    def test_loopback_names_with_the_bound_port_are_served_in_any_case(self) -> None:
        for host in (b"localhost:8787", b"LocalHost:8787", b"127.0.0.1:8787", b"[::1]:8787"):
            self.assertIsNone(_status(self.rule, host), host)

    def test_any_other_host_is_misdirected(self) -> None:
        foreign = (
            b"evil.example",
            b"evil.example:8787",
            b"localhost",
            b"localhost:80",
            b"localhost:8787.evil.example",
            b"localhost:87870",
            b"127.0.0.1:8787@evil.example",
            b"127.0.0.2:8787",
            b"::1:8787",
            b"",
            b"\xff:8787",
        )
        for host in foreign:
            self.assertEqual(_status(self.rule, host), 421, host)

    def test_no_host_and_two_hosts_are_misdirected(self) -> None:
        self.assertEqual(_status(self.rule, None), 421)
        two = Headers({b"host": [b"127.0.0.1:8787", b"127.0.0.1:8787"]})
        refusal = self.rule.refusal(two)
        assert refusal is not None
        self.assertEqual(refusal.status, 421)

    def test_the_refusal_says_which_hosts_would_work(self) -> None:
        refusal = self.rule.refusal(_headers(b"evil.example"))
        assert refusal is not None
        self.assertIn("localhost:8787", refusal.text)
        self.assertNotIn("evil", refusal.text)

    def test_nothing_is_served_before_the_port_is_known(self) -> None:
        self.assertEqual(_status(HostRule(), b"localhost:8787"), 421)

    def test_port_80_needs_no_port(self) -> None:
        rule = HostRule()
        rule.bind("10.0.0.5", 80)
        for host in (b"10.0.0.5", b"10.0.0.5:80", b"localhost", b"[::1]"):
            self.assertIsNone(_status(rule, host), host)

    def test_a_bound_ipv6_address_is_served_in_brackets(self) -> None:
        rule = HostRule()
        rule.bind("fd00::5", 8787)
        self.assertIsNone(_status(rule, b"[fd00::5]:8787"))
        self.assertEqual(_status(rule, b"fd00::5:8787"), 421)

    def test_a_unix_socket_serves_localhost_without_a_port_and_the_public_host(self) -> None:
        rule = HostRule("https://hive.example/base")
        rule.bind(None, None)
        for host in (b"localhost", b"hive.example", b"HIVE.example:443"):
            self.assertIsNone(_status(rule, host), host)
        for host in (b"127.0.0.1", b"hive.example:80", b"localhost:8787"):
            self.assertEqual(_status(rule, host), 421, host)

    def test_the_public_host_is_served_with_its_own_port_only(self) -> None:
        rule = HostRule("http://hive.example:9000")
        rule.bind("127.0.0.1", 8787)
        self.assertIsNone(_status(rule, b"hive.example:9000"))
        self.assertIsNone(_status(rule, b"localhost:8787"))
        for host in (b"hive.example", b"hive.example:8787", b"localhost:9000"):
            self.assertEqual(_status(rule, host), 421, host)

    def test_a_public_url_that_names_no_host_is_refused_naming_the_option(self) -> None:
        for url in ("hive.example", "ftp://hive.example", "http://", "http://hive:port", "http://[::1"):
            error = self.assertRaises(ConfigError, HostRule, url)
            self.assertIn("--public-url", str(error))


class OriginTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.rule = HostRule("https://hive.example")
        self.rule.bind("127.0.0.1", 8787)

    def test_no_origin_and_our_own_are_fine(self) -> None:
        self.assertIsNone(_status(self.rule, b"localhost:8787"))
        for origin in (
            b"http://localhost:8787",
            b"http://127.0.0.1:8787",
            b"HTTP://[::1]:8787",
            b"https://hive.example",
        ):
            self.assertIsNone(_status(self.rule, b"localhost:8787", origin=origin), origin)

    def test_foreign_null_and_empty_origins_are_forbidden(self) -> None:
        foreign = (b"http://evil", b"null", b"", b"http://localhost:3000", b"http://localhost", b"localhost:8787")
        for origin in foreign:
            self.assertEqual(_status(self.rule, b"localhost:8787", origin=origin), 403, origin)

    def test_a_foreign_host_is_refused_before_the_origin_is_looked_at(self) -> None:
        self.assertEqual(_status(self.rule, b"evil.example", origin=b"http://evil.example"), 421)


class BearerTests(SynchronousTestCase):
    def test_the_token_is_accepted_as_bearer_and_as_basic_password(self) -> None:
        bearer = Bearer("s3cret\n")
        self.assertTrue(bearer.accepts(b"Bearer s3cret"))
        self.assertTrue(bearer.accepts(b"bEARER   s3cret "))
        self.assertTrue(bearer.accepts(b"Basic " + b64encode(b"anyone:s3cret")))
        self.assertTrue(bearer.accepts(b"basic " + b64encode(b":s3cret")))

    def test_a_password_may_hold_colons(self) -> None:
        self.assertTrue(Bearer("a:b:c").accepts(b"Basic " + b64encode(b"x:a:b:c")))

    def test_anything_else_is_not_accepted(self) -> None:
        bearer = Bearer("s3cret")
        refused = (
            None,
            b"",
            b"s3cret",
            b"Bearer",
            b"Bearer ",
            b"Bearer s3cre",
            b"Bearer s3cret x",
            b"Token s3cret",
            b"Basic s3cret",
            b"Basic " + b64encode(b"s3cret:"),
            b"Basic " + b64encode(b"s3cret"),
            b"Basic \xff",
            b"Bearer " + sha256(b"s3cret").hexdigest().encode(),
        )
        for header in refused:
            self.assertFalse(bearer.accepts(header), header)

    def test_the_file_may_hold_the_digest_alone(self) -> None:
        digest = sha256(b"s3cret").hexdigest()
        for text in (f"sha256:{digest}", f" sha256:{digest.upper()}\n"):
            bearer = Bearer(text)
            self.assertTrue(bearer.accepts(b"Bearer s3cret"))
            self.assertFalse(bearer.accepts(b"Bearer " + text.strip().encode()))
            self.assertFalse(bearer.accepts(b"Bearer " + digest.encode()))

    def test_a_file_without_one_token_is_refused_without_repeating_it(self) -> None:
        for text in ("", " \n", "two words", "one\ntwo", "sha256:abcdef", "SHA256:"):
            error = self.assertRaises(ConfigError, Bearer, text)
            self.assertIn("--auth-token-file", str(error))
            self.assertNotIn("two", str(error))
            self.assertNotIn("abcdef", str(error))

    def test_its_repr_shows_nothing(self) -> None:
        self.assertNotIn("s3cret", repr(Bearer("s3cret")))
        self.assertNotIn("s3cret", str(vars(Bearer("s3cret"))))
