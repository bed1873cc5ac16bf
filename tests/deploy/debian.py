"""Programs that come from Debian's packages."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support.debian import bring

_PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def need(program: str, package: str) -> str:
    """The path of a program, brought where that is possible. Else the test fails, saying what to install."""
    try:
        return bring(lambda: shutil.which(program, path=_PLACES), [package])
    except SystemExit as why:
        pytest.fail(f"no {program}: {why}", pytrace=False)
