"""The command line and the environment of a turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import TurnSpec
from hivesub.turns.command import (
    Wrappers,
    child_environment,
    claude_argv,
    config_dir,
    find_wrappers,
    wrapped_argv,
)
from tests.support.options import grouped

FLAGS = frozenset({"--name", "--tools"})


def argv(flags: frozenset[str] = FLAGS, **changes: Any) -> list[str]:
    fields: dict[str, Any] = {
        "name": "alpha",
        "prompt": b"--help",
        "dir": Path("/w"),
        "tools": ("Edit", "Read"),
        "session_id": "u-1",
        **changes,
    }
    return claude_argv(
        TurnSpec(**grouped(fields)), claude="/bin/claude", config_path="/run/a.json", settings="{}", flags=flags
    )


class ArgumentTests(SynchronousTestCase):
    def test_a_new_session_has_the_whole_command_of_the_contract(self) -> None:
        self.assertEqual(
            argv(),
            [
                *("/bin/claude", "-p", "--verbose", "--output-format", "stream-json"),
                *("--dangerously-skip-permissions", "--strict-mcp-config", "--mcp-config=/run/a.json"),
                *("--tools=Edit,Read", "--settings", "{}", "--name=alpha", "--session-id=u-1"),
            ],
        )

    def test_a_resume_names_the_id_or_title_and_no_session_id(self) -> None:
        command = argv(session_id=None, resume="--alpha")
        self.assertEqual(command[-1], "--resume=--alpha")
        self.assertFalse([part for part in command if part.startswith("--session-id")])

    def test_what_was_asked_of_the_model_is_joined_to_its_options(self) -> None:
        command = argv(model="-opus", effort="high", max_budget_usd=0.1)
        self.assertEqual(command[-3:], ["--model=-opus", "--effort=high", "--max-budget-usd=0.100000"])

    def test_a_claude_without_titles_gets_none(self) -> None:
        self.assertFalse([part for part in argv(frozenset()) if part.startswith("--name")])

    def test_the_prompt_is_never_an_argument(self) -> None:
        self.assertNotIn("--help", argv())

    def test_an_empty_list_of_tools_is_refused_again(self) -> None:
        for tools in ((), ("",), ("Read", "")):
            with self.assertRaisesRegex(ValueError, "empty"):
                argv(tools=tools)

    def test_exactly_one_session_is_named(self) -> None:
        for changes in ({"session_id": None}, {"resume": "x"}):
            with self.assertRaises(ValueError):
                argv(**changes)


class WrapperTests(SynchronousTestCase):
    def test_directory_session_and_death_come_before_the_launcher_and_claude(self) -> None:
        wrappers = Wrappers(env="/usr/bin/env", setsid="/usr/bin/setsid", setpriv="/usr/bin/setpriv")
        self.assertEqual(
            wrapped_argv(["claude", "-p"], dir="/w", wrappers=wrappers, launcher=["nice", "-n", "5"]),
            ["/usr/bin/env", "-C", "/w", "/usr/bin/setsid", "/usr/bin/setpriv", "--pdeathsig", "TERM",
             "nice", "-n", "5", "claude", "-p"],
        )  # fmt: skip

    def test_what_the_machine_lacks_is_left_out_and_a_shell_changes_the_directory(self) -> None:
        command = wrapped_argv(["claude"], dir="/w x", wrappers=Wrappers())
        self.assertEqual(command[:2], ["/bin/sh", "-c"])
        self.assertEqual(command[3:], ["sh", "/w x", "claude"])

    def test_programs_that_lack_what_we_need_are_not_taken(self) -> None:
        place = Path(self.mktemp())
        place.mkdir()
        for name in ("busybox", "setpriv"):
            (place / name).write_text("#!/bin/sh\n")
            (place / name).chmod(0o755)
        (place / "env").symlink_to("busybox")
        self.assertEqual(find_wrappers(str(place), "linux"), Wrappers(setpriv=str(place / "setpriv")))
        self.assertEqual(find_wrappers(str(place), "darwin"), Wrappers())


class EnvironmentTests(SynchronousTestCase):
    def test_what_would_make_the_child_nested_or_leak_is_dropped(self) -> None:
        dropped = (
            "AI_AGENT CLAUDECODE CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_SESSION_ID "
            "CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_CHILD_NOTES_DIR CLAUDE_CODE_MESSAGING_TOKEN "
            "CLAUDE_CODE_MESSAGING_SOCKET CLAUDE_CODE_SSE_PORT CLAUDE_PID CLAUDE_AGENT_SDK_VERSION "
            "NOTIFY_SOCKET LISTEN_FDS LISTEN_PID LISTEN_FDNAMES CREDENTIALS_DIRECTORY WATCHDOG_USEC "
            "INVOCATION_ID JOURNAL_STREAM HIVESUB_AUTH_TOKEN_FILE HIVESUB_X RUNTIME_DIRECTORY "
            "STATE_DIRECTORY PWD OLDPWD"
        ).split()
        self.assertEqual(child_environment(dict.fromkeys(dropped, "1"), mark="m"), {"HIVESUB_TURN": "m"})

    def test_what_configures_claude_stays(self) -> None:
        kept = dict.fromkeys(
            (
                "PATH HOME ANTHROPIC_API_KEY ANTHROPIC_BASE_URL CLAUDE_CONFIG_DIR CLAUDE_CODE_OAUTH_TOKEN "
                "CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_MAX_OUTPUT_TOKENS CLAUDE_CODE_EFFORT_LEVEL "
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC IS_SANDBOX HIVE_TOOL_GROUPS "
                "CLAUDE_CODE_API_KEY_HELPER_TTL_MS"
            ).split(),
            "1",
        )
        self.assertEqual(child_environment(kept, mark="m"), {**kept, "HIVESUB_TURN": "m"})

    def test_a_mark_of_the_daemon_s_own_environment_is_replaced(self) -> None:
        self.assertEqual(child_environment({"HIVESUB_TURN": "old"}, mark="new"), {"HIVESUB_TURN": "new"})

    def test_sessions_are_where_the_environment_says(self) -> None:
        self.assertEqual(config_dir({"CLAUDE_CONFIG_DIR": "/c", "HOME": "/h"}), "/c")
        self.assertEqual(config_dir({"CLAUDE_CONFIG_DIR": "", "HOME": "/h"}), "/h/.claude")
