"""A real OOM kill: of a large daemon and a smaller child in one memory cgroup, the kernel ends the child."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

DAEMON_MB = 70
LIMIT_MB = 120

CHILD = """
held = []
while True:
    held.append(bytearray(b"x") * (1 << 20))
"""
DAEMON = """
import os, subprocess, sys
from hivesub.system.oom import offer_first

procs, megabytes, child, offered = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4] == "offered"
with open(procs, "w") as file:
    file.write(str(os.getpid()))
held = bytearray(b"x") * (megabytes << 20)
process = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE)
if offered:
    offer_first(process.pid)
print("child", -process.wait(timeout=60), flush=True)
"""


def own_cgroup() -> Path | None:
    """This process's directory in the memory hierarchy, of either version."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        roots = {"memory": "/sys/fs/cgroup/memory", "": "/sys/fs/cgroup"}
        for controller in controllers.split(","):
            if controller in roots and (found := Path(roots[controller] + path)).is_dir():
                return found
    return None


@pytest.fixture
def cgroup() -> Iterator[Path]:
    own = own_cgroup() if sys.platform == "linux" else None
    made = (own or Path("/nonexistent")) / f"hivesub-oom-test-{os.getpid()}"
    try:
        made.mkdir()
        limit = next(name for name in ("memory.max", "memory.limit_in_bytes") if (made / name).exists())
        (made / limit).write_text(str(LIMIT_MB << 20))
    except (OSError, StopIteration):
        with suppress(OSError):
            made.rmdir()
        pytest.skip("no memory cgroup can be made here")
    yield made
    _empty(made)
    made.rmdir()


def _empty(cgroup: Path) -> None:
    """Kill what is left in it, and wait until all of it is gone."""
    for _ in range(1000):
        left = (cgroup / "cgroup.procs").read_text().split()
        if not left:
            return
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        time.sleep(0.01)
    raise AssertionError(f"these did not go: {left}")


def run(cgroup: Path, offered: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", DAEMON, str(cgroup / "cgroup.procs"), str(DAEMON_MB), CHILD, offered]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def test_where_memory_runs_out_the_daemon_outlives_a_child_that_is_smaller(cgroup: Path) -> None:
    done = run(cgroup, "offered")
    assert (done.returncode, done.stdout.split()) == (0, ["child", "9"]), done.stderr


def test_without_being_offered_first_it_would_be_the_daemon(cgroup: Path) -> None:
    assert run(cgroup, "not offered").returncode == -9
