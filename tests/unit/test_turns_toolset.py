"""The list of tools: who wins, and that it is never empty."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import ConfigError
from hivesub.turns.toolset import DEFAULT_TOOLS, beyond_default, resolve_tools

WEB = ("WebFetch", "WebSearch")


def resolve(tools: str | None = None, groups: str | None = None, env: str | None = None) -> tuple[str, ...]:
    return resolve_tools(tools=tools, tool_groups=groups, environ={} if env is None else {"HIVE_TOOL_GROUPS": env})


class ToolsetTests(SynchronousTestCase):
    def test_the_default_is_the_parent_agent_s_list_in_its_order(self) -> None:
        self.assertEqual(",".join(resolve()), "Edit,Glob,Grep,Read,Skill,Write")
        self.assertEqual(resolve(env=""), DEFAULT_TOOLS)

    def test_web_tools_come_with_their_group_however_it_is_separated(self) -> None:
        for groups in ("web_tools", "a,web_tools", "a web_tools", " a ,\tweb_tools,, "):
            self.assertEqual(resolve(env=groups), DEFAULT_TOOLS + WEB, groups)
            self.assertEqual(resolve(groups=groups), DEFAULT_TOOLS + WEB, groups)

    def test_unknown_groups_are_ignored(self) -> None:
        self.assertEqual(resolve(env="web_tools_x, WEB_TOOLS, shell"), DEFAULT_TOOLS)

    def test_tools_win_over_groups_and_groups_over_the_environment(self) -> None:
        self.assertEqual(resolve("Bash", "web_tools", "web_tools"), ("Bash",))
        self.assertEqual(resolve(None, "", "web_tools"), DEFAULT_TOOLS)
        self.assertEqual(resolve(None, "none", "web_tools"), DEFAULT_TOOLS)

    def test_a_list_keeps_its_order_and_names_each_tool_once(self) -> None:
        self.assertEqual(resolve("Write, Read,Write Read"), ("Write", "Read"))

    def test_an_empty_list_is_refused_and_the_option_named(self) -> None:
        for tools in ("", " ", ",", " , ,"):
            with self.assertRaisesRegex(ConfigError, "--tools: the list is empty"):
                resolve(tools)

    def test_what_can_be_no_tool_s_name_is_refused(self) -> None:
        for tools in ("-Read", "Read,--help", "Bash(git:*)", "1x", "a;b", "Ré", "x" * 129):
            with self.assertRaisesRegex(ConfigError, "--tools: .*no tool's name"):
                resolve(tools)

    def test_tools_beyond_the_default_are_told(self) -> None:
        self.assertEqual(beyond_default(("Read", "Bash", "WebFetch", "Task")), ("Bash", "WebFetch", "Task"))
        self.assertEqual(beyond_default(DEFAULT_TOOLS), ())

    def test_shell_tools_add_bash(self) -> None:
        self.assertEqual(resolve(groups="shell_tools"), (*DEFAULT_TOOLS, "Bash"))
        self.assertEqual(resolve(env="shell_tools web_tools"), (*DEFAULT_TOOLS, *WEB, "Bash"))
