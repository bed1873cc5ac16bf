"""The messages shown in the protocol's page are ones that the daemon takes and gives."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import BadRequest
from hivesub.tools.control import control_tools
from hivesub.tools.subagent import subagent_tools
from hivesub.tools.toolbox import Tool, refusal
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
    return {tool.name: tool for tool in (*subagent_tools(none), *control_tools())}


class TheProtocolPage(SynchronousTestCase):
    def test_each_call_shown_has_arguments_that_its_tool_takes(self) -> None:
        called = []
        for example in examples():
            if example.get("method") == "tools/call":
                params = example["params"]
                tools()[params["name"]].fields.read(params["arguments"])
                called.append(params["name"])
        self.assertEqual(["status", "status", "start", "need_help"], called)

    def test_each_answer_shown_is_one_of_a_tools_output_schema(self) -> None:
        shown = [example["result"] for example in examples() if "result" in example]
        answered = [result["structuredContent"] for result in shown if not result["isError"]]
        self.assertEqual(2, len(answered))
        for tool, answer in zip(("status", "need_help"), answered, strict=True):
            Draft202012Validator(tools()[tool].output).validate(answer)
        (record,) = answered[0]["subagents"]
        known = tools()["status"].output["$defs"]["record"]["properties"]
        self.assertEqual(set(), set(record) - set(known))

    def test_the_refusal_shown_is_the_one_that_such_a_call_gets(self) -> None:
        start = tools()["start"]
        (shown,) = (example["result"] for example in examples() if example.get("result", {}).get("isError"))
        with self.assertRaises(BadRequest) as caught:
            start.fields.read({"nam": "x"})
        self.assertEqual(refusal("start", str(caught.exception))["content"], shown["content"])

    def test_it_names_the_limits_and_the_404_as_they_are(self) -> None:
        self.assertIn(f"{MAX_BODY_BYTES:,} bytes", PAGE)
        self.assertIn(f"Content-Length: {len(NOT_FOUND._body)}\n\n{NOT_FOUND._body.decode()}", PAGE)
