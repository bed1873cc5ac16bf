"""The operator's server file: which MCP servers there are, and which of them subagents get.

Owns the check of the whole file and its reading anew. It may hold secrets: it is never quoted in an error.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from attrs import field, frozen
from twisted.logger import Logger

from hivesub.config.jsonfile import file_text, parsed
from hivesub.errors import ConfigError
from hivesub.records import CONTROL_SERVER
from hivesub.redaction.detection import server_secrets, url_secrets
from hivesub.wording import valid_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from hivesub.system.appendfile import InThread

SHARED_KEY = "availableToSubagents"

_URL_SCHEMES = {"http", "https", "ws", "wss"}
_TYPES = {"stdio": "stdio", "http": "http", "streamablehttp": "http", "sse": "sse", "ws": "ws", "websocket": "ws"}
"""What claude takes by the spellings that are about: it takes these four and `streamable-http`, in lower case, and
leaves a server of any other type out without a word in its `init` (measured, claude 2.1.332)."""
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


class ServerFile:
    """The servers by the file that the operator named, as it was when it was read last.

    :param path: None where there is no such file.
    :param learn: called with each secret that the file holds, before a turn can get it.
    :raises ConfigError: when the file cannot be used.
    """

    def __init__(self, path: Path | None, learn: Callable[[str], None]) -> None:
        self._path = path
        self._learn = learn
        self.servers = self._taken(self._read())

    async def reload(self, in_thread: InThread) -> None:
        """Read the file anew, for the turns that start from now on. One that cannot be used is logged, and the servers
        stay as they were.
        """
        if self._path is None:
            _log.info("there is no --mcp-servers file to read anew")
            return
        try:
            self.servers = self._taken(await in_thread(self._read))
        except (ConfigError, OSError) as error:
            _log.error("{error}; the servers stay as they were", error=error)
        else:
            _log.info(
                "{path} was read anew: {shared} of {count} servers go to turns that start from now on",
                path=str(self._path),
                shared=len(self.servers.shared),
                count=len(self.servers.names),
            )

    def _taken(self, servers: Servers) -> Servers:
        for secret in servers.secrets:
            self._learn(secret)
        return servers

    def _read(self) -> Servers:
        """Blocking."""
        if self._path is None:
            return Servers()
        return read_servers(file_text(self._path, "--mcp-servers"), f"--mcp-servers: {self._path}")


def read_servers(text: str, source: str) -> Servers:
    """Check an operator's server file whole: `{"mcpServers": {name: {…}}}`, each entry with `command` or `url`.

    :param source: what errors call the file, such as `--mcp-servers: /etc/hivesub/servers.json`.
    :raises ConfigError: names the file, the server and the field at fault, never a value.
    """
    whole = parsed(text, source)
    if isinstance(whole, dict):
        _check_writable({key: value for key, value in whole.items() if key != "mcpServers"}, source)
    servers = whole.get("mcpServers") if isinstance(whole, dict) else None
    if not isinstance(servers, dict):
        raise ConfigError(f'{source}: must be a JSON object of the shape {{"mcpServers": {{"name": {{…}}}}}}')
    shared: dict[str, dict[str, Any]] = {}
    found: set[str] = set()
    for name, entry in servers.items():
        where = f"{source}: server {name[:80]!r}"
        _check_name(name, where)
        _check_writable([name, entry], where)
        _check_entry(entry, where)
        found |= _secrets(entry)
        if entry.get(SHARED_KEY, False):
            passed = _without(entry, SHARED_KEY)
            # Claude takes an entry without a type for a command to run.
            kind = entry.get("type") or ("http" if "url" in entry else None)
            if kind is not None:
                passed = {"type": _type(kind), **_without(passed, "type")}
            shared[name] = passed
    return Servers(shared=shared, names=tuple(servers), secrets=frozenset(found))


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
    if kind is not None and _type(kind) is None:
        raise ConfigError(f"{where}: type: claude takes stdio, http, sse and ws, and would leave this server out")
    if "command" in entry and "url" in entry:
        raise ConfigError(f"{where}: has both command and url; one of them says how it is reached")
    if "command" not in entry and "url" not in entry:
        raise ConfigError(f"{where}: needs command (a program to run) or url (http or sse)")
    if kind is not None and _type(kind) == "stdio" and "command" not in entry:
        raise ConfigError(f"{where}: command: is missing, and type is stdio")
    if kind is not None and _type(kind) != "stdio" and "url" not in entry:
        raise ConfigError(f"{where}: url: is missing, and type is {_type(kind)}")
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


def _type(given: object) -> str | None:
    """The type that another spelling of it stands for, such as `http` for `streamableHttp`; None where it is none."""
    return _TYPES.get(re.sub("[-_ ]", "", given).lower()) if isinstance(given, str) else None


def _check_writable(value: object, where: str) -> None:
    """See that all of a JSON value can be written as JSON that every reader takes."""
    left: list[tuple[object, str]] = [(value, where)]
    while left:
        each, where = left.pop()
        if isinstance(each, dict):
            left += [(key, where) for key in each]
            left += [(inner, f"{where}: {valid_text(key)[:80]}") for key, inner in each.items()]
        elif isinstance(each, list):
            left += [(inner, where) for inner in each]
        elif isinstance(each, float) and not math.isfinite(each):
            raise ConfigError(f"{where}: NaN and Infinity are no numbers that JSON has")
        elif isinstance(each, str) and valid_text(each) != each:
            raise ConfigError(f"{where}: holds half of a surrogate pair, which is no character")


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


def _without(entry: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name != key}
