"""Writes the reference of tools and options from the code, each between two marks of its page.

`python docs/gen_reference.py` rewrites the pages; a test compares. What the code has no words for, the fields of the
answers, has its words here; a field without a word, or a word without a field, is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hivesub.config.options import OPTIONS, variable_of
from hivesub.tools import schemas
from hivesub.tools.control import control_tools
from hivesub.tools.kinds import Kind
from hivesub.tools.subagent import subagent_tools
from hivesub.tools.toolbox import Tool

REFERENCE = Path(__file__).parent / "reference"

RECORD_WORDS = {
    "name": "the subagent's name",
    "session_id": "claude's session; null until it is known",
    "dir": "where it works, as claude's `init` said",
    "state": "how it stands, see below",
    "turn": 'N of "Turn N of M", in every state; null without a goal',
    "max_turns": "M of it; null without a goal",
    "goal": "word for word; cut at 200 characters where several are told of; null without one",
    "last_event_age_s": "while running: seconds since this turn's process last wrote anything",
    "started_at": "of the run, RFC 3339 in UTC",
    "ended_at": "of the run; null while it goes on",
    "last_turn": "how the last turn that ended was seen to end; null before one has",
    "last_turn.outcome": "what was observed, not what was said",
    "last_turn.signal": "the name of the Unix signal, such as `SIGTERM`, of a killed turn",
    "last_turn.exit_code": "null where the process died on a signal",
    "last_turn.detail": "what else is known: claude's error, the tail of stderr; at most 2,000 characters",
    "last_turn.ended_at": "RFC 3339 in UTC",
    "stop_reason": "why no further turn follows; null while the run goes on",
    "stop_reason.kind": "see below",
    "stop_reason.message": "the reason in words; a subagent's own are labelled as self-reported",
    "signals": "what the subagent reported in this run, in order: claims, not facts",
    "signals_left_out": "only where it reported more than is kept, 100 signals and 40,000 characters: how many more",
    "signals[].kind": "which of the two signal tools it called",
    "signals[].message": "what it said, at most 4,000 characters",
    "signals[].at": "RFC 3339 in UTC",
    "report_file": "where the report goes; null where no path is known",
    "report_error": "why the report, or a path that the subagent named, could not be used; else null",
    "usage": "summed over the run",
    "usage.cost_usd": "US dollars, as claude counts them; null while it cannot be told",
    "usage.claude_turns": "claude's own count, its round trips to the model",
    "usage.input_tokens": "that claude counted",
    "usage.output_tokens": "that claude counted",
    "control": "whether it reached its signal route",
    "missing_tools": "built-in tools that were asked for and that claude did not give it",
    "todo": "what became of the run's todo; of several receivers the worst",
    "pid": "while running",
    "result": "only with `result: true`: the text that it ended its last turn with, at most 100,000 characters",
}

ANSWER_WORDS = {
    "subagent": "the [record](#the-record)",
    "subagents": "of one, or of all that run and the last 20 that ended: [records](#the-record)",
    "counts": "without `name`: how many there are in each state",
    "replaced_session_id": "the session that bore the name before; `continue` with it still resumes that one",
    "previous_signal": "the signal that killed the turn before: its work may be cut off",
    "under_way": "false where claude had not said within 5 s that it resumed the session: the todo tells",
    "escalated": "whether more than SIGINT was needed",
    "recorded": "the report is taken down",
    "note": "what else the subagent should know, such as that a path was dropped",
}


def tools_text() -> str:
    """All six tools and the record."""
    none: Any = None  # the tools are only told of, never called
    lines = ["## Tools of `subagent`, at `/mcp`", ""]
    for tool in subagent_tools(none):
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


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def _tool(tool: Tool) -> list[str]:
    hints = [("read-only", tool.read_only), ("destructive", tool.destructive), ("idempotent", tool.idempotent)]
    told = ", ".join(name for name, holds in hints if holds) or "neither read-only, destructive nor idempotent"
    lines = [f"### `{tool.name}`", "", f"*{tool.title}.* Annotations: {told}; not open-world.", ""]
    lines += ["What a model is told of it:", "", f"> {_plain(tool.description)}", ""]
    schema = tool.fields.schema()
    rows = [
        (
            f"`{name}`",
            "yes" if name in tool.fields.required else "",
            _type(schema["properties"][name]),
            _limits(kind, schema["properties"][name]),
            _plain(kind.description),
        )
        for name, kind in tool.fields.known.items()
    ]
    lines += [*table(("field", "required", "type", "limits", "what"), rows), "", "The answer:", ""]
    answer = tool.output
    rows_out = []
    for name, field in answer["properties"].items():
        when = "always" if name in answer["required"] else "where it applies"
        rows_out.append((f"`{name}`", _type(field), when, ANSWER_WORDS[name]))
    return [*lines, *table(("field", "type", "given", "what"), rows_out), ""]


def _limits(kind: Kind, field: Mapping[str, Any]) -> str:
    """A field's limits, by its schema; only its kind knows whether a length counts bytes or characters."""
    said = []
    if "exclusiveMinimum" in field:
        said.append(f"above {field['exclusiveMinimum']:g}")
    if "minimum" in field:
        said.append(f"{field['minimum']:,} to {field['maximum']:,}")
    elif "maximum" in field:
        said.append(f"at most {field['maximum']:,}")
    if "pattern" in field:
        said.append("not blank" if field["pattern"] == r"\S" else f"`{field['pattern']}`")
    if "maxLength" in field:
        in_bytes = getattr(kind, "max_bytes", None) == field["maxLength"]
        said.append(f"at most {field['maxLength']:,} {'bytes of UTF-8' if in_bytes else 'characters'}")
    if "default" in field:
        said.append(f"default {_word(field['default'])}")
    return "; ".join(said)


def _type(field: Mapping[str, Any]) -> str:
    if "$ref" in field:
        return "record"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{_word(field['const'])}`"
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    if kinds == ["array"]:
        return f"list of {_type(field['items'])}"
    return " or ".join(kinds)


def _record_rows() -> Iterable[tuple[str, str, str]]:
    left = dict(RECORD_WORDS)
    for path, field in _walk("", schemas.RECORD):
        yield f"`{path}`", _type(field), left.pop(path)
    if left:
        raise KeyError(f"words for fields that no record has: {', '.join(left)}")


def _walk(before: str, thing: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for name, field in thing["properties"].items():
        yield f"{before}{name}", field
        inner, mark = (field["items"], "[].") if field.get("type") == "array" else (field, ".")
        if "properties" in inner:
            yield from _walk(f"{before}{name}{mark}", inner)


def _word(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(text: str) -> str:
    """A text of the code as Markdown takes it: options, addresses and placeholders as code."""
    parts = text.split("`")
    parts[::2] = [_CODE.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "`".join(parts)


_CODE = re.compile(r'--[a-z][a-z-]*|""|<[a-z-]+>|(?:[$~]|[a-z0-9]+:(?=[a-z/<]))[^\s,;]*[^\s,;.]|(?<= )~')

PAGES = {"tools.md": tools_text, "options.md": options_text}
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
        path = REFERENCE / each
        path.write_text(rewritten(each, path.read_text(encoding="utf-8")), encoding="utf-8")
