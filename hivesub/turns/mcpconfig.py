"""The MCP config file of a turn.

Owns which servers a subagent sees: its own signal route, and what the operator shares by name. The file holds secrets:
what is written is for this user alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from pathlib import Path

from twisted.logger import Logger

from hivesub.errors import SpawnError
from hivesub.records import CONTROL_SERVER
from hivesub.system.dirs import make_private_dir
from hivesub.turns.serverfile import Servers

_FILE_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_log = Logger()


def config_json(servers: Servers, signal_url: str) -> bytes:
    """The config file of one turn: the signal route, then what the operator shares."""
    control = {"type": "http", "url": signal_url}
    whole = {
        "mcpServers": {CONTROL_SERVER: control, **{k: v for k, v in servers.shared.items() if k != CONTROL_SERVER}}
    }
    return json.dumps(whole, indent=1).encode("ascii")


def write_config(directory: str, session_key: str, data: bytes, kind: str = "mcp") -> str:
    """Write a session's config file, replacing its last one whole; gives its path.

    The file has mode 0600. The directory and the one that it lies in, the daemon's runtime directory, are looked at
    each time, as they may have been removed or replaced since the start; a missing one is made, mode 0700.

    :param session_key: what distinguishes this session's file from the others', such as the subagent's name.
    :param kind: what the file is for; a session has one of each.
    :raises OSError: when it cannot be written. Nothing is left behind.
    :raises SpawnError: when one of the two is no directory of this user alone.
    """
    _require_private(directory)
    known = (
        session_key
        if _FILE_KEY.fullmatch(session_key)
        else hashlib.sha256(session_key.encode("utf-8", "replace")).hexdigest()
    )
    path = os.path.join(directory, f"{known}.{kind}.json")
    draft = os.path.join(directory, f".{secrets.token_hex(8)}.draft")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    return path


def remove_config(path: str) -> None:
    """Remove a config file. One that is gone already is fine; one that cannot be removed is logged, as its token is
    dead anyhow.
    """
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        _log.warn("could not remove the config file {path}: {why}", path=path, why=error.strerror)


def _require_private(directory: str) -> None:
    try:
        for ours in (Path(directory).parent, Path(directory)):
            make_private_dir(ours)
    except ValueError as error:
        raise SpawnError(f"no process could be started: --runtime-dir: {error}") from None
