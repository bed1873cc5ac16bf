"""The operator's server file, and the config file that a turn gets."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import ConfigError, SpawnError
from hivesub.turns.mcpconfig import Servers, config_json, read_servers, remove_config, write_config

URL = "http://127.0.0.1:8787/signal/mcp/TOKEN"
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
        ):
            self.entry_refused(entry, said)

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


class ConfigFileTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.runtime = Path(self.mktemp()).absolute() / "deep"
        self.directory = str(self.runtime / "config")

    def test_the_config_holds_the_signal_route_and_what_is_shared(self) -> None:
        servers = read(a={"command": "x", "availableToSubagents": True}, b={"command": "y"})
        self.assertEqual(
            json.loads(config_json(servers, URL)),
            {"mcpServers": {"subagent_control": {"type": "http", "url": URL}, "a": {"command": "x"}}},
        )

    def test_without_an_operator_s_file_only_the_signal_route_is_there(self) -> None:
        self.assertEqual(list(json.loads(config_json(Servers(), URL))["mcpServers"]), ["subagent_control"])

    def test_a_shared_entry_cannot_replace_the_signal_route(self) -> None:
        forged = Servers(shared={"subagent_control": {"command": "evil"}})
        self.assertEqual(json.loads(config_json(forged, URL))["mcpServers"]["subagent_control"]["url"], URL)

    def test_file_and_directory_are_for_this_user_alone(self) -> None:
        path = write_config(self.directory, "alpha", b"{}")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(self.directory).st_mode), 0o700)

    def refused(self, *said: str) -> None:
        error = self.assertRaises(SpawnError, write_config, self.directory, "alpha", b"{}")
        for words in ("--runtime-dir", *said):
            self.assertIn(words, str(error))

    def test_a_runtime_directory_that_was_removed_comes_back_as_closed_as_it_was(self) -> None:
        path = write_config(self.directory, "alpha", b"{}")
        shutil.rmtree(self.runtime)
        self.assertEqual(write_config(self.directory, "alpha", b"2"), path)
        self.assertEqual(stat.S_IMODE(self.runtime.stat().st_mode), 0o700)
        self.assertEqual(stat.S_IMODE(os.stat(self.directory).st_mode), 0o700)

    def test_a_directory_that_others_may_enter_is_refused_on_both_levels(self) -> None:
        write_config(self.directory, "beta", b"{}")
        for level in (self.directory, str(self.runtime)):
            os.chmod(level, 0o755)
            self.refused(f"{level} is open to others")
            os.chmod(level, 0o700)
        self.assertEqual(os.listdir(self.directory), ["beta.mcp.json"])

    def test_there_is_one_file_for_each_session_and_it_is_replaced_whole(self) -> None:
        first = write_config(self.directory, "alpha", b"one")
        self.assertEqual(write_config(self.directory, "alpha", b"2"), first)
        write_config(self.directory, "beta", b"3")
        self.assertEqual(Path(first).read_bytes(), b"2")
        self.assertEqual(len(os.listdir(self.directory)), 2)

    def test_a_key_that_is_no_file_name_stays_inside_the_directory(self) -> None:
        for key in ("../evil", "a/b", "", "x" * 300, ".."):
            path = write_config(self.directory, key, b"{}")
            self.assertEqual(os.path.dirname(path), self.directory)

    def test_a_directory_that_is_a_symbolic_link_is_refused_on_both_levels(self) -> None:
        target = Path(self.mktemp()).absolute()
        target.mkdir(mode=0o700)
        for level in (self.runtime, Path(self.directory)):
            level.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            level.symlink_to(target)
            self.refused(f"{level} is a symlink")
            level.unlink()
            level.mkdir(mode=0o700)
        self.assertEqual(list(target.iterdir()), [])

    def test_a_write_that_fails_leaves_nothing_behind(self) -> None:
        path = write_config(self.directory, "alpha", b"{}")
        os.unlink(path)
        os.mkdir(path)
        self.assertRaises(OSError, write_config, self.directory, "alpha", b"{}")
        self.assertEqual(os.listdir(self.directory), ["alpha.mcp.json"])

    def test_removing_is_fine_twice_and_never_raises(self) -> None:
        path = write_config(self.directory, "alpha", b"{}")
        remove_config(path)
        self.assertFalse(os.path.exists(path))
        remove_config(path)
        os.makedirs(path)
        remove_config(path)
        self.assertTrue(os.path.isdir(path))
