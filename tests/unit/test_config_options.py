"""Tests of `hivesub.config.options`."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hivesub.config.options import OPTIONS, Given, OptionError, Settings, make_directories, read_settings, variable_of


class SettingsTestCase(SynchronousTestCase):
    """Reads options in an empty directory of its own, with an empty environment."""

    def setUp(self) -> None:
        self.here = Path(self.mktemp()).absolute()
        self.here.mkdir()
        self.token_file = self.here / "token"
        self.token_file.write_text("s3cret-token\n")
        self.token_file.chmod(0o600)

    def read(self, options: dict[str, Given] | None = None, **environ: str) -> Settings:
        return read_settings(options or {}, environ, self.here)

    def refused(self, options: dict[str, Given] | None = None, **environ: str) -> str:
        error = self.assertRaises(OptionError, self.read, options, **environ)
        self.assertTrue(str(error).startswith(f"--{error.option}: {error.why}"))
        return str(error)


class DefaultTests(SettingsTestCase):
    def test_with_nothing_given_the_defaults_hold(self) -> None:
        environ = {"HOME": "/h", "XDG_RUNTIME_DIR": "/run/user/7", "HIVE_TOOL_GROUPS": "web_tools"}
        self.assertEqual(
            read_settings({}, environ, self.here),
            Settings(
                listen="tcp:port=8787:interface=127.0.0.1",
                claude="claude",
                dir=self.here,
                tools=None,
                tool_groups=None,
                hooks=False,
                mcp_servers=None,
                checks=None,
                todos=(Path("/h/.local/state/hivesub/todos.jsonl"),),
                auth_token=None,
                public_url=None,
                max_running=16,
                limit_wait_s=21_600.0,
                launcher=(),
                runtime_dir=Path("/run/user/7/hivesub"),
                state_dir=Path("/h/.local/state/hivesub"),
                environ=environ,
                warnings=(),
            ),
        )

    def test_reading_makes_nothing(self) -> None:
        self.read({"state-dir": "state", "runtime-dir": "run"})
        self.assertEqual([path.name for path in self.here.iterdir()], ["token"])


class EnvironmentTests(SettingsTestCase):
    def test_every_option_has_a_variable_of_its_name(self) -> None:
        servers = self.here / "servers.json"
        servers.write_text("{}")
        values = {
            "port": "9000",
            "listen": "tcp:9000:interface=127.0.0.1",
            "claude": "/opt/claude",
            "dir": str(self.here),
            "tools": "Read",
            "tool-groups": "web_tools",
            "hooks": "on",
            "mcp-servers": "servers.json",
            "checks": "servers.json",
            "todo": "http://todo.example",
            "auth-token-file": "token",
            "public-url": "http://hive.example",
            "limit-wait": "0.5",
            "max-running": "3",
            "launcher": "env -i",
            "runtime-dir": "/r",
            "state-dir": "/s",
        }
        self.assertEqual(set(values), {name for name, _ in OPTIONS})
        given = {variable_of(name): value for name, value in values.items()}
        by_environment = self.read(None, PATH="/usr/bin:/bin", **given)
        by_command_line = self.read(dict(values), PATH="/usr/bin:/bin")
        unset = self.read()
        for name in (field for field in Settings.__annotations__ if field not in ("environ", "warnings")):
            self.assertEqual(getattr(by_environment, name), getattr(by_command_line, name), name)
            if name != "dir":
                self.assertNotEqual(getattr(by_environment, name), getattr(unset, name), name)

    def test_the_command_line_wins(self) -> None:
        self.assertEqual(self.read({"max-running": "3"}, HIVESUB_MAX_RUNNING="4").max_running, 3)

    def test_an_error_names_the_variable_that_the_text_was_read_from(self) -> None:
        self.assertEqual(
            self.refused(HIVESUB_MAX_RUNNING="many"),
            "--max-running: 'many' is not a whole number from 1 to 10000 (read from HIVESUB_MAX_RUNNING)",
        )

    def test_a_variable_that_is_set_to_nothing_is_not_taken_for_unset(self) -> None:
        for name in (
            "PORT",
            "LISTEN",
            "CLAUDE",
            "DIR",
            "MCP_SERVERS",
            "TODO",
            "AUTH_TOKEN_FILE",
            "MAX_RUNNING",
            "LAUNCHER",
        ):
            with self.subTest(name=name):
                self.refused(None, **{f"HIVESUB_{name}": ""})

    def test_an_empty_tool_list_is_passed_on_to_be_refused_by_the_one_who_resolves_it(self) -> None:
        self.assertEqual(self.read({"tools": ""}).tools, "")
        self.assertEqual(self.read(HIVESUB_TOOL_GROUPS="").tool_groups, "")

    def test_a_variable_that_no_option_reads_brings_a_warning(self) -> None:
        self.assertEqual(
            self.read(HIVESUB_PROT="1", HIVESUB_TURN="x", HIVESUB_TODOS="/t", HIVESUB_PORT="1").warnings,
            ("HIVESUB_PROT is set, but there is no such option",),
        )


class ListenTests(SettingsTestCase):
    def test_a_port_is_a_port_of_loopback(self) -> None:
        self.assertEqual(self.read({"port": "0"}).listen, "tcp:port=0:interface=127.0.0.1")

    def test_both_may_be_given_when_they_say_the_same_port(self) -> None:
        for listen in ("tcp:port=9000:interface=127.0.0.1", "tcp:9000:interface=localhost"):
            self.assertEqual(self.read({"port": "9000", "listen": listen}).listen, listen)

    def test_both_are_refused_when_they_differ(self) -> None:
        for listen in ("tcp:9001:interface=127.0.0.1", "systemd:domain=INET:index=0"):
            self.assertIn("--port says something else", self.refused({"port": "9000", "listen": listen}))

    def test_the_one_on_the_command_line_wins_over_the_other_from_the_environment(self) -> None:
        listen = "systemd:domain=INET:index=0"
        self.assertEqual(self.read({"listen": listen}, HIVESUB_PORT="9000").listen, listen)
        self.assertEqual(self.read({"port": "9000"}, HIVESUB_LISTEN=listen).listen, "tcp:port=9000:interface=127.0.0.1")

    def test_listening_beyond_loopback_takes_a_token(self) -> None:
        listen = "tcp:8787:interface=0.0.0.0"
        self.assertIn("--auth-token-file", self.refused({"listen": listen}))
        self.assertEqual(self.read({"listen": listen, "auth-token-file": "token"}).listen, listen)

    def test_a_token_that_was_made_in_the_state_directory_is_asked_for_and_one_that_is_named_wins(self) -> None:
        digest = "sha256:" + "ab" * 32
        (self.here / "state").mkdir()
        (self.here / "state" / "auth-token").write_text(digest)
        self.assertEqual(self.read({"state-dir": "state"}).auth_token, digest)
        self.assertEqual(self.read({"state-dir": "state", "listen": "tcp:1:interface=0.0.0.0"}).auth_token, digest)
        self.assertEqual(self.read({"state-dir": "state", "auth-token-file": "token"}).auth_token, "s3cret-token")
        self.assertIsNone(self.read({"state-dir": "other"}).auth_token)

    def test_a_made_token_that_cannot_be_read_is_not_taken_for_none(self) -> None:
        (self.here / "auth-token").symlink_to("nowhere")
        self.assertIn("--auth-token-file: ", self.refused({"state-dir": str(self.here)}))

    def test_what_is_no_plain_http_over_tcp_takes_a_public_url(self) -> None:
        for listen, kind in (
            ("unix:/x", "unix"),
            ("ssl:port=8443:interface=127.0.0.1:privateKey=k.pem", "ssl"),
            ("systemd:domain=UNIX:index=0", "systemd"),
            ("haproxy:tcp\\:8080", "haproxy"),
        ):
            said = self.refused({"listen": listen, "auth-token-file": "token"})
            self.assertIn(f"--public-url: subagents cannot reach a {kind}: endpoint", said)
            settings = self.read({"listen": listen, "public-url": "https://h", "auth-token-file": "token"})
            self.assertEqual(settings.public_url, "https://h")

    def test_a_directory_that_is_no_utf_8_is_a_warning_and_for_claudes_config_an_error(self) -> None:
        odd = self.here / os.fsdecode(b"b\xe9d")
        odd.mkdir()
        (warning,) = self.read({"dir": str(odd)}).warnings
        self.assertIn(f"--dir: {self.here}/b\ufffdd is no UTF-8", warning)
        self.assertIn(f"--runtime-dir: {self.here}/b\ufffdd is no UTF-8", self.refused({"runtime-dir": str(odd)}))

    def test_plain_tcp_and_a_supervisors_socket_take_none(self) -> None:
        for listen in ("tcp:8080:interface=127.0.0.1", "tcp6:8080:interface=\\:\\:1", "systemd:domain=INET:index=0"):
            self.assertIsNone(self.read({"listen": listen}).public_url)


class ValueTests(SettingsTestCase):
    def test_a_claude_with_a_slash_is_made_absolute_and_a_bare_name_is_kept(self) -> None:
        self.assertEqual(self.read({"claude": "bin/claude"}).claude, str(self.here / "bin/claude"))
        self.assertEqual(self.read({"claude": "claude-next"}).claude, "claude-next")

    def test_a_dir_has_to_be_an_existing_directory(self) -> None:
        self.assertIn("does not exist; give an existing directory", self.refused({"dir": "nowhere"}))
        self.assertIn("is not a directory", self.refused({"dir": "token"}))

    def test_max_running_has_its_limits(self) -> None:
        self.assertEqual([self.read({"max-running": text}).max_running for text in ("1", "10000")], [1, 10000])
        for text in ("0", "10001", "-3"):
            self.assertIn("from 1 to 10000", self.refused({"max-running": text}))

    def test_todos_come_in_the_order_given(self) -> None:
        self.assertEqual(self.read({"todo": ("http://a", "b")}).todos, ("http://a", self.here / "b"))

    def test_the_variable_for_todos_holds_several_quoted_as_in_a_shell(self) -> None:
        self.assertEqual(
            self.read(HIVESUB_TODO="http://a?x=1&y=2 'b c'\nd").todos,
            ("http://a?x=1&y=2", self.here / "b c", self.here / "d"),
        )

    def test_todos_on_the_command_line_replace_those_of_the_environment(self) -> None:
        self.assertEqual(self.read({"todo": ("http://a",)}, HIVESUB_TODO="http://b").todos, ("http://a",))

    def test_no_todo_on_the_command_line_leaves_those_of_the_environment(self) -> None:
        self.assertEqual(self.read({"todo": ()}, HIVESUB_TODO="http://b").todos, ("http://b",))

    def test_every_todo_is_checked(self) -> None:
        self.assertIn("--todo: ", self.refused({"todo": ("http://a", "gopher://b")}))

    def test_a_launcher_is_split_and_has_to_be_there(self) -> None:
        self.assertEqual(self.read({"launcher": "env -C '/a b'"}, PATH="/usr/bin:/bin").launcher, ("env", "-C", "/a b"))
        self.assertIn("no program to be found", self.refused({"launcher": "no-such-launcher x"}, PATH="/usr/bin"))

    def test_a_launcher_given_by_path_is_made_absolute(self) -> None:
        sandbox = self.here / "sandbox"
        sandbox.write_text("#!/bin/sh\n")
        sandbox.chmod(0o700)
        self.assertEqual(self.read({"launcher": "./sandbox -q"}).launcher, (str(sandbox), "-q"))

    def test_a_server_file_has_to_be_readable(self) -> None:
        self.assertIn("No such file or directory", self.refused({"mcp-servers": "none.json"}))


class SecretTests(SettingsTestCase):
    def test_neither_token_nor_todo_url_nor_environment_shows_when_settings_are_printed(self) -> None:
        settings = self.read({"auth-token-file": "token", "todo": ("http://u:s3cret@h/",)}, KEY="s3cret")
        self.assertEqual(settings.auth_token, "s3cret-token")
        self.assertNotIn("s3cret", repr(settings))

    def test_a_token_file_open_to_others_brings_a_warning(self) -> None:
        self.token_file.chmod(0o644)
        (warning,) = self.read({"auth-token-file": "token"}).warnings
        self.assertIn("can be read by others", warning)


class GoneTests(SettingsTestCase):
    """Started in a directory that has been deleted."""

    def setUp(self) -> None:
        super().setUp()

        def gone() -> str:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")

        self.patch(os, "getcwd", gone)

    def read(self, options: dict[str, Given] | None = None, **environ: str) -> Settings:
        return read_settings(options or {}, {"HOME": str(self.here), **environ})

    def test_with_another_directory_it_starts(self) -> None:
        self.assertEqual(self.read({"dir": str(self.here)}).dir, self.here)
        self.assertEqual(self.read(HIVESUB_DIR="~").dir, self.here)

    def test_without_one_it_says_that_it_is_needed(self) -> None:
        given: list[dict[str, Given]] = [{}, {"dir": "work"}]
        for options in given:
            self.assertEqual(
                self.refused(options), "--dir: the directory it was started in is gone; give an absolute path"
            )

    def test_any_other_relative_path_is_refused_by_its_option(self) -> None:
        text = self.refused({"dir": str(self.here), "todo": "todos.jsonl"})
        self.assertEqual(text, "--todo: the directory it was started in is gone; give an absolute path")


class DirectoryTests(SettingsTestCase):
    def test_both_directories_are_made_private(self) -> None:
        settings = self.read({"runtime-dir": "run", "state-dir": "state"})
        make_directories(settings)
        for path in (settings.runtime_dir, settings.state_dir):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o700)

    def test_one_that_cannot_be_made_is_refused_by_its_option(self) -> None:
        for option in ("runtime-dir", "state-dir"):
            options: dict[str, Given] = {"runtime-dir": "run", "state-dir": "state", option: "token/x"}
            error = self.assertRaises(OptionError, make_directories, self.read(options))
            self.assertEqual(error.option, option)


class DocumentationTests(SynchronousTestCase):
    def test_both_tables_of_the_reference_page_have_a_row_for_every_option(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "reference" / "options.md").read_text()
        rows = [
            name
            for line in page.splitlines()
            if line.startswith("| `--")
            for name in re.findall(r"`(--[a-z-]+)`", line.split("|")[1])
        ]
        self.assertEqual(rows, [f"--{name}" for name, _ in OPTIONS] * 2)
