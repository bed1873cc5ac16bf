"""claude's command line, as far as hivesub uses it, with claude's own refusals.

Source: `claude --help` and its errors, measured on 2.1.332.
"""

from __future__ import annotations

import os

VERSION = "2.1.332 (stand-in for Claude Code)"

VALUED = {
    "--add-dir": "<directories...>",
    "--allowedTools": "<tools...>",
    "--append-system-prompt": "<prompt>",
    "--disallowedTools": "<tools...>",
    "--effort": "<level>",
    "--fallback-model": "<model>",
    "--input-format": "<format>",
    "--json-schema": "<schema>",
    "--max-budget-usd": "<amount>",
    "--max-turns": "<turns>",
    "--mcp-config": "<configs...>",
    "--model": "<model>",
    "--name": "<name>",
    "--output-format": "<format>",
    "--permission-mode": "<mode>",
    "--resume": "[value]",
    "--session-id": "<uuid>",
    "--setting-sources": "<sources>",
    "--settings": "<file-or-json>",
    "--system-prompt": "<prompt>",
    "--tools": "<tools...>",
}
"""Flags with a value. One whose value ends in `...>` swallows all that follows it up to the next flag."""

BARE = (
    "--dangerously-skip-permissions",
    "--fork-session",
    "--include-partial-messages",
    "--print",
    "--strict-mcp-config",
    "--verbose",
    "--help",
    "--version",
)

SHORT = {"-p": "--print", "-n": "--name", "-r": "--resume", "-h": "--help", "-v": "--version"}


class Refused(Exception):
    """claude ends with exit 1 and this line on stderr before it does anything."""


class Arguments:
    """A command line that was understood.

    Shape: `values` maps a flag to the values it was given, in order; `bare` are the flags without one;
    `prompt` is the positional prompt or None; `swallowed` is claude's hint about what a variadic flag took.
    """

    def __init__(self) -> None:
        self.values: dict[str, list[str]] = {}
        self.bare: set[str] = set()
        self.prompt: str | None = None
        self.swallowed: list[str] = []

    def value(self, flag: str) -> str | None:
        """The last value given to `flag`, or None."""
        given = self.values.get(flag)
        return given[-1] if given else None

    @property
    def budget_usd(self) -> float | None:
        """What this process may spend.

        :raises Refused: for what is no number above 0.
        """
        text = self.value("--max-budget-usd")
        if text is None:
            return None
        try:
            amount = float(text)
        except ValueError:
            amount = 0.0
        if amount <= 0:
            raise Refused(
                f"error: option '--max-budget-usd <amount>' argument '{text}' is invalid. "
                "--max-budget-usd must be a number greater than 0"
            )
        return amount


def lacking() -> frozenset[str]:
    """The flags that `STANDIN_LACKS` (comma separated) takes away, to stand in for an older claude."""
    return frozenset(filter(None, os.environ.get("STANDIN_LACKS", "").split(",")))


def parse(argv: list[str]) -> Arguments:
    """Read a command line. Raises: Refused, with claude's own words."""
    lacks = lacking()
    found = Arguments()
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        if word == "--":
            found.prompt = " ".join(rest) or found.prompt
            break
        if not word.startswith("-") or word == "-":
            found.prompt = word
            continue
        flag, equals, value = word.partition("=")
        flag = SHORT.get(flag, flag)
        if flag in lacks or (flag not in VALUED and flag not in BARE):
            raise Refused(f"error: unknown option '{word if flag in lacks else flag}'")
        if flag in BARE:
            found.bare.add(flag)
        elif equals:
            found.values.setdefault(flag, []).append(value)
        else:
            _take_values(found, flag, rest)
    return found


def _take_values(found: Arguments, flag: str, rest: list[str]) -> None:
    shape = VALUED[flag]
    taken = found.values.setdefault(flag, [])
    if rest and not rest[0].startswith("-"):
        taken.append(rest.pop(0))
    elif shape.startswith("<"):
        raise Refused(f"error: option '{flag} {shape}' argument missing")
    while shape.endswith("...>") and rest and not rest[0].startswith("-"):
        taken.append(rest.pop(0))
        found.swallowed = [
            f'"{taken[-1]}" was read as a value of {flag}, not as a prompt · put a prompt before {flag} or after --'
        ]


def help_text() -> str:
    """What `--help` prints: every flag of this stand-in on a line of its own."""
    lacks = lacking()
    short = {long: f"{brief}, " for brief, long in SHORT.items()}
    lines = [
        "Usage: claude [options] [command] [prompt]",
        "",
        "A scripted stand-in for Claude Code. It asks no model.",
        "",
        "Options:",
    ]
    for flag in sorted((*VALUED, *BARE)):
        if flag not in lacks:
            lines.append(f"  {short.get(flag, '')}{flag} {VALUED.get(flag, '')}".rstrip())
    return "\n".join(lines) + "\n"


def split_tools(values: list[str]) -> list[str]:
    """The tool names in the values of `--tools`: comma or space separated."""
    return [name for value in values for name in value.replace(",", " ").split()]
