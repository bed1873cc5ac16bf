"""The bearer token on this machine: made, its digest put where the daemon finds it, kept where the command `hivesub`
finds it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from hivesub.cli.troubles import Unusable

TOKEN_BYTES = 32


def saved_token_path(environ: Mapping[str, str]) -> Path:
    """Where `hivesub token --save` keeps the token: `${XDG_CONFIG_HOME:-~/.config}/hivesub/token`."""
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path("~/.config").expanduser()) / "hivesub" / "token"


def make_token(digest_file: Path, saved: Path | None, *, force: bool) -> str:
    """Make a token; gives it. Its digest goes to one file, itself to the other where one is named, both mode 0600.

    :param force: put them in place of those that are there.
    :raises Unusable: where one is there already, or cannot be written; then neither has changed, but for a token saved
        whose digest could not be written.
    """
    places = [place for place in (saved, digest_file) if place is not None]
    there = [place for place in places if os.path.lexists(place)]
    if there and not force:
        raise Unusable(
            f"{there[0]} is there already, and who knows that token would be locked out; --force makes a new one"
        )
    token = secrets.token_urlsafe(TOKEN_BYTES)
    if saved is not None:
        _write(saved, token)
    _write(digest_file, f"sha256:{sha256(token.encode()).hexdigest()}")
    return token


def _write(path: Path, line: str) -> None:
    """Write a file that this user alone can read, whole or not at all."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{line}\n")
        fresh.replace(path)
    except OSError as error:
        raise Unusable(f"{path} cannot be written: {error.strerror}") from None
