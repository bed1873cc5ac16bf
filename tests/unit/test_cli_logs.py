"""`hivesub logs`: the steps of a subagent as lines, once or as they come."""

from __future__ import annotations

import asyncio
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.cli import logs
from hivesub.cli.logs import show_logs


def step(what: str, text: str = "", at: str = "2031-05-06T07:08:09.123Z") -> dict[str, str]:
    return {"at": at, "what": what, "text": text}


def answer(*steps: dict[str, str], transcript: str | None = "/t/a.jsonl", offset: int = 1) -> dict[str, Any]:
    return {"transcript": transcript, "steps": list(steps), "offset": offset}


class Logs(SynchronousTestCase):
    def setUp(self) -> None:
        self.patch(logs, "EVERY_S", 0)
        self.lines: list[str] = []
        self.asked: list[int] = []

    def shown(self, *answers: dict[str, Any], follow: bool = False) -> list[str]:
        left = list(answers)

        async def ask(name: str, after: int) -> Any:
            self.asked.append(after)
            if not left:
                raise asyncio.CancelledError
            return left.pop(0)

        async def show() -> None:
            try:
                await show_logs(ask, "alpha", follow=follow, write=self.lines.append)
            except asyncio.CancelledError:
                pass

        asyncio.run(show())
        return self.lines

    def test_each_step_is_a_line(self) -> None:
        lines = self.shown(answer(step("Read", "/srv/a.py"), step("says", at="")))
        self.assertEqual(lines, ["2031-05-06 07:08:09 UTC  Read  /srv/a.py", "–  says"])

    def test_following_writes_what_comes_since(self) -> None:
        lines = self.shown(answer(step("one"), offset=5), answer(offset=5), answer(step("two"), offset=9), follow=True)
        self.assertEqual([line.split("  ")[1] for line in lines], ["one", "two"])
        self.assertEqual(self.asked, [0, 5, 5, 9])

    def test_a_name_that_gets_another_session_is_read_from_its_beginning(self) -> None:
        other = answer(step("two"), transcript="/t/b.jsonl", offset=3)
        lines = self.shown(answer(step("one"), offset=5), other, other, follow=True)
        self.assertEqual([line.split("  ")[1] for line in lines], ["one", "two"])
        self.assertEqual(self.asked, [0, 5, 0, 3])

    def test_a_session_without_a_record_here_is_said_to_have_none(self) -> None:
        self.assertIn("no record of its session", self.shown(answer(transcript=None, offset=0))[0])

    def test_what_a_terminal_would_obey_is_not_written(self) -> None:
        self.assertNotIn("\x1b", self.shown(answer(step("says", "\x1b[2J")))[0])
