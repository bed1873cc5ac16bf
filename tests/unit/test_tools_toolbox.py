"""How a call becomes an answer: results, refusals, failures that nobody foresaw."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import AlreadyRunning
from hivesub.tools.arguments import StatusArguments
from hivesub.tools.toolbox import Answer, Tool, answer


class AnswerTests(SynchronousTestCase):
    def answered(
        self, given: dict[str, Any] | Exception, arguments: dict[str, Any] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        async def call(ctx: Any, values: StatusArguments) -> Answer:
            self.values: StatusArguments | None = values
            if isinstance(given, Exception):
                raise given
            return Answer("text \ud83d", given)

        tool = Tool(
            name="start",
            title="t",
            description="d",
            arguments=StatusArguments,
            call=call,
        )
        context: Any = SimpleNamespace(session=SimpleNamespace(client_capabilities=None))
        return self.successResultOf(Deferred.fromCoroutine(answer(tool, context, arguments, **kwargs)))

    def test_an_answer_is_text_alone(self) -> None:
        self.assertEqual(
            self.answered({"a": None}, {"name": "x"}),
            {"content": [{"type": "text", "text": "text \ufffd"}], "isError": False, "resultType": "complete"},
        )
        self.assertEqual(self.values, StatusArguments.model_validate({"name": "x"}))

    def test_the_record_comes_where_it_is_asked_for(self) -> None:
        answered = self.answered({"a": None}, wants_record=True)
        self.assertEqual(answered["structuredContent"], {"a": None})

    def test_news_come_last_and_not_with_a_record(self) -> None:
        asked: list[Any] = []

        async def news(record: Any) -> str:
            asked.append(record)
            return "Ended meanwhile: beta."

        self.assertEqual(
            self.answered({"a": 1}, news=news)["content"][0]["text"], "text \ufffd\nEnded meanwhile: beta."
        )
        self.answered({"a": 2}, news=news, wants_record=True)
        self.answered(AlreadyRunning("no"), news=news)
        self.assertEqual(asked, [{"a": 1}])

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
