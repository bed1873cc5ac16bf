"""The commands that ask no running daemon: to run one, to connect to it, to see one work."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hivesub.cli.given import DEFAULT_URL, URL_VARIABLE, Target, asks_daemon, read_url
from hivesub.cli.group import Command, run_loop
from hivesub.cli.service import service
from hivesub.cli.troubles import Unusable


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


@click.command(cls=Command)
@click.option("--save", is_flag=True, help="Also keep the token itself where the command `hivesub` finds it.")
@click.option("--force", is_flag=True, help="In place of the one that there is.")
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    envvar="HIVESUB_STATE_DIR",
    metavar="DIR",
    help="The daemon's state directory. [$HIVESUB_STATE_DIR, else the daemon's default]",
)
@click.option(
    "--digest-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Put the digest there instead, for a daemon with --auth-token-file=FILE.",
)
@click.option("--url", callback=read_url, envvar=URL_VARIABLE, default=DEFAULT_URL, metavar="URL", help="For the line.")
def token(*, save: bool, force: bool, state_dir: Path | None, digest_file: Path | None, url: str) -> int:
    """Make the token that the daemon asks for.

    Its digest goes to `auth-token` in the state directory, where a daemon looks at its start. The token is printed
    once, with the line by which an agent connects.
    """
    from hivesub.cli.bearer import make_token, saved_token_path
    from hivesub.cli.paste import add_command
    from hivesub.config.options import TOKEN_NAME
    from hivesub.system.dirs import default_state_dir, make_private_dir

    saved = saved_token_path(os.environ) if save else None
    try:
        place = digest_file or make_private_dir((state_dir or default_state_dir(os.environ)).absolute()) / TOKEN_NAME
    except ValueError as error:
        raise Unusable(str(error)) from None
    made = make_token(place, saved, force=force)
    click.echo(made)
    notes = [f"\nThis is the token; it is not shown again. Its digest is in {place}: start the daemon anew."]
    if saved:
        notes.append(f"It is kept in {saved}, for the command hivesub. A subagent that runs as you can read it there.")
    notes.append(f"To connect an agent:\n\n{add_command(url, header=made)}")
    click.echo("\n".join(notes), err=True)
    return 0


@click.command(cls=Command)
@click.option("--claude", metavar="PROGRAM", envvar="HIVESUB_CLAUDE", default="claude", help="The claude to look at.")
@asks_daemon
def doctor(target: Target, *, claude: str) -> int:
    """Look whether all is in order, and say what to do.

    Looks at claude, its login, the daemon, its token, the plugin and its hook, the todos and this machine. Changes
    nothing, and asks no model. Exits with 5 where something has to be put right.
    """
    from hivesub.cli.doctor import examine

    return run_loop(examine(target, claude))


@click.command(cls=Command, name="plugin-dir")
def plugin_dir() -> int:
    """Print the directory of the plugin for Claude Code.

    For `claude --plugin-dir "$(hivesub plugin-dir)"`.
    """
    from hivesub.shipped import plugin_dir

    click.echo(plugin_dir())
    return 0


COMMANDS = (serve, service, token, doctor, mcp_config, plugin_dir, demo)
