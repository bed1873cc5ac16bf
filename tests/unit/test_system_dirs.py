"""Tests of `hivesub.system.dirs`."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hivesub.system import dirs
from hivesub.system.dirs import default_runtime_dir, default_state_dir, make_private_dir


class DefaultTests(SynchronousTestCase):
    def test_the_first_directory_that_systemd_names_wins(self) -> None:
        self.assertEqual(
            default_runtime_dir({"RUNTIME_DIRECTORY": "/run/a:/run/b", "XDG_RUNTIME_DIR": "/x"}), Path("/run/a")
        )
        self.assertEqual(
            default_state_dir({"STATE_DIRECTORY": "/var/lib/a:/b", "XDG_STATE_HOME": "/x"}), Path("/var/lib/a")
        )

    def test_then_comes_what_xdg_says(self) -> None:
        self.assertEqual(default_runtime_dir({"XDG_RUNTIME_DIR": "/run/user/7"}), Path("/run/user/7/hivesub"))
        self.assertEqual(default_state_dir({"XDG_STATE_HOME": "/s", "HOME": "/h"}), Path("/s/hivesub"))
        self.assertEqual(default_state_dir({"HOME": "/h"}), Path("/h/.local/state/hivesub"))

    def test_a_relative_xdg_path_is_ignored(self) -> None:
        self.assertEqual(default_state_dir({"XDG_STATE_HOME": "s", "HOME": "/h"}), Path("/h/.local/state/hivesub"))

    def test_without_any_it_is_this_users_own_in_the_temporary_directory(self) -> None:
        for path in (default_runtime_dir({}), default_state_dir({})):
            self.assertEqual(path.parent, Path(tempfile.gettempdir()))
            self.assertTrue(path.name.endswith(f"-{os.geteuid()}"), path)


class PrivateDirTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.base = Path(self.mktemp()).absolute()
        self.base.mkdir()

    def test_it_and_its_parents_are_made_and_only_it_is_closed(self) -> None:
        path = make_private_dir(self.base / "a" / "b")
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o700)

    def test_one_that_is_private_already_is_taken_as_it_is(self) -> None:
        (make_private_dir(self.base / "a") / "kept").touch()
        self.assertTrue((make_private_dir(self.base / "a") / "kept").exists())

    def test_one_that_others_may_enter_is_refused_and_left_alone(self) -> None:
        path = self.base / "open"
        path.mkdir()
        path.chmod(0o755)
        self.assertIn("open to others; chmod 700", str(self.assertRaises(ValueError, make_private_dir, path)))
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o755)

    def test_a_symlink_is_refused_even_to_a_private_directory(self) -> None:
        make_private_dir(self.base / "real")
        (self.base / "link").symlink_to(self.base / "real")
        self.assertIn("is a symlink", str(self.assertRaises(ValueError, make_private_dir, self.base / "link")))

    def test_a_file_is_refused_in_its_place_and_above_it(self) -> None:
        (self.base / "file").touch()
        self.assertIn("is no directory", str(self.assertRaises(ValueError, make_private_dir, self.base / "file")))
        self.assertIn(
            "file: File exists", str(self.assertRaises(ValueError, make_private_dir, self.base / "file" / "x"))
        )

    def test_somebody_elses_is_refused(self) -> None:
        path = make_private_dir(self.base / "theirs")
        self.patch(dirs, "_uid", lambda: path.stat().st_uid + 1)
        self.assertIn("belongs to user", str(self.assertRaises(ValueError, make_private_dir, path)))
