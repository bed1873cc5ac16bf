"""Behind a launcher claude may be on another machine: it is asked by the launcher, not looked for here."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import SpawnError
from hivesub.testing import FakeProcessReactor
from hivesub.turns.program import KNOWN, PROBE_LAUNCHED_S, PROBE_S, Claude


class BehindALauncher(SynchronousTestCase):
    def setUp(self) -> None:
        self.dir = Path(self.mktemp()).resolve()
        self.dir.mkdir()
        self.reactor = FakeProcessReactor()

    def claude(self, path: str, *prefix: str) -> Claude:
        return Claude(self.reactor, self.reactor, path=path, environ={"PATH": str(self.dir)}, prefix=prefix)

    def answer(self) -> None:
        for words in ("9.9.9 (Claude Code)\n", " ".join(KNOWN)):
            self.reactor.children[-1].out(words.encode())
            self.reactor.children[-1].exit()

    def test_one_that_is_not_here_is_asked_under_the_name_that_was_given(self) -> None:
        for path in ("claude", str(self.dir / "not-here" / "claude")):
            asking = self.claude(path, "srun", "-n1").program()
            self.assertEqual(self.reactor.children[-1].argv, ["srun", "-n1", path, "--version"])
            self.answer()
            self.assertEqual(self.successResultOf(asking).path, path)

    def test_it_is_asked_once(self) -> None:
        claude = self.claude("claude", "srun")
        asking = claude.program()
        self.answer()
        self.successResultOf(asking)
        self.successResultOf(claude.program())
        self.assertEqual(len(self.reactor.children), 2)

    def test_without_a_launcher_it_has_to_be_here(self) -> None:
        self.failureResultOf(self.claude("claude").program(), SpawnError)
        self.assertEqual(self.reactor.children, [])

    def test_a_launcher_that_finds_none_either_is_quoted(self) -> None:
        asking = self.claude("claude", "srun").program()
        self.reactor.children[-1].err(b"slurmstepd: error: execve(): claude: No such file or directory\n")
        self.reactor.children[-1].exit(2)
        self.assertIn("execve(): claude: No such file", str(self.failureResultOf(asking, SpawnError).value))

    def test_a_cluster_may_let_it_wait_for_longer_than_a_local_one(self) -> None:
        asking = self.claude("claude", "srun").program()
        self.reactor.advance(PROBE_S + 1)
        self.assertEqual(self.reactor.children[-1].signals, [])
        self.answer()
        self.successResultOf(asking)
        late = self.claude("claude", "srun").program()
        self.reactor.advance(PROBE_LAUNCHED_S)
        self.assertEqual(self.reactor.children[-1].signals, [9])
        self.reactor.children[-1].die(9)
        self.assertIn("no answer within 120 s", str(self.failureResultOf(late, SpawnError).value))
