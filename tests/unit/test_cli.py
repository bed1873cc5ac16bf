"""The command `hivesub` without a daemon: its command line, exit codes, and what it draws."""

from __future__ import annotations

import argparse
import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console, RenderableType
from twisted.trial.unittest import SynchronousTestCase

from hivesub.cli.daemon import Unreachable, read_token
from hivesub.cli.exits import Exit, exit_of
from hivesub.cli.follow import Screen
from hivesub.cli.main import build_parser, main
from hivesub.cli.paste import add_command, mcp_json
from hivesub.cli.scenes import REAL, STANDIN
from hivesub.cli.show import card, line, table, terminal
from hivesub.endings import ENDINGS
from hivesub.records import StopKind
from tests.support.pagefakes import a_blocked_record, a_record


def run(*argv: str, **environ: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, environ), redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue()


def drawn(picture: RenderableType, width: int = 120) -> str:
    """As plain text, each run of blanks as one."""
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    console.print(picture)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


class TheCommandLine(SynchronousTestCase):
    def test_the_address_and_the_token_file_come_from_the_environment_unless_given(self) -> None:
        parser = build_parser({"HIVESUB_URL": "http://h:1", "HIVESUB_AUTH_TOKEN_FILE": "/t"})
        arguments = parser.parse_args(["status"])
        self.assertEqual((arguments.url, arguments.auth_token_file), ("http://h:1", Path("/t")))
        arguments = parser.parse_args(["status", "--url", "http://h:2"])
        self.assertEqual(arguments.url, "http://h:2")

    def test_without_either_it_is_where_a_daemon_listens_by_default(self) -> None:
        arguments = build_parser({}).parse_args(["status"])
        self.assertEqual((arguments.url, arguments.auth_token_file), ("http://127.0.0.1:8787", None))

    def test_a_command_line_that_makes_no_sense_exits_with_2(self) -> None:
        for argv in ([], ["stop"], ["start"], ["start", "a", "p", "--max-turns", "many"], ["interrupt"]):
            code, _, err = run(*argv)
            self.assertEqual(code, Exit.USAGE, argv)
            self.assertIn("usage: hivesub", err)

    def test_the_help_tells_the_exit_codes(self) -> None:
        code, out, _ = run("--help")
        self.assertEqual(code, 0)
        for number in (Exit.REFUSED, Exit.UNREACHABLE, *(row.exit_code for row in ENDINGS.values())):
            self.assertRegex(out, rf"\b{int(number)} ")


