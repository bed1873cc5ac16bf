"""What the turns of a run left running: counted while it is there, and named at the end of the run."""

from __future__ import annotations

from hivesub.records import LeftProcess, Outcome
from hivesub.tools.texts import status_text
from hivesub.turns.outcome import DETAIL_LIMIT
from tests.support.runfakes import SECRET, FleetCase


def processes(*pids: int) -> tuple[LeftProcess, ...]:
    return tuple(LeftProcess(pid=pid, name=f"tail{pid}") for pid in pids)


class LeftRunning(FleetCase):
    def text(self) -> str:
        return status_text({"subagents": [self.record()]})

    def detail(self) -> str:
        last = self.record()["last_turn"]
        assert last is not None
        detail: str = last["detail"]
        return detail

    def test_it_is_counted_while_the_run_goes_on_and_after_it_as_long_as_it_is_there(self) -> None:
        self.start(goal="g", max_turns=2)
        self.source.there = {7, 8}
        self.end(left=processes(7, 8))
        self.assertEqual(self.record()["left_running"], 2)
        self.assertIn("2 processes that its turns started are still running.", self.text())
        self.end()
        self.source.there = {8, 9}
        self.assertIn("1 process that its turns started is still running.", self.text())
        self.source.there = set()
        self.assertNotIn("left_running", self.record())
        self.assertNotIn("still running", self.text())

    def test_it_is_named_at_the_end_of_the_run_whichever_turn_left_it(self) -> None:
        self.start(goal="g", max_turns=2)
        self.source.there = {7, 9}
        self.end(left=processes(7, 8))
        self.assertEqual(self.detail(), "")
        self.end(left=processes(9))
        self.assertEqual(self.detail(), "left running: tail7 (pid 7), tail9 (pid 9)")
        self.assertIn("Turn 2 of 2 finished: left running: tail7 (pid 7), tail9 (pid 9).", self.outbox.todos[0]["body"])

    def test_five_are_named_and_the_others_counted(self) -> None:
        self.start()
        self.source.there = set(range(1, 9))
        self.end(Outcome.FAILED, detail="x" * DETAIL_LIMIT, left=processes(*range(1, 9)))
        self.assertTrue(self.detail().endswith("tail4 (pid 4), tail5 (pid 5) and 3 more"))
        self.assertEqual(len(self.detail()), DETAIL_LIMIT)

    def test_what_an_interrupt_ends_is_not_named_and_what_outlived_sigkill_is(self) -> None:
        self.start(goal="g", max_turns=2)
        self.source.there = {7, 8}
        self.end(left=processes(7))
        self.fleet.interrupt("alpha")
        self.end(Outcome.KILLED, detail="interrupted by the agent", left=processes(8))
        self.assertEqual(self.detail(), "interrupted by the agent; left running: tail8 (pid 8)")

    def test_a_name_that_a_subagent_chose_bears_no_secret_and_stays_on_its_line(self) -> None:
        self.start()
        self.source.there = {7}
        self.end(left=(LeftProcess(pid=7, name=f"{SECRET}\n"),))
        self.assertEqual(self.detail(), "left running: [redacted]\\n (pid 7)")

    def test_where_it_cannot_be_looked_for_the_run_ends_all_the_same(self) -> None:
        self.start()

        def cannot_look(run_mark: str, pids: object) -> set[int]:
            raise OSError(24, "Too many open files")

        self.patch(self.source, "still_there", cannot_look)
        self.end(left=processes(7))
        self.assertEqual((self.detail(), len(self.outbox.todos)), ("", 1))
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
