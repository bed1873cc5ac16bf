"""The whole daemon on the stand-in for claude: one a file for what needs no other, and one of a test's own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import pytest_twisted
from attrs import frozen

from hivesub.standin import write_wrapper
from tests.integration.todo_receiver import TodoReceiver
from tests.support.daemon import Daemon, measured
from tests.support.world import World, world

TOKEN = "t0ken-of-the-test"
REFUSED_S = 30.0
"""Bound on a daemon that is to refuse its options."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("daemon")) as shared:
        yield shared


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon that asks for `TOKEN`, which is in its file `token`."""
    root = tmp_path_factory.mktemp("daemon")
    token_file = root / "token"
    token_file.write_text(TOKEN)
    token_file.chmod(0o600)
    claude = write_wrapper(root / "claude", sandboxed=True)
    with Daemon(root, claude=claude, options=["--auth-token-file", str(token_file)]) as daemon:
        yield daemon


@pytest.fixture
def own(tmp_path: Path) -> Iterator[World]:
    """A daemon of this test's own."""
    with world(tmp_path / "own") as own:
        yield own


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A subagent's name that no other test uses."""
    return "".join(letter if letter.isalnum() else "-" for letter in request.node.name)[-60:].strip("-")


@pytest_twisted.async_yield_fixture  # type: ignore[untyped-decorator]
async def receiver() -> AsyncIterator[TodoReceiver]:
    """A receiver of todos that is up."""
    receiver = TodoReceiver()
    await receiver.up()
    yield receiver
    await receiver.down()


@frozen
class Refusal:
    """How a daemon ended that was to refuse: `said` is all that it wrote."""

    code: int
    said: str


@pytest.fixture
def refused(tmp_path: Path) -> Callable[..., Awaitable[Refusal]]:
    """Runs `twistd hivesub` with options that it is to refuse, in an environment of its own."""
    from twisted.internet.threads import deferToThread

    def run(argv: Sequence[str], environ: Mapping[str, str], passing: int | None) -> Refusal:
        ended = subprocess.run(
            argv,
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=() if passing is None else (passing,),
            timeout=REFUSED_S,
        )
        return Refusal(ended.returncode, ended.stdout.decode())

    async def start(
        options: Sequence[str],
        environ: Mapping[str, str] | None = None,
        *,
        before: Sequence[str] = (),
        passing: int | None = None,
    ) -> Refusal:
        program = "from twisted.scripts.twistd import run; run()"
        argv = [sys.executable, "-c", program, "-n", "--pidfile=", *before, "hivesub", *options]
        base = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": ":".join(filter(None, sys.path))}
        base |= measured()
        prefix = [] if passing is None else passing_on(passing)
        return await deferToThread(run, [*prefix, *argv], {**base, **(environ or {})}, passing)

    return start


def passing_on(number: int) -> list[str]:
    """A command to put before another, which then gets a socket as systemd passes one on: as descriptor 3, and told
    of by variables that name its process.
    """
    told = "LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='hivesub.socket'"
    program = f"import os, sys; os.dup2({number}, 3); os.environ.update({told}); os.execvp(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", program]
