"""The operator's server file: checked whole, read anew when asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred
from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import ConfigError
from hivesub.turns.serverfile import ServerFile, Servers, read_servers

SOURCE = "--mcp-servers: s.json"


def read(**servers: Any) -> Servers:
    return read_servers(json.dumps({"mcpServers": servers}), SOURCE)


class ServerFileTests(SynchronousTestCase):
    def refused(self, text: str, *said: str) -> str:
        error = self.assertRaises(ConfigError, read_servers, text, SOURCE)
        for words in (SOURCE, *said):
            self.assertIn(words, str(error))
        return str(error)

    def entry_refused(self, entry: object, *said: str) -> str:
        return self.refused(json.dumps({"mcpServers": {"db": entry}}), "server 'db'", *said)

    def test_only_what_says_so_is_shared_and_the_key_itself_is_not_passed_on(self) -> None:
        servers = read(
            a={"command": "x", "availableToSubagents": True, "extra": {"kept": 1}},
            b={"command": "y", "availableToSubagents": False},
            c={"type": "http", "url": "https://h/p"},
        )
        self.assertEqual(servers.shared, {"a": {"command": "x", "extra": {"kept": 1}}})
        self.assertEqual(servers.names, ("a", "b", "c"))

    def test_a_url_without_a_type_is_http(self) -> None:
        servers = read(a={"url": "https://h/p", "availableToSubagents": True})
        self.assertEqual(servers.shared["a"], {"type": "http", "url": "https://h/p"})

    def test_every_fault_names_file_server_and_field(self) -> None:
        for entry, said in (
            ([], "must be an object"),
            ({}, "needs command"),
            ({"command": "x", "url": "http://h"}, "both command and url"),
            ({"command": " "}, "command:"),
            ({"command": 3}, "command:"),
            ({"url": "h/p"}, "url:"),
            ({"url": "ftp://h/p"}, "url:"),
            ({"url": "http://[x"}, "url:"),
            ({"url": None}, "url:"),
            ({"command": "x", "availableToSubagents": "yes"}, "availableToSubagents:"),
            ({"command": "x", "availableToSubagents": None}, "availableToSubagents:"),
            ({"command": "x", "args": "-v"}, "args:"),
            ({"command": "x", "args": [1]}, "args:"),
            ({"command": "x", "env": ["A=1"]}, "env:"),
            ({"command": "x", "env": {"A": 1}}, "env: A:"),
            ({"url": "http://h", "headers": {"X": None}}, "headers: X:"),
            ({"type": "stdio", "url": "http://h"}, "command:"),
            ({"type": "sse", "command": "x"}, "url:"),
            ({"type": 1, "command": "x"}, "type:"),
            ({"type": "remote", "url": "http://h"}, "type: claude takes stdio, http, sse and ws"),
            ({"type": "sdk", "command": "x"}, "type:"),
            ({"type": "", "command": "x"}, "type:"),
            ({"type": "streamableHttp", "command": "x"}, "url: is missing, and type is http"),
            ({"command": "x", "timeout": float("nan")}, "timeout: NaN and Infinity are no numbers"),
            ({"command": "x", "deep": {"list": [{"n": float("-inf")}]}}, "deep: list: n: NaN and Infinity"),
            ({"command": "x", "env": {"A": "\ud83d"}}, "env: A: holds half of a surrogate pair"),
            ({"command": "x", "args": ["\udc00"]}, "args: holds half of a surrogate pair"),
            ({"url": "http://h", "headers": {"\ud83d": "x"}}, "headers: holds half of a surrogate pair"),
        ):
            self.entry_refused(entry, said)

    def test_a_number_too_big_for_any_reader_is_refused_as_what_it_would_become(self) -> None:
        self.refused('{"mcpServers": {"db": {"command": "x", "timeout": 1e999}}}', "server 'db': timeout: NaN and Inf")

    def test_what_stands_beside_the_servers_is_looked_at_too(self) -> None:
        self.refused('{"mcpServers": {}, "more": {"n": NaN}}', "more: n: NaN and Infinity")
        self.refused('{"mcpServers": {"\\ud83d": {"command": "x"}}}', "server '\\ud83d': ")

    def test_every_spelling_of_a_type_that_claude_takes_is_written_as_claude_takes_it(self) -> None:
        for given, written in {
            "http": "http", "HTTP": "http", "streamable-http": "http", "streamableHttp": "http",
            "streamable_http": "http", "SSE": "sse", "ws": "ws", "websocket": "ws",
        }.items():  # fmt: skip
            servers = read(a={"url": "https://h/p", "type": given, "availableToSubagents": True})
            self.assertEqual(servers.shared["a"], {"type": written, "url": "https://h/p"})
        servers = read(a={"command": "x", "type": "STDIO", "availableToSubagents": True})
        self.assertEqual(servers.shared["a"], {"type": "stdio", "command": "x"})

    def test_a_type_of_null_is_as_good_as_none(self) -> None:
        servers = read(
            a={"command": "x", "type": None, "availableToSubagents": True},
            b={"url": "https://h/p", "type": None, "availableToSubagents": True},
        )
        self.assertEqual([each.get("type") for each in servers.shared.values()], [None, "http"])

    def test_a_file_that_is_no_such_object_is_refused(self) -> None:
        for text in ("", "{", "[]", "null", "{}", '{"mcpServers": []}', "[" * 100_000, '{"a": ' + "9" * 5000 + "}"):
            self.refused(text)

    def test_a_fault_never_quotes_a_value(self) -> None:
        secret = "s3cr3t-value"
        self.assertNotIn(secret, self.entry_refused({"url": secret}))
        self.assertNotIn(secret, self.entry_refused({"command": "x", "env": {"A": [secret]}}))
        self.assertNotIn(secret, self.entry_refused({"command": "x", "type": [secret]}))
        self.assertNotIn(secret, self.refused('{"mcpServers": {"a": "' + secret))

    def test_nobody_can_define_the_control_server_in_any_spelling(self) -> None:
        for name in (
            "subagent_control",
            "Subagent_Control",
            "subagent.control",
            "subagent control",
            "subagent_control__x",
        ):
            self.refused(json.dumps({"mcpServers": {name: {"command": "x"}}}), "is the daemon's own")
        self.assertEqual(read(subagent={"command": "x"}).names, ("subagent",))

    def test_a_blank_or_endless_name_is_refused(self) -> None:
        for name in ("", "  ", "x" * 129):
            self.refused(json.dumps({"mcpServers": {name: {"command": "x"}}}), "server's name")

    def test_a_key_that_stands_twice_is_refused(self) -> None:
        entry = '{"command": "x", "availableToSubagents": false, "availableToSubagents": true}'
        self.refused('{"mcpServers": {"a": ' + entry + "}}", "'availableToSubagents' stands twice")

    def test_the_secrets_of_all_entries_are_found(self) -> None:
        servers = read(
            a={"command": "x", "env": {"KEY": "env-secret"}, "args": ["--token", "arg-secret"]},
            b={
                "url": "https://me:pass%2Fword@h/p?key=query-secret&x=",
                "headers": {"Authorization": "Bearer head-secret"},
            },
        )
        self.assertEqual(
            servers.secrets,
            {
                "env-secret",
                "pass%2Fword",
                "pass/word",
                "query-secret",
                "Bearer head-secret",
                "head-secret",
                "arg-secret",
            },
        )
        self.assertNotIn("secret", repr(servers))

    def test_a_directory_or_word_that_a_server_is_given_is_no_secret(self) -> None:
        servers = read(
            fs={"command": "fs", "args": ["/srv/work"], "env": {"ALLOWED_DIR": "/srv/work", "MODE": "production"}}
        )
        self.assertEqual(servers.secrets, frozenset())


class ReadingAnew(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp()).absolute()
        self.learned: list[str] = []
        self.write(a={"command": "x", "availableToSubagents": True})
        self.file = ServerFile(self.path, self.learned.append)

    def write(self, **servers: Any) -> None:
        self.path.write_text(json.dumps({"mcpServers": servers}))

    def reload(self, in_thread: Any = maybeDeferred) -> tuple[LogLevel, str]:
        with capturedLogs() as logs:
            self.successResultOf(Deferred.fromCoroutine(self.file.reload(in_thread)))
        (event,) = logs
        return event["log_level"], str(formatEvent(event))

    def test_turns_that_start_from_then_on_get_what_it_says_now(self) -> None:
        self.write(b={"command": "y", "env": {"TOKEN": "s3cr3t-one"}, "availableToSubagents": True}, c={"command": "z"})
        self.assertEqual(self.reload(), (LogLevel.info, f"{self.path} was read anew: 1 of 2 servers go to turns that "
                                         "start from now on"))  # fmt: skip
        self.assertEqual(list(self.file.servers.shared), ["b"])
        self.assertEqual(self.learned, ["s3cr3t-one"])

    def test_one_that_cannot_be_used_is_logged_by_name_and_the_old_one_stays(self) -> None:
        before = self.file.servers
        for bad in (b"{broken", b"\xff", b'{"mcpServers": {"db": {}}}'):
            self.path.write_bytes(bad)
            level, text = self.reload()
            self.assertIs(level, LogLevel.error)
            self.assertIn(f"--mcp-servers: {self.path}", text)
            self.assertIn("stay as they were", text)
            self.assertIs(self.file.servers, before)
        self.path.unlink()
        self.assertIn("cannot be read: No such file", self.reload()[1])

    def test_without_a_thread_to_be_had_the_old_one_stays(self) -> None:
        before = self.file.servers
        self.assertIn("blocked", self.reload(lambda *args: fail(OSError("64 file operations are blocked already")))[1])
        self.assertIs(self.file.servers, before)

    def test_without_a_file_there_is_nothing_to_read(self) -> None:
        self.file = ServerFile(None, self.learned.append)
        self.assertEqual(self.reload(), (LogLevel.info, "there is no --mcp-servers file to read anew"))
        self.assertEqual(self.file.servers, Servers())

    def test_at_the_start_a_file_that_cannot_be_used_is_an_error(self) -> None:
        self.path.write_text("{}")
        self.assertRaises(ConfigError, ServerFile, self.path, self.learned.append)
