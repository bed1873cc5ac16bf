"""One side of `bench.reading`: read a child's whole output, in a process of its own, and say how long it took.

`python -m bench.read_side SIDE COMMAND`: SIDE is `ours`, `stock` or `sdk`; COMMAND is an executable that writes the
bytes, as claude writes its stream. Prints seconds and CPU seconds from the spawn on, and the bytes read (0 where the
side does not tell).
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from typing import Any

from twisted.internet.defer import succeed


class Meter:
    """Seconds of the wall and of the CPU since the last `start`; imports come before it."""

    def start(self) -> None:
        self._cpu = self._cpu_s()
        self._began = time.perf_counter()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._began, self._cpu_s() - self._cpu

    @staticmethod
    def _cpu_s() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime


def read_as_we_do(command: str, meter: Meter) -> int:
    """A turn as the daemon runs it, less claude's flags."""
    from datetime import UTC, datetime
    from pathlib import Path

    from twisted.internet import asyncioreactor

    asyncioreactor.install()
    from twisted.internet import reactor

    from bench.turns import spec_in, turn_source

    clock: Any = reactor
    source = turn_source(clock, command, now=lambda: datetime.now(UTC))
    read = []

    def spawned(turn: Any) -> None:
        def ended(end: Any) -> None:
            read.append(turn.bytes_read)
            assert turn.result is not None
            clock.stop()

        turn.when_ended().addCallback(ended)

    def begin() -> None:
        meter.start()
        source.spawn(spec_in(Path.cwd()), lambda *signal: succeed("")).addCallback(spawned)

    clock.callWhenRunning(begin)
    clock.run()
    return int(read[0])


def read_as_twisted_does(command: str, meter: Meter) -> int:
    """A protocol that does nothing with what it gets: the most that a stock process transport can do."""
    from twisted.internet import asyncioreactor

    asyncioreactor.install()
    from twisted.internet import reactor
    from twisted.internet.protocol import ProcessProtocol

    clock: Any = reactor

    class Nothing(ProcessProtocol):
        def processEnded(self, reason: Any) -> None:
            clock.stop()

    def begin() -> None:
        meter.start()
        clock.spawnProcess(Nothing(), command, [command], env=dict(os.environ), path=None)

    clock.callWhenRunning(begin)
    clock.run()
    return 0


def read_as_the_sdk_does(command: str, meter: Meter) -> int:
    """The transport of claude-agent-sdk, which parses each line; nothing is made of the messages."""
    from claude_agent_sdk import ClaudeAgentOptions
    from claude_agent_sdk._internal.transport.subprocess_cli import SubprocessCLITransport

    async def read() -> None:
        options = ClaudeAgentOptions(cli_path=command, max_buffer_size=1 << 24)
        transport = SubprocessCLITransport(prompt="x", options=options)
        meter.start()
        await transport.connect()
        async for _ in transport.read_messages():
            pass
        await transport.close()

    asyncio.run(read())
    return 0


SIDES = {"ours": read_as_we_do, "stock": read_as_twisted_does, "sdk": read_as_the_sdk_does}


def main(side: str, command: str) -> None:
    meter = Meter()
    count = SIDES[side](command, meter)
    print(*meter.read(), count)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
