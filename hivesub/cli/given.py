"""What is given on a command line: the options that several commands share, and how their texts are read. Light."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from attrs import frozen

from hivesub.cli.troubles import Unusable

DEFAULT_URL = "http://127.0.0.1:8787"
URL_VARIABLE = "HIVESUB_URL"
TOKEN_VARIABLE = "HIVESUB_AUTH_TOKEN_FILE"

_IN_127 = re.compile(r"127(\.[0-9]+){3}")

Callback = Callable[..., Any]


@frozen
class Target:
    """A daemon, and how its answers are printed.

    `token_file`: as given; None leaves it to the saved token.
    """

    url: str
    token_file: Path | None
    as_json: bool

    @property
    def is_here(self) -> bool:
        """Whether the daemon is on this machine, as far as its URL says."""
        host = urlsplit(self.url).hostname or ""
        return host in ("localhost", "::1") or _IN_127.fullmatch(host) is not None


def read_url(context: click.Context, parameter: click.Parameter, text: str) -> str:
    """A daemon's base URL, also where somebody gives the endpoint's.

    :raises click.BadParameter: when it is none.
    """
    try:
        parts = urlsplit(text)
        whole = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, a bracket that is not closed
        whole = False
    if not whole or parts.query or parts.fragment or "@" in parts.netloc:
        raise click.BadParameter(f"it must be http://HOST:PORT, the port at most 65535; {DEFAULT_URL} works")
    return text.rstrip("/").removesuffix("/mcp")


def read_directory(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A directory, made absolute; one that begins with `~` and an empty one, the daemon's own, are left as they are."""
    return os.path.abspath(text) if text and not text.startswith("~") else text


def read_schema(context: click.Context, parameter: click.Parameter, text: str | None) -> dict[str, Any] | None:
    """A JSON object, given as text or as `@` and the path of a file.

    :raises click.BadParameter: when it is none, or the file cannot be read.
    """
    if text is None:
        return None
    try:
        schema = json.loads(Path(text[1:]).read_text(encoding="utf-8") if text.startswith("@") else text)
    except OSError as error:
        raise click.BadParameter(f"{text[1:]} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"it is no JSON: {error}") from None
    if not isinstance(schema, dict):
        raise click.BadParameter("it must be a JSON object")
    return schema


def asks_daemon(command: Callback) -> Callback:
    """The options by which a daemon is found; the command gets them as a `Target`."""

    @click.option(
        "--url",
        callback=read_url,
        metavar="URL",
        envvar=URL_VARIABLE,
        default=DEFAULT_URL,
        help=f"The daemon's address. [${URL_VARIABLE}, else {DEFAULT_URL}]",
    )
    @click.option(
        "--auth-token-file",
        type=click.Path(path_type=Path),
        envvar=TOKEN_VARIABLE,
        metavar="FILE",
        help=f"A file with the daemon's token. [${TOKEN_VARIABLE}, else the one that `hivesub token --save` kept]",
    )
    @click.option("--json", "as_json", is_flag=True, help="Print JSON: what the tool answered, for scripts.")
    @functools.wraps(command)
    def with_target(*, url: str, auth_token_file: Path | None, as_json: bool, **given: Any) -> Any:
        return command(Target(url, auth_token_file, as_json), **given)

    return with_target


watch_option = click.option("-w", "--watch", is_flag=True, help="Stay, and show it live until the run is over.")

_FIELDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("--goal", {"help": "Work toward this, over several turns."}),
    ("--max-turns", {"type": int, "metavar": "N", "help": "At most so many turns. [5]"}),
    ("--check", {"metavar": "NAME", "help": "Hold the goal against this check of the daemon's operator."}),
    ("--report-file", {"metavar": "FILE", "help": "Where the report goes; relative means in its directory."}),
    ("--model", {"help": "For claude's --model."}),
    ("--effort", {"help": "For claude's --effort."}),
    ("--max-budget-usd", {"type": float, "metavar": "USD", "help": "What the run may cost."}),
    ("--idle-timeout-s", {"type": float, "metavar": "S", "help": "Interrupt a turn that is silent for longer."}),
    (
        "--result-schema",
        {"callback": read_schema, "metavar": "JSON", "help": "A JSON Schema for its result, or @ and a file with one."},
    ),
    ("--request-key", {"metavar": "KEY", "help": "A repeated call with the same key is not done twice."}),
)
"""Options of `start` and `continue`; each is the tool's field of that name."""


def run_fields(command: Callback) -> Callback:
    """The tools' own fields as options."""
    for name, how in reversed(_FIELDS):
        command = click.option(name, **how)(command)
    return command


def words_of(argv: list[str]) -> list[str]:
    """The command line as text that UTF-8 can carry, whatever the locale made of its bytes.

    :raises Unusable: on a word that is no UTF-8.
    """
    return [_as_text(word) for word in argv]


def _as_text(word: str) -> str:
    try:
        word.encode()
    except UnicodeEncodeError:  # bytes that the locale's encoding does not know
        try:
            return os.fsencode(word).decode()
        except UnicodeDecodeError:
            shown = os.fsencode(word).decode("utf-8", "backslashreplace")
            raise Unusable(
                f"{shown} is not UTF-8, and MCP carries nothing else; a directory of such a name can be reached by a "
                "symlink, or be the daemon's own --dir"
            ) from None
    return word


def prompt_of(given: str) -> str:
    """The prompt itself: `-` stands for what stdin holds.

    :raises Unusable: where stdin cannot be read, or is no UTF-8.
    """
    if given != "-":
        return given
    # Not by way of the locale: the prompt is UTF-8 wherever it is read.
    source = getattr(sys.stdin, "buffer", None)
    if sys.stdin is None or sys.stdin.closed or source is None:
        raise Unusable("stdin is closed; give the prompt as an argument, or on stdin")
    if sys.stdin.isatty():
        click.echo("hivesub: reading the prompt; end it with Ctrl-D", err=True)
    try:
        read: bytes = source.read()
        return read.decode()
    except UnicodeDecodeError as error:
        raise Unusable(f"the prompt on stdin is not UTF-8 (byte {error.start}); convert it with iconv") from None
    except OSError as error:
        raise Unusable(f"the prompt cannot be read from stdin: {error.strerror}") from None


def given_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What was given of the tools' fields."""
    return {name: value for name, value in fields.items() if value is not None}
