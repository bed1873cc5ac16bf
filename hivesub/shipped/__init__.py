"""What is shipped beside the code: the plugin for Claude Code, and the units for a user's own systemd.

Owns where they are. In a checkout they are links to `plugin/` and `deploy/user/`; a wheel holds the files.
"""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent


def plugin_dir() -> Path:
    """The directory for claude's `--plugin-dir`."""
    return (_HERE / "plugin").resolve()


def unit_text(name: str) -> str:
    """The text of a user's unit: `hivesub.service` or `hivesub@.service`."""
    return (_HERE / "units" / name).read_text(encoding="utf-8")
