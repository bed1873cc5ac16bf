"""`python -m bench.soak`: load that goes on, and what it lost. Ends non-zero where anything was lost.

Two loads, each on a daemon of its own. `streams`: many children that write 1 MB/s each in lines of mixed size, while
clients poll `status` and others start and interrupt at random. `shorts`: thousands of short runs in a row. After each,
every run has to have one todo that tells what happened, memory and descriptors have to be where they were, and nothing
may be left.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from attrs import define, field

from bench.figures import machine
from bench.ledger import Ledger, read_todos
from bench.servers import Served, daemon
from bench.soak_child import ENDS, write_soak_child
from bench.watch import Sample, Watch, descriptors, thirds
from bench.wire import MODERN, Connection, call_bytes, percentile

TODOS = "todos.jsonl"
POLLERS = 10
WHIMS = 5
AT_ONCE = 6
REMEMBERED = 1000
"""Until so many runs have ended, what the daemon remembers grows by design."""
SLACK_MB = 8.0
"""How much more memory the last third may hold than the first, beside `SLACK_SHARE` of it: what the allocator does."""
SLACK_SHARE = 0.05
SETTLE_S = 30.0


class Refused(Exception):
    """A tool's answer was an error; `str` is its text."""


class Client:
    """One keep-alive connection to a daemon's tools. `took`: seconds that each answer took."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection = Connection(port)
        self.took: list[float] = []

    def call(self, tool: str, **arguments: Any) -> Any:
        """:raises Refused: when the answer is an error."""
        self._connection.send(call_bytes(self._port, MODERN, tool, arguments, record=True))
        body = self._connection.answer()
        self.took.append(time.perf_counter() - self._connection.sent_at)
        result = json.loads(body)["result"]
        if result.get("isError"):
            raise Refused(result["content"][0]["text"])
        return result["structuredContent"]

    def close(self) -> None:
        self._connection.close()


@define
class Soak:
    """A daemon under load."""

    served: Served
    root: Path
    ledger: Ledger = field(factory=Ledger)
    told: list[str] = field(factory=list)

    @contextmanager
    def client(self) -> Iterator[Client]:
        client = Client(self.served.port)
        try:
            yield client
        finally:
            client.close()

    def start(self, client: Client, name: str, prompt: str) -> str:
        """Start a run whose prompt ends in the word for its end; the session's id."""
        record = client.call("start", name=name, prompt=f"{prompt}\n")["subagent"]
        return self.ledger.started(record, ENDS[prompt.rpartition(" ")[2]])

    def ended(self, client: Client, name: str) -> Any:
        """The record of a name once its run is over, `result` with it."""
        while True:
            (record,) = client.call("status", name=name, wait_s=20, result=True)["subagents"]
            if record["state"] != "running":
                self.ledger.seen(record)
                return record

    def cpu_s(self) -> float:
        """Time on a CPU so far."""
        times = psutil.Process(self.served.pid).cpu_times()
        return float(times.user + times.system)

    def todos(self) -> list[dict[str, Any]]:
        path = self.root / TODOS
        return read_todos(path.read_text()) if path.exists() else []

    def say(self, text: str) -> None:
        self.told.append(text)
        print(f"  {text}", flush=True)

    def settle(self, before: int) -> list[str]:
        """Wait until all is over, then tell what was lost or left.

        :param before: how many descriptors there were.
        """
        pid, runtime, state = self.served.pid, self.root / "run", self.root / "state"
        left: dict[str, Callable[[], int]] = {
            "todos that did not come": lambda: len(self.ledger.entries) - len(self.todos()),
            "todos kept": lambda: len(list((state / "todos" / "pending").glob("*"))),
            "children": lambda: len(psutil.Process(pid).children()),
            "config files": lambda: sum(path.is_file() for path in runtime.rglob("*")),
            "descriptors beyond those before": lambda: len(descriptors(pid)) - before,
        }
        for what, count in left.items():
            deadline = time.monotonic() + SETTLE_S
            while (number := count()) > 0 and time.monotonic() < deadline:
                time.sleep(0.1)
            if number > 0:
                self.ledger.fault(f"left after {SETTLE_S:g} s: {number} {what}")
        if "Traceback" in (self.root / f"output-{self.served.port}").read_text(errors="replace"):
            self.ledger.fault("the daemon's log holds a traceback")
        lost = self.ledger.audit(self.todos())
        self.say(f"{len(self.ledger.entries)} runs, {len(self.todos())} todos, {len(lost)} faults")
        return lost

    def memory(self, samples: Sequence[Sample], watch: Watch) -> None:
        """Say what the daemon held, and note it as lost where that grew."""
        if watch.zombies:
            self.ledger.fault(f"{len(watch.zombies)} zombies")
        if len(samples) < 6:
            self.say(f"memory: too short a time to tell ({len(samples)} looks)")
            return
        first, last = thirds(samples)
        most = max(sample.rss for sample in samples) / 1e6
        counts = [sample.descriptors for sample in samples]
        self.say(f"memory: {first:.1f} MB in the first third, {last:.1f} MB in the last, {most:.1f} MB at most")
        self.say(f"descriptors but sockets: {counts[0]} at first, {max(counts)} at most, {counts[-1]} at last")
        for fault in grown(samples):
            self.ledger.fault(fault)


