"""The arguments of the six tools, as pydantic models: each gives the input schema, the check and the request.

Owns what a call may say, and how it is described to a model. Whether it can be done is the fleet's part. The schemas
keep to what every client takes (no `anyOf`, `$ref`, `exclusiveMinimum`); what they cannot say is checked here, as is
what clients send in place of what they mean: null for nothing, "5" for 5, "true" for true.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args

from attrs import fields, frozen
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from hivesub.errors import BadRequest
from hivesub.records import DEFAULT_MAX_TURNS, ContinueRequest, StartRequest, TurnOptions

MAX_PROMPT_BYTES = 2 * 1024 * 1024
MAX_WAIT_S = 3600
MAX_IDLE_S = 7 * 24 * 3600
MAX_PATH_BYTES = 4096
MAX_SCHEMA_BYTES = 64 * 1024
SHOWN_CHARS = 40
_FAULTS = 5
"""How many faults of a call its error names."""


def shown(value: object) -> str:
    """A JSON value as it may stand in an error text: on one line, short, printable, never the whole of a long one."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        cut = value[:SHOWN_CHARS]
        # A lone surrogate cannot be written as UTF-8 and a newline would break the one line: both come out escaped.
        quoted = '"' + "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut) + '"'
        return quoted if cut == value else f"{quoted}…"
    if isinstance(value, int | float):
        # Python refuses to write an int of more than 4,300 digits.
        return f"{value}" if isinstance(value, float) or abs(value) < 10**SHOWN_CHARS else "a very long number"
    return "a list" if isinstance(value, list) else "an object"


# What a value must be, beyond its type.


@frozen
class Says:
    """What a value must be, in words for an error."""

    what: str


def _refuse(why: str) -> PydanticCustomError:
    # Its own braces would be taken for placeholders.
    return PydanticCustomError("unusable", "{why}", {"why": why})


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise _refuse("")
    return value


def _unicode(value: object) -> object:
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _refuse(
                f"is no valid Unicode text: half of a surrogate pair at character {error.start + 1}; "
                "send the whole character, or leave it out"
            ) from None
    return value


def _not_blank(text: str) -> str:
    if not text.strip():
        raise _refuse("must not be blank")
    return text


def _no_nul(text: str) -> str:
    if "\0" in text:
        raise _refuse("must not hold a NUL character")
    return text


def _at_most_bytes(limit: int) -> AfterValidator:
    def check(text: str) -> str:
        size = len(text.encode())
        if size > limit:
            raise _refuse(f"is {size:,} bytes long in UTF-8; at most {limit:,} are taken")
        return text

    return AfterValidator(check)


def _positive(number: float) -> float:
    if not number > 0:
        raise _refuse("")
    return number


def _path_of_dir(text: str) -> str:
    if text[:1] not in ("/", "~"):
        raise _refuse("")
    return text


# What runs before the type's own check stands last: pydantic wraps it around what stands before it.
_text = BeforeValidator(_unicode)
_number = BeforeValidator(_no_bool)

