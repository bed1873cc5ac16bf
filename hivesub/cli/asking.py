"""What the commands that ask a daemon do: one call, then a picture of the answer, or a wait for the run's end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console

from hivesub.cli.daemon import Calls, connected, token_for
from hivesub.cli.exits import Exit, exit_of, is_over, worst_of
from hivesub.cli.follow import Screen, follow
from hivesub.cli.given import Target
from hivesub.cli.show import card, last_words, line, notes, terminal
from hivesub.cli.table import listing, table
from hivesub.shapes import Record

WAIT_S = 50.0
"""The longest wait of one `status` call."""


async def show(target: Target, name: str | None, *, watch: bool, result: bool) -> int:
    """`status`: gives the exit code, with `watch` on one run that of its end."""
    async with connected(target.url, token_for(target)) as calls:
        console = terminal()
        if watch:
            return await _watch(calls, console, target, name, result=result)
        answer = await calls.call("status", name=name, result=result or None)
        if target.as_json:
            _print_json(console, answer)
        elif name is not None:
            console.print(card(answer["subagents"][0]))
        else:
            console.print(listing(answer["subagents"]) if result else table(answer["subagents"]))
    return Exit.OK


async def act(target: Target, tool: str, arguments: dict[str, Any], *, watch: bool, result: bool) -> int:
    """`start`, `continue` or `interrupt`; with `watch` or `result` until the run's end, whose exit code it gives."""
    async with connected(target.url, token_for(target)) as calls:
        console = terminal()
        answer = await calls.call(tool, **arguments)
        name = answer["subagent"]["name"]
        if watch or result:
            for note in notes(answer):
                terminal(stderr=True).print(note, style="yellow")
        if watch:
            return await _watch(calls, console, target, name, result=result or not target.as_json)
        if result:
            return await _result(calls, console, target, name)
        if target.as_json:
            _print_json(console, answer)
        else:
            for note in notes(answer):
                console.print(note, style="yellow")
            console.print(card(answer["subagent"]))
    return Exit.OK


async def wait_for(target: Target, names: Iterable[str], *, first: bool, timeout_s: float | None, result: bool) -> int:
    """Wait until one or all of them have ended; gives the code of the worst."""
    codes: dict[str, int] = {}

    async def one(calls: Calls, name: str) -> None:
        record = await _ended(calls, name, result=result)
        codes[name] = exit_of(record)
        if target.as_json:
            console.out(json.dumps(record), highlight=False)
        else:
            console.out(line(record), highlight=False)
            if result:
                console.out(last_words(record), highlight=False)

    console = terminal()
    async with connected(target.url, token_for(target)) as calls:
        waits = [asyncio.create_task(one(calls, name)) for name in names]
        try:
            done, late = await asyncio.wait(
                waits,
                timeout=timeout_s,
                return_when=asyncio.FIRST_COMPLETED if first else asyncio.FIRST_EXCEPTION,
            )
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        for each in done:
            each.result()
    left = [name for name in names if name not in codes]
    if late and not (first and codes):
        terminal(stderr=True).print(f"hivesub: after {timeout_s:g} s still running: {', '.join(left)}")
        return Exit.TIMED_OUT
    return worst_of(codes.values())


async def _result(calls: Calls, console: Console, target: Target, name: str) -> int:
    record = await _ended(calls, name, result=True)
    code = exit_of(record)
    if target.as_json:
        _print_json(console, {"subagent": record})
    else:
        console.out(last_words(record), highlight=False)
        if code != Exit.OK:
            terminal(stderr=True).print(f"hivesub: {line(record)}", soft_wrap=True)
    return code


async def _ended(calls: Calls, name: str, *, result: bool = False) -> Record:
    """The record once the run has ended."""
    while not is_over(record := await calls.record(name, wait_s=WAIT_S, result=result or None)):
        pass
    return record


def _print_json(console: Console, answer: Any) -> None:
    console.out(json.dumps(answer, indent=2), highlight=False)


async def _watch(calls: Calls, console: Console, target: Target, name: str | None, *, result: bool) -> int:
    async def look() -> Sequence[Record]:
        records: Sequence[Record] = (await calls.call("status", name=name))["subagents"]
        if result and any(is_over(record) for record in records):
            records = (await calls.call("status", name=name, result=True))["subagents"]
        return records

    if name is None:
        await follow(Screen(console, listing, as_json=target.as_json), look, lambda records: False)
        return Exit.OK
    screen = Screen(
        console, lambda records, passed: card(records[0], passed) if records else "", as_json=target.as_json
    )
    (record,) = await follow(screen, look, lambda records: is_over(records[0]))
    return exit_of(record)
