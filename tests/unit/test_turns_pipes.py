"""Reading a child's output in large pieces: what changes on Twisted's readers, and what stays theirs."""

from __future__ import annotations

import fcntl
import os
from typing import Any
from unittest import mock

from twisted.internet.main import CONNECTION_DONE, CONNECTION_LOST
from twisted.internet.process import ProcessReader
from twisted.internet.protocol import ProcessProtocol
from twisted.trial.unittest import SynchronousTestCase

from hivesub.testing import FakeChild, FakeProcessReactor
from hivesub.turns.pipes import PIPE_BYTES, READ_BYTES, widen


class FakeReaders:
    """The part of a reactor that a reader registers with."""

    def addReader(self, reader: object) -> None: ...

    def removeReader(self, reader: object) -> None: ...


class FakeProcess:
    """A process transport with one pipe, and what came by it."""

    def __init__(self, fd: int) -> None:
        self.read: list[bytes] = []
        self.pipes: dict[int, Any] = {0: object(), 1: ProcessReader(FakeReaders(), self, 1, fd)}

    def childDataReceived(self, name: int, data: bytes) -> None:
        self.read.append(data)


class WidenTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fd, self.end = os.pipe()
        self.addCleanup(os.close, self.fd)
        self.process = FakeProcess(self.fd)

    def widened(self) -> ProcessReader:
        widen(self.process)  # type: ignore[arg-type]
        reader: ProcessReader = self.process.pipes[1]
        return reader

    def test_a_whole_pipe_is_read_at_once(self) -> None:
        reader = self.widened()
        os.write(self.end, b"x" * READ_BYTES)
        self.assertIsNone(reader.doRead())
        self.assertEqual(self.process.read, [b"x" * READ_BYTES])
        os.close(self.end)

    def test_an_empty_pipe_gives_nothing_and_is_read_again(self) -> None:
        reader = self.widened()
        self.assertIsNone(reader.doRead())
        self.assertEqual(self.process.read, [])
        os.close(self.end)

    def test_the_end_comes_after_all_that_was_written(self) -> None:
        reader = self.widened()
        os.write(self.end, b"last words")
        os.close(self.end)
        self.assertIsNone(reader.doRead())
        self.assertIs(reader.doRead(), CONNECTION_DONE)
        self.assertEqual(self.process.read, [b"last words"])

    def test_a_pipe_that_cannot_be_read_is_lost(self) -> None:
        reader = self.widened()
        os.close(self.end)
        with mock.patch("hivesub.turns.pipes.os.read", side_effect=OSError(5, "Input/output error")):
            self.assertIs(reader.doRead(), CONNECTION_LOST)

    def test_the_pipe_holds_more(self) -> None:
        self.widened()
        self.assertEqual(fcntl.fcntl(self.fd, fcntl.F_GETPIPE_SZ), PIPE_BYTES)
        os.close(self.end)

    def test_a_pipe_that_may_not_be_larger_is_read_all_the_same(self) -> None:
        with mock.patch("fcntl.fcntl", side_effect=PermissionError(1, "Operation not permitted")):
            reader = self.widened()
        os.write(self.end, b"x")
        os.close(self.end)
        self.assertIsNone(reader.doRead())
        self.assertEqual(self.process.read, [b"x"])

    def test_a_transport_without_pipes_is_left_alone(self) -> None:
        os.close(self.end)
        child = FakeProcessReactor().spawnProcess(ProcessProtocol(), "claude", ["claude"])
        widen(child)
        self.assertIsInstance(child, FakeChild)
