"""The command line of `hivesub`. Exit codes: see `hivesub.cli.exits`.

Its own imports are light; what calls and draws is loaded by the command that needs it.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import click

from hivesub import __version__
from hivesub.cli import local, runs
from hivesub.cli.given import words_of
from hivesub.cli.group import Commands, fail, run
from hivesub.cli.troubles import Unusable

_EPILOG = """\
\b
Exit codes: 0 done; 1 the daemon refused the call; 2 usage; 3 no daemon, or a
wrong token; 4 the output cannot be written; 5 `doctor` found something amiss;
130 Ctrl-C (runs go on). Where the end of a run was waited for, also: 10 it is
blocked and asks for help; 11 it stopped short of its goal (turn cap, budget, no
signal route, cut off); 12 killed; 13 failed; 14 it reports its goal reached,
which nobody has checked; 124 `wait --timeout` is over, and it still runs.

\b
Completion: eval "$(_HIVESUB_COMPLETE=bash_source hivesub)"; zsh_source and
fish_source likewise.
"""


@click.group(
    cls=Commands,
    epilog=_EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="hivesub %(version)s")
@click.pass_context
def hivesub(context: click.Context) -> None:
    """Run a hivesub daemon, look at its subagents and steer them, or see it work (`hivesub demo`)."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (*runs.COMMANDS, *local.COMMANDS):
    hivesub.add_command(_command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # What a subagent says has letters that the terminal's encoding may not have.
            stream.reconfigure(errors="replace")
    try:
        words = words_of(list(sys.argv[1:] if argv is None else argv))
    except Unusable as trouble:
        return fail(str(trouble), trouble.exit)
    return run(hivesub, words)


if __name__ == "__main__":
    sys.exit(main())
