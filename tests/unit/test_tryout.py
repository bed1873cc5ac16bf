"""Tests of `hivesub.tryout`."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

import hivesub
from hivesub.tryout import become, claude_is_chosen, command


class TryoutTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir()
        self.environ = {"PATH": str(self.base), "XDG_RUNTIME_DIR": str(self.base), "HOME": str(self.base)}

    def became(self, *argv: str, tryout: bool = True) -> tuple[list[str], dict[str, str], str]:
        """The command line and environment that it becomes, and what it says before that."""
        stub: Any = ModuleType("hivesub.standin")
        stub.write_wrapper = lambda path: path
        stderr = io.StringIO()
        execve = mock.Mock()
        self.patch(os, "execve", execve)
        with mock.patch.dict(sys.modules, {"hivesub.standin": stub}), mock.patch.dict(vars(hivesub), standin=stub):
            become(argv, self.environ, stderr, tryout=tryout)
        ((path, run, environ),) = (call.args for call in execve.call_args_list)
        self.assertEqual(path, run[0])
        return run, environ, stderr.getvalue()

    def test_with_a_claude_on_path_it_is_plain_twistd(self) -> None:
        (self.base / "claude").touch(0o700)
        run, environ, said = self.became("--port=0")
        self.assertEqual(run, command(["--port=0"]))
        self.assertEqual(run[-4:], ["-n", "--pidfile=", "hivesub", "--port=0"])
        self.assertEqual((environ, said), (self.environ, ""))

    def test_without_one_a_tryout_runs_on_the_standin_and_says_so(self) -> None:
        run, environ, said = self.became("--port=0")
        wrapper = self.base / "hivesub" / "claude-standin"
        self.assertEqual(run[-2:], ["--port=0", f"--claude={wrapper}"])
        self.assertIn("no `claude` on PATH", said)
        self.assertIn(str(wrapper), said)
        self.assertEqual(environ["IS_SANDBOX"], "1")

    def test_the_standin_is_what_one_gets_who_asks_for_it(self) -> None:
        (self.base / "claude").touch(0o700)
        for tryout in (True, False):
            run, _, said = self.became("--standin", "--port=0", tryout=tryout)
            self.assertEqual(run[-2:], ["--port=0", f"--claude={self.base / 'hivesub' / 'claude-standin'}"])
            self.assertNotIn("no `claude` on PATH", said)

    def test_the_standins_sessions_stay_out_of_claudes_own_directory(self) -> None:
        self.environ["CLAUDE_CONFIG_DIR"] = "/home/me/.claude"
        _, environ, said = self.became("--standin")
        self.assertEqual(environ["CLAUDE_CONFIG_DIR"], str(self.base / ".local" / "state" / "hivesub-standin"))
        self.assertIn(environ["CLAUDE_CONFIG_DIR"], said)

    def test_where_a_service_is_asked_for_nothing_stands_in_for_a_missing_claude(self) -> None:
        run, environ, said = self.became("--port=0", tryout=False)
        self.assertEqual((run, environ, said), (command(["--port=0"]), self.environ, ""))

    def test_a_python_without_a_twistd_beside_it_runs_twisteds_own_function(self) -> None:
        self.patch(sys, "executable", str(self.base / "python3"))
        self.assertEqual(command([])[:2], [str(self.base / "python3"), "-c"])

    def test_a_claude_that_the_operator_names_is_left_to_the_daemon_to_judge(self) -> None:
        for argv in (["--claude", "/none"], ["--claude=/none"]):
            self.assertTrue(claude_is_chosen(argv, self.environ))
        self.assertTrue(claude_is_chosen([], {**self.environ, "HIVESUB_CLAUDE": "/none"}))
        self.assertFalse(claude_is_chosen(["--claudette"], self.environ))

    def test_where_no_standin_can_be_written_it_ends_in_one_line(self) -> None:
        (self.base / "hivesub").touch()
        code = str(self.assertRaises(SystemExit, self.became).code)
        self.assertTrue(code.startswith("hivesub: no stand-in for claude can be written: "), code)
