"""The output schemas: what they take of a record, and what they refuse."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import RecordDict
from hivesub.tools import schemas
from tests.toolfakes import OLD_SESSION, ended, record, signal

ANSWERS = (
    schemas.START_ANSWER,
    schemas.CONTINUE_ANSWER,
    schemas.STATUS_ANSWER,
    schemas.INTERRUPT_ANSWER,
    schemas.SIGNAL_ANSWER,
)


def faults(schema: RecordDict, value: Any) -> list[str]:
    checker = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(value)]


class RecordSchemaTests(SynchronousTestCase):
    def test_records_of_every_state_satisfy_it(self) -> None:
        for one in (
            record(),
            record(session_id=None, turn=None, max_turns=None, goal=None, control="unknown"),
            record(signals=[signal("goal_reached", "done"), signal("need_help", "why")]),
            ended("idle", "turn_cap", result="text", todo="pending", missing_tools=["Read"]),
            ended("blocked", "need_help", pid=None, last_event_age_s=None, result=None),
            ended("killed", "killed", "killed", last={"signal": "SIGTERM", "exit_code": None}),
            ended(
                "failed", "failed", "failed", last={"exit_code": 1, "detail": "x"}, report_file="/r", report_error="y"
            ),
            ended(
                "idle",
                "budget_spent",
                usage={"cost_usd": 0.5, "claude_turns": 3, "input_tokens": 1, "output_tokens": 2},
            ),
            ended("idle", "no_control", control="failed", todo="undelivered"),
        ):
            self.assertEqual(faults(schemas.RECORD, one), [])

    def test_each_field_of_the_spec_is_required_but_those_of_some_answers(self) -> None:
        required = set(schemas.RECORD["required"])
        self.assertEqual(
            set(schemas.RECORD["properties"]) - required, {"pid", "last_event_age_s", "result", "signals_left_out"}
        )
        for name in required:
            one = record()
            del one[name]
            self.assertEqual(len(faults(schemas.RECORD, one)), 1, name)

    def test_words_that_are_none_of_the_specs_are_refused(self) -> None:
        for changes in (
            {"state": "finished"},
            {"control": "maybe"},
            {"todo": "sent"},
            {"stop_reason": {"kind": "done", "message": ""}},
            {"last_turn": {}},
            {"signals": [{"kind": "x", "message": "", "at": "2031-05-06T07:08:09Z"}]},
            {"usage": None},
        ):
            self.assertNotEqual(faults(schemas.RECORD, record(**changes)), [], changes)

    def test_a_newer_daemons_further_fields_are_taken(self) -> None:
        self.assertEqual(faults(schemas.RECORD, record(a_field_of_tomorrow=1)), [])


class AnswerSchemaTests(SynchronousTestCase):
    def test_every_one_is_a_schema_of_an_object(self) -> None:
        for schema in ANSWERS:
            Draft202012Validator.check_schema(schema)
            self.assertEqual(schema["type"], "object")

    def test_answers_with_and_without_what_only_some_have_satisfy_them(self) -> None:
        for schema, answer in (
            (schemas.START_ANSWER, {"subagent": record()}),
            (schemas.START_ANSWER, {"subagent": record(), "replaced_session_id": OLD_SESSION}),
            (schemas.CONTINUE_ANSWER, {"subagent": record()}),
            (schemas.CONTINUE_ANSWER, {"subagent": record(), "previous_signal": "SIGKILL"}),
            (schemas.CONTINUE_ANSWER, {"subagent": record(), "under_way": False}),
            (schemas.STATUS_ANSWER, {"subagents": [record()]}),
            (schemas.STATUS_ANSWER, {"subagents": [], "counts": {"running": 0}}),
            (schemas.INTERRUPT_ANSWER, {"subagent": ended("killed", "killed", "killed"), "escalated": True}),
            (schemas.SIGNAL_ANSWER, {"recorded": True, "note": ""}),
        ):
            self.assertEqual(faults(schema, answer), [])

    def test_a_bad_record_within_an_answer_is_refused(self) -> None:
        self.assertNotEqual(faults(schemas.STATUS_ANSWER, {"subagents": [record(state="x")]}), [])
        self.assertNotEqual(faults(schemas.START_ANSWER, {"subagent": {}}), [])
        self.assertNotEqual(faults(schemas.SIGNAL_ANSWER, {"recorded": False, "note": ""}), [])
