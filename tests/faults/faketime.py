"""Debian's libfaketime: found, or installed by apt-get where this user may. `python -m tests.faults.faketime`."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.debian import bring


def find_faketime() -> Path | None:
    """The library, of this machine's own architecture; `LIBFAKETIME` in the environment names another."""
    given = os.environ.get("LIBFAKETIME")
    candidates = [Path(given)] if given else sorted(Path("/usr/lib").glob("**/faketime/libfaketime.so.1"))
    return next((path for path in candidates if path.exists()), None)


if __name__ == "__main__":
    bring(find_faketime, ["libfaketime"])
