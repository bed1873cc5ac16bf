"""A file has a bound, and what was in it is moved aside whole."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from hivesub.system.rotation import rotate


class Rotating(SynchronousTestCase):
    def setUp(self) -> None:
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()
        self.path = self.dir / "f.jsonl"
        self.path.write_bytes(b"0123456789")
        self.aside = self.dir / "f.jsonl.1"

    def test_what_still_fits_stays(self) -> None:
        rotate(str(self.path), 5, 15)
        self.assertEqual(self.path.read_bytes(), b"0123456789")
        self.assertFalse(self.aside.exists())

    def test_what_would_not_fit_finds_an_empty_file_of_the_same_mode(self) -> None:
        self.path.chmod(0o664)
        self.addCleanup(os.umask, os.umask(0o077))
        rotate(str(self.path), 6, 15)
        self.assertEqual((self.path.read_bytes(), self.aside.read_bytes()), (b"", b"0123456789"))
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o664)

    def test_one_line_beyond_the_bound_goes_into_an_empty_file_once(self) -> None:
        self.path.write_bytes(b"")
        rotate(str(self.path), 100, 15)
        self.assertFalse(self.aside.exists())

    def test_of_a_link_what_it_leads_to_is_moved(self) -> None:
        link = self.dir / "link"
        link.symlink_to(self.path)
        rotate(str(link), 6, 15)
        self.assertTrue(link.is_symlink())
        self.assertEqual((link.read_bytes(), self.aside.read_bytes()), (b"", b"0123456789"))

    def test_what_is_missing_or_no_file_is_left_to_the_append(self) -> None:
        rotate(str(self.dir / "missing"), 6, 1)
        rotate(str(self.dir), 6, 1)
        self.assertEqual(list(self.dir.iterdir()), [self.path])

    def test_one_that_cannot_be_moved_grows_on_and_the_log_says_so(self) -> None:
        self.aside.mkdir()
        with capturedLogs() as logs:
            rotate(str(self.path), 6, 15)
        self.assertIn("could not be moved", str(formatEvent(logs[0])))
        self.assertEqual(self.path.read_bytes(), b"0123456789")
