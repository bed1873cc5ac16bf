"""The command `hivesub` as a person runs it against a daemon, in this process."""

from __future__ import annotations

import io
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest import mock

from hivesub.cli.main import main
from tests.support.daemon import Daemon

BOUND_S = 60


def environ(daemon: Daemon | None = None) -> dict[str, str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("HIVESUB_")}
    given |= {"COLUMNS": "200", "TERM": "dumb"}
    if daemon is not None:
        given |= {"HIVESUB_URL": daemon.url, "HIVESUB_AUTH_TOKEN_FILE": str(daemon.root / "token")}
    return given


def hivesub(daemon: Daemon, *argv: str, stdin: str = "", **changes: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr. In this process, as loading the SDK's client takes seconds on a busy machine; in a
    thread, as the command has a loop of its own.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, {**environ(daemon), **changes}, clear=True),
        mock.patch("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()))),
        redirect_stdout(out),
        redirect_stderr(err),
        ThreadPoolExecutor(1) as thread,
    ):
        code = thread.submit(main, argv).result(BOUND_S)
    assert "Traceback" not in err.getvalue(), err.getvalue()
    return code, out.getvalue(), err.getvalue()


def answered(daemon: Daemon, *argv: str, stdin: str = "") -> Any:
    code, out, err = hivesub(daemon, *argv, "--json", stdin=stdin)
    assert code == 0, err
    return json.loads(out)
