"""`python -m hivesub.tryout [OPTIONS]`: start the daemon in the foreground, on a stand-in where there is no claude.

For a first look, and what `tox -e run` runs. It becomes `twistd -n hivesub OPTIONS` and decides only which claude.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from hivesub.system.dirs import default_runtime_dir, make_private_dir

NOTICE = """\
hivesub: there is no `claude` on PATH, so this daemon runs on a stand-in for it: {wrapper}
hivesub: the stand-in answers with scripted text and never calls a model. Install Claude Code, or give --claude PATH.
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


def command(twistd: str, argv: Sequence[str]) -> list[str]:
    """The daemon's own command line. No pid file: several may run from one directory."""
    return [twistd, "-n", "--pidfile=", "hivesub", *argv]


def find_twistd() -> str:
    """The twistd of this Python's environment, else the one on PATH.

    Raises: SystemExit where there is none.
    """
    beside = Path(sys.executable).parent / "twistd"
    found = str(beside) if beside.exists() else shutil.which("twistd")
    if found is None:
        raise SystemExit(
            "hivesub: there is no twistd beside this Python nor on PATH; install Twisted into this environment"
        )
    return found


def main(argv: Sequence[str], environ: Mapping[str, str], stderr: TextIO) -> None:
    """Become the daemon. Never returns."""
    environment = dict(environ)
    words = list(argv)
    if not claude_is_chosen(words, environ):
        try:
            wrapper = write_standin(environ)
        except ValueError as error:
            raise SystemExit(f"hivesub: no stand-in for claude can be written: {error}") from None
        stderr.write(NOTICE.format(wrapper=wrapper))
        stderr.flush()
        words.append(f"--claude={wrapper}")
        # The stand-in refuses root as claude does, and unlike claude it can do no harm as root.
        environment.setdefault("IS_SANDBOX", "1")
    run = command(find_twistd(), words)
    os.execve(run[0], run, environment)


if __name__ == "__main__":
    main(sys.argv[1:], os.environ, sys.stderr)
