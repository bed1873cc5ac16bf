"""`twistd hivesub` as a process: how it starts and ends, with a service that does nothing in place of the daemon's."""

from __future__ import annotations

import os
import pty
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]

DRIVER = """
import sys
from types import ModuleType
from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.scripts.twistd import run

def say(*words):
    # twistd has made a log of sys.stdout.
    print(*words, file=sys.__stdout__, flush=True)

class Idle(Service):
    def __init__(self, reactor):
        self.reactor = reactor
    def startService(self):
        self.reactor.callWhenRunning(self.reactor.callLater, 0, say, "up on", type(self.reactor).__name__)
    def reload(self):
        say("reloading")
    def stopService(self):
        say("stopping")
        done = Deferred()
        self.reactor.callLater(0.2, done.callback, None)
        return done.addCallback(lambda _: say("stopped"))

stub = ModuleType("hivesub.service")
stub.build = lambda settings, reactor, refuse: Idle(reactor)
sys.modules["hivesub.service"] = stub
run()
"""
BOUND_S = 20


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        "XDG_RUNTIME_DIR": str(tmp_path),
        "PYTHONUNBUFFERED": "1",
    }


def twistd(*argv: str) -> list[str]:
    return [sys.executable, "-c", DRIVER, "-n", "--pidfile=", "--logfile=log", *argv]


@pytest.fixture
def daemon(environ: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The daemon, up, its log in the file `log`; ended after the test where the test has not."""
    process = subprocess.Popen(
        twistd("hivesub", "--port=0"),
        cwd=tmp_path,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # and so no terminal, wherever the tests run
    )
    # Bounds every read of its output: at the deadline they come to the end of the file.
    deadline = threading.Timer(BOUND_S, process.kill)
    deadline.start()
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up on AsyncioSelectorReactor\n"
            yield process
        finally:
            deadline.cancel()
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_stops_the_service_and_ends_it_with_status_0(
    daemon: subprocess.Popen[str], tmp_path: Path, number: signal.Signals
) -> None:
    daemon.send_signal(number)
    said, _ = daemon.communicate(timeout=BOUND_S)
    assert (said.splitlines(), daemon.returncode) == (["stopping", "stopped"], 0)
    assert f"{number.name}: stopping" in (tmp_path / "log").read_text()


def test_sighup_without_a_terminal_reloads_and_it_runs_on(daemon: subprocess.Popen[str]) -> None:
    assert daemon.stdout is not None
    for _ in range(2):
        daemon.send_signal(signal.SIGHUP)
        assert daemon.stdout.readline() == "reloading\n"
    daemon.send_signal(signal.SIGTERM)
    said, _ = daemon.communicate(timeout=BOUND_S)
    assert (said.splitlines(), daemon.returncode) == (["stopping", "stopped"], 0)


def test_a_terminal_that_is_closed_stops_it_cleanly(environ: dict[str, str], tmp_path: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        argv = twistd("hivesub", "--port=0")
        os.execve(argv[0], argv, environ)
    try:
        up_on = b""
        while b"up on" not in up_on:
            assert select.select([terminal], [], [], BOUND_S)[0], "it did not come up"
            up_on += os.read(terminal, 1024)
    finally:
        os.close(terminal)
    deadline = threading.Timer(BOUND_S, os.kill, (pid, signal.SIGKILL))
    deadline.start()
    try:
        _, status = os.waitpid(pid, 0)
    finally:
        deadline.cancel()
    assert "SIGHUP: stopping" in (tmp_path / "log").read_text()
    assert not os.WIFSIGNALED(status)


def test_a_second_signal_while_it_stops_changes_nothing(daemon: subprocess.Popen[str], tmp_path: Path) -> None:
    daemon.send_signal(signal.SIGTERM)
    assert daemon.stdout is not None
    assert daemon.stdout.readline() == "stopping\n"
    daemon.send_signal(signal.SIGTERM)
    said, _ = daemon.communicate(timeout=BOUND_S)
    assert (said, daemon.returncode) == ("stopped\n", 0)
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["hivesub", "--no-such-option"], "hivesub: option --no-such-option not recognized"),
        (["hivesub", "--port=abc"], "hivesub: --port: 'abc' is not a whole number from 0 to 65535"),
        (["hivesub", "stray"], "hivesub: Wrong number of arguments."),
        (
            ["--reactor=poll", "hivesub"],
            "hivesub: only the asyncio reactor will do, and PollReactor is installed: leave out --reactor or give "
            "--reactor=asyncio",
        ),
    ],
)
def test_what_cannot_be_used_ends_it_with_status_1_and_one_line(
    environ: dict[str, str], tmp_path: Path, argv: list[str], line: str
) -> None:
    done = subprocess.run(twistd(*argv), cwd=tmp_path, env=environ, text=True, capture_output=True, timeout=BOUND_S)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", line + "\n")


def test_the_asyncio_reactor_may_be_asked_for_by_name(environ: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        twistd("--reactor=asyncio", "hivesub", "--version"),
        cwd=tmp_path,
        env=environ,
        text=True,
        capture_output=True,
        timeout=BOUND_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("hivesub ")


@pytest.mark.parametrize("argv", [["-c", "from twisted.scripts.twistd import run; run()"], ["-m", "hivesub.cli.main"]])
def test_on_a_taken_port_it_ends_and_says_so_in_the_background_and_in_the_foreground(
    environ: dict[str, str], tmp_path: Path, argv: list[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        how = ["serve"] if argv[0] == "-m" else ["--pidfile=", "hivesub"]
        done = subprocess.run(
            [sys.executable, *argv, *how, f"--port={port}"],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            text=True,
            capture_output=True,
            timeout=BOUND_S,
        )
    assert done.returncode == 1
    assert f"--listen: tcp:port={port}:interface=127.0.0.1 cannot be had" in done.stdout + done.stderr


def test_in_the_background_it_serves_and_the_command_line_comes_back(environ: dict[str, str], tmp_path: Path) -> None:
    argv = [sys.executable, "-c", DRIVER, "--pidfile=pid", "--logfile=log", "hivesub", "--port=0"]
    done = subprocess.run(
        argv, cwd=tmp_path, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=BOUND_S
    )
    assert (done.returncode, done.stderr) == (0, b"")
    daemon = psutil.Process(int((tmp_path / "pid").read_text()))
    daemon.terminate()
    psutil.wait_procs([daemon], BOUND_S)
    assert not daemon.is_running()
    assert "Server Shut Down." in (tmp_path / "log").read_text()


def test_serve_becomes_the_daemon_and_passes_its_options_on(environ: dict[str, str], tmp_path: Path) -> None:
    def served(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hivesub.cli.main", "serve", *options],
            cwd=tmp_path,
            env=environ,
            text=True,
            capture_output=True,
            timeout=BOUND_S,
        )

    assert "--max-running=" in served("--help").stdout
    refused = served("--port=0", "--max-running", "many")
    assert (refused.returncode, refused.stderr.splitlines()[0][:23]) == (1, "hivesub: --max-running:")
