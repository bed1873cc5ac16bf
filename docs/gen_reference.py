"""Writes the reference of tools and options and the map of modules from the code, each between two marks of its page.

`python docs/gen_reference.py` rewrites the pages; a test compares. Fields have their words where their shape or
model is defined, modules in the first sentence of their docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from hivesub.config.options import OPTIONS, variable_of
from hivesub.shapes import Record, RunAnswer, SignalAnswer, StatusAnswer
from hivesub.tools.arguments import input_schema
from hivesub.tools.control import control_tools
from hivesub.tools.subagent import subagent_tools
from hivesub.tools.toolbox import Tool
from hivesub.turns.toolset import DEFAULT_TOOLS

DOCS = Path(__file__).parent
PACKAGE = DOCS.parent / "hivesub"

ANSWERS: Mapping[str, type] = {
    "start": RunAnswer,
    "continue": RunAnswer,
    "status": StatusAnswer,
    "interrupt": RunAnswer,
    "goal_reached": SignalAnswer,
    "need_help": SignalAnswer,
}
ONLY_OF = {
    "replaced_session_id": ("start",),
    "previous_signal": ("continue",),
    "same_goal": ("continue",),
    "no_goal_remembered": ("continue",),
    "budget_anew_usd": ("continue",),
    "under_way": ("continue",),
    "escalated": ("interrupt",),
    "session_kept": ("interrupt",),
}
"""Fields of an answer that only some of the tools that share its shape give."""


def tools_text() -> str:
    """All six tools and the record."""
    none: Any = None  # the tools are only described, never called
    lines = ["## Tools of `subagent`, at `/mcp`", ""]
    for tool in subagent_tools(none, DEFAULT_TOOLS):
        lines += _tool(tool)
    lines += ["## Tools of `subagent_control`, at `/signal/mcp/<token>`", ""]
    for tool in control_tools():
        lines += _tool(tool)
    rows = list(_record_rows())
    return "\n".join([*lines, "## The record", "", *table(("field", "type", "what"), rows), ""])


def options_text() -> str:
    """The table of options."""
    rows = []
    for name, text in OPTIONS:
        what, found, default = text.partition(" [default: ")
        rows.append((f"`--{name}`", f"`{variable_of(name)}`", _plain(what), _plain(default[:-1]) if found else ""))
    return "\n".join([*table(("option", "variable", "what", "default"), rows), ""])


def map_text() -> str:
    """A table of modules for each package, the package itself first."""
    lines: list[str] = []
    for init in sorted(PACKAGE.rglob("__init__.py")):
        modules = sorted(path for path in init.parent.glob("*.py") if not path.name.startswith("__"))
        name = ".".join(init.parent.relative_to(PACKAGE.parent).parts)
        lines += [f"#### `{name}`", "", _first_sentence(init), ""]
        if modules:
            lines += [*table(("module", "what"), ((f"`{path.stem}`", _first_sentence(path)) for path in modules)), ""]
    return "\n".join(lines)


def _first_sentence(path: Path) -> str:
    """What a module's docstring begins with, on one line."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = " ".join(said.partition("\n\n")[0].split())
    return re.split(r"(?<=[a-z`)])\.(?= [A-Z])", first)[0].rstrip(".") + "."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def _tool(tool: Tool) -> list[str]:
    hints = [("read-only", tool.read_only), ("destructive", tool.destructive), ("idempotent", tool.idempotent)]
    named = ", ".join(name for name, holds in hints if holds) or "neither read-only, destructive nor idempotent"
    lines = [f"### `{tool.name}`", "", f"*{tool.title}.* Annotations: {named}; not open-world.", ""]
    lines += ["What a model reads of it:", "", f"> {_plain(tool.description)}", ""]
    schema = input_schema(tool.arguments)
    rows = [
        (
            f"`{name}`",
            "yes" if name in schema.get("required", ()) else "",
            _type(field),
            _limits(field),
            _plain(field["description"]),
        )
        for name, field in schema["properties"].items()
    ]
    lines += [*table(("field", "required", "type", "limits", "what"), rows), ""]
    lines += ["The record of its answer, where the call asks for it:", ""]
    shape = ANSWERS[tool.name]
    rows_out = []
    for name, kind, words in _fields(shape):
        if tool.name in ONLY_OF.get(name, (tool.name,)):
            when = "always" if name in shape.__required_keys__ else "where it applies"
            rows_out.append((f"`{name}`", kind, when, words))
    return [*lines, *table(("field", "type", "given", "what"), rows_out), ""]


