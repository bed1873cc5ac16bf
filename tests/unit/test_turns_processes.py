"""Who is reached by a signal to a turn: the group, the tree and whoever bears the mark. On made-up processes."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path
from unittest import mock

import psutil
from twisted.trial.unittest import SynchronousTestCase

from hivesub.turns import processes
from hivesub.turns.processes import Kin, marked, still_marked

INT = signal.SIGINT
CHILD, GROUPED, APART, STRAY = 5_000_000, 5_000_001, 5_000_002, 5_000_003


class Marked(SynchronousTestCase):
    def setUp(self) -> None:
        self.proc = Path(self.mktemp())
        self.proc.mkdir()

    def process(self, pid: int | str, environ: bytes | None) -> None:
        entry = self.proc / str(pid)
        entry.mkdir()
        if environ is not None:
            (entry / "environ").write_bytes(environ)

    def found(self, prefix: str) -> set[int]:
        return marked(prefix, proc=self.proc)

    def test_those_whose_mark_begins_with_the_prefix_are_found(self) -> None:
        self.process(11, b"HIVESUB_TURN=m-1\0A=b\0")
        self.process(12, b"A=b\0HIVESUB_TURN=m-2\0")
        self.process(13, b"A=b\0HIVESUB_TURN=other\0")
        self.process(14, b"A=b\0")
        self.assertEqual(self.found("m-"), {11, 12})
        self.assertEqual(self.found("m-1"), {11})

    def test_the_mark_counts_only_under_its_own_name_and_from_its_start(self) -> None:
        self.process(11, b"X_HIVESUB_TURN=m-1\0")
        self.process(12, b"A=HIVESUB_TURN=m-1\0")
        self.process(13, b"HIVESUB_TURN=x-m-1\0")
        self.assertEqual(self.found("m-"), set())

    def test_the_daemon_itself_is_left_out(self) -> None:
        self.process(os.getpid(), b"HIVESUB_TURN=m-1\0")
        self.assertEqual(self.found("m-"), set())

    def test_what_is_no_process_or_gone_or_without_environment_is_passed_over(self) -> None:
        self.process("self", b"HIVESUB_TURN=m-1\0")
        self.process(11, None)
        self.process(12, b"")
        self.process(13, b"HIVESUB_TURN=m-1\0")
        self.assertEqual(self.found("m-"), {13})

    def test_of_some_ids_those_that_still_bear_it_are_found(self) -> None:
        self.process(11, b"HIVESUB_TURN=m-1\0A=b\0")
        self.process(12, b"A=b\0HIVESUB_TURN=other\0")  # its id is another's by now
        self.process(14, b"HIVESUB_TURN=m-2\0")
        self.assertEqual(still_marked("m-", [11, 12, 13], proc=self.proc), {11})

    def test_without_proc_the_processes_are_asked_one_by_one(self) -> None:
        environs = {
            11: {"HIVESUB_TURN": "m-1"},
            12: {"HIVESUB_TURN": "x"},
            13: None,
            os.getpid(): {"HIVESUB_TURN": "m-"},
        }
        listed = [mock.Mock(pid=pid, info={"environ": environ}) for pid, environ in environs.items()]
        self.patch(psutil, "process_iter", lambda attrs: listed)
        self.assertEqual(marked("m-", proc=self.proc / "none"), {11})


class FakeProcess:
    """A process of the made-up system `living`: id -> its children's ids."""

    living: dict[int, list[int]] = {}
    sent: list[tuple[str, int, int]] = []

    def __init__(self, pid: int) -> None:
        if pid not in self.living:
            raise psutil.NoSuchProcess(pid)
        self.pid = pid

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FakeProcess) and self.pid == other.pid

    def __hash__(self) -> int:
        return self.pid

    def is_running(self) -> bool:
        return self.pid in self.living

    def status(self) -> str:
        return psutil.STATUS_SLEEPING

    def children(self, recursive: bool) -> list[FakeProcess]:
        if self.pid not in self.living:
            raise psutil.NoSuchProcess(self.pid)
        below = [FakeProcess(pid) for pid in self.living[self.pid]]
        return below + [deeper for process in below for deeper in process.children(True)]

    def send_signal(self, number: int) -> None:
        if self.pid not in self.living:
            raise psutil.NoSuchProcess(self.pid)
        self.sent.append(("process", self.pid, number))


