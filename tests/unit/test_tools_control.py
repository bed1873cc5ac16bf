"""The two signal tools: who reports is read off the request, and a claim is passed on whole."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from mcp_types import CallToolRequestParams
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from hivesub.errors import HivesubError
from hivesub.interfaces import ISignalTarget
from hivesub.records import SignalKind
from hivesub.tools.control import control_server
from tests.support.toolfakes import FakeTarget, request_by

BOUND_S = 10.0


class SignalTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.target = FakeTarget()

    def call(
        self, tool: str, *, target: FakeTarget | None = None, meta: Any = None, **arguments: Any
    ) -> dict[str, Any]:
        entry = control_server().get_request_handler("tools/call")
        assert entry is not None
        params = CallToolRequestParams(name=tool, arguments=arguments, _meta=meta)
        called: Any = entry.handler(request_by(target or self.target), params)
        with ThreadPoolExecutor(1) as thread:  # in which no loop runs yet, whatever runs in this one
            answer: dict[str, Any] = thread.submit(asyncio.run, called).result(BOUND_S)
        return answer

    def test_the_fake_target_is_one(self) -> None:
        verifyObject(ISignalTarget, self.target)

    def test_goal_reached_is_recorded_on_the_turn_whose_url_it_came_by(self) -> None:
        answer = self.call("goal_reached", message="42 tests pass", report_file="out/r.md")
        self.assertEqual(self.target.signals, [(SignalKind.GOAL_REACHED, "42 tests pass", "out/r.md")])
        self.assertEqual(answer["content"][0]["text"], "goal_reached recorded. End your turn now.")

    def test_goal_reached_needs_no_message(self) -> None:
        self.call("goal_reached")
        self.assertEqual(self.target.signals, [(SignalKind.GOAL_REACHED, "", None)])

    def test_need_help_is_recorded_with_its_reason(self) -> None:
        answer = self.call("need_help", reason="Which database?")
        self.assertEqual(self.target.signals, [(SignalKind.NEED_HELP, "Which database?", None)])
        self.assertFalse(answer["isError"])

    def test_a_long_message_is_passed_on_whole(self) -> None:
        self.call("need_help", reason="x" * 150_000)
        self.assertEqual(len(self.target.signals[0][1]), 150_000)

    def test_a_blank_path_counts_as_none(self) -> None:
        self.call("goal_reached", report_file=" ")
        self.assertEqual(self.target.signals, [(SignalKind.GOAL_REACHED, "", None)])

    def test_a_bad_field_is_refused_and_nothing_recorded(self) -> None:
        answer = self.call("need_help", reason="why", session="beta")
        self.assertTrue(answer["isError"])
        self.assertTrue(answer["content"][0]["text"].startswith('need_help error: "session": is no field of this tool'))
        self.assertEqual(self.target.signals, [])

    def test_a_turn_that_has_ended_meanwhile_refuses(self) -> None:
        answer = self.call("goal_reached", target=FakeTarget(HivesubError("this turn has ended")))
        self.assertEqual(
            (answer["isError"], answer["content"][0]["text"]), (True, "goal_reached error: this turn has ended")
        )

    def test_the_record_of_a_signal_comes_where_it_is_asked_for(self) -> None:
        answer = self.call("goal_reached", meta={"hivesub/record": True})
        self.assertEqual(answer["structuredContent"], {"recorded": True, "note": "End your turn now."})

    def test_a_claim_is_not_lost_over_a_field_of_another_type(self) -> None:
        for arguments in (
            {"message": 5},
            {"message": ["a"]},
            {"message": "\ud83d"},
            {"report_file": 7, "message": "m"},
        ):
            self.assertFalse(self.call("goal_reached", **arguments)["isError"], arguments)
        self.assertEqual(
            [(message, path) for _, message, path in self.target.signals],
            [("5", None), ('["a"]', None), ("\ufffd", None), ("m", "7")],
        )
