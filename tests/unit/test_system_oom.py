"""The children are offered to the kernel before the daemon, where it lets us."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hivesub.system.oom import offer_first


class OfferFirst(SynchronousTestCase):
    def setUp(self) -> None:
        self.proc = Path(self.mktemp())

    def process(self, pid: int | str, score: str) -> Path:
        entry = self.proc / str(pid)
        entry.mkdir(parents=True)
        (entry / "oom_score_adj").write_text(f"{score}\n")
        return entry / "oom_score_adj"

    def test_a_child_stands_above_the_daemon(self) -> None:
        for own, raised in (("-300", "200"), ("0", "500"), ("200", "700"), ("900", "1000")):
            self.setUp()
            self.process("self", own)
            child = self.process(11, own)
            offer_first(11, proc=self.proc)
            self.assertEqual(child.read_text(), raised)

    def test_where_it_cannot_be_done_nothing_is(self) -> None:
        offer_first(11, proc=self.proc)
        own = self.process("self", "no number")
        offer_first(11, proc=self.proc)
        own.write_text("0")
        offer_first(11, proc=self.proc)
        self.assertEqual([entry.name for entry in self.proc.iterdir()], ["self"])
