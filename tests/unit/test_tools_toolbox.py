"""How a call becomes an answer: results, refusals, failures that nobody foresaw."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import AlreadyRunning
from hivesub.tools.arguments import Fields
from hivesub.tools.kinds import Text
from hivesub.tools.toolbox import Tool, answer


class AnswerTests(SynchronousTestCase):
    def answered(self, given: dict[str, Any] | Exception, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        async def call(ctx: Any, values: dict[str, Any]) -> tuple[dict[str, Any], str]:
            self.values = values
            if isinstance(given, Exception):
                raise given
            return given, "text \ud83d"

        tool = Tool(
            name="start",
            title="t",
            description="d",
            fields=Fields({"name": Text(description="n")}),
            output={"type": "object"},
            call=call,
        )
        context: Any = None
        return self.successResultOf(Deferred.fromCoroutine(answer(tool, context, arguments)))

    def test_an_answer_has_a_text_block_and_structured_content(self) -> None:
        self.assertEqual(
            self.answered({"a": None}, {"name": "x"}),
            {
                "content": [{"type": "text", "text": "text \ufffd"}],
                "structuredContent": {"a": None},
                "isError": False,
                "resultType": "complete",
            },
        )
        self.assertEqual(self.values, {"name": "x"})

    def assertRefused(self, answered: dict[str, Any], text: str) -> None:
        self.assertEqual(
            answered, {"content": [{"type": "text", "text": text}], "isError": True, "resultType": "complete"}
        )

    def test_a_refusal_bears_the_tools_name(self) -> None:
        self.assertRefused(
            self.answered(AlreadyRunning("alpha is running; wait for its todo")),
            "start error: alpha is running; wait for its todo",
        )

    def test_a_bad_field_is_refused_before_the_call(self) -> None:
        self.values = None
        self.assertRefused(self.answered({}, {"name": 5}), "start error: name: must be a string, not 5")
        self.assertIs(self.values, None)

    def test_a_refusal_that_names_a_path_of_odd_bytes_can_be_written(self) -> None:
        text = self.answered(AlreadyRunning("no directory /srv/\udcff"))["content"][0]["text"]
        self.assertEqual(text.encode(), "start error: no directory /srv/\ufffd".encode())

    def test_a_failure_that_nobody_foresaw_is_logged_and_not_told(self) -> None:
        self.assertRefused(
            self.answered(ZeroDivisionError("secret")), "start error: internal error; see the daemon's log"
        )
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_a_call_that_the_daemon_gave_up_says_so_and_is_no_failure(self) -> None:
        self.assertTrue(
            self.answered(CancelledError())["content"][0]["text"].startswith(
                "start error: the daemon gave this call up"
            )
        )
