"""The MCP config file of a turn, and the operator's server file that it draws on.

Owns which servers a subagent sees: its own signal route, and what the operator shares by name. Both files may hold
secrets: they are never quoted in an error, and what is written is for this user alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import field, frozen
from twisted.logger import Logger

from hivesub.errors import ConfigError, SpawnError
from hivesub.records import CONTROL_SERVER
from hivesub.redaction.detection import server_secrets, url_secrets
from hivesub.system.dirs import make_private_dir

SHARED_KEY = "availableToSubagents"

_FILE_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_URL_SCHEMES = {"http", "https", "ws", "wss"}
_log = Logger()


@frozen(kw_only=True)
class Servers:
    """The operator's servers, checked.

    `shared`: name -> entry as claude takes it, of those that say `"availableToSubagents": true`. `names`: all of
    them. `secrets`: of all entries, for the redactor.
    """

    shared: dict[str, dict[str, Any]] = field(factory=dict, repr=False)
    names: tuple[str, ...] = ()
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


def read_servers(text: str, source: str) -> Servers:
    """Check an operator's server file whole: `{"mcpServers": {name: {…}}}`, each entry with `command` or `url`.

    :param source: what errors call the file, such as `--mcp-servers: /etc/hivesub/servers.json`.
    :raises ConfigError: names the file, the server and the field at fault, never a value.
    """
    whole = _parsed(text, source)
    servers = whole.get("mcpServers") if isinstance(whole, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f'{source}: must be a JSON object of the shape {{"mcpServers": {{"name": {{…}}}}}}')
    shared: dict[str, dict[str, Any]] = {}
    found: set[str] = set()
    for name, entry in servers.items():
        where = f"{source}: server {name[:80]!r}"
        _check_name(name, where)
        _check_entry(entry, where)
        found |= _secrets(entry)
        if entry.get(SHARED_KEY, False):
            passed = {key: value for key, value in entry.items() if key != SHARED_KEY}
            # Claude takes an entry without a type for a command to run.
            shared[name] = {"type": "http", **passed} if "url" in passed else passed
    return Servers(shared=shared, names=tuple(servers), secrets=frozenset(found))


def config_json(servers: Servers, signal_url: str) -> bytes:
    """The config file of one turn: the signal route, then what the operator shares."""
    control = {"type": "http", "url": signal_url}
    whole = {
        "mcpServers": {CONTROL_SERVER: control, **{k: v for k, v in servers.shared.items() if k != CONTROL_SERVER}}
    }
    return json.dumps(whole, indent=1).encode("ascii")


def write_config(directory: str, session_key: str, data: bytes) -> str:
    """Write a session's config file, replacing its last one whole; gives its path.

    The file has mode 0600. The directory and the one that it lies in, the daemon's runtime directory, are looked at
    each time, as they may have been removed or replaced since the start; a missing one is made, mode 0700.

    :param session_key: what distinguishes this session's file from the others', such as the subagent's name.
    :raises OSError: when it cannot be written. Nothing is left behind.
    :raises SpawnError: when one of the two is no directory of this user alone.
    """
    _require_private(directory)
    known = (
        session_key
        if _FILE_KEY.fullmatch(session_key)
        else hashlib.sha256(session_key.encode("utf-8", "replace")).hexdigest()
    )
    path = os.path.join(directory, f"{known}.mcp.json")
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


def _parsed(text: str, source: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        keys = [key for key, _ in pairs]
        doubled = next((key for key in keys if keys.count(key) > 1), None)
        if doubled is not None:
            # Readers differ in which of the two they take, and one of them may be the one that shares.
            raise ConfigError(f"{source}: the key {doubled[:80]!r} stands twice in one object")
        return dict(pairs)

    try:
        return json.loads(text.removeprefix("\ufeff"), object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{source}: no JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{source}: no JSON that can be read: nested too deeply, or a number too long") from None


def _check_name(name: str, where: str) -> None:
    if not name.strip() or len(name) > 128:
        raise ConfigError(f"{where}: a server's name has 1 to 128 characters and is not blank")
    # Claude replaces what a tool name cannot hold by `_`: other spellings would come out as the same prefix.
    seen_as = re.sub(r"[^a-z0-9_-]", "_", name.casefold())
    if seen_as == CONTROL_SERVER or seen_as.startswith(f"{CONTROL_SERVER}__"):
        raise ConfigError(f"{where}: the name {CONTROL_SERVER} is the daemon's own; choose another")


def _check_entry(entry: object, where: str) -> None:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where}: must be an object")
    if not isinstance(entry.get(SHARED_KEY, False), bool):
        raise ConfigError(f"{where}: {SHARED_KEY}: must be true or false")
    kind = entry.get("type")
    if not (kind is None or (isinstance(kind, str) and kind)):
        raise ConfigError(f"{where}: type: must be a text such as stdio, http or sse")
    if "command" in entry and "url" in entry:
        raise ConfigError(f"{where}: has both command and url; one of them says how it is reached")
    if "command" not in entry and "url" not in entry:
        raise ConfigError(f"{where}: needs command (a program to run) or url (http or sse)")
    if kind == "stdio" and "command" not in entry:
        raise ConfigError(f"{where}: command: is missing, and type is stdio")
    if kind in {"http", "sse"} and "url" not in entry:
        raise ConfigError(f"{where}: url: is missing, and type is {kind}")
    if "command" in entry and not (isinstance(entry["command"], str) and entry["command"].strip()):
        raise ConfigError(f"{where}: command: must be the name or path of a program")
    if "url" in entry and not _is_url(entry["url"]):
        raise ConfigError(f"{where}: url: must be a whole URL such as https://host/path")
    args = entry.get("args", [])
    if not (isinstance(args, list) and all(isinstance(argument, str) for argument in args)):
        raise ConfigError(f"{where}: args: must be a list of texts")
    for key in ("env", "headers"):
        _check_texts(entry.get(key, {}), f"{where}: {key}")


def _check_texts(value: object, where: str) -> None:
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: must be an object of texts")
    for key, text in value.items():
        if not isinstance(text, str):
            raise ConfigError(f"{where}: {key[:80]}: must be a text")


def _is_url(url: object) -> bool:
    if not isinstance(url, str):
        return False
    if "${" in url:
        # Claude puts in values of its environment; what comes out is not ours to check.
        return True
    try:
        parts = urlsplit(url)
        return parts.scheme in _URL_SCHEMES and bool(parts.hostname)
    except ValueError:
        return False


def _secrets(entry: dict[str, Any]) -> set[str]:
    given = server_secrets(entry.get("env", {}), entry.get("headers", {}), entry.get("args", []))
    return given | url_secrets(entry.get("url", ""))
