"""`status` calls: latency, rate and memory beside the SDK's servers for Python and for Node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

from bench.child import write_child
from bench.figures import Figure, Goal, in_turn
from bench.servers import Served, daemon, node_peer, told_by, uvicorn_peer
from bench.wire import LEGACY, MODERN, call, call_bytes, latencies

SECONDS = 1.0


def figures(root: Path, node_directory: Path) -> Iterator[Figure]:
    with daemon(root / "daemon", write_child(root / "bin")) as ours:
        call(ours.port, "start", name="alpha", prompt="once")
        call(ours.port, "status", name="alpha", wait_s=20)
        told = told_by(ours, root / "told.json")
        with uvicorn_peer(root, told) as uvicorn, node_peer(node_directory, told) as node:
            yield from _calls(ours, uvicorn, node)


def _calls(ours: Served, uvicorn: Served, node: Served) -> Iterator[Figure]:
    for server in (ours, uvicorn, node):
        _rate(server, MODERN)()
        _rate(server, LEGACY)()
    mine, theirs = in_turn([_p50_ms(ours, MODERN), _p50_ms(uvicorn, MODERN)])
    yield Figure(
        what=f"`status` p50 at 1 connection, {MODERN}",
        against="SDK server under uvicorn",
        unit="ms",
        ours=mine,
        theirs=theirs,
        goal=Goal(0.80),
    )
    for protocol, uvicorn_goal in ((MODERN, 2.0), (LEGACY, 1.3)):
        mine, theirs, nodes = in_turn([_rate(server, protocol) for server in (ours, uvicorn, node)])
        what = f"`status` calls/s at 16 connections, {protocol}"
        for against, rates, goal in (
            ("SDK server under uvicorn", theirs, Goal(uvicorn_goal, least=True)),
            ("TypeScript SDK's server on Node", nodes, Goal(0.65, least=True)),
        ):
            yield Figure(what=what, against=against, unit="/s", ours=mine, theirs=rates, goal=goal)
    mine, theirs = in_turn([ours.rss_mb, node.rss_mb])
    yield Figure(
        what="resident memory after that load",
        against="TypeScript SDK's server on Node",
        unit="MB",
        ours=mine,
        theirs=theirs,
        goal=Goal(0.4),
    )


def _p50_ms(server: Served, protocol: str) -> Callable[[], float]:
    request = call_bytes(server.port, protocol, "status", {"name": "alpha"})
    return lambda: median(latencies(server.port, request, connections=1, seconds=SECONDS)[0]) * 1e3


def _rate(server: Served, protocol: str) -> Callable[[], float]:
    request = call_bytes(server.port, protocol, "status", {"name": "alpha"})
    return lambda: latencies(server.port, request, connections=16, seconds=SECONDS)[1]
