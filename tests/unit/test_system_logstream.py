"""A log that nobody reads holds up nobody."""

from __future__ import annotations

import fcntl
import io
import os
import re
import sys
import tempfile
import threading

from twisted.logger import textFileLogObserver
from twisted.trial.unittest import SynchronousTestCase

from hivesub.system.logstream import LogStream, unblocked

BOUND_S = 20.0


class Writing(SynchronousTestCase):
    def setUp(self) -> None:
        self.reader, self.writer = os.pipe()
        fcntl.fcntl(self.writer, fcntl.F_SETPIPE_SZ, 4096)
        self.addCleanup(os.close, self.reader)
        self.stream = LogStream(self.writer, most_bytes=10_000)

    def read_all(self) -> bytes:
        """What is read until the log has been written, from another thread meanwhile."""
        pieces: list[bytes] = []

        def read() -> None:
            while piece := os.read(self.reader, 65536):
                pieces.append(piece)

        thread = threading.Thread(target=read, daemon=True)
        thread.start()
        self.stream.drain(BOUND_S)
        os.close(self.writer)
        thread.join(BOUND_S)
        self.assertFalse(thread.is_alive())
        return b"".join(pieces)

    def test_what_is_read_comes_whole_and_in_order(self) -> None:
        lines = [f"line {number}\n" for number in range(300)]
        for line in lines:
            self.stream.write(line)
        self.assertEqual(self.read_all(), "".join(lines).encode())

    def test_where_nobody_reads_lines_are_dropped_and_counted(self) -> None:
        for number in range(2000):
            self.stream.write(f"line {number:04}\n")
        said = self.read_all().decode().splitlines()
        notes = [line for line in said if "dropped" in line]
        kept = [line for line in said if "dropped" not in line]
        self.assertEqual(kept, sorted(set(kept)))
        self.assertLess(len(kept), 2000)
        counts = []
        for note in notes:
            found = re.fullmatch("hivesub: ([0-9]+) log lines were dropped here, as nobody read them", note)
            assert found is not None, note
            counts.append(int(found[1]))
        self.assertEqual(sum(counts), 2000 - len(kept))

    def test_an_exit_waits_for_the_reader_within_a_bound(self) -> None:
        for _ in range(100):
            self.stream.write("x" * 99)
        self.stream.drain(0.01)
        self.assertIn(b"x", self.read_all())

    def test_half_a_surrogate_pair_is_written_as_what_it_is(self) -> None:
        self.stream.write("\ud83d\n")
        self.assertEqual(self.read_all(), b"\\ud83d\n")

    def test_a_reader_that_is_gone_is_no_error(self) -> None:
        reader, writer = os.pipe()
        self.addCleanup(os.close, writer)
        os.close(reader)
        stream = LogStream(writer)
        for _ in range(3):
            stream.write("x\n")
            stream.drain(BOUND_S)
        self.stream.write("")
        self.assertEqual(self.read_all(), b"")

    def test_a_descriptor_that_another_process_made_non_blocking_loses_nothing(self) -> None:
        os.set_blocking(self.writer, False)
        for _ in range(90):
            self.stream.write("x" * 100)
        self.assertEqual(self.read_all(), b"x" * 9000)

    def test_twistds_log_takes_it_as_a_file_of_texts(self) -> None:
        textFileLogObserver(self.stream)({"log_format": "said", "log_time": 0.0})  # type: ignore[arg-type]
        self.assertIn(b"said\n", self.read_all())


class InPlaceOf(SynchronousTestCase):
    def test_a_file_and_what_is_none_of_the_systems_stay(self) -> None:
        with tempfile.TemporaryFile("w") as file:
            self.assertIs(unblocked(file), file)
        self.assertIs(unblocked(file), file)
        memory = io.StringIO()
        self.assertIs(unblocked(memory), memory)

    def test_a_file_takes_any_text_from_then_on(self) -> None:
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="strict") as file:
            unblocked(file).write("/srv/b\udce9d\n")
            file.seek(0)
            self.assertEqual(file.read(), "/srv/b\\udce9d\n")

    def test_a_pipe_is_replaced(self) -> None:
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        with os.fdopen(writer, "w") as pipe:
            instead = unblocked(pipe)
            self.assertIsInstance(instead, LogStream)
            self.assertEqual(instead.fileno(), writer)
        self.assertIsNot(instead, sys.stdout)
