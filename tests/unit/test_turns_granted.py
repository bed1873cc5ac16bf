"""What a session may hold, against what `init` lists."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import Init
from hivesub.turns.granted import not_as_granted

DEFAULT = ("Edit", "Glob", "Grep", "Read", "Skill", "Write")
CONNECTED = {"subagent_control": "connected"}


def judged(
    *tools: str, asked: tuple[str, ...] = DEFAULT, servers: tuple[str, ...] = (), **mcp_servers: str
) -> str | None:
    init = Init(session_id="s", cwd="/w", tools=tools, mcp_servers={**CONNECTED, **mcp_servers})
    return not_as_granted(init, tools=asked, servers=servers)


def bare(**fields: Any) -> Init:
    return Init(**{"session_id": "s", "cwd": None, "tools": None, "mcp_servers": None, **fields})


class Granted(SynchronousTestCase):
    def test_what_was_asked_for_and_the_two_signal_tools_are_granted(self) -> None:
        self.assertIsNone(judged(*DEFAULT, "mcp__subagent_control__goal_reached", "mcp__subagent_control__need_help"))

    def test_a_tool_or_a_server_that_was_not_is_named(self) -> None:
        self.assertEqual(judged(*DEFAULT, "Bash"), "claude offers tools that were not granted: Bash")
        self.assertEqual(judged(*DEFAULT, db="connected"), "claude has MCP servers that were not granted: db")
        self.assertIn("mcp__db__read", str(judged(*DEFAULT, "mcp__db__read")))

    def test_a_server_that_the_operator_shares_is_granted_however_claude_spells_it(self) -> None:
        servers = ("my db", "files")
        self.assertIsNone(judged(*DEFAULT, "mcp__my_db__read", "mcp__files__get", servers=servers, files="connected"))

    def test_what_claude_adds_of_itself_to_a_granted_tool_is_granted_with_it(self) -> None:
        self.assertIsNone(judged("Read", "TaskStop", "ToolSearch", "ListMcpResourcesTool", "StructuredOutput"))

    def test_a_tool_that_has_two_names_is_granted_by_either(self) -> None:
        self.assertIsNone(judged("Task", asked=("Agent",)))
        self.assertIsNone(judged("Agent", asked=("Task",)))

    def test_none_of_the_tools_is_as_wrong_as_too_many(self) -> None:
        self.assertEqual(
            judged("mcp__subagent_control__need_help", asked=("Read", "Edit")),
            "claude offers none of the tools asked for (Read, Edit); it lists: none",
        )

    def test_claudes_whole_default_set_is_whatever_it_lists(self) -> None:
        self.assertIsNone(judged("Bash", "Workflow", asked=("default",)))

    def test_a_list_that_is_left_out_says_nothing(self) -> None:
        self.assertIsNone(not_as_granted(bare(), tools=DEFAULT, servers=()))

    def test_many_names_are_cut(self) -> None:
        said = str(judged("Read", *(f"Tool{number}" for number in range(100)), asked=("Read",)))
        self.assertIn("and 80 more", said)
