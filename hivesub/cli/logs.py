"""What a subagent is doing, for a person who looks: the last steps of its session, as the daemon reads them off
claude's own record.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
import httpx2

from hivesub.cli.daemon import token_for
from hivesub.cli.exits import Exit
from hivesub.cli.troubles import Refused, Unreachable
from hivesub.readable import NOT_KNOWN, clean, whole

if TYPE_CHECKING:
    from hivesub.cli.given import Target
    from hivesub.shapes import StepRecord, Steps

EVERY_S = 1.0
ANSWER_S = 30.0

Ask = Callable[[str, int], Any]
"""Gives the steps of a subagent, by its name and the offset of the last look; awaitable."""


def step_line(step: StepRecord) -> str:
    """A step as one line: when, what, about what."""
    return f"{whole(step['at']) if step['at'] else NOT_KNOWN}  {step['what']}  {step['text']}".rstrip()


async def show_logs(
    ask: Ask, name: str, *, follow: bool, write: Callable[[str], object], line: Callable[[StepRecord], str] = step_line
) -> None:
    """Write the last steps of a subagent, a line each.

    :param follow: stay, and write what comes, until cancelled.
    :raises Refused: where there is no such subagent.
    """
    transcript, offset = None, 0
    while True:
        found: Steps = await ask(name, offset)
        if transcript is not None and found["transcript"] != transcript:
            transcript, offset = None, 0  # the name has got another session
            continue
        for step in clean(found["steps"]):
            write(line(step))
        transcript, offset = found["transcript"], found["offset"]
        if not follow:
            break
        await asyncio.sleep(EVERY_S)
    if transcript is None and line is step_line:
        write(f"{name}: no record of its session is known on the daemon's machine")


async def logs_of(target: Target, name: str, *, follow: bool) -> int:
    """Write the last steps of a subagent to stdout; gives the exit code."""
    token = token_for(target)
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    line: Callable[[StepRecord], str] = json.dumps if target.as_json else step_line
    await show_logs(asking(target.url, headers), name, follow=follow, write=click.echo, line=line)
    return Exit.OK


def asking(url: str, headers: Mapping[str, str]) -> Ask:
    """Asks the daemon at a base URL.

    :param headers: with the token, where the daemon wants one.
    """

    async def ask(name: str, after: int) -> Any:
        # No proxy of the environment: the daemon is on this machine, or named by its operator.
        async with httpx2.AsyncClient(headers=dict(headers), trust_env=False, timeout=ANSWER_S) as http:
            try:
                response = await http.get(f"{url}/steps", params={"name": name, "after": str(after)})
            except httpx2.HTTPError as error:
                raise Unreachable(f"no daemon answers at {url}: {str(error) or type(error).__name__}") from None
        if response.status_code == 404 and "json" in response.headers.get("content-type", ""):
            raise Refused(f"no subagent is named {name!r}; `hivesub status` lists them")
        if response.status_code != 200:
            raise Unreachable(f"the daemon at {url} does not give the steps (status {response.status_code})")
        return response.json()

    return ask
