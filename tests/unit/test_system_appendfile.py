"""Appends are whole or not at all, and to regular files only."""

from __future__ import annotations

import os
import resource
import signal
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import AppendError
from hivesub.system.appendfile import DaemonThreads, append_whole, resolved_within


class Appending(SynchronousTestCase):
    def setUp(self) -> None:
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()
        self.path = self.dir / "r.md"

    def refused(self, path: Path | str, data: bytes = b"x", within: Path | None = None) -> str:
        error = self.assertRaises(AppendError, append_whole, str(path), data, None if within is None else str(within))
        self.assertIn(str(path).encode("utf-8", "replace").decode(), str(error))
        return str(error)

    def test_a_missing_file_is_made_and_a_present_one_grows(self) -> None:
        append_whole(str(self.path), b"one\n")
        append_whole(str(self.path), b"two\n")
        self.assertEqual(self.path.read_bytes(), b"one\ntwo\n")

    def test_what_is_appended_begins_on_a_line_of_its_own(self) -> None:
        for within in (None, str(self.dir)):
            self.path.write_bytes(b"by hand")
            append_whole(str(self.path), b"one\n", within)
            append_whole(str(self.path), b"two\n", within)
            self.assertEqual(self.path.read_bytes(), b"by hand\none\ntwo\n")

    def test_the_newline_that_was_put_in_front_goes_too_where_there_is_no_room(self) -> None:
        self.path.write_bytes(b"by hand")
        with file_size_limit(self.addCleanup, 10):
            self.assertIn("nothing was added", self.refused(self.path, b"long\n"))
        self.assertEqual(self.path.read_bytes(), b"by hand")

    def test_a_file_that_may_be_written_to_but_not_read_is_appended_to_as_it_is(self) -> None:
        self.path.write_bytes(b"by hand")
        real = os.open

        def unreadable(path: str, flags: int, *args: Any, **options: Any) -> int:
            if flags & os.O_RDWR:
                raise PermissionError(13, "Permission denied")
            return real(path, flags, *args, **options)

        with mock.patch("os.open", unreadable):
            append_whole(str(self.path), b"one\n")
        self.assertEqual(self.path.read_bytes(), b"by handone\n")

    def test_a_link_to_a_file_is_followed(self) -> None:
        self.path.write_bytes(b"one\n")
        link = self.dir / "link"
        link.symlink_to(self.path)
        append_whole(str(link), b"two\n")
        self.assertEqual(self.path.read_bytes(), b"one\ntwo\n")

    def test_a_missing_folder_is_named_and_not_made(self) -> None:
        self.assertIn(f"the folder {self.dir / 'no'} does not exist", self.refused(self.dir / "no" / "r.md"))
        self.assertFalse((self.dir / "no").exists())

    def test_a_directory_is_refused(self) -> None:
        self.assertIn("it is a directory", self.refused(self.dir))

    def test_a_fifo_is_refused_with_and_without_a_reader(self) -> None:
        os.mkfifo(self.path)
        self.assertIn("it is a FIFO", self.refused(self.path))
        reader = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.assertIn("it is a FIFO", self.refused(self.path))
        self.assertEqual(os.read(reader, 10), b"")

    def test_a_device_is_refused(self) -> None:
        for device in ("/dev/full", "/dev/null"):
            self.assertIn("it is a device", self.refused(device))

    def test_a_file_of_the_kernel_is_refused_and_not_written_to(self) -> None:
        name = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
        before = name.read_bytes()
        link = self.dir / "link"
        link.symlink_to(name)
        for path, within in ((name, None), (link, None), (name, name.parent)):
            self.assertIn("a file of the kernel (proc)", self.refused(path, b"changed", within))
        self.assertEqual(name.read_bytes(), before)

    def test_without_a_list_of_mounts_a_file_is_appended_to_all_the_same(self) -> None:
        with mock.patch("hivesub.system.appendfile.open", side_effect=FileNotFoundError, create=True):
            append_whole(str(self.path), b"one\n")
        self.assertEqual(self.path.read_bytes(), b"one\n")

    def test_paths_that_no_file_can_have_are_refused(self) -> None:
        self.assertIn("usable", self.refused("/tmp/a\0b"))
        self.assertIn("usable", self.refused("/tmp/a\ud83db"))

    def test_a_write_that_finds_no_room_for_all_leaves_nothing(self) -> None:
        self.path.write_bytes(b"0123456789")
        with file_size_limit(self.addCleanup, 15):
            self.assertIn("nothing was added", self.refused(self.path, b"x" * 10))
        self.assertEqual(self.path.read_bytes(), b"0123456789")

    def test_a_part_that_others_wrote_after_stays_and_is_told(self) -> None:
        write = os.write

        def short(fd: int, data: bytes) -> int:
            written = write(fd, data[:3])
            with self.path.open("ab") as other:
                other.write(b"OTHER")
            return written

        with mock.patch("hivesub.system.appendfile.os.write", short):
            self.assertIn("3 of 6 bytes", self.refused(self.path, b"abcdef"))
        self.assertEqual(self.path.read_bytes(), b"abcOTHER")

    def test_no_descriptor_is_left_behind(self) -> None:
        (self.dir / "sub").mkdir()
        before = lowest_free_descriptor()
        append_whole(str(self.dir / "sub" / "r.md"), b"x", str(self.dir))
        self.refused(self.dir, within=self.dir.parent)
        os.mkfifo(self.dir / "fifo")
        self.refused(self.dir / "fifo", within=self.dir)
        self.assertEqual(lowest_free_descriptor(), before)