class Kinship(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(FakeProcess, "living", {CHILD: [GROUPED, APART], GROUPED: [], APART: [], STRAY: []})
        self.patch(FakeProcess, "sent", [])
        self.groups = {CHILD: CHILD, GROUPED: CHILD, APART: APART, STRAY: STRAY}
        self.marks: set[int] = set()
        self.refusal: type[OSError] | None = None
        self.patch(psutil, "Process", FakeProcess)
        self.patch(processes, "marked", lambda mark: set(self.marks) if mark == "m-1" else set())
        self.patch(os, "getpgid", self.getpgid)
        self.patch(os, "killpg", lambda pid, number: self.sent("group", pid, number))
        self.patch(os, "kill", lambda pid, number: self.sent("process", pid, number))
        self.kin = Kin(CHILD, "m-1")

    def getpgid(self, pid: int) -> int:
        if pid not in FakeProcess.living:
            raise ProcessLookupError
        return self.groups[pid]

    def sent(self, what: str, pid: int, number: int) -> None:
        if self.refusal is not None:
            raise self.refusal
        FakeProcess.sent.append((what, pid, number))

    def others(self) -> list[int]:
        return [process.pid for process in self.kin.others()]

    def test_a_signal_goes_to_the_group_once_and_to_each_outside_it_once(self) -> None:
        self.assertEqual(self.kin.send(INT, child=True), 2)
        self.assertEqual(FakeProcess.sent, [("group", CHILD, INT), ("process", APART, INT)])

    def test_before_the_child_has_a_group_of_its_own_the_daemons_group_is_spared(self) -> None:
        self.groups = dict.fromkeys(self.groups, os.getppid())
        self.kin.send(INT, child=True)
        self.assertEqual(
            FakeProcess.sent, [("process", CHILD, INT), ("process", GROUPED, INT), ("process", APART, INT)]
        )

    def test_after_the_exit_neither_the_childs_id_nor_its_group_is_signalled(self) -> None:
        self.kin.send(INT, child=True)
        del FakeProcess.living[CHILD]
        FakeProcess.sent.clear()
        self.kin.send(INT, child=False)
        self.assertEqual(FakeProcess.sent, [("process", GROUPED, INT), ("process", APART, INT)])

    def test_those_seen_below_the_child_when_it_was_signalled_are_known_after_its_death(self) -> None:
        self.kin.send(INT, child=True)
        self.assertEqual(self.others(), [GROUPED, APART])
        del FakeProcess.living[CHILD]
        self.assertEqual(self.others(), [GROUPED, APART])
        del FakeProcess.living[APART]
        self.assertEqual(self.others(), [GROUPED])

    def test_an_id_that_was_never_signalled_is_not_looked_at_since_it_may_be_anothers(self) -> None:
        self.assertEqual(self.others(), [])
        self.kin.send(INT, child=False)
        self.assertEqual(FakeProcess.sent, [])

    def test_those_handed_to_init_are_found_by_the_mark(self) -> None:
        del FakeProcess.living[CHILD]
        self.marks = {CHILD, STRAY}
        self.assertEqual(self.others(), [STRAY])

    def test_a_child_that_was_gone_before_it_was_looked_at_is_no_error(self) -> None:
        FakeProcess.living = {}
        kin = Kin(CHILD, "m-1")
        self.assertEqual((kin.others(), kin.send(INT, child=True), FakeProcess.sent), ([], 0, []))

    def test_one_that_a_launcher_made_another_users_is_no_error(self) -> None:
        self.refusal = PermissionError
        self.assertEqual(self.kin.send(INT, child=True), 2)

    def test_one_that_goes_before_its_signal_keeps_it_from_nobody(self) -> None:
        self.groups = dict.fromkeys(self.groups, 1)
        self.kin.send(INT, child=True)
        FakeProcess.sent.clear()
        others = self.kin.others()
        self.patch(self.kin, "others", lambda: others)
        del FakeProcess.living[GROUPED]
        self.kin.send(INT, child=False)
        self.assertEqual(FakeProcess.sent, [("process", APART, INT)])

    def test_where_nobody_can_be_looked_for_the_group_and_those_seen_before_get_it_all_the_same(self) -> None:
        self.kin.send(INT, child=True)
        FakeProcess.sent.clear()
        self.patch(processes, "marked", self.no_descriptors)
        self.assertRaises(OSError, self.kin.others)
        self.assertEqual(self.kin.send(INT, child=True), 2)
        self.assertEqual(FakeProcess.sent, [("group", CHILD, INT), ("process", APART, INT)])

    def no_descriptors(self, mark: str) -> set[int]:
        raise OSError(errno.EMFILE, "Too many open files")
