"""Of which ends an agent has heard: a line each beside the todo files, shared with the plugin's hook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, execute
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.interfaces import IHeard
from hivesub.todos.heard import KEPT, MOST_BYTES, Heard


def at_once(function: Any, *args: object) -> Deferred[Any]:
    return execute(function, *args)


class WhatWasHeard(SynchronousTestCase):
    def setUp(self) -> None:
        self.dir = Path(self.mktemp())
        self.dir.mkdir()
        self.file = self.dir / "todos.jsonl.heard"
        self.heard = Heard([self.dir / "todos.jsonl"], Clock(), at_once)

    def ids(self) -> frozenset[str]:
        return self.successResultOf(self.heard.ids())

    def test_it_is_what_it_says(self) -> None:
        verifyObject(IHeard, self.heard)

    def test_each_id_is_a_line_once(self) -> None:
        for todo_id in ("a-1", "b-2", "a-1"):
            self.heard.note(todo_id)
        self.assertEqual(self.file.read_text(), "a-1\nb-2\n")
        self.assertEqual(self.ids(), {"a-1", "b-2"})

    def test_what_others_noted_counts(self) -> None:
        self.assertEqual(self.ids(), frozenset())
        self.file.write_bytes(b"c-3\n\xff\n")
        self.heard.note("a-1")
        self.assertLessEqual({"a-1", "c-3"}, self.ids())

    def test_a_file_that_has_grown_is_cut_to_its_newest_lines(self) -> None:
        self.file.write_text("x" * 35 + "\n" + "\n".join("y" * 36 for _ in range(MOST_BYTES // 30)) + "\n")
        self.heard.note("a-1")
        lines = self.file.read_text().splitlines()
        self.assertEqual((len(lines), lines[-1]), (KEPT, "a-1"))

    def test_a_file_that_cannot_be_had_costs_nothing_but_a_log_line(self) -> None:
        self.file.mkdir()
        self.heard.note("a-1")
        self.assertEqual(self.ids(), {"a-1"})

    def test_a_mount_that_is_dead_is_not_waited_for(self) -> None:
        clock = Clock()
        heard = Heard([self.dir / "todos.jsonl"], clock, lambda function, *args: Deferred())
        heard.note("a-1")
        ids = heard.ids()
        self.assertNoResult(ids)
        clock.advance(1)
        self.assertEqual(self.successResultOf(ids), {"a-1"})

    def test_without_a_file_of_todos_it_is_kept_in_memory_alone(self) -> None:
        heard = Heard([], Clock(), at_once)
        heard.note("a-1")
        self.assertEqual(self.successResultOf(heard.ids()), {"a-1"})
