"""How the commands hang together: their aliases, prompts that begin with a dash, and how each trouble becomes a line
and an exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Coroutine, Iterable, Iterator
from itertools import islice
from typing import Any

import click

from hivesub.cli.exits import Exit
from hivesub.cli.troubles import Trouble
from hivesub.readable import clean

ALIASES = {"ls": "status", "stop": "interrupt"}


class Command(click.Command):
    """A command whose arguments may be sentences: a word with a blank in it, such as `- [ ] x`, is no option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(self._sentences_last(args)))

    def _sentences_last(self, args: Iterable[str]) -> Iterator[str]:
        takes_value = {
            name for each in self.params if isinstance(each, click.Option) and not each.is_flag for name in each.opts
        }
        sentences: list[str] = []
        words = iter(args)
        for word in words:
            if word == "--":
                yield from ("--", *sentences, *words)
                return
            if word.startswith("-") and " " in word.partition("=")[0]:
                sentences.append(word)
                continue
            yield word
            if word in takes_value:
                yield from islice(words, 1)
        if sentences:
            yield from ("--", *sentences)


class Commands(click.Group):
    """`hivesub`: alone it prints its help."""

    command_class = Command

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which they were added: what is used most comes first."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Gives the exit code."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
        except Trouble as trouble:
            return fail(str(trouble), trouble.exit)


def run_loop(command: Coroutine[Any, Any, int]) -> int:
    """Run what a command does in a loop of its own."""
    import asyncio  # a tenth of a second that `--help` need not take

    return asyncio.run(command)


def fail(text: str, code: Exit) -> Exit:
    """Print why on stderr; gives the code."""
    try:
        click.echo(f"hivesub: {clean(text)}", err=True)
    except OSError:  # stderr cannot be written either
        pass
    return code


def run(group: click.Group, argv: list[str]) -> int:
    """Run one of the commands; gives the exit code, whatever happens to stdout on the way."""
    try:
        try:
            code = group.main(argv, prog_name="hivesub", standalone_mode=False)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            # The reader is gone, as of `hivesub status | head -1`.
            _discard_stdout()
            return Exit.OK
        except OSError as error:
            _discard_stdout()
            return fail(f"what was to be printed could not be written: {error.strerror or error}", Exit.OUTPUT)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        return Exit.INTERRUPTED
    return Exit.OK if code is None else int(code)


def _discard_stdout() -> None:
    """Let nothing more be written, at exit neither."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):  # it is no file, or gone
        pass
