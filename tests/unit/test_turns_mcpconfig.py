"""The config file that a turn gets."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import SpawnError
from hivesub.turns.mcpconfig import config_json, remove_config, write_config
from hivesub.turns.serverfile import Servers, read_servers

URL = "http://127.0.0.1:8787/signal/mcp/TOKEN"
SOURCE = "--mcp-servers: s.json"


def read(**servers: Any) -> Servers:
    return read_servers(json.dumps({"mcpServers": servers}), SOURCE)


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
