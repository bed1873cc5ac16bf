"""Debian's chromium: found, or installed by apt-get where this user may. `python -m tests.browser.chromium`."""

from __future__ import annotations

import os
import shutil

from tests.support.debian import bring

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGES = ("chromium", "fonts-dejavu-core")


def find_chromium() -> str | None:
    """The path of a Chromium on PATH; `CHROMIUM` in the environment names another."""
    given = os.environ.get("CHROMIUM")
    if given:
        return given
    return next((path for path in map(shutil.which, NAMES) if path), None)


if __name__ == "__main__":
    bring(find_chromium, PACKAGES)
