"""`hivesub doctor`: a line for each thing that has to be in order, and what to do where it is not."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import click

from hivesub.cli import findings
from hivesub.cli.exits import Exit
from hivesub.cli.findings import Finding
from hivesub.cli.given import Target
from hivesub.readable import clean

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


async def all_findings(target: Target, program: str, environ: Mapping[str, str]) -> list[Finding]:
    """All that is found, in the order in which one would put it right."""
    return [
        findings.installation(),
        *findings.claude(program, environ),
        findings.login(environ),
        *findings.directories(environ),
        await findings.daemon(target),
        findings.connection(target, environ),
        findings.plugin(environ),
        findings.todos(environ),
        *findings.system(environ),
    ]


async def examine(target: Target, program: str) -> int:
    """Print what is found; gives the exit code."""
    found = await all_findings(target, program, os.environ)
    if target.as_json:
        shown = [{"level": each.level, "subject": each.subject, "text": clean(each.text)} for each in found]
        click.echo(json.dumps(shown, indent=2))
    else:
        width = max(len(each.subject) for each in found)
        for each in found:
            level = click.style(f"{each.level:4}", fg=_COLOURS[each.level])
            click.echo(f"{level}  {each.subject:{width}}  {' '.join(clean(each.text).split())}")
    return Exit.AMISS if any(each.level == "fail" for each in found) else Exit.OK