Text = Annotated[str, _text]
Name = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"),
    _text,
    Says("1 to 64 of the characters A-Z a-z 0-9 . _ -, the first a letter or digit"),
]
# Prompts and goals go to claude on stdin, where a NUL does no harm. A text has at least as many bytes as characters.
_long = (Field(max_length=MAX_PROMPT_BYTES), _at_most_bytes(MAX_PROMPT_BYTES))
AnyGoal = Annotated[str, *_long, _text]
Prompt = Annotated[AnyGoal, AfterValidator(_not_blank)]
Path = Annotated[
    str,
    Field(max_length=MAX_PATH_BYTES),
    _at_most_bytes(MAX_PATH_BYTES),
    AfterValidator(_not_blank),
    AfterValidator(_no_nul),
    _text,
]
Dir = Annotated[Path, AfterValidator(_path_of_dir), Says("an absolute path, or one that begins with ~")]
SessionId = Annotated[
    str,
    Field(pattern=r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"),
    AfterValidator(str.lower),
    _text,
    Says("a session id, a UUID such as 123e4567-e89b-12d3-a456-426614174000"),
]
# No dash first, so that it can never be read as an option.
FlagValue = Annotated[
    str,
    Field(pattern=r"^[!-,.-~][!-~]{0,199}$"),
    _text,
    Says("1 to 200 printable ASCII characters without a blank, the first no dash"),
]
Turns = Annotated[int, Field(ge=1, le=100), _number, Says("a whole number from 1 to 100")]
Dollars = Annotated[float, Field(allow_inf_nan=False), AfterValidator(_positive), _number, Says("a number above 0")]
IdleSeconds = Annotated[
    float,
    Field(allow_inf_nan=False, le=MAX_IDLE_S),
    AfterValidator(_positive),
    _number,
    Says(f"a number above 0 up to {MAX_IDLE_S}"),
]
WaitSeconds = Annotated[
    float, Field(allow_inf_nan=False, ge=0, le=MAX_WAIT_S), _number, Says(f"a number from 0 to {MAX_WAIT_S}")
]
Flag = Annotated[bool, Says("true or false")]
Key = Annotated[str, Field(max_length=200), AfterValidator(_not_blank), AfterValidator(_no_nul), _text]


def _schema_text(value: object) -> object:
    """A JSON Schema as JSON; one that claude would refuse is refused here, before anything is started.

    Claude checks it as JSON Schema and looks each reference up (measured, 2.1.332).
    """
    # Few calls have one, and these take long to load.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing.exceptions import Unresolvable

    try:
        schema = json.loads(value) if isinstance(value, str) else value
        if not isinstance(schema, dict) or schema.get("type", "object") != "object":
            raise _refuse('must be a JSON Schema of an object, such as {"type": "object", "properties": {}}')
        text = json.dumps(schema, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
        if size > MAX_SCHEMA_BYTES:
            raise _refuse(f"is {size:,} bytes long as JSON; at most {MAX_SCHEMA_BYTES:,} are taken")
        validator_for(schema, default=Draft202012Validator).check_schema(schema)
        _look_up(schema)
    except SchemaError as error:
        raise _refuse(f"is no JSON Schema: {error.message[:200]} at {error.json_path[:100]}") from None
    except Unresolvable as error:
        raise _refuse(f"refers to what it does not hold: {str(error)[:200]}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, PydanticCustomError):
            raise
        raise _refuse("is no JSON Schema that can be read: too deep, or no JSON") from None
    return text


def _look_up(schema: dict[str, Any]) -> None:
    """Look every `$ref` of a schema up within it.

    :raises Unresolvable: for one that leads nowhere.
    """
    from referencing import Registry, Resource
    from referencing.jsonschema import DRAFT202012

    resolver = Registry().with_resource("", Resource.from_contents(schema, DRAFT202012)).resolver()
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                resolver.lookup(part["$ref"])
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


Schema = Annotated[str, BeforeValidator(_schema_text), WithJsonSchema({"type": "object"})]


class Arguments(BaseModel):
    """The arguments of one tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    carried: ClassVar[frozenset[str]] = frozenset()
    """The fields that are as before where they are not given; their description says so."""


A = TypeVar("A", bound=Arguments)


class _RunArguments(Arguments):
    name: Name = Field(description="The subagent's name: 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit.")
    prompt: Prompt = Field(description="The task, with all it needs: it sees nothing of your conversation.")
    dir: Dir | None = Field(
        None, description="Existing directory to work in, absolute or ~. Default: the daemon's own."
    )
    goal: AnyGoal | None = Field(
        None, description="What is to be reached, in words that can be checked. Without it the run is one turn."
    )
    max_turns: Turns | None = Field(
        None,
        description="The most turns the run may take toward `goal`. Only with `goal`.",
        json_schema_extra={"default": DEFAULT_MAX_TURNS},
    )
    report_file: Path | None = Field(
        None,
        description="File for the report, for you to read; relative means in `dir`. How the run ended is appended.",
    )
    model: FlagValue | None = Field(None, description="Model for claude's --model.")
    effort: FlagValue | None = Field(None, description="Effort for claude's --effort.")
    max_budget_usd: Dollars | None = Field(
        None, description="US dollars, above 0, that the whole run may cost. No further turn once they are spent."
    )
    idle_timeout_s: IdleSeconds | None = Field(
        None, description="Interrupt a turn that writes nothing for so many seconds, above 0. Never, by default."
    )
    check: Name | None = Field(
        None,
        description="Name of one of the operator's checks, a command that the goal is held against: a claim stops the "
        "run only once it passes. Only with `goal`.",
    )
    result_schema: Schema | None = Field(
        None,
        description="JSON Schema of an object: the last turn's result is given in this shape, with `result: true`.",
    )
    request_key: Key | None = Field(
        None,
        description="Any text, new for each call you mean. "
        "Repeat a call whose answer got lost with the same key: it is not done twice.",
    )

    def _shared(self) -> dict[str, Any]:
        """What every request of a run holds."""
        return {
            "name": self.name,
            "prompt": self.prompt,
            "report_file": self.report_file,
            "check": self.check,
            "options": TurnOptions(**{each.name: getattr(self, each.name) for each in fields(TurnOptions)}),
            "request_key": self.request_key,
        }


class StartArguments(_RunArguments):
    """Of `start`."""

    def request(self) -> StartRequest:
        """
        :raises BadRequest: on a blank goal, and on `max_turns` without `goal`.
        """
        if self.goal is not None and not self.goal.strip():
            raise BadRequest("goal: must not be blank; without one, leave it out")
        if self.goal is None and self.max_turns is not None:
            raise BadRequest(
                "max_turns: needs `goal`, since without one a run is a single turn; give a goal, or leave max_turns out"
            )
        turns = None if self.goal is None else self.max_turns or DEFAULT_MAX_TURNS
        return StartRequest(dir=self.dir, goal=self.goal, max_turns=turns, **self._shared())


class ContinueArguments(_RunArguments):
    """Of `continue`."""

    carried = frozenset(
        {"check", "result_schema", "max_turns", "report_file", "model", "effort", "max_budget_usd", "idle_timeout_s"}
    )

    prompt: Prompt = Field(description="What to do next, or the answer to its need_help.")
    dir: Dir | None = Field(
        None, description="Directory the session was started in. Default: the one remembered for this name."
    )
    session_id: SessionId | None = Field(
        None, description="The session to resume, where the name alone does not identify it."
    )
    goal: AnyGoal | None = Field(
        None, description='A new goal. Default: the one that it had, reported reached or not; "" for a single turn.'
    )
    max_turns: Turns | None = Field(None, description="The most turns from here on. Only with a goal.")

    def request(self) -> ContinueRequest:
        """Whether the continued run carries a goal is known to the fleet alone.

        :raises BadRequest: on a blank goal that is not "", and on `max_turns` with a goal of "".
        """
        if self.goal == "" and self.max_turns is not None:
            raise BadRequest(
                'max_turns: needs a goal, and a `goal` of "" asks for a single turn; leave one of the two out'
            )
        if self.goal and not self.goal.strip():
            raise BadRequest(
                'goal: must not be blank; give a goal, "" for a single turn, or leave it out to keep the one it had'
            )
        return ContinueRequest(
            dir=self.dir, session_id=self.session_id, goal=self.goal, max_turns=self.max_turns, **self._shared()
        )


class StatusArguments(Arguments):
    """Of `status`."""

    name: Name | None = Field(
        None, description="The subagent to show. Default: all that run and the last 20 that ended."
    )
    wait_s: WaitSeconds = Field(
        0.0, description="Wait up to so many seconds for a run to end, then answer. At once where none runs."
    )
    wait_for: Annotated[Literal["any", "all"], Says('"any" or "all"')] = Field(
        "any", description="Wait until any of the runs asked about ends, or until all have."
    )
    result: Flag = Field(False, description="Also give the last thing that the subagent said.")


class InterruptArguments(Arguments):
    """Of `interrupt`."""

    name: Name = Field(description="The subagent whose run to stop.")


class GoalReachedArguments(Arguments):
    """Of `goal_reached`."""

    message: Text | None = Field(None, description="What was reached and how it can be checked, in a few sentences.")
    report_file: Text | None = Field(None, description="File with your findings, inside your working directory.")


class NeedHelpArguments(Arguments):
    """Of `need_help`."""

    reason: Annotated[Text, AfterValidator(_not_blank)] = Field(
        description="What stops you, and the question to answer for you to go on, in a few sentences."
    )
    report_file: Text | None = Field(None, description="File with your findings, inside your working directory.")


def input_schema(model: type[Arguments]) -> dict[str, Any]:
    """The JSON Schema of a tool's input: an object that refuses unknown fields, in the subset that all clients take."""
    whole = model.model_json_schema()
    properties = {}
    for name, given in whole["properties"].items():
        inner: dict[str, Any] = next((each for each in given.get("anyOf", ()) if each.get("type") != "null"), {})
        kept = {**inner, **given}
        field = {key: kept[key] for key in _SCHEMA_KEYS if kept.get(key) is not None}
        if name in model.carried:
            field["description"] += " Default: as before."
        properties[name] = field
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if whole.get("required"):
        schema["required"] = whole["required"]
    return schema


_SCHEMA_KEYS = ("type", "description", "enum", "pattern", "minimum", "maximum", "maxLength", "default")


def read(model: type[A], given: Mapping[str, Any] | None) -> A:
    """A call's arguments. Null is taken as not given.

    :raises BadRequest: naming the first five faults, on one line, each as ``<field>: <why, and what would work>``.
    """
    known = model.model_fields
    values = {name: value for name, value in (given or {}).items() if value is not None and name in known}
    unknown = [name for name in given or () if name not in known]
    try:
        read = model.model_validate(values)
    except ValidationError as error:
        faults = [f"{each['loc'][0]}: {_why(model, each)}" for each in error.errors(include_url=False)]
    else:
        faults = []
        if not unknown:
            return read
    # Looking for what was meant takes time, and a hostile call has a hundred thousand unknown fields.
    named = [_unknown(name, list(known)) for name in unknown[: max(0, _FAULTS - len(faults))]]
    more = len(faults) + len(unknown) - _FAULTS
    raise BadRequest("; ".join([*faults, *named][:_FAULTS]) + (f"; and {more} more faults" if more > 0 else ""))


def _unknown(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name[:SHOWN_CHARS], known, n=1)
    meant = f"did you mean `{near[0]}`? " if near else ""
    return f"{shown(name)}: is no field of this tool; {meant}its fields are {', '.join(known)}"


def _why(model: type[Arguments], error: ErrorDetails) -> str:
    """A fault in our own words: what is wrong, and what would work."""
    kind, value = error["type"], error["input"]
    if kind == "missing":
        return "is required"
    if kind == "string_type":
        return f"must be a string, not {shown(value)}"
    if kind == "string_too_long":
        return f"is {len(value):,} characters long; at most {error['ctx']['max_length']:,} are taken"
    if kind == "unusable" and error["msg"]:
        return error["msg"]
    return f"must be {_says(model.model_fields[str(error['loc'][0])])}, not {shown(value)}"


def _says(field: Any) -> str:
    def found(metadata: tuple[Any, ...]) -> list[str]:
        return [each.what for each in metadata if isinstance(each, Says)]

    words = found(tuple(field.metadata))
    for part in (field.annotation, *get_args(field.annotation)):
        words += found(getattr(part, "__metadata__", ()))
    return words[-1] if words else "of another type"
