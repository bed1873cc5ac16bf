"""What hangs outside the daemon: it goes on, answers all other calls, and stops within its bound."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from hivesub.standin import write_wrapper
from tests.faults.hooked import hooked
from tests.support.agent import ToolError
from tests.support.daemon import DOWN_S, Daemon
from tests.support.world import BOUND_S, Table, answered, prompt, quoted, stopped, until, watched

HANGS_S = 120
"""Longer than any wait of a test."""


@asynccontextmanager
async def read_until_ready(daemon: Daemon) -> AsyncIterator[tuple[subprocess.Popen[bytes], str]]:
    """A daemon whose log is a pipe that is read until it is ready and never again, with its URL."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen(
        daemon.command(),
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer,
        cwd=daemon.root,
        env=daemon.environ,
        start_new_session=True,
    )
    os.close(writer)
    try:
        said = b""
        while b"what runs is shown at" not in said:
            piece = await deferToThread(os.read, reader, 4096)
            assert piece, said
            said += piece
        url = re.search(rb"what runs is shown at (http://\S+)/", said)
        assert url is not None
        yield process, url[1].decode()
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(reader)


async def test_a_log_that_nobody_reads_holds_up_no_call_and_no_stop(tmp_path: Path, table: Table) -> None:
    daemon = Daemon(tmp_path, claude=write_wrapper(tmp_path / "claude"))
    async with read_until_ready(daemon) as (process, url):
        # Without a terminal each makes a line in the log: there is no server file to read anew.
        for _ in range(300):
            os.kill(process.pid, signal.SIGHUP)
            status, _, _ = await answered("GET", f"{url}/healthz")
            assert status == 200
        process.send_signal(signal.SIGTERM)
        assert await deferToThread(process.wait, DOWN_S) == 0
    table.note("log: a pipe that nobody reads", 1, said=["all calls answered, stopped by SIGTERM"])


async def test_name_servers_that_do_not_answer_do_not_hold_up_the_stop(tmp_path: Path, table: Table) -> None:
    todo = "--todo=http://todos.example:9/hook"
    with hooked(tmp_path / "own", options=[todo, f"--todo={tmp_path / 'todos.jsonl'}"]) as daemon:
        daemon.set("resolver", str(HANGS_S))
        own = daemon.world
        await own.run("alpha", "text done")
        # The other receiver waits for neither the name nor the attempt.
        await until((tmp_path / "todos.jsonl").exists)
        assert (await own.agent.record("alpha"))["todo"] == "pending"
        assert await stopped(own.daemon).addTimeout(DOWN_S, reactor) == 0
        assert "1 todos stay in" in own.daemon.log_text()
    table.note("resolver: no answer", 1, said=["todo kept, stopped by SIGTERM"])


assert HANGS_S > BOUND_S


async def test_a_mount_that_hangs_holds_up_only_what_names_it_and_in_bounded_time(tmp_path: Path, table: Table) -> None:
    mount = tmp_path / "mount"
    mount.mkdir()
    with hooked(tmp_path / "own") as daemon:
        own = daemon.world
        go = own.dir / "go"
        await own.start(
            "inside", f"wait-for {quoted(go)}", "need_help report_file=out.md which?", dir=str(mount), goal="be done"
        )
        daemon.set("mount", str(mount))
        async with watched(own):
            # What `watched` asks for meanwhile is answered all along.
            for tool in ("start", "continue"):
                with pytest.raises(ToolError, match=f"^{tool} error: dir: '{mount}': its file system has not answered"):
                    await own.agent.call(tool, name="late", prompt=prompt("text x"), dir=str(mount))
            go.touch()
            record = await own.agent.ended("inside")
            assert (record["state"], record["stop_reason"]["kind"]) == ("blocked", "need_help"), record
            assert [(one["kind"], one["message"]) for one in record["signals"]] == [("need_help", "which?")]
            assert record["report_file"] is None
            assert "its file system has not answered" in record["report_error"]
            with pytest.raises(ToolError, match=r"continue error: .* has not answered"):
                await own.agent.call("continue", name="inside", prompt=prompt("text x"))
            await own.all_goes_on()
        assert await stopped(own.daemon).addTimeout(DOWN_S, reactor) == 0
    table.note("mount: no answer", 1, said=[f"{record['state']}, the path dropped", "the calls' errors"])