def grown(samples: Sequence[Sample]) -> list[str]:
    """What to say where memory did not stay flat."""
    first, last = thirds(samples)
    return [f"memory grew from {first:.1f} to {last:.1f} MB"] if last - first > SLACK_MB + first * SLACK_SHARE else []


@contextmanager
def soaking(root: Path) -> Iterator[Soak]:
    """A daemon to load; one run has warmed it up."""
    # A file that is named is never rotated: the daemon's own keeps some five thousand todos.
    options = ["--max-running", "1000", "--todo", str(root / TODOS)]
    with daemon(root, write_soak_child(root / "bin"), options=options) as served:
        soak = Soak(served, root)
        with soak.client() as client:
            soak.start(client, "warm", "stream 0.2 good")
            soak.ended(client, "warm")
        yield soak


def streams(root: Path, children: int, seconds: float) -> tuple[list[str], list[str]]:
    """The first load. What was lost, and the figures as lines."""
    ends = ("good", "good", "good", "error", "good", "exit", "good", "kill")
    with soaking(root) as soak:
        before, cpu = len(descriptors(soak.served.pid)), soak.cpu_s()
        watch = Watch(soak.served.pid, 0.25 if seconds < 30 else 1.0).begin()
        over = threading.Event()
        took: list[float] = []
        names = [f"stream-{number}" for number in range(children)]
        with ThreadPoolExecutor(POLLERS + WHIMS) as pool, soak.client() as client:
            began = time.monotonic()
            for name, end in zip(names, itertools.cycle(ends)):
                soak.start(client, name, f"stream {seconds:g} {end}")
            going = time.monotonic()
            others = [pool.submit(_poll, soak, over, names, took) for _ in range(POLLERS)]
            others += [pool.submit(_whim, soak, over, number, seconds) for number in range(WHIMS)]
            records = [soak.ended(client, name) for name in names]
            ended = time.monotonic()
            over.set()
            for other in others:
                other.result()
        watch.end()
        cpu = soak.cpu_s() - cpu
        rates = _rates(soak, records)
        soak.say(f"{children} children started in {going - began:.1f} s, all over after {ended - began:.1f} s")
        soak.say(
            f"they wrote {median(rates):.3f} MB/s each (median; {min(rates):.3f} to {max(rates):.3f}); "
            f"the daemon took {cpu / (ended - began):.2f} of a CPU"
        )
        soak.say(
            f"{len(took)} calls of status by {POLLERS} clients: p50 {percentile(took, 0.5) * 1e3:.0f} ms, "
            f"p99 {percentile(took, 0.99) * 1e3:.0f} ms, at most {max(took) * 1e3:.0f} ms"
        )
        # All write: from a moment after the last start until the first was to end.
        soak.memory(watch.between(going + min(3.0, seconds / 5), began + seconds), watch)
        return soak.settle(before), soak.told


def _rates(soak: Soak, records: Sequence[Any]) -> list[float]:
    """MB/s that each child reached by its own word; a good one's last word has to have come."""
    rates = []
    for record in records:
        said = (record["result"] or "").split()
        if len(said) == 3 and said[0] == record["session_id"]:
            rates.append(int(said[1]) / float(said[2]) / 1e6)
        elif record["last_turn"]["outcome"] == "finished":
            soak.ledger.fault(f"{record['name']}: its result is not what it wrote: {record['result']!r}")
    return rates or [0.0]


