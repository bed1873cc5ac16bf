"""The command `hivesub` without a daemon: its command line, exit codes, and what it draws."""

from __future__ import annotations

import io
import itertools
import json
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import click
from click.shell_completion import ShellComplete
from rich.console import Console, RenderableType
from twisted.trial.unittest import SynchronousTestCase

from hivesub.cli.daemon import read_token, token_for
from hivesub.cli.exits import Exit, exit_of, worst_of
from hivesub.cli.follow import Screen
from hivesub.cli.given import TOKEN_VARIABLE, URL_VARIABLE, Target, words_of
from hivesub.cli.group import ALIASES
from hivesub.cli.main import hivesub, main
from hivesub.cli.paste import add_command, mcp_json
from hivesub.cli.scenes import REAL, STANDIN
from hivesub.cli.show import card, last_words, line, terminal
from hivesub.cli.table import listing, table
from hivesub.cli.troubles import Unreachable
from hivesub.endings import ENDINGS
from hivesub.records import StopKind
from tests.support.pagefakes import a_blocked_record, a_record


def run(*argv: str, **environ: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with mock.patch.dict(os.environ, environ), redirect_stdout(out), redirect_stderr(err):
        code = main(argv)
    return code, out.getvalue(), err.getvalue()


def drawn(picture: RenderableType, width: int = 120) -> str:
    """As plain text, each run of blanks as one."""
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    console.print(picture)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def parsed(*argv: str) -> dict[str, Any]:
    """What a command would get."""
    command = hivesub.get_command(hivesub.make_context("hivesub", ["--", *argv]), argv[0])
    assert command is not None
    return command.make_context(argv[0], list(argv[1:])).params


class TheCommandLine(SynchronousTestCase):
    def test_the_address_and_the_token_file_come_from_the_environment_unless_given(self) -> None:
        with mock.patch.dict(os.environ, {URL_VARIABLE: "http://h:1", TOKEN_VARIABLE: "/t"}):
            given = parsed("status")
            self.assertEqual((given["url"], given["auth_token_file"]), ("http://h:1", Path("/t")))
            self.assertEqual(parsed("status", "--url", "http://h:2")["url"], "http://h:2")

    def test_without_either_it_is_where_a_daemon_listens_by_default(self) -> None:
        for environ in ({}, {URL_VARIABLE: "", TOKEN_VARIABLE: ""}):
            with mock.patch.dict(os.environ, environ):
                given = parsed("status")
            self.assertEqual((given["url"], given["auth_token_file"]), ("http://127.0.0.1:8787", None))

    def test_options_and_arguments_come_in_any_order(self) -> None:
        words = [["a"], ["a prompt"], ["--dir", "/d"], ["--goal", "g"], ["-w"]]
        for order in itertools.permutations(words):
            argv = [word for each in order for word in each]
            if argv.index("a") < argv.index("a prompt"):
                given = parsed("start", *argv)
                seen = [given[name] for name in ("name", "prompt", "directory", "goal", "watch")]
                self.assertEqual(seen, ["a", "a prompt", "/d", "g", True], argv)

    def test_a_sentence_that_begins_with_a_dash_is_a_prompt_and_no_option(self) -> None:
        for argv in (["a", "- [ ] x"], ["- [ ] x", "--goal", "- y"], ["a", "--", "--help"]):
            given = parsed("start", *argv, *(["a"] if argv[0] != "a" else []))
            self.assertEqual({given["name"], given["prompt"]}, {"a", "--help" if "--" in argv else "- [ ] x"})
        self.assertEqual(parsed("start", "a", "p", "--goal", "- y")["goal"], "- y")

    def test_a_directory_is_made_absolute_and_a_tilde_is_left_to_the_daemon(self) -> None:
        given = {text: parsed("start", "a", "--dir", text)["directory"] for text in ("/d", "d", "~/d", "")}
        self.assertEqual(given, {"/d": "/d", "d": os.path.abspath("d"), "~/d": "~/d", "": ""})

    def test_a_schema_is_json_or_a_file_with_it(self) -> None:
        file = Path(self.mktemp())
        file.write_text('{"type": "object"}')
        for text in ('{"type": "object"}', f"@{file}"):
            self.assertEqual(parsed("start", "a", "--result-schema", text)["result_schema"], {"type": "object"})
        for text, why in {"{": "no JSON", "[1]": "a JSON object", "@/nonexistent": "cannot be read"}.items():
            code, _, err = run("start", "a", "p", "--result-schema", text)
            self.assertEqual(code, Exit.USAGE)
            self.assertIn(why, err)

    def test_a_command_line_that_makes_no_sense_exits_with_2_and_shows_the_commands_own_usage(self) -> None:
        for argv in (["start"], ["start", "a", "p", "--max-turns", "many"], ["interrupt"], ["stop"], ["wait"]):
            code, _, err = run(*argv)
            self.assertEqual(code, Exit.USAGE, argv)
            self.assertIn(f"Usage: hivesub {argv[0]} ", err)
        code, _, err = run("no-such-command")
        self.assertEqual(code, Exit.USAGE)
        self.assertIn("Usage: hivesub ", err)

    def test_an_address_that_is_none_is_a_usage_error_that_says_what_works(self) -> None:
        for url in (
            "127.0.0.1:8787",
            "localhost:1",
            "http://h:99999",
            "http://h:x",
            "http://",
            "ftp://h",
            "http://[::1",
        ):
            for code, _, err in (run("status", "--url", url), run("status", HIVESUB_URL=url)):
                self.assertEqual(code, Exit.USAGE, url)
                self.assertIn("http://127.0.0.1:8787 works", err)

    def test_alone_it_prints_its_help(self) -> None:
        code, out, err = run()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("Commands:\n  status ", out)

    def test_ls_and_stop_are_other_names_of_status_and_interrupt(self) -> None:
        context = hivesub.make_context("hivesub", ["ls"])
        self.assertIs(hivesub.get_command(context, "ls"), hivesub.get_command(context, "status"))
        self.assertIs(hivesub.get_command(context, "stop"), hivesub.get_command(context, "interrupt"))

    def test_the_help_gives_the_exit_codes(self) -> None:
        code, out, _ = run("--help")
        self.assertEqual(code, 0)
        for code in {*Exit, *(row.exit_code for row in ENDINGS.values())}:
            self.assertRegex(out, rf"\b{int(code)} ")

    def test_a_shell_gets_completions(self) -> None:
        completed = ShellComplete(hivesub, {}, "hivesub", "_HIVESUB_COMPLETE").get_completions([], "st")
        self.assertEqual([each.value for each in completed], ["status", "start"])
        completed = ShellComplete(hivesub, {}, "hivesub", "_HIVESUB_COMPLETE").get_completions(["start"], "--go")
        self.assertEqual([each.value for each in completed], ["--goal"])

    def test_a_word_that_the_locale_could_not_read_is_taken_as_utf_8(self) -> None:
        self.assertEqual(words_of([os.fsdecode("Größe".encode()), "plain"]), ["Größe", "plain"])
        garbled = "Größe".encode().decode("ascii", "surrogateescape")
        self.assertEqual(words_of([garbled]), ["Größe"])
        code, out, err = run("start", "a", "p", "--dir", os.fsdecode(b"/b\xe9d"))
        self.assertEqual((code, out), (Exit.USAGE, ""))
        self.assertIn("/b\\xe9d is not UTF-8", err)
        self.assertEqual(err.count("\n"), 1)


class ItsReference(SynchronousTestCase):
    def test_each_command_option_and_exit_code_is_in_the_documentation(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
        commands = dict(hivesub.commands)
        service = commands.pop("service")
        assert isinstance(service, click.Group)
        commands |= {f"service {name}": each for name, each in service.commands.items()}
        for name, command in commands.items():
            self.assertIn(f"`hivesub {name}", page)
            options = {option for each in command.params if isinstance(each, click.Option) for option in each.opts}
            for option in options - {"-w"}:
                self.assertIn(f"`{option}`", page)
        for name in ALIASES:
            self.assertIn(f"`hivesub {name}`", page)
        for code in {*Exit, *(row.exit_code for row in ENDINGS.values())}:
            self.assertIn(f"| {int(code)} |", page)


class WhatToPaste(SynchronousTestCase):
    def test_it_is_the_line_that_the_daemon_logs_and_the_same_as_json(self) -> None:
        self.assertEqual(
            add_command("http://h:1", token=False),
            "claude mcp add --transport http --scope user subagent http://h:1/mcp",
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

    def test_a_saved_one_is_shown_to_a_daemon_on_this_machine_and_to_no_other(self) -> None:
        home = Path(self.mktemp()).absolute()
        saved = home / "hivesub" / "token"
        with mock.patch.dict(os.environ, {"XDG_CONFIG_HOME": str(home)}):
            self.assertIsNone(token_for(Target("http://127.0.0.1:1", None, False)))
            saved.parent.mkdir(parents=True)
            saved.write_text("kept\n")
            for url in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"):
                self.assertEqual(token_for(Target(url, None, False)), "kept")
            for url in ("http://h:1", "https://127.0.0.1.example.org"):
                self.assertIsNone(token_for(Target(url, None, False)))
            self.assertEqual(token_for(Target("http://h:1", self.file("other"), False)), "other")

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

    def test_of_several_the_worst_counts(self) -> None:
        self.assertEqual(worst_of([0, 10, 11]), 11)
        self.assertEqual(worst_of([12, 13, 0]), 13)
        self.assertEqual(worst_of([0, 14, 10]), 10)
        self.assertEqual(worst_of([0, 14]), 14)
        self.assertEqual(worst_of([]), Exit.OK)


class WhatIsDrawn(SynchronousTestCase):
    def test_a_narrow_table_keeps_name_state_and_cause(self) -> None:
        failed: Any = a_record(
            "nightly-run-of-the-whole-test-suite", state="failed", last_event_age_s=None,
            ended_at="2031-05-06T07:08:13.000Z", stop_reason={"kind": "failed", "message": ""},
            last_turn={"outcome": "failed", "signal": None, "exit_code": 1, "detail": "Not logged in", "ended_at": ""},
        )  # fmt: skip
        last = {**failed["last_turn"], "signal": "SIGKILL"}
        killed: Any = {**failed, "name": "k", "state": "killed", "last_turn": last, "stop_reason": None}
        for width in (50, 80, 120, 200):
            text = drawn(table([failed, killed]), width)
            self.assertLessEqual(max(map(len, text.splitlines())), width)
            packed = "".join(text.split())
            for words in ("nightly-run-of-t", "failed", "Notloggedin", "killed", "SIGKILL"):
                self.assertIn(words, packed, width)

    def test_what_holds_a_run_up_is_said_in_table_card_and_line(self) -> None:
        retry = {
            "error": "authentication_failed",
            "status": 401,
            "attempt": 3,
            "max_attempts": 10,
            "since": "2031-05-06T07:08:09.000Z",
        }
        retrying = a_record(retrying=retry)
        waiting = a_record(state="waiting", waiting_until="2031-05-06T12:00:00.000Z", last_event_age_s=None)
        for record, words in (
            (retrying, "waits for the API: authentication_failed, attempt 3 of 10"),
            (waiting, "its turn is run again at 2031-05-06 12:00:00 UTC"),
        ):
            for shown in (drawn(table([record]), 80), drawn(card(record)), line(record)):
                self.assertIn(words.replace(" ", ""), "".join(shown.replace("│", "").split()))

    def test_a_typed_result_is_shown_as_the_json_that_it_is(self) -> None:
        typed: Any = {**a_record(), "result": "words", "structured_output": {"größe": [1]}}
        self.assertEqual(json.loads(last_words(typed)), {"größe": [1]})
        self.assertIn("größe", drawn(card(typed)))
        typed["structured_output"] = None
        self.assertEqual(last_words(typed), "words")

    def test_a_check_is_shown_beside_the_claim(self) -> None:
        check = {"name": "tests", "exit_code": 1, "outcome": "failed", "detail": "", "tail": "", "ended_at": ""}
        self.assertIn("Check `tests` failed, exit 1", drawn(card(a_record(check=check))))
        self.assertIn(
            "Checking `tests`", line(a_record(checking={"name": "tests", "since": "2031-05-06T07:08:09.000Z"}))
        )

    def test_what_each_said_last_stands_below_the_table(self) -> None:
        blocked: Any = {**a_blocked_record("beta", "?"), "result": "my last words"}
        text = drawn(listing([a_record(), blocked]))
        self.assertIn("my last words", text)

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
        self.assertIn("No subagent has been started since the daemon came up.", drawn(table([])))

    def test_a_card_tells_goal_outcome_stop_and_report(self) -> None:
        record: Any = {**a_blocked_record("beta", "Which table?"), "report_file": "/srv/r.md", "result": "last words"}
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
