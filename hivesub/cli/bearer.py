"""The bearer token on this machine: where the daemon finds its digest, where the command `hivesub` finds it itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def saved_token_path(environ: Mapping[str, str]) -> Path:
    """Where `hivesub token --save` keeps the token: `${XDG_CONFIG_HOME:-~/.config}/hivesub/token`."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".config") / "hivesub" / "token"
