"""Tests of `hivesub.config.optionvalues`."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hivesub.config.optionvalues import (
    TOKEN_FILE_MAX_BYTES,
    is_loopback_endpoint,
    read_command,
    read_number,
    read_path,
    read_public_url,
    read_todo,
    read_token_file,
    split_endpoint,
)


class NumberTests(SynchronousTestCase):
    def test_both_ends_of_the_range_are_taken(self) -> None:
        self.assertEqual([read_number("0", 0, 65535), read_number("65535", 0, 65535)], [0, 65535])

    def test_anything_but_decimal_digits_in_the_range_is_refused_with_the_range(self) -> None:
        for text in ("", "-1", "65536", "8787 ", "0x10", "1.5", "٣", "1_0", "9" * 40, "8787\n"):
            with self.subTest(text=text):
                error = self.assertRaises(ValueError, read_number, text, 0, 65535)
                self.assertIn("a whole number from 0 to 65535", str(error))


class PathTests(SynchronousTestCase):
    def test_a_tilde_is_the_home_of_the_given_environment(self) -> None:
        self.assertEqual(read_path("~/x", {"HOME": "/home/ann"}, Path("/work")), Path("/home/ann/x"))
        self.assertEqual(read_path("~", {"HOME": "/home/ann"}, Path("/work")), Path("/home/ann"))

    def test_a_relative_path_is_relative_to_the_given_directory(self) -> None:
        self.assertEqual(read_path("../x", {}, Path("/srv/main")), Path("/srv/x"))

    def test_an_empty_path_is_refused(self) -> None:
        self.assertIn("empty", str(self.assertRaises(ValueError, read_path, "", {}, Path("/"))))


class CommandTests(SynchronousTestCase):
    def test_words_are_split_as_a_shell_splits_them(self) -> None:
        self.assertEqual(read_command("bwrap --bind 'a b' /x"), ("bwrap", "--bind", "a b", "/x"))

    def test_an_open_quote_is_refused(self) -> None:
        self.assertIn("quote", str(self.assertRaises(ValueError, read_command, "bwrap 'a")))

    def test_nothing_but_blanks_is_refused(self) -> None:
        self.assertIn("empty", str(self.assertRaises(ValueError, read_command, "  ")))


class PublicUrlTests(SynchronousTestCase):
    def test_a_slash_at_the_end_is_dropped(self) -> None:
        self.assertEqual(read_public_url("https://hive.example:444/"), "https://hive.example:444")
        self.assertEqual(read_public_url("http://[::1]:8787"), "http://[::1]:8787")

    def test_what_is_more_or_less_than_a_base_url_is_refused_without_repeating_it(self) -> None:
        for text in (
            "hive.example",
            "ftp://hive.example",
            "http://",
            "http://:80",
            "http://hive.example:0",
            "http://hive.example:99999",
            "http://hive.example:port",
            "http://hive.example/mcp",
            "http://hive.example?",
            "http://hive.example#",
            "http://ann:secret@hive.example",
            "http://hive example",
            "http://hive.example\n",
            "http://[::1",
            "",
        ):
            with self.subTest(text=text):
                error = str(self.assertRaises(ValueError, read_public_url, text))
                self.assertIn("://", error)
                self.assertNotIn("secret", error)


class TodoTests(SynchronousTestCase):
    def test_a_url_is_kept_as_it_is(self) -> None:
        url = "https://ann:k@todo.example/in?key=1"
        self.assertEqual(read_todo(url, {}, Path("/")), url)

    def test_a_path_becomes_absolute(self) -> None:
        here = Path(self.mktemp()).absolute()
        here.mkdir()
        self.assertEqual(read_todo("todos.jsonl", {}, here), here / "todos.jsonl")

    def test_another_scheme_a_directory_and_a_missing_folder_are_refused(self) -> None:
        here = Path(self.mktemp()).absolute()
        here.mkdir()
        for text, why in (
            ("ftp://x/secret", "http:// or https://"),
            (str(here), "is a directory"),
            ("no/where", "does not exist"),
        ):
            with self.subTest(text=text):
                error = str(self.assertRaises(ValueError, read_todo, text, {}, here))
                self.assertIn(why, error)
                self.assertNotIn("secret", error)


class TokenFileTests(SynchronousTestCase):
    def written(self, content: bytes, mode: int = 0o600) -> Path:
        path = Path(self.mktemp()).absolute()
        path.write_bytes(content)
        path.chmod(mode)
        return path

    def test_a_plain_token_is_read_without_the_newline(self) -> None:
        self.assertEqual(read_token_file(self.written(b"s3cret-token\n")), ("s3cret-token", None))

    def test_a_hash_is_read_in_lower_case(self) -> None:
        self.assertEqual(read_token_file(self.written(b"SHA256:" + b"AB" * 32)), ("sha256:" + "ab" * 32, None))

    def test_a_plain_token_that_others_can_read_brings_a_warning(self) -> None:
        path = self.written(b"s3cret-token", 0o644)
        token, warning = read_token_file(path)
        self.assertEqual(token, "s3cret-token")
        assert warning is not None
        self.assertIn(f"{path} can be read by others than its owner (mode 644)", warning)
        self.assertNotIn("s3cret", warning)

    def test_a_hash_that_others_can_read_gives_nothing_away_and_brings_no_warning(self) -> None:
        self.assertIsNone(read_token_file(self.written(b"sha256:" + b"0" * 64, 0o644))[1])

    def test_what_is_no_token_is_refused_without_repeating_it(self) -> None:
        for content, why in (
            (b"", "is empty"),
            (b" \n\n", "is empty"),
            (b"s3cret one", "not one line of visible ASCII"),
            (b"s3cret\nother", "not one line of visible ASCII"),
            (b"s3cret\x00", "not one line of visible ASCII"),
            ("s3crét".encode(), "not one line of visible ASCII"),
            (b"s3cret" * TOKEN_FILE_MAX_BYTES, "not one line of visible ASCII"),
            (b"sha256:s3cret", "without 64 hex digits"),
            (b"sha256:" + b"0" * 63, "without 64 hex digits"),
        ):
            with self.subTest(content=content[:20]):
                error = str(self.assertRaises(ValueError, read_token_file, self.written(content)))
                self.assertIn(why, error)
                self.assertNotIn("s3cr", error)

    def test_a_missing_file_and_a_directory_are_refused(self) -> None:
        for path in (Path(self.mktemp()).absolute(), Path(os.sep)):
            error = str(self.assertRaises(ValueError, read_token_file, path))
            self.assertIn(f"{path}: ", error)


class EndpointTests(SynchronousTestCase):
    def test_escapes_are_undone(self) -> None:
        self.assertEqual(
            split_endpoint(r"tcp6:port=80:interface=\:\:1:a\=b=c\\"),
            ("tcp6", [], {"port": "80", "interface": "::1", "a=b": "c\\"}),
        )
        self.assertEqual(split_endpoint("tcp:80:127.0.0.1"), ("tcp", ["80", "127.0.0.1"], {}))
        self.assertEqual(split_endpoint(""), ("", [], {}))

    def test_an_endpoint_on_loopback_is_told_from_one_that_others_reach(self) -> None:
        for description, expected in (
            ("tcp:8787:interface=127.0.0.1", True),
            ("tcp:8787:interface=127.1.2.3", True),
            ("tcp:8787:127.0.0.1", True),
            ("tcp:port=8787:interface=localhost", True),
            (r"tcp6:8787:interface=\:\:1", True),
            (r"tcp6:8787:50:\:\:1", True),
            ("ssl:8787:interface=127.0.0.1", True),
            ("unix:/run/hivesub.sock", True),
            ("tcp:8787", False),
            ("tcp:8787:interface=", False),
            ("tcp:8787:interface=0.0.0.0", False),
            ("tcp:8787:interface=10.0.0.1", False),
            ("tcp:8787:interface=hive.example", False),
            ("tcp:8787:50:127.0.0.1", False),
            ("tcp6:8787", False),
            (r"tcp6:8787:interface=\:\:", False),
            ("onion:8787:interface=127.0.0.1", False),
            ("", False),
            ("systemd:domain=INET:index=0", None),
        ):
            with self.subTest(description=description):
                self.assertIs(is_loopback_endpoint(description), expected)
