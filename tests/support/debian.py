"""Programs and libraries of Debian that tests need: found, or brought by apt-get where this user may."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

BOUND_S = 900
_PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
T = TypeVar("T")


def bring(find: Callable[[], T | None], packages: Sequence[str]) -> T:
    """What `find` gives, after an installation where it gives None at first.

    :raises SystemExit: saying what to do, where it is not there and cannot be installed.
    """
    found = find()
    if found is not None:
        return found
    advice = f"install Debian's {', '.join(packages)}, or the like"
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"a tool is missing, and only root can bring it by apt-get: {advice}")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        for argv in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *packages]):
            subprocess.run(["apt-get", *argv], env=environ, check=True, stdout=sys.stderr, timeout=BOUND_S)
    except (subprocess.SubprocessError, OSError) as error:
        raise SystemExit(f"apt-get could not bring {', '.join(packages)} ({error}): {advice}") from None
    found = find()
    if found is None:
        raise SystemExit(f"apt-get brought {', '.join(packages)}, but not what is needed: {advice}")
    return found


def need(program: str, package: str) -> str:
    """The path of a program. Root on a Debian gets a missing one installed; for others the test fails and says what is
    missing.
    """
    try:
        return bring(lambda: shutil.which(program, path=_PLACES), [package])
    except SystemExit as missing:
        pytest.fail(str(missing), pytrace=False)
