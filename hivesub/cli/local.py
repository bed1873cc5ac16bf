"""The commands that ask no running daemon: to run one, to connect to it, to see one work."""

from __future__ import annotations

import os
import sys

import click

from hivesub.cli.given import Target, asks_daemon
from hivesub.cli.group import Command, run_loop


@click.command(cls=Command)
@click.option("--real", is_flag=True, help="With the real claude, at the cost of its account.")
@click.option("--stay", is_flag=True, help="Keep the daemon and its page up until Ctrl-C.")
def demo(*, real: bool, stay: bool) -> int:
    """See a daemon work, on a stand-in for claude.

    It needs no account, and ends by itself in under 30 s.
    """
    from hivesub.cli.demo import demo

    return run_loop(demo(real=real, stay=stay))


@click.command(cls=Command, name="mcp-config")
@asks_daemon
def mcp_config(target: Target) -> int:
    """Print what to paste so that an agent connects.

    The command, and the .mcp.json entry. Asks no daemon, and prints no token.
    """
    from hivesub.cli.bearer import saved_token_path
    from hivesub.cli.paste import mcp_json, paste_text

    token = target.token_file is not None or (target.is_here and saved_token_path(os.environ).exists())
    click.echo(mcp_json(target.url, token=token) if target.as_json else paste_text(target.url, token=token))
    return 0


@click.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def serve(options: tuple[str, ...]) -> None:
    """Run the daemon in the foreground.

    As `twistd -n --pidfile= hivesub OPTIONS` does, also where twistd is not on PATH.
    """
    from hivesub.tryout import become

    become(options, os.environ, sys.stderr)


COMMANDS = (serve, mcp_config, demo)
