"""`python -m bench [ROW…]`: print the table, or only these rows of it."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from bench import calls, ends, reading, resting, runs, spawning, streaming
from bench.figures import HEAD, Figure, machine
from bench.servers import install_node_peer


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--peers", type=Path, default=Path(".bench"), help="where npm's packages are kept")
    parser.add_argument("--install", action="store_true", help="only fetch what comes from npm; needs the network")
    parser.add_argument("rows", nargs="*")
    options = parser.parse_args(argv)
    peers = options.peers.absolute()
    if options.install:
        install_node_peer(peers)
        return 0
    rows: dict[str, Callable[[Path], Iterator[Figure]]] = {
        "calls": lambda root: calls.figures(root, peers),
        "reading": reading.figures,
        "spawning": spawning.figures,
        "runs": runs.figures,
        "ends": ends.figures,
        "resting": resting.figures,
        "streaming": streaming.figures,
    }
    # A run that is cut short takes its servers along.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(f"{machine()}\n\n{HEAD}", flush=True)
    for name in options.rows or rows:
        root = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
        try:
            for figure in rows[name](root):
                print(figure.line(), flush=True)
        finally:
            shutil.rmtree(root, ignore_errors=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
