"""The commands that ask a daemon; what they do is in `hivesub.cli.asking`."""

from __future__ import annotations

import os
from typing import Any

import click

from hivesub.cli.given import (
    Target,
    asks_daemon,
    given_fields,
    prompt_of,
    read_directory,
    run_fields,
    watch_option,
    words_of,
)
from hivesub.cli.group import Command, run_loop

_DIR = "The directory to work in; '' is the daemon's. [the current one]"
_SAME_DIR = "The directory it was started in. [the one remembered]"
_RESULT = "Wait for the end, and print the last thing that it said; --watch prints it after the progress."


@click.command(cls=Command)
@click.argument("name", required=False)
@watch_option
@click.option("--result", is_flag=True, help="Add the last thing that it said.")
@asks_daemon
def status(target: Target, *, name: str | None, watch: bool, result: bool) -> int:
    """Show one subagent, or all (also `hivesub ls`).

    All are those that run, and the last that ended.
    """
    from hivesub.cli.asking import show

    return run_loop(show(target, name, watch=watch, result=result))


@click.command(cls=Command)
@click.argument("name")
@click.argument("prompt", default="-")
@run_fields
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    callback=read_directory,
    help=_DIR,
)
@watch_option
@click.option("--result", is_flag=True, help=_RESULT)
@asks_daemon
def start(
    target: Target, *, name: str, prompt: str, directory: str | None, watch: bool, result: bool, **fields: Any
) -> int:
    """Start a subagent.

    PROMPT is its task; - or nothing reads it from stdin.
    """
    where = _here(target) if directory is None else directory or None
    return _act(target, "start", name, prompt, {"dir": where, **fields}, watch=watch, result=result)


@click.command(cls=Command, name="continue")
@click.argument("name")
@click.argument("prompt", default="-")
@run_fields
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    callback=read_directory,
    help=_SAME_DIR,
)
@click.option("--session-id", metavar="ID", help="The session, where the name alone does not say which.")
@watch_option
@click.option("--result", is_flag=True, help=_RESULT)
@asks_daemon
def continue_(
    target: Target, *, name: str, prompt: str, directory: str | None, watch: bool, result: bool, **fields: Any
) -> int:
    """Give a subagent's session another prompt.

    PROMPT is what to do next, or the answer to its question; - or nothing reads it from stdin.
    """
    return _act(target, "continue", name, prompt, {"dir": directory or None, **fields}, watch=watch, result=result)


@click.command(cls=Command)
@click.argument("name")
@asks_daemon
def interrupt(target: Target, *, name: str) -> int:
    """Stop a run (also `hivesub stop`)."""
    from hivesub.cli.asking import act

    return run_loop(act(target, "interrupt", {"name": name}, watch=False, result=False))


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--any", "first", is_flag=True, help="Until one of them ends. [until all have]")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0), metavar="S", help="At most so long. [for ever]")
@click.option("--result", is_flag=True, help="Print the last thing that each said.")
@asks_daemon
def wait(target: Target, *, names: tuple[str, ...], first: bool, timeout_s: float | None, result: bool) -> int:
    """Wait until runs have ended.

    Prints a line for each, and exits with the code of the one that ended worst.
    """
    from hivesub.cli.asking import wait_for

    return run_loop(wait_for(target, dict.fromkeys(names), first=first, timeout_s=timeout_s, result=result))


@click.command(cls=Command)
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Stay, and print what it does, until Ctrl-C.")
@asks_daemon
def logs(target: Target, *, name: str, follow: bool) -> int:
    """Show what a subagent does.

    Its last steps off claude's own record of the session, a line each: when, which tool, about what.
    """
    from hivesub.cli.logs import logs_of

    return run_loop(logs_of(target, name, follow=follow))


def _act(
    target: Target, tool: str, name: str, prompt: str, fields: dict[str, Any], *, watch: bool, result: bool
) -> int:
    # Read before there is a loop, so that Ctrl-C ends the reading.
    arguments = {"name": name, "prompt": prompt_of(prompt), **given_fields(fields)}
    from hivesub.cli.asking import act

    return run_loop(act(target, tool, arguments, watch=watch, result=result))


def _here(target: Target) -> str | None:
    """The shell's directory, for a daemon on this machine; None, and with it the daemon's own, where there is none."""
    if not target.is_here:
        return None
    try:
        return words_of([os.getcwd()])[0]
    except FileNotFoundError:  # it was deleted
        return None


COMMANDS = (status, start, continue_, wait, interrupt, logs)
