"""Whole runs: the gap between two turns of a goal, and one turn of the real claude beside a bare one."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.child import Stamp, stamps, write_child
from bench.figures import ROUNDS, Figure, Goal, in_turn
from bench.servers import daemon
from bench.wire import call
from tests.realclaude.install import claude_from_environment
from tests.realclaude.model import ScriptedModel
from tests.realclaude.sandbox import claude_environment
from tests.realclaude.steps import say

TURNS = 10


def figures(root: Path) -> Iterator[Figure]:
    yield from _gap(root)
    yield from _single(root / "single")


def _gap(root: Path) -> Iterator[Figure]:
    """From a turn's last word before its exit to the next turn's first: so the exit itself is in it, on both sides."""
    binary = write_child(root / "bin")
    gaps, bare = [], []
    with daemon(root / "daemon", binary) as ours:
        for number in range(ROUNDS):
            name = f"alpha{number}"
            before = len(stamps(binary.parent))
            call(ours.port, "start", name=name, prompt="again", goal="never reached", max_turns=TURNS)
            call(ours.port, "status", name=name, wait_s=30)
            gaps.append(_median_gap(stamps(binary.parent)[before:]))
            spawned = []
            for _ in range(TURNS):
                began = time.time_ns() // 1000
                command = [str(binary), "--session-id=00000000-0000-4000-8000-000000000000"]
                subprocess.run(command, input=b"again\n", stdout=subprocess.PIPE, cwd=root, check=True)
                spawned.append(stamps(binary.parent)[-1].began - began)
            bare.append(median(spawned) / 1e3)
    yield Figure(
        what="goal run: from the end of a turn to the next turn's claude running",
        against="one bare spawn",
        unit="ms",
        ours=gaps,
        theirs=bare,
        goal=Goal(3.0),
    )


def _median_gap(turns: list[Stamp]) -> float:
    if len(turns) != TURNS:
        raise RuntimeError(f"{len(turns)} turns of {TURNS}")
    return median(after.began - before.ended for before, after in pairwise(turns)) / 1e3


def _single(root: Path) -> Iterator[Figure]:
    claude = claude_from_environment()
    root.mkdir()
    with ScriptedModel() as model:
        environ = claude_environment(root / "home", model.url)
        model.script("marker", *[say("four") for _ in range(1000)])
        names = iter(range(1000))
        with daemon(root / "daemon", claude, environ=environ) as ours:

            def through_the_daemon() -> float:
                name = f"alpha{next(names)}"
                began = time.perf_counter()
                call(ours.port, "start", name=name, prompt="marker: two and two?")
                record = call(ours.port, "status", name=name, wait_s=50)["structuredContent"]["subagents"][0]
                took = time.perf_counter() - began
                if record["state"] != "idle":
                    raise RuntimeError(f"the run did not finish: {record}")
                return took

            def bare() -> float:
                began = time.perf_counter()
                subprocess.run(
                    [claude, "-p", "--dangerously-skip-permissions", "marker: two and two?"],
                    cwd=root,
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    check=True,
                    timeout=60,
                )
                return time.perf_counter() - began

            through_the_daemon()
            bare()
            mine, theirs = in_turn([through_the_daemon, bare], rounds=9)
    yield Figure(
        what="single-turn run of the real claude, `start` until `status` says idle",
        against="bare `claude -p`, same prompt",
        unit="s",
        ours=mine,
        theirs=theirs,
        goal=Goal(1.05),
    )
