"""Waiting todos survive the daemon, and damage to one harms no other."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import AppendError
from hivesub.todos.store import Kept, TodoStore
from tests.support.todofakes import todo


class Store(SynchronousTestCase):
    def setUp(self) -> None:
        self.state_dir = Path(self.mktemp())
        self.store = TodoStore(self.state_dir)

    def test_what_was_written_is_loaded_oldest_first(self) -> None:
        new, old = Kept(todo=todo("a", "2031-05-06T07:08:09.124Z")), Kept(todo=todo("b"), settled=frozenset({"url-1"}))
        self.store.write(new)
        self.store.write(old)
        self.assertEqual(TodoStore(self.state_dir).load(), [old, new])

    def test_nothing_waits_in_a_new_state_directory(self) -> None:
        self.assertEqual(self.store.load(), [])

    def test_writing_again_replaces_and_removing_forgets(self) -> None:
        self.store.write(Kept(todo=todo()))
        settled = Kept(todo=todo(), settled=frozenset({"url-1"}))
        self.store.write(settled)
        self.assertEqual(self.store.load(), [settled])
        self.store.remove(settled)
        self.store.remove(settled)
        self.assertEqual(self.store.load(), [])

    def test_others_cannot_read_it(self) -> None:
        self.addCleanup(os.umask, os.umask(0))
        self.store.write(Kept(todo=todo()))
        self.store.bury(todo(), "refused")
        modes = [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in [self.state_dir, *self.state_dir.rglob("*")]]
        self.assertEqual(set(modes), {0})
        self.assertEqual(len(modes), 5)

    def test_an_id_that_is_no_plain_name_stays_inside_the_folder(self) -> None:
        odd = Kept(todo=todo("../../x/\ud83d" + "y" * 300))
        self.store.write(odd)
        (path,) = self.store.pending.iterdir()
        self.assertEqual(path.name, odd.file_name)
        self.assertEqual(len(self.store.load()), 1)

    def test_damaged_files_are_put_aside_and_the_others_loaded(self) -> None:
        good = Kept(todo=todo())
        self.store.write(good)
        damaged = {
            "cut.json": b'{"settled":[],"todo":{"id":',
            "empty.json": b"",
            "list.json": b"[]",
            "no-id.json": b'{"settled":[],"todo":{}}',
            "no-settled.json": b'{"todo":{"id":"x"}}',
            "bytes.json": b"\xff\xfe{}",
            "deep.json": b"[" * 100_000,
        }
        for name, data in damaged.items():
            (self.store.pending / name).write_bytes(data)
        (self.store.pending / "folder.json").mkdir()
        os.mkfifo(self.store.pending / "fifo.json")
        with capturedLogs() as logs:
            self.assertEqual(self.store.load(), [good])
        aside = {path.name for path in (self.store.root / "damaged").iterdir()}
        self.assertEqual(aside, {*damaged, "folder.json", "fifo.json"})
        self.assertEqual(len([log for log in logs if log["log_level"] is LogLevel.error]), len(aside))
        self.assertEqual(self.store.load(), [good])

    def test_a_write_that_a_crash_cut_off_is_no_todo(self) -> None:
        self.store.write(Kept(todo=todo()))
        (self.store.pending / "x.tmp").write_bytes(b'{"todo"')
        self.assertEqual(len(self.store.load()), 1)
        self.assertEqual(len(list(self.store.pending.iterdir())), 1)

    def test_a_write_that_fails_leaves_what_was_there(self) -> None:
        kept = Kept(todo=todo())
        self.store.write(kept)

        def no_room(fd: int) -> None:
            raise OSError(28, "No space left on device")

        self.patch(os, "fsync", no_room)
        self.assertRaises(OSError, self.store.write, Kept(todo=todo(), settled=frozenset({"url-1"})))
        self.assertEqual(self.store.load(), [kept])
        self.assertEqual(len(list(self.store.pending.iterdir())), 1)

    def test_dead_letters_are_lines_with_their_reason(self) -> None:
        self.store.bury(todo("a"), "http://x: it answered 400")
        self.store.bury(todo("b"), "\ud83d")
        lines = (self.store.root / "dead-letter.jsonl").read_text(encoding="utf-8").splitlines()
        letters = [json.loads(line) for line in lines]
        self.assertEqual([letter["todo"]["id"] for letter in letters], ["a", "b"])
        self.assertEqual(letters[0]["why"], "http://x: it answered 400")

    def test_a_dead_letter_begins_on_a_line_of_its_own(self) -> None:
        self.store.bury(todo("a"), "refused")
        path = self.store.root / "dead-letter.jsonl"
        path.write_bytes(path.read_bytes() + b'{"by": "hand"}')
        self.store.bury(todo("b"), "refused")
        letters = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        self.assertEqual([letter.get("by") or letter["todo"]["id"] for letter in letters], ["a", "hand", "b"])

    def test_a_dead_letter_file_that_cannot_be_written_is_told(self) -> None:
        self.store.load()
        (self.store.root / "dead-letter.jsonl").mkdir()
        self.assertRaises(AppendError, self.store.bury, todo(), "refused")
