"""The arguments of the six tools: limits, rules between fields, the requests, and what clients send in their place."""

from __future__ import annotations

import difflib
import json
from typing import Any

from jsonschema import Draft202012Validator
from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import BadRequest
from hivesub.records import ContinueRequest, StartRequest, TurnOptions
from hivesub.tools.arguments import (
    MAX_PROMPT_BYTES,
    Arguments,
    ContinueArguments,
    GoalReachedArguments,
    InterruptArguments,
    NeedHelpArguments,
    StartArguments,
    StatusArguments,
    input_schema,
    read,
    shown,
)

GIVEN = {"name": "alpha", "prompt": "Do it."}
SESSION = "123e4567-e89b-12d3-a456-426614174000"
MODELS = (
    StartArguments,
    ContinueArguments,
    StatusArguments,
    InterruptArguments,
    GoalReachedArguments,
    NeedHelpArguments,
)

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
    ("prompt", ["x"]),
    ("prompt", "x" * (MAX_PROMPT_BYTES + 1)),
    ("dir", "/" + "x" * 5000),
    ("max_turns", 0),
    ("max_turns", 101),
    ("max_turns", True),
    ("max_turns", 1.5),
    ("model", "--help"),
    ("model", ""),
    ("model", "a b"),
    ("model", "a" * 201),
    ("effort", "-x"),
    ("effort", "\x7f"),
    ("max_budget_usd", True),
    ("idle_timeout_s", 8 * 24 * 3600),
    ("request_key", "x" * 201),
)

