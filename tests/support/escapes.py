"""The escape table: what each way is expected to lead to, and how the security page shows it.

A cell is closed unless a way names the column as open, with the reason and what closes it. `test_ways` holds every cell
to what happens; `python -m tests.support.escapes` prints the table into the page.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "security.md"
BEGIN = "<!-- from tests/escape: begin -->"
END = "<!-- from tests/escape: end -->"

DEFAULT, WEB, SHELL = "default tools", "`web_tools`", "`shell_tools`"
COLUMNS = (DEFAULT, WEB, SHELL)
GROUPS = {DEFAULT: "", WEB: "web_tools", SHELL: "shell_tools"}
TOKEN = "shell_tools with --auth-token-file"
"""No column: where what is said to close a way is tried."""

BY_TOKEN = "closed by `--auth-token-file`"

IN_TURN = "Within a turn, a subagent tries to"
NEXT_TURN = "For its next turn, it prepares"
OUTSIDE = "Beyond its run, it"


@attrs.frozen
class Open:
    """Why a cell is open, and what closes or at least confines it."""

    why: str
    closes: str

    def __str__(self) -> str:
        return f"**open**: {self.why} ({self.closes})"


@attrs.frozen
class Way:
    """One way out. `key`: the name of its attempt. `text`: what is tried. `open`: the columns in which it succeeds."""

    key: str
    part: str
    text: str
    open: Mapping[str, Open] = attrs.Factory(dict)


def _open(why: str, closes: str, columns: tuple[str, ...] = (SHELL,)) -> dict[str, Open]:
    return dict.fromkeys(columns, Open(why, closes))


_A_SHELL = _open("Bash is a shell of the daemon's user", "confined by `--launcher`")
_NO_TOKEN = _open("any process of this machine may ask", BY_TOKEN)

WAYS = (
    Way("command", IN_TURN, "run a command", _A_SHELL),
    Way("settings", IN_TURN, "run one by the hooks or helper commands of a settings file that it writes"),
    Way("redirect", IN_TURN, "send its requests, and the API key, elsewhere by `env` of such a file"),
    Way(
        "skill",
        IN_TURN,
        "run one by a skill, now or in its next turn: `!` lines, hooks, a fork",
        _A_SHELL,
    ),
    Way("slash", IN_TURN, "run one by a command file, now or in its next turn, with `!` lines", _A_SHELL),
    Way("agents", IN_TURN, "run one by an agent file, now or in its next turn: hooks, MCP servers, tools"),
    Way("plugin", IN_TURN, "run one by a plugin that it writes: hooks, servers, language servers, monitors"),
    Way("mcp", IN_TURN, "call `/mcp`", _NO_TOKEN),
    Way("page", IN_TURN, "read the page `/`", _NO_TOKEN),
    Way("metrics", IN_TURN, "read `/metrics`", _NO_TOKEN),
    Way(
        "sibling_url",
        IN_TURN,
        "signal by a sibling's URL",
        _open("its config file is there until it is first used, for the same user", "confined by `--launcher`"),
    ),
    Way("sibling_name", IN_TURN, "speak for a sibling by its own URL"),
    Way("inbox", IN_TURN, "reach the inbox of another session, such as its parent's", _A_SHELL),
    Way("hears", IN_TURN, "hear another session of the user"),
    Way("proxied", IN_TURN, "have its signal URL pass a proxy of the environment"),
    Way(
        "outlives",
        IN_TURN,
        "leave something running after its interrupt",
        _open("what drops its environment, session and parent is not found", "confined by `--launcher`"),
    ),
    Way("report", IN_TURN, "have the daemon write elsewhere by its report path, `..` and links among it"),
    Way("next_settings", NEXT_TURN, "a settings file: hooks, helpers, `env`, status line"),
    Way("next_plugin", NEXT_TURN, "a plugin among its skills, or one that a settings file enables"),
    Way("next_mcp", NEXT_TURN, "an `.mcp.json`"),
    Way("next_memory", NEXT_TURN, "a CLAUDE.md with imports and `!` lines"),
    Way("next_style", NEXT_TURN, "an output style with `!` lines"),
    Way("next_user", NEXT_TURN, "the user's own settings file"),
    Way(
        "leaves",
        OUTSIDE,
        "leaves files where the user's other programs read them (`~/.bashrc`, `~/.claude`)",
        _open("Write writes wherever the user may", "confined by `--launcher`, or a user of its own", COLUMNS),
    ),
)


def rendered() -> str:
    """The table, between its markers."""
    lines = [BEGIN, ""]
    for part in dict.fromkeys(way.part for way in WAYS):
        lines += [f"| {part} … | " + " | ".join(COLUMNS) + " |", "|---|" + "---|" * len(COLUMNS)]
        for way in (way for way in WAYS if way.part == part):
            lines.append(f"| {way.text} | " + " | ".join(str(way.open.get(name, "closed")) for name in COLUMNS) + " |")
        lines.append("")
    return "\n".join([*lines, END])


def printed(page: str) -> str:
    """A page with the table as it is now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin and end, "the page has no place for the table"
    return f"{before}{rendered()}{after}"


if __name__ == "__main__":
    PAGE.write_text(printed(PAGE.read_text()))
