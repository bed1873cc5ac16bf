"""The daemon in the foreground: what `hivesub serve` and `python -m hivesub.tryout` (`tox -e run`) become.

Either is `twistd -n --pidfile= hivesub OPTIONS`, whether or not twistd is on PATH, and decides only which claude:
with `--standin` the stand-in for it. A try-out takes the stand-in too where there is no claude.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from hivesub.system.dirs import default_runtime_dir, default_state_dir, make_private_dir

FLAG = "--standin"
MISSING = "hivesub: there is no `claude` on PATH; install Claude Code, or give --claude PATH.\n"
NOTICE = """\
hivesub: this daemon runs on a stand-in for claude, {wrapper}
hivesub: it answers with scripted text and never calls a model; its sessions are in {sessions}
"""


def claude_is_chosen(argv: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether the operator names a claude, or one is on PATH."""
    named = any(word == "--claude" or word.startswith("--claude=") for word in argv)
    return named or "HIVESUB_CLAUDE" in environ or shutil.which("claude", path=environ.get("PATH")) is not None


def write_standin(environ: Mapping[str, str]) -> Path:
    """Write the stand-in's program to where this user alone can change it, and give its path."""
    from hivesub.standin import write_wrapper

    directory = make_private_dir(default_runtime_dir(environ))
    return Path(write_wrapper(directory / "claude-standin"))


def command(argv: Sequence[str]) -> list[str]:
    """The daemon's own command line, by the twistd of this Python's environment. No pid file: several may run from one
    directory.
    """
    twistd = Path(sys.executable).parent / "twistd"
    run = [str(twistd)] if twistd.exists() else [sys.executable, "-c", "from twisted.scripts.twistd import run; run()"]
    return [*run, "-n", "--pidfile=", "hivesub", *argv]


def become(argv: Sequence[str], environ: Mapping[str, str], stderr: TextIO, *, tryout: bool = False) -> None:
    """Become the daemon. Never returns.

    :param tryout: take the stand-in where there is no claude.
    """
    environment = dict(environ)
    words = [word for word in argv if word != FLAG]
    asked = len(words) < len(argv)
    missing = tryout and not asked and not claude_is_chosen(words, environ)
    if asked or missing:
        # Apart from what claude itself keeps, and where it outlives the daemon, as claude's sessions do.
        sessions = default_state_dir(environ).parent / "hivesub-standin"
        try:
            wrapper = write_standin(environ)
        except ValueError as error:
            raise SystemExit(f"hivesub: no stand-in for claude can be written: {error}") from None
        stderr.write((MISSING if missing else "") + NOTICE.format(wrapper=wrapper, sessions=sessions))
        stderr.flush()
        words.append(f"--claude={wrapper}")
        # The stand-in refuses root as claude does, and unlike claude it can do no harm as root.
        environment["IS_SANDBOX"] = "1"
        environment["CLAUDE_CONFIG_DIR"] = str(sessions)
    run = command(words)
    os.execve(run[0], run, environment)


if __name__ == "__main__":
    become(sys.argv[1:], os.environ, sys.stderr, tryout=True)
