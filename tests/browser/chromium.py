"""Debian's chromium: found, or installed by apt-get where this user may. `python -m tests.browser.chromium`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")
BOUND_S = 900
ADVICE = "install a Chromium that is on PATH under one of these names: " + ", ".join(NAMES)


def find_chromium() -> str | None:
    """The path of a Chromium on PATH; `CHROMIUM` in the environment names another."""
    given = os.environ.get("CHROMIUM")
    if given:
        return given
    return next((path for path in map(shutil.which, NAMES) if path), None)


def main() -> None:
    """See that there is one.

    Raises: SystemExit, saying what to do, where there is none and none can be installed.
    """
    if find_chromium() is not None:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SystemExit(f"no Chromium, and only root can bring one by apt-get: {ADVICE} (apt-get install chromium)")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        for argv in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", *PACKAGES]):
            subprocess.run(["apt-get", *argv], env=environ, check=True, stdout=sys.stderr, timeout=BOUND_S)
    except (subprocess.SubprocessError, OSError) as error:
        raise SystemExit(f"apt-get could not bring a Chromium ({error}): {ADVICE}") from None
    if find_chromium() is None:
        raise SystemExit(f"apt-get brought no Chromium: {ADVICE}")


if __name__ == "__main__":
    main()
