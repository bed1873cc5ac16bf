"""A tool's arguments as a whole: faults told together, near misses, schema."""

from __future__ import annotations

import difflib

from twisted.trial.unittest import SynchronousTestCase

from hivesub.errors import BadRequest
from hivesub.tools.arguments import Fields
from hivesub.tools.kinds import Flag, Text

FIELDS = Fields({"name": Text(description="n"), "result": Flag(description="r")}, required=("name",))


class ReadTests(SynchronousTestCase):
    def refused(self, arguments: dict[str, object] | None) -> str:
        return str(self.assertRaises(BadRequest, FIELDS.read, arguments))

    def test_given_fields_are_read_and_others_absent(self) -> None:
        self.assertEqual(FIELDS.read({"name": "a"}), {"name": "a"})

    def test_no_arguments_at_all_lack_what_is_required(self) -> None:
        self.assertEqual(self.refused(None), "name: is required")
        self.assertEqual(self.refused({}), "name: is required")

    def test_null_is_not_the_same_as_absence(self) -> None:
        self.assertEqual(self.refused({"name": "a", "result": None}), "result: must be true or false, not null")

    def test_an_unknown_field_brings_the_known_ones_and_the_nearest(self) -> None:
        self.assertEqual(
            self.refused({"name": "a", "results": True}),
            '"results": is no field of this tool; did you mean `result`? its fields are name, result',
        )

    def test_an_unknown_field_that_is_near_to_none_brings_no_guess(self) -> None:
        self.assertEqual(
            self.refused({"name": "a", "zzz": True}), '"zzz": is no field of this tool; its fields are name, result'
        )

    def test_an_unknown_field_of_hostile_characters_is_told_printably(self) -> None:
        self.assertTrue(self.refused({"name": "a", "\ud83d\n": 1}).startswith(r'"\ud83d\n": is no field'))

    def test_several_faults_are_told_at_once_on_one_line(self) -> None:
        text = self.refused({"result": 1, "x": 1})
        self.assertTrue(text.startswith("name: is required; result: must be true or false, not 1; "), text)
        self.assertNotIn("\n", text)

    def test_of_very_many_faults_the_first_are_told_and_the_rest_counted(self) -> None:
        text = self.refused({"name": "a", **{f"x{i}": 1 for i in range(1000)}})
        self.assertLess(len(text), 1000)
        self.assertTrue(text.endswith("; and 995 more faults"), text)


class SchemaTests(SynchronousTestCase):
    def test_what_was_meant_is_looked_for_only_of_those_that_are_told(self) -> None:
        asked = []
        self.patch(difflib, "get_close_matches", lambda name, known, n: asked.append(name) or [])
        error = self.assertRaises(BadRequest, FIELDS.read, {"name": "a", **{f"nane{n}": 1 for n in range(1000)}})
        self.assertIn("and 995 more faults", str(error))
        self.assertEqual(len(asked), 5)

    def test_the_schema_refuses_unknown_fields_and_names_the_required(self) -> None:
        schema = FIELDS.schema()
        self.assertEqual(
            (schema["type"], schema["additionalProperties"], schema["required"]), ("object", False, ["name"])
        )
        self.assertEqual(list(schema["properties"]), ["name", "result"])

    def test_without_required_fields_none_are_named(self) -> None:
        self.assertNotIn("required", Fields({"name": Text(description="n")}).schema())
