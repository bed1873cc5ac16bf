"""The settings files that claude would take up, and what has changed in them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import SettingsSeen
from hivesub.turns.settingsfiles import Look, changes, look


class SettingsFiles(SynchronousTestCase):
    def setUp(self) -> None:
        self.top = Path(self.mktemp()).resolve()
        self.work = self.top / "work"
        self.work.mkdir(parents=True)

    def look(self, where: Path | None = None) -> Look:
        return look(str(where or self.work), str(self.top / "config"), str(self.top / "claude.json"))

    def seen(self) -> SettingsSeen:
        return self.look().seen

    def write(self, path: str, content: Any) -> None:
        file = self.top / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))

    def changed(self, path: str, content: Any) -> list[str]:
        before = self.seen()
        self.write(path, content)
        return changes(before, self.seen())

    def test_nothing_there_is_nothing_seen(self) -> None:
        self.assertEqual((self.seen(), self.look().is_dir), ({}, True))
        self.assertFalse(self.look(self.top / "gone").is_dir)

    def test_a_file_that_appears_changes_or_goes_is_named_with_its_keys(self) -> None:
        path = "work/.claude/settings.local.json"
        named = f"{self.top}/{path}"
        self.assertEqual(self.changed(path, {"hooks": {}, "env": {}}), [f"{named} (env, hooks)"])
        self.assertEqual(self.changed(path, {"hooks": {}, "env": {"A": "b"}}), [f"{named} (env)"])
        before = self.seen()
        (self.top / path).unlink()
        self.assertEqual(changes(before, self.seen()), [f"{named} (env, hooks)"])

    def test_every_file_that_claude_starts_something_by_is_looked_at(self) -> None:
        for path in (
            "work/.claude/settings.json",
            "work/.mcp.json",
            "work/.claude/skills/x/.claude-plugin/plugin.json",
            "work/.claude/skills/x/.lsp.json",
            "config/settings.json",
            "config/skills/x/.claude-plugin/plugin.json",
        ):
            self.assertEqual(self.changed(path, {"a": 1}), [f"{self.top}/{path} (a)"])

    def test_what_names_neither_command_nor_address_may_change(self) -> None:
        self.assertEqual(self.changed("work/.claude/settings.json", {"permissions": {"allow": ["Read"]}}), [])
        self.assertEqual(self.changed("config/settings.json", {"theme": "dark", "model": "opus"}), [])

    def test_of_the_file_that_claude_itself_keeps_writing_the_environment_counts(self) -> None:
        self.assertEqual(self.changed("claude.json", {"numStartups": 4}), [])
        self.assertEqual(self.changed("claude.json", {"env": {"A": "b"}}), [f"{self.top}/claude.json (env)"])

    def test_what_is_no_json_is_compared_whole(self) -> None:
        self.assertEqual(self.changed("work/.mcp.json", "{"), [f"{self.top}/work/.mcp.json"])
        self.assertEqual(self.changed("work/.mcp.json", "[["), [f"{self.top}/work/.mcp.json"])

    def test_the_top_of_the_repository_and_the_main_one_of_a_worktree_are_looked_at_too(self) -> None:
        (self.work / ".git" / "worktrees" / "tree").mkdir(parents=True)
        self.write("tree/.git", f"gitdir: {self.work}/.git/worktrees/tree\n")
        self.write("work/.claude/settings.local.json", {"env": {}})
        (self.top / "tree" / "below").mkdir()
        (self.work / "below").mkdir()
        for where in (self.top / "tree", self.top / "tree" / "below", self.work / "below"):
            self.assertIn(f"{self.work}/.claude/settings.local.json", self.look(where).seen)

    def test_a_file_that_nobody_can_read_neither_blocks_nor_raises(self) -> None:
        (self.work / ".claude").mkdir()
        os.mkfifo(self.work / ".mcp.json")
        os.symlink("settings.json", self.work / ".claude" / "settings.json")
        self.assertEqual(set(self.seen()), {f"{self.work}/.mcp.json", f"{self.work}/.claude/settings.json"})

    def test_a_directory_is_the_one_that_its_links_lead_to(self) -> None:
        self.write("work/.mcp.json", {"a": 1})
        os.symlink(self.work, self.top / "link")
        self.assertEqual(self.look(self.top / "link").seen, self.seen())

    def test_the_users_own_helpers_and_variables_are_read_and_no_projects(self) -> None:
        self.write("claude.json", {"env": {"A": "old", "B": "b", "C": 3}})
        self.write("config/settings.json", {"apiKeyHelper": "mine", "statusLine": "x", "env": {"A": "new"}})
        self.write("work/.claude/settings.json", {"apiKeyHelper": "theirs", "env": {"A": "theirs"}})
        own = self.look().own
        self.assertEqual((own.helpers, own.env), ({"apiKeyHelper": "mine"}, {"A": "new", "B": "b"}))
        self.assertNotIn("mine", repr(own))