class ItsReference(SynchronousTestCase):
    def test_each_command_option_and_exit_code_is_in_the_documentation(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
        commands = next(
            action.choices for action in build_parser({})._actions if isinstance(action, argparse._SubParsersAction)
        )
        for name, command in commands.items():
            self.assertIn(f"`hivesub {name}", page)
            options = {option for action in command._actions for option in action.option_strings}
            for option in options - {"-h", "--help", "-w"}:
                self.assertIn(f"`{option}`", page)
        for code in Exit:
            self.assertIn(f"| {int(code)} |", page)


class WhatToPaste(SynchronousTestCase):
    def test_it_is_the_line_that_the_daemon_logs_and_the_same_as_json(self) -> None:
        self.assertEqual(
            add_command("http://h:1", token=False), "claude mcp add --transport http subagent http://h:1/mcp"
        )
        self.assertEqual(
            json.loads(mcp_json("http://h:1", token=False)),
            {"mcpServers": {"subagent": {"type": "http", "url": "http://h:1/mcp"}}},
        )

    def test_a_token_is_named_and_never_shown(self) -> None:
        token_file = Path(self.mktemp())
        token_file.write_text("s3cret")
        code, out, _ = run("mcp-config", "--auth-token-file", str(token_file), "--url", "http://h:1/mcp/")
        self.assertEqual(code, 0)
        self.assertIn('--header "Authorization: Bearer $HIVESUB_TOKEN"', out)
        self.assertIn('"Bearer ${HIVESUB_TOKEN}"', out)
        self.assertIn("http://h:1/mcp\n", out.replace(" --header", "\n"))
        self.assertNotIn("s3cret", out)

    def test_for_scripts_it_is_json_alone(self) -> None:
        _, out, _ = run("mcp-config", "--json", "--url", "http://h:1")
        self.assertEqual(list(json.loads(out)), ["mcpServers"])


class TheToken(SynchronousTestCase):
    def file(self, text: str) -> Path:
        path = Path(self.mktemp())
        path.write_text(text)
        return path

    def test_it_is_the_files_one_word(self) -> None:
        self.assertEqual(read_token(self.file("t0ken\n")), "t0ken")
        self.assertIsNone(read_token(None))

    def test_a_file_that_cannot_be_used_is_an_error_that_repeats_no_secret(self) -> None:
        told = {"sha256:" + "ab" * 32: "holds a hash", "": "must hold one token", "two words": "must hold one token"}
        for text, why in told.items():
            error = self.assertRaises(Unreachable, read_token, self.file(text))
            self.assertIn(why, str(error))
            self.assertNotIn("words", str(error))
        missing = self.assertRaises(Unreachable, read_token, Path("/nonexistent/t"))
        self.assertIn("No such file", str(missing))


class HowARunEnded(SynchronousTestCase):
    def test_each_end_has_its_exit_code(self) -> None:
        def ended(kind: StopKind) -> int:
            return exit_of(a_record(stop_reason={"kind": kind, "message": ""}))

        self.assertEqual([ended(kind) for kind in (StopKind.TURN_ENDED, StopKind.GOAL_REACHED)], [Exit.OK, 14])
        self.assertEqual(
            [ended(kind) for kind in (StopKind.TURN_CAP, StopKind.BUDGET_SPENT, StopKind.NO_CONTROL)], [11] * 3
        )
        self.assertEqual([ended(kind) for kind in (StopKind.NEED_HELP, StopKind.KILLED, StopKind.FAILED)], [10, 12, 13])
        self.assertEqual(exit_of(a_record()), Exit.OK)


class WhatIsDrawn(SynchronousTestCase):
    def test_a_table_has_a_row_for_each_with_turn_age_and_cost(self) -> None:
        text = drawn(table([a_record(), a_blocked_record("beta", "Which table?")], passed_s=2.0), 180)
        for words in (
            "alpha",
            "running",
            "2 of 5",
            "5 s ago",
            "$0.2500",
            "beta",
            "blocked",
            "Which table?",
            "delivered",
        ):
            self.assertIn(words, text)

    def test_nobody_at_all_is_said_so(self) -> None:
        self.assertIn("No subagent has been started yet.", drawn(table([])))

    def test_a_card_tells_goal_outcome_stop_and_report(self) -> None:
        record = {**a_blocked_record("beta", "Which table?"), "report_file": "/srv/r.md", "result": "last words"}
        text = drawn(card(record))
        for words in ("all tests pass", "Turn 2 of 5 finished.", "asks for help", "/srv/r.md", "last words"):
            self.assertIn(words, text)

    def test_no_markup_and_no_terminal_code_of_a_subagent_is_obeyed(self) -> None:
        record = a_blocked_record("beta", "[bold red]x[/] \x1b[31my :bee:")
        out = io.StringIO()
        console = terminal()
        console.file = out
        console.print(card(record))
        console.print(table([record]))
        self.assertIn("[bold red]x[/]", out.getvalue())
        self.assertIn(":bee:", out.getvalue())
        self.assertNotIn("\x1b[31m", out.getvalue())
        self.assertNotIn("\x1b", line(record))


class WhatIsWatchedWithoutATerminal(SynchronousTestCase):
    def screen(self, **how: Any) -> tuple[Screen, io.StringIO]:
        out = io.StringIO()
        return Screen(Console(file=out, width=200), table, **how), out

    def test_each_change_is_a_line_and_time_that_passes_is_none(self) -> None:
        screen, out = self.screen()
        with screen:
            screen.show([a_record(last_event_age_s=1.0)])
            screen.show([a_record(last_event_age_s=9.0)])
            screen.show([a_record(turn=3)])
        self.assertEqual(
            out.getvalue().splitlines(),
            ["alpha: running. Turn 2 of 5. all tests pass", "alpha: running. Turn 3 of 5. all tests pass"],
        )

    def test_as_json_each_change_is_an_object_a_line(self) -> None:
        screen, out = self.screen(as_json=True)
        with screen:
            screen.show([a_record(last_event_age_s=1.0)])
            screen.show([a_record(last_event_age_s=2.0)])
            screen.show([a_record(turn=3)])
        self.assertEqual([json.loads(each)["turn"] for each in out.getvalue().splitlines()], [2, 3])


class TheDemosScenes(SynchronousTestCase):
    def test_the_real_ones_carry_no_steps_of_the_stand_in(self) -> None:
        for text in (REAL.goal_prompt, REAL.asks_prompt, REAL.answer, REAL.wedged_prompt):
            self.assertNotIn("!standin", text)
        self.assertLess(STANDIN.bound_s, 30)
