"""One daemon to a state directory, and who had it before."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from unittest import mock

from twisted.logger import LogLevel, capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import ConfigError
from hivesub.system.statedir import StateDir, claim


class Claiming(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = Path(self.mktemp())
        self.path.mkdir()

    def claimed(self, mark: str) -> StateDir:
        state = claim(self.path, mark)
        self.addCleanup(state.release)
        return state

    def refused(self, path: Path) -> str:
        text = str(self.assertRaises(ConfigError, claim, path, "mark"))
        self.assertIn("--state-dir", text)
        self.assertIn(str(path), text)
        return text

    def test_a_second_daemon_is_refused_and_told_what_would_work(self) -> None:
        self.claimed("one")
        self.assertIn("a state directory of its own", self.refused(self.path))

    def test_a_refused_daemon_leaves_no_mark_and_does_not_free_the_lock(self) -> None:
        self.claimed("one")
        self.refused(self.path)
        self.refused(self.path)
        self.assertEqual(json.loads((self.path / "marks.json").read_text()), ["one"])

    def test_given_up_it_can_be_claimed_again(self) -> None:
        self.claimed("one").release()
        self.assertEqual(self.claimed("two").mark, "two")

    def test_the_first_daemon_finds_no_dead(self) -> None:
        self.assertEqual(self.claimed("one").dead, ())

    def test_daemons_that_had_it_before_are_told_until_they_are_forgotten(self) -> None:
        self.claimed("one").release()
        self.claimed("two").release()
        third = self.claimed("three")
        self.assertEqual(third.dead, ("one", "two"))
        third.forget_dead()
        self.assertEqual(third.dead, ())
        third.release()
        self.assertEqual(self.claimed("four").dead, ("three",))

    def test_a_mark_that_a_process_still_bears_is_kept(self) -> None:
        self.claimed("one").release()
        self.claimed("two").release()
        third = self.claimed("three")
        third.forget_dead(["one"])
        third.release()
        self.assertEqual(self.claimed("four").dead, ("one", "three"))

    def test_starts_that_fail_leave_the_marks_of_the_dead_as_they_were(self) -> None:
        self.claimed("one").release()
        for number in range(300):
            claim(self.path, f"failed-{number}").withdraw()
        self.assertEqual(self.claimed("two").dead, ("one",))

    def test_daemons_that_die_at_once_push_out_no_mark(self) -> None:
        for number in range(300):
            claim(self.path, f"dead-{number}").release()
        self.assertEqual(len(self.claimed("new").dead), 300)

    def test_a_withdrawal_that_cannot_be_written_frees_the_directory_all_the_same(self) -> None:
        state = self.claimed("one")
        with mock.patch("hivesub.system.statedir._write_marks", side_effect=OSError(28, "No space left on device")):
            state.withdraw()
        self.assertEqual(self.claimed("two").dead, ("one",))

    def test_an_unreadable_list_of_marks_is_no_reason_not_to_start(self) -> None:
        for content in (b"", b"{broken", b"\xff\xfe", b"null", b'{"a": 1}', b"[1, null, {}]"):
            (self.path / "marks.json").write_bytes(content)
            state = claim(self.path, "fresh")
            self.assertEqual(state.dead, (), content)
            state.release()

    def test_an_empty_mark_which_every_process_would_bear_is_passed_over(self) -> None:
        (self.path / "marks.json").write_text('["", "old"]')
        self.assertEqual(self.claimed("new").dead, ("old",))

    def test_the_list_of_marks_is_bounded(self) -> None:
        (self.path / "marks.json").write_text(json.dumps([f"m{number}" for number in range(20_000)]))
        self.claimed("new")
        kept = json.loads((self.path / "marks.json").read_text())
        self.assertLessEqual(len(kept), 10_001)
        self.assertEqual(kept[-2:], ["m19999", "new"])

    def test_a_directory_that_is_missing_or_none_is_refused_by_name(self) -> None:
        self.refused(self.path / "missing")
        file = self.path / "file"
        file.touch()
        self.refused(file)

    def test_a_claim_that_fails_after_the_lock_gives_it_back(self) -> None:
        with mock.patch("hivesub.system.statedir._write_marks", side_effect=OSError(28, "No space left on device")):
            self.assertIn("No space left", self.refused(self.path))
        self.claimed("one")

    def test_a_file_system_without_locks_is_a_warning_that_names_the_directory(self) -> None:
        for number in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            with mock.patch("fcntl.flock", side_effect=OSError(number, os.strerror(number))), capturedLogs() as logs:
                self.claimed(f"on-{number}").release()
            (warning,) = [formatEvent(event) for event in logs if event["log_level"] is LogLevel.warn]
            self.assertIn(f"the file system of {self.path} knows no locks ({os.strerror(number)})", warning)
            self.assertIn("only one uses it", warning)

    def test_a_lock_that_fails_otherwise_is_a_refusal(self) -> None:
        with mock.patch("fcntl.flock", side_effect=OSError(errno.EIO, "Input/output error")):
            self.assertIn("Input/output error", self.refused(self.path))

    def test_a_child_does_not_inherit_the_lock(self) -> None:
        state = self.claimed("one")
        assert state._lock is not None
        self.assertFalse(os.get_inheritable(state._lock))

    def test_giving_it_up_twice_is_fine(self) -> None:
        state = self.claimed("one")
        state.release()
        state.release()
        self.assertEqual(self.claimed("two").dead, ("one",))