class AppendingWithin(SynchronousTestCase):
    def setUp(self) -> None:
        base = Path(self.mktemp()).resolve()
        self.inside, self.outside = base / "in", base / "out"
        (self.inside / "sub").mkdir(parents=True)
        self.outside.mkdir()

    def refused(self, path: Path) -> str:
        return str(self.assertRaises(AppendError, append_whole, str(path), b"x", str(self.inside)))

    def test_a_path_inside_is_appended_to_through_links_that_stay_inside(self) -> None:
        (self.inside / "link").symlink_to("sub")
        append_whole(str(self.inside / "link" / "r.md"), b"x", str(self.inside))
        self.assertEqual((self.inside / "sub" / "r.md").read_bytes(), b"x")

    def test_the_directory_itself_may_be_named_through_a_link(self) -> None:
        alias = self.outside / "alias"
        alias.symlink_to(self.inside)
        append_whole(str(alias / "r.md"), b"x", str(alias))
        self.assertEqual((self.inside / "r.md").read_bytes(), b"x")

    def test_paths_that_lead_outside_are_refused_and_make_nothing(self) -> None:
        (self.inside / "folder").symlink_to(self.outside)
        (self.inside / "dangling").symlink_to(self.outside / "new.md")
        for path in (
            "folder/new.md",
            "dangling",
            "../out/new.md",
            "sub/../../out/new.md",
            str(self.outside / "new.md"),
        ):
            self.assertIn("outside", self.refused(self.inside / path))
        self.assertEqual(list(self.outside.iterdir()), [])

    def test_a_sibling_whose_name_begins_alike_is_outside(self) -> None:
        sibling = self.inside.with_name("in-too")
        sibling.mkdir()
        self.assertIn("outside", self.refused(sibling / "r.md"))

    def test_a_link_put_there_after_the_check_leads_nowhere(self) -> None:
        swapped = self.inside / "sub"

        def check_then_swap(path: str, directory: str) -> str | None:
            resolved = resolved_within(path, directory)
            swapped.rmdir()
            swapped.symlink_to(self.outside)
            return resolved

        with mock.patch("hivesub.system.appendfile.resolved_within", check_then_swap):
            self.refused(swapped / "r.md")
        self.assertEqual(list(self.outside.iterdir()), [])

    def test_a_file_that_becomes_a_link_after_the_check_is_not_followed(self) -> None:
        target = self.inside / "r.md"

        def check_then_swap(path: str, directory: str) -> str | None:
            resolved = resolved_within(path, directory)
            target.symlink_to(self.outside / "new.md")
            return resolved

        with mock.patch("hivesub.system.appendfile.resolved_within", check_then_swap):
            self.refused(target)
        self.assertEqual(list(self.outside.iterdir()), [])

    def test_a_new_file_is_no_executable_and_open_to_no_other_writer(self) -> None:
        append_whole(str(self.inside / "r.md"), b"x", str(self.inside))
        self.addCleanup(os.umask, os.umask(0))
        append_whole(str(self.inside / "s.md"), b"x")
        for name in ("r.md", "s.md"):
            self.assertEqual(stat.S_IMODE((self.inside / name).stat().st_mode) & 0o133, 0)


class Threads(SynchronousTestCase):
    def setUp(self) -> None:
        self.calls: list[Callable[[], object]] = []
        self.threads = DaemonThreads(self, limit=1)  # type: ignore[arg-type]

    def callFromThread(self, function: Callable[..., object], *args: object) -> None:
        self.calls.append(lambda: function(*args))

    def run_in_thread(self, function: Callable[..., object], *args: object) -> Deferred[Any]:
        with mock.patch("hivesub.system.appendfile.threading.Thread", InlineThread):
            return self.threads(function, *args)

    def test_a_result_and_an_error_come_back_by_the_reactor(self) -> None:
        d = self.run_in_thread(divmod, 7, 2)
        self.assertNoResult(d)
        self.calls.pop()()
        self.assertEqual(self.successResultOf(d), (3, 1))
        d = self.run_in_thread(divmod, 7, 0)
        self.calls.pop()()
        self.failureResultOf(d, ZeroDivisionError)

    def test_past_the_limit_of_blocked_calls_one_fails_at_once(self) -> None:
        self.run_in_thread(divmod, 7, 2)
        self.failureResultOf(self.run_in_thread(divmod, 7, 2), OSError)
        self.calls.pop()()
        self.assertNoResult(self.run_in_thread(divmod, 7, 2))


class InlineThread:
    def __init__(self, *, target: Callable[..., None], args: tuple[object, ...], name: str, daemon: bool) -> None:
        assert daemon, "a thread that is no daemon would hold up the exit"
        self._run = lambda: target(*args)

    def start(self) -> None:
        self._run()


class file_size_limit:
    """Writes past this size of a file take a part and no more, as on a full disk."""

    def __init__(self, add_cleanup: Callable[..., None], size_bytes: int) -> None:
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        self._size_bytes = size_bytes
        add_cleanup(signal.signal, signal.SIGXFSZ, signal.signal(signal.SIGXFSZ, signal.SIG_IGN))

    def __enter__(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (self._size_bytes, self._limits[1]))

    def __exit__(self, *exc: object) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)


def lowest_free_descriptor() -> int:
    fd = os.open("/dev/null", os.O_RDONLY)
    os.close(fd)
    return fd