# What the schema cannot say, or must not, as some client refuses the keyword: bytes, half a surrogate pair, NaN.
BAD_BEYOND_SCHEMA: tuple[tuple[str, Any], ...] = (
    ("prompt", ""),
    ("prompt", " \n\t "),
    ("dir", ""),
    ("dir", "relative/path"),
    ("goal", "  "),
    ("report_file", " "),
    ("max_budget_usd", 0),
    ("max_budget_usd", -1),
    ("idle_timeout_s", 0),
    ("request_key", ""),
    ("name", "alpha\n"),
    ("prompt", "\ud83d"),
    ("prompt", "ü" * (MAX_PROMPT_BYTES // 2 + 1)),
    ("dir", "/a\0b"),
    ("goal", "\udc00"),
    ("report_file", "a\0b"),
    ("model", "a\n"),
    ("max_budget_usd", float("inf")),
    ("max_budget_usd", float("nan")),
)

BAD_TURN_FIELDS = BAD_BY_SCHEMA + BAD_BEYOND_SCHEMA


def start(**changes: Any) -> StartRequest:
    return read(StartArguments, {**GIVEN, **changes}).request()


def resume(**changes: Any) -> ContinueRequest:
    return read(ContinueArguments, {**GIVEN, **changes}).request()


class StartTests(SynchronousTestCase):
    def test_a_name_and_a_prompt_are_enough(self) -> None:
        self.assertEqual(start(), StartRequest(name="alpha", prompt="Do it."))

    def test_all_fields_reach_the_request(self) -> None:
        given: dict[str, Any] = {
            "dir": "~/work",
            "goal": "All tests pass.",
            "max_turns": 7,
            "report_file": "out/report.md",
            "request_key": "k 1",
        }
        options: dict[str, Any] = {
            "model": "claude-opus-4-5[1m]",
            "effort": "high",
            "max_budget_usd": 1.5,
            "idle_timeout_s": 600,
        }
        wanted = StartRequest(name="alpha", prompt="Do it.", options=TurnOptions(**options), **given)
        self.assertEqual(start(**given, **options), wanted)

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
        self.assertEqual(len(start(prompt="ü" * (MAX_PROMPT_BYTES // 2)).prompt.encode()), 2 * 1024 * 1024)

    def test_a_long_goal_is_taken(self) -> None:
        self.assertEqual(len(start(goal="g" * 200_000).goal or ""), 200_000)

    def test_a_goal_without_a_budget_gets_five_turns(self) -> None:
        self.assertEqual(start(goal="g").max_turns, 5)

    def test_a_budget_of_5_0_is_5(self) -> None:
        self.assertEqual(repr(start(goal="g", max_turns=5.0).max_turns), "5")

    def test_max_turns_without_a_goal_is_refused(self) -> None:
        self.assertTrue(str(self.assertRaises(BadRequest, start, max_turns=5)).startswith("max_turns: needs `goal`"))

    def test_an_empty_goal_is_refused(self) -> None:
        self.assertEqual(
            str(self.assertRaises(BadRequest, start, goal="")), "goal: must not be blank; without one, leave it out"
        )

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
    def refused(self, model: type[Arguments], **arguments: Any) -> str:
        return str(self.assertRaises(BadRequest, read, model, arguments))

    def test_status_takes_nothing_or_all(self) -> None:
        self.assertEqual(
            read(StatusArguments, {}), StatusArguments(name=None, wait_s=0.0, wait_for="any", result=False)
        )
        given: dict[str, Any] = {"name": "a", "wait_s": 3600, "wait_for": "all", "result": True}
        self.assertEqual(read(StatusArguments, given), StatusArguments(**given))

    def test_status_refuses_waits_out_of_range(self) -> None:
        for wait_s in (-0.1, 3600.5, True, "soon"):
            self.assertTrue(
                self.refused(StatusArguments, wait_s=wait_s).startswith("wait_s: must be a number from 0 to 3600, not ")
            )

    def test_what_to_wait_for_is_any_or_all(self) -> None:
        self.assertEqual(self.refused(StatusArguments, wait_for="some"), 'wait_for: must be "any" or "all", not "some"')

    def test_interrupt_needs_a_name(self) -> None:
        self.assertEqual(self.refused(InterruptArguments), "name: is required")

    def test_goal_reached_takes_nothing_and_blanks_too(self) -> None:
        self.assertIsNone(read(GoalReachedArguments, {}).message)
        self.assertEqual(read(GoalReachedArguments, {"message": "", "report_file": ""}).message, "")

    def test_need_help_needs_a_reason_that_is_not_blank(self) -> None:
        self.assertEqual(self.refused(NeedHelpArguments), "reason: is required")
        self.assertEqual(self.refused(NeedHelpArguments, reason=" "), "reason: must not be blank")

    def test_long_messages_are_left_to_be_cut(self) -> None:
        self.assertEqual(len(read(GoalReachedArguments, {"message": "m" * 150_000}).message or ""), 150_000)

    def test_no_signal_tool_has_a_field_that_names_a_session(self) -> None:
        self.assertEqual(
            [set(model.model_fields) for model in (GoalReachedArguments, NeedHelpArguments)],
            [{"message", "report_file"}, {"reason", "report_file"}],
        )


class AsClientsSendThem(SynchronousTestCase):
    def test_null_is_as_good_as_absent(self) -> None:
        nulls = dict.fromkeys((*StartArguments.model_fields,), None) | GIVEN
        self.assertEqual(read(StartArguments, nulls), read(StartArguments, GIVEN))
        self.assertEqual(read(StatusArguments, {"wait_s": None, "result": None}), read(StatusArguments, {}))

    def test_null_in_place_of_what_is_required_is_missing(self) -> None:
        error = self.assertRaises(BadRequest, read, StartArguments, {"name": "a", "prompt": None})
        self.assertEqual(str(error), "prompt: is required")

    def test_numbers_and_booleans_sent_as_texts_are_read(self) -> None:
        request = start(goal="g", max_turns="5", max_budget_usd="1.5", idle_timeout_s="60")
        self.assertEqual(
            (request.max_turns, request.options.max_budget_usd, request.options.idle_timeout_s), (5, 1.5, 60)
        )
        given = read(StatusArguments, {"wait_s": "50", "result": "true"})
        self.assertEqual((given.wait_s, given.result), (50.0, True))

    def test_a_text_that_is_none_of_the_kind_is_refused(self) -> None:
        for name, value in (
            ("max_turns", "five"),
            ("max_turns", ""),
            ("max_budget_usd", "nan"),
            ("max_turns", "1e400"),
        ):
            error = self.assertRaises(BadRequest, start, goal="g", **{name: value})
            self.assertTrue(str(error).startswith(f"{name}: must be a"), str(error))
        self.assertEqual(
            str(self.assertRaises(BadRequest, read, StatusArguments, {"result": "maybe"})),
            'result: must be true or false, not "maybe"',
        )


class AResultSchema(SynchronousTestCase):
    GOOD = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}

    def test_it_reaches_the_request_as_json_as_an_object_and_as_a_text(self) -> None:
        for given in (self.GOOD, json.dumps(self.GOOD)):
            self.assertEqual(json.loads(start(result_schema=given).options.result_schema or ""), self.GOOD)

    def test_what_claude_or_json_schema_refuses_is_refused_at_the_call(self) -> None:
        for bad, words in (
            ({"type": "string"}, "must be a JSON Schema of an object"),
            ([], "must be a JSON Schema of an object"),
            (5, "must be a JSON Schema of an object"),
            ("{", "no JSON"),
            ({"type": "nonsense"}, "must be a JSON Schema of an object"),
            ({"type": "object", "properties": {"a": {"type": "nonsense"}}}, "is no JSON Schema: "),
            ({"type": "object", "required": "a"}, "is no JSON Schema: "),
            ({"type": "object", "properties": {"a": {"$ref": "#/x"}}}, "refers to what it does not hold"),
            (
                {"type": "object", "properties": {"a": {"$ref": "http://x.example/y"}}},
                "refers to what it does not hold",
            ),
            ({"type": "object", "description": "x" * 70_000}, "at most 65,536 are taken"),
        ):
            error = self.assertRaises(BadRequest, start, result_schema=bad)
            self.assertTrue(str(error).startswith("result_schema: "), str(error))
            self.assertIn(words, str(error))


class Faults(SynchronousTestCase):
    def refused(self, arguments: dict[str, Any] | None) -> str:
        return str(self.assertRaises(BadRequest, read, InterruptArguments, arguments))

    def test_no_arguments_at_all_lack_what_is_required(self) -> None:
        self.assertEqual([self.refused(None), self.refused({})], ["name: is required"] * 2)

    def test_an_unknown_field_brings_the_known_ones_and_the_nearest(self) -> None:
        self.assertEqual(
            self.refused({"name": "a", "nam": True}),
            '"nam": is no field of this tool; did you mean `name`? its fields are name',
        )

    def test_an_unknown_field_that_is_near_to_none_brings_no_guess(self) -> None:
        self.assertEqual(self.refused({"name": "a", "z": 1}), '"z": is no field of this tool; its fields are name')

    def test_an_unknown_field_of_hostile_characters_is_shown_printably(self) -> None:
        self.assertTrue(self.refused({"name": "a", "\ud83d\n": 1}).startswith(r'"\ud83d\n": is no field'))

    def test_several_faults_are_named_at_once_on_one_line(self) -> None:
        error = self.assertRaises(BadRequest, read, StartArguments, {"prompt": 5, "max_turns": 0, "x": 1})
        self.assertTrue(
            str(error).startswith(
                "name: is required; prompt: must be a string, not 5; "
                'max_turns: must be a whole number from 1 to 100, not 0; "x": is no field'
            ),
            str(error),
        )
        self.assertNotIn("\n", str(error))

    def test_of_very_many_faults_the_first_are_named_and_the_rest_counted(self) -> None:
        asked: list[str] = []

        def close(name: str, known: object, n: int) -> list[str]:
            asked.append(name)
            return []

        self.patch(difflib, "get_close_matches", close)
        text = self.refused({"name": "a", **{f"nane{n}": 1 for n in range(1000)}})
        self.assertLess(len(text), 1000)
        self.assertTrue(text.endswith("; and 995 more faults"), text)
        self.assertEqual(len(asked), 5)

    def test_a_text_of_braces_and_per_cents_is_no_format(self) -> None:
        error = self.assertRaises(BadRequest, start, dir="{why}%s")
        self.assertEqual(str(error), 'dir: must be an absolute path, or one that begins with ~, not "{why}%s"')

    def test_lengths_are_counted_in_bytes_and_in_characters(self) -> None:
        self.assertIn(
            "4,194,304 bytes long in UTF-8; at most 2,097,152",
            str(self.assertRaises(BadRequest, start, prompt="ü" * MAX_PROMPT_BYTES)),
        )
        self.assertIn(
            "201 characters long; at most 200", str(self.assertRaises(BadRequest, start, request_key="x" * 201))
        )

    def test_half_a_surrogate_pair_is_refused_with_its_place(self) -> None:
        self.assertIn(
            "half of a surrogate pair at character 3", str(self.assertRaises(BadRequest, start, prompt="ab\ud83d"))
        )


class SchemaTests(SynchronousTestCase):
    def test_every_input_schema_is_one_and_is_an_object_closed_to_unknown_fields(self) -> None:
        for model in MODELS:
            schema = input_schema(model)
            Draft202012Validator.check_schema(schema)
            self.assertEqual((schema["type"], schema["additionalProperties"]), ("object", False))

    def test_every_field_is_described_and_in_the_subset_that_all_clients_take(self) -> None:
        taken = {"type", "description", "enum", "pattern", "minimum", "maximum", "maxLength", "default"}
        for model in MODELS:
            for name, schema in input_schema(model)["properties"].items():
                self.assertTrue(schema["description"].endswith("."), name)
                self.assertLessEqual(set(schema), taken, name)
                self.assertIsInstance(schema["type"], str)
                pattern = schema.get("pattern", "^$")
                self.assertTrue(pattern.startswith("^") and pattern.endswith("$"), pattern)
                self.assertNotRegex(pattern, r"\\[sS]")

    def test_what_a_continue_carries_over_says_so(self) -> None:
        for name in ContinueArguments.carried:
            self.assertIn("as before", input_schema(ContinueArguments)["properties"][name]["description"])
            self.assertNotIn("as before", input_schema(StartArguments)["properties"][name]["description"])

    def test_the_schema_takes_what_the_check_takes(self) -> None:
        """A client that checks against the schema must never be kept from a call that the daemon would take."""
        cases: tuple[tuple[type[Arguments], dict[str, Any]], ...] = (
            (
                StartArguments,
                {**GIVEN, "goal": "g", "max_turns": 5.0, "dir": "/a\nb", "model": "m", "idle_timeout_s": 1},
            ),
            (ContinueArguments, {**GIVEN, "goal": "", "session_id": SESSION.upper(), "max_budget_usd": 0.01}),
            (StatusArguments, {"name": "a", "wait_s": 0, "wait_for": "all", "result": False}),
            (GoalReachedArguments, {"message": "", "report_file": ""}),
        )
        for model, given in cases:
            read(model, given)
            validator = Draft202012Validator(input_schema(model))
            self.assertEqual([error.message for error in validator.iter_errors(given)], [])

    def test_the_schema_refuses_what_it_can_of_bad_values(self) -> None:
        validator = Draft202012Validator(input_schema(StartArguments))
        for name, value in BAD_BY_SCHEMA:
            self.assertFalse(validator.is_valid({**GIVEN, name: value}), (name, str(value)[:40]))


class ShownTests(SynchronousTestCase):
    def test_a_value_is_shown_on_one_printable_line(self) -> None:
        self.assertEqual(shown("a\nb\ud83d\x1b"), '"a\\nb\\ud83d\\x1b"')

    def test_a_long_value_is_cut(self) -> None:
        self.assertLess(len(shown("x" * 10_000)), 60)
        self.assertEqual(shown(10**5000), "a very long number")