def _limits(field: Mapping[str, Any]) -> str:
    """A field's limits, by its schema."""
    said = []
    if "minimum" in field:
        said.append(f"{field['minimum']:,} to {field['maximum']:,}")
    elif "maximum" in field:
        said.append(f"at most {field['maximum']:,}")
    if "pattern" in field:
        said.append(f"`{field['pattern']}`")
    if "maxLength" in field:
        said.append(f"at most {field['maxLength']:,} {'characters' if field['maxLength'] < 1000 else 'bytes of UTF-8'}")
    if "default" in field:
        said.append(f"default {_word(field['default'])}")
    return "; ".join(said)


def _type(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    return str(field["type"])


_JSON = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", object: "any"}


def _fields(shape: Any) -> Iterable[tuple[str, str, str]]:
    """Name, JSON type and words of each field of a shape."""
    hints = get_type_hints(shape, include_extras=True)
    for name in hints:
        plain, words = _documented(hints[name])
        yield name, _json_type(plain), words


def _documented(hint: Any) -> tuple[Any, str]:
    while get_origin(hint) is NotRequired:
        hint = get_args(hint)[0]
    plain, words = get_args(hint)
    return plain, words


def _json_type(kind: Any) -> str:
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_json_type(each) for each in get_args(kind))
    if get_origin(kind) is list:
        return f"list of {_json_type(get_args(kind)[0])}"
    if get_origin(kind) is dict or is_typeddict(kind):
        return "record" if kind is Record else "object"
    if issubclass(kind, Enum):
        return ", ".join(f"`{each.value}`" for each in kind)
    return _JSON[kind]


def _record_rows() -> Iterable[tuple[str, str, str]]:
    return _walk("", Record)


def _walk(before: str, shape: Any) -> Iterable[tuple[str, str, str]]:
    hints = get_type_hints(shape, include_extras=True)
    for name, kind, words in _fields(shape):
        yield f"`{before}{name}`", kind, words
        plain, _ = _documented(hints[name])
        parts = get_args(plain) or (plain,)
        for part in parts:
            if is_typeddict(part):
                yield from _walk(f"{before}{name}{'[].' if get_origin(plain) is list else '.'}", part)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(text: str) -> str:
    """A text of the code as Markdown takes it: options, addresses and placeholders as code."""
    parts = text.split("`")
    parts[::2] = [_CODE.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


_CODE = re.compile(r'--[a-z][a-z-]*|""|<[a-z-]+>|(?:[$~]|[a-z0-9]+:(?=[a-z/<]))[^\s,;]*[^\s,;.]|(?<= )~')

PAGES = {"reference/tools.md": tools_text, "reference/options.md": options_text, "contributing.md": map_text}
BEGIN, END = "<!-- from the code: begin -->\n", "<!-- from the code: end -->\n"


def rewritten(name: str, page: str) -> str:
    """The page with what the code now says; its own prose stays."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{name} lacks a mark; it needs {BEGIN.strip()} and {END.strip()}, each on a line of its own")
    return f"{before}{BEGIN}\n{PAGES[name]()}\n{END}{after}"


if __name__ == "__main__":
    for each in PAGES:
        path = DOCS / each
        path.write_text(rewritten(each, path.read_text(encoding="utf-8")), encoding="utf-8")