def _poll(soak: Soak, over: threading.Event, names: Sequence[str], took: list[float]) -> None:
    """Ask for one subagent mostly, for all now and then."""
    with soak.client() as client:
        while not over.wait(random.uniform(0.0, 0.4)):
            asked = {} if random.random() < 0.1 else {"name": random.choice(names)}
            for record in client.call("status", **asked)["subagents"]:
                soak.ledger.seen(record)
        took += client.took


def _whim(soak: Soak, over: threading.Event, number: int, seconds: float) -> None:
    """Start one run after another, and interrupt most of them at some moment."""
    with soak.client() as client:
        for turn in itertools.count():
            if over.is_set():
                return
            name = f"whim-{number}-{turn % 4}"
            length = random.uniform(0.0, min(4.0, seconds / 3))
            session = soak.start(client, name, f"stream {length:.2f} {random.choice(list(ENDS))}")
            if random.random() < 0.7:
                over.wait(random.uniform(0.0, length * 1.2))
                soak.ledger.stopped(session)
                try:
                    soak.ledger.seen(client.call("interrupt", name=name)["subagent"])
                except Refused as error:
                    if "is not running" not in str(error):
                        soak.ledger.fault(f"{name}: {error}")
            soak.ended(client, name)


def shorts(root: Path, runs: int) -> tuple[list[str], list[str]]:
    """The second load. What was lost, and the figures as lines."""
    ends = ("good",) * 17 + ("error", "exit", "kill")
    with soaking(root) as soak:
        before, cpu = len(descriptors(soak.served.pid)), soak.cpu_s()
        watch = Watch(soak.served.pid, 0.1 if runs < 2000 else 0.5).begin()
        numbers = iter(range(runs))
        marks: dict[int, float] = {}
        taking = threading.Lock()

        def work() -> None:
            with soak.client() as client:
                while True:
                    with taking:
                        number = next(numbers, None)
                        if number is None:
                            return
                        marks[number] = time.monotonic()
                    soak.start(client, f"short-{number}", f"short {ends[number % len(ends)]}")
                    soak.ended(client, f"short-{number}")

        with ThreadPoolExecutor(AT_ONCE) as pool:
            began = time.monotonic()
            for worker in [pool.submit(work) for _ in range(AT_ONCE)]:
                worker.result()
            ended = time.monotonic()
        watch.end()
        cpu = soak.cpu_s() - cpu
        soak.say(
            f"{runs} short runs, {AT_ONCE} at a time, in {ended - began:.1f} s: {runs / (ended - began):.0f} a second; "
            f"the daemon took {cpu / runs * 1e3:.1f} ms of CPU each"
        )
        soak.say(f"{len(soak.ledger.entries) - len(soak.todos())} todos were still under way at the last run's end")
        soak.memory(watch.between(marks[min(REMEMBERED + 200, runs // 4)], ended), watch)
        return soak.settle(before), soak.told


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("--children", type=int, default=200, help="children that stream at once; 0 leaves this out")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long they do")
    parser.add_argument("--runs", type=int, default=10_000, help="short runs in a row; 0 leaves this out")
    options = parser.parse_args(argv)
    print(machine(), flush=True)
    loads: dict[str, Callable[[Path], tuple[list[str], list[str]]]] = {}
    if options.children:
        loads[f"{options.children} children at 1 MB/s for {options.seconds:g} s"] = lambda root: streams(
            root, options.children, options.seconds
        )
    if options.runs:
        loads[f"{options.runs} short runs"] = lambda root: shorts(root, options.runs)
    lost_any = False
    for what, load in loads.items():
        print(f"\n{what}", flush=True)
        root = Path(tempfile.mkdtemp(prefix="soak-"))
        try:
            lost, _ = load(root)
        finally:
            shutil.rmtree(root, ignore_errors=True)
        lost_any = lost_any or bool(lost)
        for fault in lost[:50]:
            print(f"  LOST {fault}", flush=True)
        if len(lost) > 50:
            print(f"  … and {len(lost) - 50} more", flush=True)
    return 1 if lost_any else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
