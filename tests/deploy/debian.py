"""Programs that come from Debian's packages."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support.debian import bring

_PLACES = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])


def need(program: str, package: str) -> str:
    """The path of a program. Root on a Debian gets a missing one installed; for others the test fails and says what is
    missing.
    """
    try:
        return bring(lambda: shutil.which(program, path=_PLACES), [package])
    except SystemExit as missing:
        pytest.fail(str(missing), pytrace=False)
