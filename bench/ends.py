"""How soon a client that takes MCP tasks sees that a run has ended: runs at once, each asked for as claude does."""

from __future__ import annotations

import heapq
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.child import stamps, write_child
from bench.figures import Figure, Goal
from bench.servers import daemon
from bench.wire import MODERN, Connection, call_bytes, percentile

AT_ONCE = 16
ROUNDS = 6
POLL_S = 1.0
"""What the daemon asks of its clients, and claude 2.1.332 heeds."""
LONGEST_S = 4.0
LIMIT_S = 60.0
TASKS = "io.modelcontextprotocol/tasks"
META: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}


def figures(root: Path) -> Iterator[Figure]:
    binary = write_child(root / "bin")
    delays: list[float] = []
    with daemon(root / "daemon", binary) as ours:
        for number in range(ROUNDS):
            delays += _round(ours.port, binary.parent, f"round{number}")
    for share, goal in ((0.5, None), (0.99, Goal(1.5))):
        yield Figure(
            what=f"from the end of a run to its task completed at the client, {AT_ONCE} at once, p{share * 100:.0f}",
            against=f"a client that asks every {POLL_S:g} s",
            unit="s",
            ours=[percentile(delays, share)],
            goal=goal,
        )


def _round(port: int, directory: Path, prefix: str) -> list[float]:
    """Start the runs, and ask for each at its own times until it is completed; from each end to that answer, in
    seconds.
    """
    connection = Connection(port)
    due: list[tuple[float, str, str]] = []
    seen: dict[str, float] = {}
    try:
        for number in range(AT_ONCE):
            name = f"{prefix}-{number}"
            given = {"name": name, "prompt": f"wait {random.uniform(1.0, LONGEST_S):.3f}"}
            task = _asked(connection, call_bytes(port, MODERN, "start", given, meta=META))
            heapq.heappush(due, (time.monotonic() + POLL_S, name, task["taskId"]))
        until = time.monotonic() + LIMIT_S
        while due:
            at, name, task_id = heapq.heappop(due)
            time.sleep(max(0.0, at - time.monotonic()))
            get = call_bytes(port, MODERN, "", {"taskId": task_id}, method="tasks/get", meta=META)
            if _asked(connection, get)["status"] == "completed":
                seen[name] = time.time()
            elif at > until:
                raise RuntimeError(f"{name} is still working")
            else:
                heapq.heappush(due, (at + POLL_S, name, task_id))
    finally:
        connection.close()
    ended = {stamp.name: stamp.ended / 1e6 for stamp in stamps(directory)}
    return [at - ended[name] for name, at in seen.items()]


def _asked(connection: Connection, request: bytes) -> Any:
    connection.send(request)
    return json.loads(connection.answer())["result"]
