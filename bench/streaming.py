"""`status` while a hundred children stream 1 MB/s each."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from bench.child import write_child
from bench.figures import ROUNDS, Figure, Goal
from bench.servers import Served, daemon
from bench.wire import MODERN, call, call_bytes, latencies, percentile

CHILDREN = 100
SECONDS = 4.0


def figures(root: Path) -> Iterator[Figure]:
    binary = write_child(root / "bin")
    quiet, loaded_p50, loaded_p99, shares = [], [], [], []
    options = ["--max-running", "200"]
    with daemon(root / "quiet", binary) as alone, daemon(root / "loaded", binary, options=options) as busy:
        call(alone.port, "start", name="alpha0", prompt="once")
        for number in range(CHILDREN):
            call(busy.port, "start", name=f"alpha{number}", prompt="stream")
        time.sleep(3)
        for _ in range(ROUNDS):
            before, began = busy.cpu_s(), time.perf_counter()
            time.sleep(SECONDS / 2)
            shares.append((busy.cpu_s() - before) / (time.perf_counter() - began) * 100)
            took = _took(busy)
            loaded_p50.append(percentile(took, 0.5) * 1e3)
            loaded_p99.append(percentile(took, 0.99) * 1e3)
            # The children go on writing: what differs is only whether this daemon has any.
            quiet.append(percentile(_took(alone), 0.99) * 1e3)
    what = f"`status` p99 at 16 connections while {CHILDREN} children stream 1 MB/s each"
    yield Figure(what=what, against="its p50", unit="ms", ours=loaded_p99, theirs=loaded_p50, goal=Goal(3.0))
    yield Figure(what=what, against="its p99 without any", unit="ms", ours=loaded_p99, theirs=quiet, goal=Goal(3.0))
    yield Figure(what="CPU of the daemon for those streams alone", against="–", unit="%", ours=shares)


def _took(server: Served) -> list[float]:
    request = call_bytes(server.port, MODERN, "status", {"name": "alpha0"})
    return latencies(server.port, request, connections=16, seconds=SECONDS)[0]
