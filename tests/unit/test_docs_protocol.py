"""The messages shown in the protocol's page are ones that the daemon takes and gives."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import BadRequest
from hivesub.shapes import Record
from hivesub.tools.control import control_tools
from hivesub.tools.subagent import subagent_tools
from hivesub.tools.toolbox import RECORD_KEY, Tool, refusal
from hivesub.web.site import MAX_BODY_BYTES
from hivesub.web.tree import NOT_FOUND

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "protocol.md").read_text(encoding="utf-8")
_FENCE = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples() -> list[dict[str, Any]]:
    """Every JSON example of the page."""
    return [json.loads(found[1]) for found in _FENCE.finditer(PAGE)]


def tools() -> dict[str, Tool]:
    """The six tools by name; none is called."""
    none: Any = None
    return {tool.name: tool for tool in (*subagent_tools(none, ("Read",)), *control_tools())}


class TheProtocolPage(SynchronousTestCase):
    def test_each_call_shown_has_arguments_that_its_tool_takes(self) -> None:
        called = []
        for example in examples():
            if example.get("method") == "tools/call":
                params = example["params"]
                tools()[params["name"]].read(params["arguments"])
                called.append(params["name"])
        self.assertEqual(["status", "status", "start", "need_help"], called)

    def test_each_record_shown_has_the_fields_of_its_shape(self) -> None:
        shown = [example["result"] for example in examples() if "result" in example]
        records = [result["structuredContent"] for result in shown if "structuredContent" in result]
        self.assertEqual(1, len(records))
        for record in records[0]["subagents"]:
            self.assertLessEqual(Record.__required_keys__, set(record))
            self.assertLessEqual(set(record), set(Record.__annotations__))

    def test_an_answer_shown_without_a_record_was_not_asked_for_one(self) -> None:
        asked = [example["params"].get("_meta", {}).get(RECORD_KEY) for example in examples() if "params" in example]
        self.assertEqual(asked.count(True), 1)

    def test_the_refusal_shown_is_the_one_that_such_a_call_gets(self) -> None:
        start = tools()["start"]
        (shown,) = (example["result"] for example in examples() if example.get("result", {}).get("isError"))
        with self.assertRaises(BadRequest) as caught:
            start.read({"nam": "x"})
        self.assertEqual(refusal("start", str(caught.exception))["content"], shown["content"])

    def test_it_names_the_limits_and_the_404_as_they_are(self) -> None:
        self.assertIn(f"{MAX_BODY_BYTES:,} bytes", PAGE)
        self.assertIn(f"Content-Length: {len(NOT_FOUND._body)}\n\n{NOT_FOUND._body.decode()}", PAGE)
