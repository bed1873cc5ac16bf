"""Claude's own record of a session: where it is, and what of it people are shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.interfaces import ITranscripts
from hivesub.turns import transcript
from hivesub.turns.transcript import LOOK_S, STEPS, Transcripts, encoded, find_transcript, read_steps

SESSION = "02415b7e-786e-45b6-8121-57052c3dd522"
SECRET = "s3cret-token"


def redact(text: str) -> str:
    return text.replace(SECRET, "[redacted]")


def event(kind: str, *blocks: Any, **more: Any) -> str:
    at = "2031-05-06T07:08:09.123Z"
    return json.dumps({"type": kind, "timestamp": at, "message": {"role": kind, "content": list(blocks)}, **more})


def said(text: str) -> str:
    return event("assistant", {"type": "text", "text": text})


def used(tool: str, **given: Any) -> str:
    return event("assistant", {"type": "tool_use", "name": tool, "input": given})


class Found(SynchronousTestCase):
    def setUp(self) -> None:
        self.config = Path(self.mktemp()).resolve()

    def made(self, folder: str) -> str:
        path = self.config / "projects" / folder / f"{SESSION}.jsonl"
        path.parent.mkdir(parents=True)
        path.touch()
        return str(path)

    def test_the_folder_is_the_directory_with_dashes(self) -> None:
        # As claude 2.1.332 names it.
        self.assertEqual(encoded("/srv/with space_and.dots/ü ñ+é😀/x-Y9"), "-srv-with-space-and-dots---------x-Y9")

    def test_it_is_found_in_the_folder_of_its_directory(self) -> None:
        path = self.made("-srv-work")
        self.assertEqual(find_transcript(str(self.config), SESSION, "/srv/work"), path)

    def test_a_session_that_was_resumed_from_elsewhere_is_found_where_it_began(self) -> None:
        path = self.made("-srv-first")
        self.assertEqual(find_transcript(str(self.config), SESSION, "/srv/work"), path)

    def test_a_directory_whose_folder_ends_in_a_hash_is_found(self) -> None:
        path = self.made(f"{encoded('/' + 'l' * 250)[:200]}-ljibps")
        self.assertEqual(find_transcript(str(self.config), SESSION, "/" + "l" * 250), path)

    def test_what_is_not_there_or_no_session_id_is_not_found(self) -> None:
        self.made("-srv-work")
        self.assertIsNone(find_transcript(str(self.config), SESSION.replace("0", "1"), "/srv/work"))
        for id in ("../x", "*", "", f"{SESSION}/.."):
            self.assertIsNone(find_transcript(str(self.config), id, "/srv/work"))
        self.assertIsNone(find_transcript("/nonexistent", SESSION, "/srv/work"))


class Read(SynchronousTestCase):
    def setUp(self) -> None:
        self.path = self.mktemp()

    def write(self, *lines: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)

    def steps(self, after: int = 0) -> list[tuple[str, str]]:
        found, self.offset = read_steps(self.path, after, redact)
        return [(step["what"], step["text"]) for step in found]

    def test_tools_words_and_errors_are_steps_and_nothing_else_is(self) -> None:
        self.write(
            json.dumps({"type": "queue-operation", "content": "no step"}),
            json.dumps({"type": "user", "message": {"role": "user", "content": "do\nit"}}),
            event("user", {"type": "text", "text": "a reminder"}, isMeta=True),
            event("assistant", {"type": "thinking", "thinking": "hm"}),
            said("I look.\n\nAt it."),
            used("Read", limit=3, file_path="/srv/a.py"),
            event("user", {"type": "tool_result", "content": "the file"}),
            used("Bash", description="test", command="make test"),
            event("user", {"type": "tool_result", "is_error": True, "content": [{"type": "text", "text": "exit 2"}]}),
            used("Odd", number=3),
            "{broken",
            "[]",
        )
        self.assertEqual(
            self.steps(),
            [
                ("is asked", "do it"),
                ("says", "I look. At it."),
                ("Read", "/srv/a.py"),
                ("Bash", "make test"),
                ("error", "exit 2"),
                ("Odd", ""),
            ],
        )

    def test_each_has_its_time(self) -> None:
        self.write(said("x"), json.dumps({"type": "assistant", "message": {"content": "y"}}))
        self.assertEqual([step["at"] for step in read_steps(self.path, 0, redact)[0]], ["2031-05-06T07:08:09.123Z", ""])

    def test_a_step_is_one_line_cut_and_without_secrets(self) -> None:
        self.write(used("Bash", command=f"curl {SECRET} " + "x" * 500), said("a\x1b[2Jb\u2028c"), used(SECRET))
        (_, long), (_, odd), (tool, _) = self.steps()
        self.assertEqual(len(long), 201)
        self.assertTrue(long.startswith("curl [redacted] xxx"))
        self.assertEqual((odd, tool), ("a\\x1b[2Jb c", "[redacted]"))

    def test_a_secret_at_the_cut_is_not_shown_by_half(self) -> None:
        self.write(said("x" * 195 + SECRET))
        self.assertNotIn("s3c", self.steps()[0][1])

    def test_only_the_last_are_given(self) -> None:
        self.write(*(said(str(number)) for number in range(STEPS + 5)))
        self.assertEqual(self.steps()[0], ("says", "5"))

    def test_a_later_look_gives_what_came_since_and_no_half_line(self) -> None:
        self.write(said("one"))
        self.steps()
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(said("two"))
        self.assertEqual(self.steps(self.offset), [])
        self.write("")
        self.assertEqual(self.steps(self.offset), [("says", "two")])
        self.assertEqual((self.steps(self.offset), self.offset), ([], os.path.getsize(self.path)))

    def test_a_file_that_became_shorter_is_read_anew(self) -> None:
        self.write(said("one"))
        self.assertEqual(self.steps(10_000), [("says", "one")])

    def test_of_a_large_file_the_end_is_read_and_its_first_line_left_out_where_it_is_cut(self) -> None:
        self.patch(transcript, "TAIL_BYTES", 1000)
        self.write(said("x" * 2000), said("one"), said("two"))
        self.assertEqual(self.steps(), [("says", "one"), ("says", "two")])
        self.write(said("y" * 2000))
        self.assertEqual(self.steps(), [])
        self.assertEqual(self.offset, os.path.getsize(self.path))


class OffTheReactor(SynchronousTestCase):
    def test_it_provides_what_is_needed_of_it(self) -> None:
        verifyObject(ITranscripts, Transcripts("/c", Clock(), lambda *call: succeed(None), str))

    def test_a_look_that_hangs_is_given_up(self) -> None:
        clock = Clock()
        transcripts = Transcripts("/c", clock, lambda *call: Deferred(), str)
        found, steps = transcripts.find(SESSION, "/srv"), transcripts.steps("/t.jsonl", 0)
        clock.advance(LOOK_S)
        self.assertIsNone(self.successResultOf(found))
        self.assertEqual(self.successResultOf(steps), {"transcript": "/t.jsonl", "steps": [], "offset": 0})

    def test_a_file_that_cannot_be_read_has_no_steps(self) -> None:
        def in_thread(function: Any, *given: Any) -> Deferred[Any]:
            return Deferred.fromCoroutine(called(function, *given))

        async def called(function: Any, *given: Any) -> Any:
            return function(*given)

        steps = self.successResultOf(Transcripts("/c", Clock(), in_thread, str).steps("/nonexistent.jsonl", 0))
        self.assertEqual(steps["steps"], [])
