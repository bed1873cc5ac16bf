"""The fields of the six tools: limits, rules between fields, and the requests."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import BadRequest
from hivesub.records import ContinueRequest, StartRequest
from hivesub.tools import fields
from hivesub.tools.arguments import Fields

GIVEN = {"name": "alpha", "prompt": "Do it."}
SESSION = "123e4567-e89b-12d3-a456-426614174000"
TABLES = (fields.START, fields.CONTINUE, fields.STATUS, fields.INTERRUPT, fields.GOAL_REACHED, fields.NEED_HELP)

BAD_BY_SCHEMA: tuple[tuple[str, Any], ...] = (
    ("name", ""),
    ("name", "--dangerously-skip-permissions"),
    ("name", "../x"),
    ("name", ".x"),
    ("name", "a b"),
    ("name", "a/b"),
    ("name", "a\0"),
    ("name", "ä"),
    ("name", "a" * 65),
    ("name", "a" * 300),
    ("name", 5),
    ("prompt", ""),
    ("prompt", " \n\t "),
    ("prompt", None),
    ("prompt", ["x"]),
    ("prompt", "x" * (fields.MAX_PROMPT_BYTES + 1)),
    ("dir", ""),
    ("dir", "relative/path"),
    ("dir", "/" + "x" * 5000),
    ("goal", "  "),
    ("max_turns", 0),
    ("max_turns", 101),
    ("max_turns", True),
    ("max_turns", "5"),
    ("max_turns", 1.5),
    ("report_file", " "),
    ("model", "--help"),
    ("model", ""),
    ("model", "a b"),
    ("model", "a" * 201),
    ("effort", "-x"),
    ("effort", "\x7f"),
    ("max_budget_usd", 0),
    ("max_budget_usd", -1),
    ("max_budget_usd", True),
    ("max_budget_usd", "1"),
    ("idle_timeout_s", 0),
    ("idle_timeout_s", 8 * 24 * 3600),
    ("request_key", ""),
    ("request_key", "x" * 201),
)

# What JSON Schema, or its validator in Python, cannot tell: bytes, half a surrogate pair, a newline at the end, NaN.
BAD_BEYOND_SCHEMA: tuple[tuple[str, Any], ...] = (
    ("name", "alpha\n"),
    ("prompt", "\ud83d"),
    ("prompt", "ü" * (fields.MAX_PROMPT_BYTES // 2 + 1)),
    ("dir", "/a\0b"),
    ("goal", "\udc00"),
    ("report_file", "a\0b"),
    ("model", "a\n"),
    ("max_budget_usd", float("inf")),
    ("max_budget_usd", float("nan")),
)

BAD_TURN_FIELDS = BAD_BY_SCHEMA + BAD_BEYOND_SCHEMA


def start(**changes: Any) -> StartRequest:
    return fields.start_request(fields.START.read({**GIVEN, **changes}))


def resume(**changes: Any) -> ContinueRequest:
    return fields.continue_request(fields.CONTINUE.read({**GIVEN, **changes}))


class StartTests(SynchronousTestCase):
    def test_a_name_and_a_prompt_are_enough(self) -> None:
        self.assertEqual(start(), StartRequest(name="alpha", prompt="Do it."))

    def test_all_fields_reach_the_request(self) -> None:
        given: dict[str, Any] = {
            "dir": "~/work",
            "goal": "All tests pass.",
            "max_turns": 7,
            "report_file": "out/report.md",
            "model": "claude-opus-4-5[1m]",
            "effort": "high",
            "max_budget_usd": 1.5,
            "idle_timeout_s": 600,
            "request_key": "k 1",
        }
        self.assertEqual(start(**given), StartRequest(name="alpha", prompt="Do it.", **given))

    def test_each_bad_value_is_refused_with_the_name_of_its_field(self) -> None:
        for name, value in BAD_TURN_FIELDS:
            with self.subTest(field=name, value=str(value)[:40].encode("ascii", "replace")):
                goal = {"goal": "g"} if name == "max_turns" else {}
                error = self.assertRaises(BadRequest, start, **goal, **{name: value})
                self.assertTrue(str(error).startswith(f"{name}: "), str(error))
                self.assertLess(len(str(error)), 300)

    def test_names_of_all_permitted_characters_are_taken(self) -> None:
        for name in ("a", "9", "A.b_c-d", "a" * 64, "a..", "a-"):
            self.assertEqual(start(name=name).name, name)

    def test_odd_prompts_are_taken_unchanged(self) -> None:
        for prompt in ("- [ ] x", "--help", "/clear", "!ls", "@/etc/passwd", "a\0b", "\n" * 9999 + "x", "x" * 200_000):
            self.assertEqual(start(prompt=prompt).prompt, prompt)

    def test_a_prompt_of_exactly_two_mebibytes_is_taken(self) -> None:
        self.assertEqual(len(start(prompt="ü" * (fields.MAX_PROMPT_BYTES // 2)).prompt.encode()), 2 * 1024 * 1024)

    def test_a_long_goal_is_taken(self) -> None:
        self.assertEqual(len(start(goal="g" * 200_000).goal or ""), 200_000)

    def test_a_goal_without_a_budget_gets_five_turns(self) -> None:
        self.assertEqual(start(goal="g").max_turns, 5)

    def test_a_budget_of_5_0_is_5(self) -> None:
        self.assertEqual(repr(start(goal="g", max_turns=5.0).max_turns), "5")

    def test_max_turns_without_a_goal_is_refused(self) -> None:
        self.assertTrue(str(self.assertRaises(BadRequest, start, max_turns=5)).startswith("max_turns: needs `goal`"))

    def test_an_empty_goal_is_refused(self) -> None:
        self.assertEqual(str(self.assertRaises(BadRequest, start, goal="")), "goal: must not be blank")

    def test_a_session_id_is_no_field_of_start(self) -> None:
        self.assertIn("is no field", str(self.assertRaises(BadRequest, start, session_id=SESSION)))


class ContinueTests(SynchronousTestCase):
    def test_a_name_and_a_prompt_are_enough_and_no_default_is_put_in(self) -> None:
        self.assertEqual(resume(), ContinueRequest(name="alpha", prompt="Do it."))

    def test_each_bad_value_is_refused_with_the_name_of_its_field(self) -> None:
        for name, value in (
            *BAD_TURN_FIELDS,
            ("session_id", "alpha"),
            ("session_id", f"{SESSION}\n"),
            ("session_id", ""),
        ):
            with self.subTest(field=name, value=str(value)[:40].encode("ascii", "replace")):
                error = self.assertRaises(BadRequest, resume, **{name: value})
                self.assertTrue(str(error).startswith(f"{name}: "), str(error))

    def test_an_empty_goal_asks_for_a_single_turn(self) -> None:
        self.assertEqual(resume(goal="").goal, "")

    def test_max_turns_alone_is_left_for_the_fleet_to_judge(self) -> None:
        self.assertEqual((resume(max_turns=3).max_turns, resume(max_turns=3).goal), (3, None))

    def test_max_turns_with_an_empty_goal_contradict_each_other(self) -> None:
        error = self.assertRaises(BadRequest, resume, goal="", max_turns=3)
        self.assertTrue(str(error).startswith("max_turns: needs a goal"), str(error))

    def test_a_session_id_is_taken_in_lower_case(self) -> None:
        self.assertEqual(resume(session_id=SESSION.upper()).session_id, SESSION)


class OtherToolTests(SynchronousTestCase):
    def refused(self, table: Fields, **arguments: Any) -> str:
        return str(self.assertRaises(BadRequest, table.read, arguments))

    def test_status_takes_nothing_or_all(self) -> None:
        self.assertEqual(fields.STATUS.read({}), {})
        given = {"name": "a", "wait_s": 50, "result": True}
        self.assertEqual(fields.STATUS.read(given), given)

    def test_status_refuses_waits_out_of_range(self) -> None:
        for wait_s in (-0.1, 50.5, True, "5"):
            self.assertTrue(
                self.refused(fields.STATUS, wait_s=wait_s).startswith("wait_s: must be a number from 0 to 50, not ")
            )

    def test_interrupt_needs_a_name(self) -> None:
        self.assertEqual(self.refused(fields.INTERRUPT), "name: is required")

    def test_goal_reached_takes_nothing_and_blanks_too(self) -> None:
        self.assertEqual(fields.GOAL_REACHED.read({}), {})
        self.assertEqual(
            fields.GOAL_REACHED.read({"message": "", "report_file": ""}), {"message": "", "report_file": ""}
        )

    def test_need_help_needs_a_reason_that_is_not_blank(self) -> None:
        self.assertEqual(self.refused(fields.NEED_HELP), "reason: is required")
        self.assertEqual(self.refused(fields.NEED_HELP, reason=" "), "reason: must not be blank")

    def test_long_messages_are_left_to_be_cut(self) -> None:
        self.assertEqual(len(fields.GOAL_REACHED.read({"message": "m" * 100_000})["message"]), 100_000)
        self.assertTrue(
            self.refused(fields.NEED_HELP, reason="m" * 100_001).startswith("reason: is 100,001 characters")
        )

    def test_no_signal_tool_has_a_field_that_names_a_session(self) -> None:
        self.assertEqual(
            [set(fields.GOAL_REACHED.known), set(fields.NEED_HELP.known)],
            [{"message", "report_file"}, {"reason", "report_file"}],
        )


class SchemaTests(SynchronousTestCase):
    def test_every_input_schema_is_one_and_is_an_object_closed_to_unknown_fields(self) -> None:
        for table in TABLES:
            schema = table.schema()
            Draft202012Validator.check_schema(schema)
            self.assertEqual((schema["type"], schema["additionalProperties"]), ("object", False))

    def test_every_field_is_described(self) -> None:
        for table in TABLES:
            for name, schema in table.schema()["properties"].items():
                self.assertTrue(schema["description"].endswith("."), name)

    def test_the_schema_takes_what_the_check_takes(self) -> None:
        """A client that checks against the schema must never be kept from a call that the daemon would take."""
        for table, given in (
            (fields.START, {**GIVEN, "goal": "g", "max_turns": 5.0, "dir": "/a\nb", "model": "m", "idle_timeout_s": 1}),
            (fields.CONTINUE, {**GIVEN, "goal": "", "session_id": SESSION.upper(), "max_budget_usd": 0.01}),
            (fields.STATUS, {"name": "a", "wait_s": 0, "result": False}),
            (fields.GOAL_REACHED, {"message": "", "report_file": ""}),
        ):
            table.read(given)
            self.assertEqual([error.message for error in Draft202012Validator(table.schema()).iter_errors(given)], [])

    def test_the_schema_refuses_what_it_can_of_bad_values(self) -> None:
        validator = Draft202012Validator(fields.START.schema())
        for name, value in BAD_BY_SCHEMA:
            self.assertFalse(validator.is_valid({**GIVEN, name: value}), (name, str(value)[:40]))
