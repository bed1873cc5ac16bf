"""`hivesub service`: the daemon as a unit of the user's own systemd."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from hivesub.cli.group import Command
from hivesub.cli.troubles import Unusable

if TYPE_CHECKING:
    from hivesub.cli.units import Unit


@click.group()
def service() -> None:
    """Keep the daemon up as a unit of your own systemd."""


@service.command(cls=Command)
@click.argument("name", required=False)
@click.option("--port", type=click.IntRange(1, 65535), help="Its port, into its environment file. [8787]")
@click.option("--dir", "directory", metavar="DIR", help="Where subagents work that are given no directory. [home]")
@click.option("--no-start", is_flag=True, help="Write the files, and ask systemd for nothing.")
def install(*, name: str | None, port: int | None, directory: str | None, no_start: bool) -> int:
    """Write the unit, enable and start it.

    A NAME makes one more daemon, beside the one without a name: with a port of its own, for one more agent. Done again
    it writes the unit anew and restarts it, as after an upgrade.
    """
    from hivesub.cli import units

    unit = units.unit_for(name, os.environ)
    given: dict[str, str] = {}
    if port is not None:
        given["HIVESUB_PORT"] = str(port)
    if directory:
        given["HIVESUB_DIR"] = os.path.abspath(directory)
    if name is not None and port is None and not unit.environment_file.exists():
        raise Unusable(f"no two daemons can share a port: give {name} one of its own with --port")
    if given and unit.environment_file.exists():
        raise Unusable(f"{unit.environment_file} is there already: change it there, and leave out --port and --dir")
    if given:
        _write(unit.environment_file, units.environment_text(given))
    _write(unit.file, units.text_of(unit, os.environ))
    _start(unit, ask=not no_start)
    return 0


@service.command(cls=Command)
@click.argument("name", required=False)
def uninstall(*, name: str | None) -> int:
    """Stop and disable the unit, and remove it."""
    from hivesub.cli import units

    unit = units.unit_for(name, os.environ)
    if not unit.file.exists():
        raise Unusable(f"{unit.file} is not there: nothing is installed by that name")
    if units.answers():
        units.ask("disable", "--now", unit.unit)
    else:
        click.echo(f"Your systemd does not answer here. Where it does: systemctl --user disable --now {unit.unit}")
    others = unit.others
    if others:
        click.echo(f"{unit.file} stays: {', '.join(others)} need it.")
    else:
        unit.file.unlink()
        click.echo(f"Removed {unit.file}")
        if units.answers():
            units.ask("daemon-reload")
    click.echo(f"Left as they are: {unit.environment_file}, the state directory, claude's sessions.")
    return 0


def _write(path: os.PathLike[str], text: str) -> None:
    click.echo(f"Writing {os.fspath(path)}:\n")
    click.echo("".join(f"    {line}\n" for line in text.splitlines()))
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Unusable(f"{os.fspath(path)} cannot be written: {error.strerror}") from None


def _start(unit: Unit, *, ask: bool) -> None:
    from hivesub.cli import units

    steps = (["daemon-reload"], ["enable", unit.unit], ["restart", unit.unit])
    if ask and units.answers():
        for step in steps:
            units.ask(*step)
        click.echo(f"{unit.unit} is up: `journalctl --user -u {unit.unit}` has its log.")
    else:
        because = "" if not ask else "Your systemd does not answer here. "
        click.echo(f"{because}To start it:\n")
        click.echo("".join(f"    systemctl --user {' '.join(step)}\n" for step in steps))
    click.echo("`loginctl enable-linger` keeps it up while you are not logged in.")
