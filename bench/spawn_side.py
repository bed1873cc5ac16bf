"""The inside of `bench.spawning`: turns and bare children, spawned in turn by one process of a given size.

`python -m bench.spawn_side MEGABYTES COMMAND`: COMMAND writes a byte as soon as it runs. Prints JSON: for each kind of
spawn the seconds that the call took, and the seconds from it to the byte; `whole` is all that a turn's spawn does, its
token and config file among it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from twisted.internet import asyncioreactor
from twisted.internet.defer import succeed

COUNT = 25


def main(megabytes: int, command: str) -> None:
    asyncioreactor.install()
    from twisted.internet import reactor

    clock: Any = reactor
    ballast = bytearray(b"x") * (megabytes * 1_000_000)
    spawns = _Spawns(clock, command)
    clock.callWhenRunning(spawns.next)
    clock.run()
    print(json.dumps({**spawns.took, "ballast": len(ballast)}))


class _Spawns:
    def __init__(self, clock: Any, command: str) -> None:
        from bench.turns import turn_source

        self.took: dict[str, list[float]] = {kind: [] for kind in ("whole", "turn", "turn_exec", "bare", "bare_exec")}
        self._clock = clock
        self._command = command
        self._spawn = clock.spawnProcess
        clock.spawnProcess = self._timed
        self._source = turn_source(clock, command, now=lambda: datetime.now(UTC))

    def next(self) -> None:
        self._bare()
        self._turn()

    def _bare(self) -> None:
        began = time.perf_counter()
        with subprocess.Popen(
            [self._command], cwd="/tmp", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as child:
            self.took["bare"].append(time.perf_counter() - began)
            assert child.stdout is not None
            child.stdout.read(1)
            self.took["bare_exec"].append(time.perf_counter() - began)
            child.communicate()

    def _timed(self, *args: Any, **options: Any) -> Any:
        began = time.perf_counter()
        child = self._spawn(*args, **options)
        self.took["turn"].append(time.perf_counter() - began)
        return child

    def _turn(self) -> None:
        from bench.turns import spec_in

        began = time.perf_counter()
        first = []

        def spawned(turn: Any) -> None:
            feed = turn.outReceived

            def received(data: bytes) -> None:
                first.append(time.perf_counter() - began)
                feed(data)

            turn.outReceived = received
            turn.when_ended().addCallback(self._ended, first)

        spawning = self._source.spawn(spec_in(Path("/tmp")), lambda *signal: succeed(""))
        self.took["whole"].append(time.perf_counter() - began)
        spawning.addCallback(spawned)

    def _ended(self, end: Any, first: list[float]) -> None:
        self.took["turn_exec"].append(first[0])
        if len(self.took["turn"]) < COUNT:
            self._clock.callLater(0, self.next)
        else:
            self._clock.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
