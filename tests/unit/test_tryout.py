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
from hivesub.tryout import claude_is_chosen, find_twistd, main


class TryoutTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir()
        self.environ = {"PATH": str(self.base), "XDG_RUNTIME_DIR": str(self.base)}

    def became(self, *argv: str) -> tuple[list[str], dict[str, str], str]:
        """The command line and environment that `main` becomes, and what it says before that."""
        stub: Any = ModuleType("hivesub.standin")
        stub.write_wrapper = lambda path: path
        stderr = io.StringIO()
        execve = mock.Mock()
        self.patch(os, "execve", execve)
        with mock.patch.dict(sys.modules, {"hivesub.standin": stub}), mock.patch.dict(vars(hivesub), standin=stub):
            main(argv, self.environ, stderr)
        ((path, command, environ),) = (call.args for call in execve.call_args_list)
        self.assertEqual(path, command[0])
        return command, environ, stderr.getvalue()

    def test_with_a_claude_on_path_it_is_plain_twistd(self) -> None:
        (self.base / "claude").touch(0o700)
        command, environ, said = self.became("--port=0")
        self.assertEqual(command, [find_twistd(), "-n", "--pidfile=", "hivesub", "--port=0"])
        self.assertEqual((environ, said), (self.environ, ""))

    def test_without_one_it_runs_on_the_standin_and_says_so(self) -> None:
        command, environ, said = self.became("--port=0")
        wrapper = self.base / "hivesub" / "claude-standin"
        self.assertEqual(command[-2:], ["--port=0", f"--claude={wrapper}"])
        self.assertIn("no `claude` on PATH", said)
        self.assertIn(str(wrapper), said)
        self.assertEqual(environ["IS_SANDBOX"], "1")

    def test_a_claude_that_the_operator_names_is_left_to_the_daemon_to_judge(self) -> None:
        for argv in (["--claude", "/none"], ["--claude=/none"]):
            self.assertTrue(claude_is_chosen(argv, self.environ))
        self.assertTrue(claude_is_chosen([], {**self.environ, "HIVESUB_CLAUDE": "/none"}))
        self.assertFalse(claude_is_chosen(["--claudette"], self.environ))

    def test_where_no_standin_can_be_written_it_ends_in_one_line(self) -> None:
        (self.base / "hivesub").touch()
        code = str(self.assertRaises(SystemExit, self.became).code)
        self.assertTrue(code.startswith("hivesub: no stand-in for claude can be written: "), code)
