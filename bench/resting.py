"""What the daemon costs that does nothing: its start, its memory, its CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from bench.child import write_child
from bench.figures import ROUNDS, Figure, Goal, in_turn
from bench.servers import Served, daemon, told_by, uvicorn_peer
from bench.wire import call

REMEMBERED = 1000
RUNS = 500
"""How many runs that figure is reckoned from."""
SILENT = 100
WINDOW_S = 12.0
AGAINST = "SDK server under uvicorn"


def figures(root: Path) -> Iterator[Figure]:
    binary = write_child(root / "bin")
    told = root / "told.json"
    with daemon(root / "first", binary) as ours:
        call(ours.port, "start", name="alpha", prompt="once")
        call(ours.port, "status", name="alpha", wait_s=20)
        told_by(ours, told)
    yield from _start(root, binary, told)
    yield from _remembered(root / "remembered", binary)
    yield from _idle(root, binary)


def _start(root: Path, binary: Path, told: Path) -> Iterator[Figure]:
    starts: list[list[Served]] = [[], []]
    memory: list[list[float]] = [[], []]
    numbers = iter(range(1000))

    def start(side: int, server: Callable[[], AbstractContextManager[Served]]) -> Callable[[], float]:
        def measured() -> float:
            with server() as up:
                starts[side].append(up)
                time.sleep(0.5)
                memory[side].append(up.rss_mb())
                return up.up_s

        return measured

    mine, theirs = in_turn(
        [
            start(0, lambda: daemon(root / f"start{next(numbers)}", binary)),
            start(1, lambda: uvicorn_peer(root, told)),
        ],
        rounds=9,
    )
    yield Figure(
        what="process start until `/healthz` answers",
        against=AGAINST,
        unit="s",
        ours=mine,
        theirs=theirs,
        goal=Goal(1.2),
    )
    yield Figure(
        what="resident memory, idle", against=AGAINST, unit="MB", ours=memory[0], theirs=memory[1], goal=Goal(1.3)
    )


def _remembered(root: Path, binary: Path) -> Iterator[Figure]:
    """Growth of the resident memory over each fifth of the runs; the first hundred, which warm it up, are not in it."""
    with daemon(root, binary) as ours:

        def run(number: int) -> None:
            call(ours.port, "start", name=f"alpha{number}", prompt="once")
            call(ours.port, "status", name=f"alpha{number}", wait_s=20)

        for number in range(100):
            run(number)
        grown = []
        share = RUNS // ROUNDS
        for part in range(ROUNDS):
            before = ours.rss_mb()
            for number in range(share):
                run(100 + part * share + number)
            grown.append((ours.rss_mb() - before) * REMEMBERED / share)
    yield Figure(what="resident memory per 1,000 ended subagents", against="–", unit="MB", ours=grown, goal=Goal(2.0))


def _idle(root: Path, binary: Path) -> Iterator[Figure]:
    with daemon(root / "none", binary) as none, daemon(root / "many", binary, options=["--max-running", "200"]) as many:
        for number in range(SILENT):
            call(many.port, "start", name=f"alpha{number}", prompt="silent")
        time.sleep(3)
        used: list[list[float]] = [[], []]
        for _ in range(ROUNDS):
            before = [none.cpu_s(), many.cpu_s()]
            time.sleep(WINDOW_S)
            for side, server in enumerate((none, many)):
                used[side].append((server.cpu_s() - before[side]) * 60 / WINDOW_S * 1e3)
    for side, label in enumerate(("without children", f"with {SILENT} silent children")):
        yield Figure(what=f"CPU in 60 s of rest {label}", against="–", unit="ms", ours=used[side], goal=Goal(20))
