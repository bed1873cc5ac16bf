"""A scripted stand-in for the claude CLI: a program that takes claude's arguments and behaves as claude does.

It owns what claude is seen to do from outside (arguments, events, sessions on disk, signals, exit codes), as
measured on claude 2.1.332 and held against the real binary by `tests/contract`. What it says and does in a turn is
scripted, see `script`. It starts hundreds of times in a load test, so nothing here imports more than it needs:
the standard library only, and of it only modules that load fast.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_WRAPPER = """\
#!/bin/sh
# hivesub's scripted stand-in for claude. It asks no model.
{settings}exec {python} -SE -c {boot} "$@"
"""

_BOOT = "import sys; sys.path.insert(0, {root!r}); from hivesub.standin.main import leave; leave(sys.argv[1:])"


def write_wrapper(path: str | Path, script: str | Path | None = None, *, sandboxed: bool = False) -> str:
    """Write an executable that is the stand-in, for wherever a path to claude is wanted.

    Shape: returns `path` as text. `script` is a script file that this wrapper's turns follow (see `script.load`).
    `sandboxed` sets `IS_SANDBOX=1`, without which root is refused as claude refuses it.
    It execs in place, so its pid is the stand-in's; it skips site and environment, so that it starts fast and the
    same from everywhere.
    """
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    settings = "" if script is None else f"STANDIN_SCRIPT={_quoted(os.path.abspath(script))} "
    settings += "IS_SANDBOX=1 " if sandboxed else ""
    text = _WRAPPER.format(settings=settings, python=_quoted(sys.executable), boot=_quoted(_BOOT.format(root=root)))
    with open(path, "w", encoding="utf-8") as wrapper:
        wrapper.write(text)
    os.chmod(path, 0o755)
    return os.fspath(path)


def _quoted(text: str | os.PathLike[str]) -> str:
    return "'" + os.fspath(text).replace("'", "'\"'\"'") + "'"
