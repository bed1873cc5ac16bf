"""Reads one option's text each: a function takes the text and gives the value, or raises ValueError.

Owns no option names and no defaults: those are `hivesub.config.options`. A text that may hold a secret (a URL, a
token) is never repeated in an error.
"""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

TOKEN_FILE_MAX_BYTES = 4096
"""What is read of a token file at most: a token is one short line."""

GONE = "the directory it was started in is gone; give an absolute path"

_HASHED = re.compile(r"sha256:[0-9A-Fa-f]{64}")
_VISIBLE = re.compile(r"[!-~]+")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


def read_switch(text: str) -> bool:
    """`on` or `off`."""
    if text not in ("on", "off"):
        raise ValueError(f"{text!r} is neither on nor off")
    return text == "on"


def read_number(text: str, low: int, high: int) -> int:
    """A whole decimal number from `low` to `high`, both included."""
    if not re.fullmatch(r"[0-9]{1,9}", text) or not low <= int(text) <= high:
        raise ValueError(f"{text!r} is not a whole number from {low} to {high}")
    return int(text)


def read_hours(text: str, high: float) -> float:
    """A decimal number from 0 to `high`, such as `6` or `0.5`."""
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or float(text) > high:
        raise ValueError(f"{text!r} is not a number from 0 to {high:g}")
    return float(text)


def read_path(text: str, environ: Mapping[str, str], cwd: Path) -> Path:
    """An absolute path: `~` is the HOME of `environ`, anything relative is relative to `cwd`. Symlinks stay.

    Where there is no current directory any more `cwd` is a relative path, and only an absolute text will do.
    """
    if not text or "\0" in text:
        raise ValueError("it is empty; give a path, or leave the option out")
    if text == "~" or text.startswith("~/"):
        text = environ.get("HOME", "~") + text[1:]
    path = Path(os.path.normpath(cwd / os.path.expanduser(text)))
    if not path.is_absolute():
        raise ValueError(GONE)
    return path


def is_utf_8(path: Path) -> bool:
    """Whether a path's name is text; claude finds no other (measured, claude 2.1.332)."""
    return shown(path) == str(path)


def shown(path: Path) -> str:
    """The path as text that can be written anywhere."""
    return os.fsencode(path).decode("utf-8", "replace")


def read_directory(text: str, environ: Mapping[str, str], cwd: Path) -> Path:
    """The absolute path of a directory that exists."""
    path = read_path(text, environ, cwd)
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        raise ValueError(f"{path} {what}; give an existing directory")
    return path


def read_file_path(text: str, environ: Mapping[str, str], cwd: Path) -> Path:
    """The absolute path of a file that can be opened for reading."""
    path = read_path(text, environ, cwd)
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; give a file that can be read") from None
    return path


def read_command(text: str) -> tuple[str, ...]:
    """An argument list, split as a POSIX shell splits words; nothing is expanded."""
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"{str(error).lower()}; quote it as for a shell") from None
    if not argv:
        raise ValueError("it is empty; give a command, or leave the option out")
    return argv


def _web_url(text: str) -> SplitResult:
    """An http or https URL with a host.

    :raises ValueError: without the text, which may hold a password or a key.
    """
    try:
        url = urlsplit(text)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable or not _VISIBLE.fullmatch(text):
        raise ValueError("it is not an http:// or https:// URL with a host")
    return url


def read_public_url(text: str) -> str:
    """The base URL `scheme://host[:port]` by which subagents reach the daemon, without a slash at its end."""
    url = _web_url(text)
    if url.username is not None or url.password is not None:
        raise ValueError("it holds a user name or password; give scheme://host[:port] alone")
    if url.path not in ("", "/") or "?" in text or "#" in text:
        raise ValueError("it has a path, query or fragment; give scheme://host[:port] alone")
    return f"{url.scheme}://{url.netloc}"


def read_todo(text: str, environ: Mapping[str, str], cwd: Path) -> str | Path:
    """Where todos go: a str is an http(s) URL, a Path is a file to append to. Its directory has to exist."""
    if _SCHEME.match(text):
        _web_url(text)
        return text
    path = read_path(text, environ, cwd)
    if path.is_dir():
        raise ValueError(f"{path} is a directory; give an http(s) URL or the path of a file")
    if not path.parent.is_dir():
        raise ValueError(f"{path.parent} does not exist; make it, or give another path")
    return path


def read_token_file(path: Path) -> tuple[str, str | None]:
    """The bearer token that a file holds, and a warning about the file or None.

    Shape: one line, either the token itself (visible ASCII, no spaces) or `sha256:` and 64 hex digits, lowered.
    """
    try:
        with path.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            raw = stream.read(TOKEN_FILE_MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; give a file that can be read") from None
    try:
        token = raw.decode("ascii").strip()
    except UnicodeDecodeError:
        token = "\n"
    if not token:
        raise ValueError(f"{path} is empty; put the token or sha256:<64 hex digits> into it, on one line")
    if len(raw) > TOKEN_FILE_MAX_BYTES or not _VISIBLE.fullmatch(token):
        raise ValueError(f"{path} is not one line of visible ASCII; put the token or sha256:<64 hex digits> into it")
    if token.lower().startswith("sha256:"):
        if not _HASHED.fullmatch("sha256:" + token[7:]):
            raise ValueError(f"{path} holds sha256: without 64 hex digits; give the SHA-256 of the token in hex")
        return token.lower(), None
    if stat.S_ISREG(mode) and os.name == "posix" and mode & 0o077:
        return token, (
            f"{path} can be read by others than its owner (mode {stat.S_IMODE(mode):03o}): chmod 600 it, or put "
            "sha256:<hex of the token's SHA-256> into it"
        )
    return token, None


def split_endpoint(description: str) -> tuple[str, list[str], dict[str, str]]:
    """The kind, the positional and the named arguments of an endpoint description, backslash escapes undone.

    Only as much of the grammar as `is_loopback_endpoint` needs; the tap asks Twisted whether it takes the whole.
    """
    kind, *parts = _split_escaped(description, ":")
    positional: list[str] = []
    named: dict[str, str] = {}
    for part in parts:
        key, *rest = _split_escaped(part, "=", limit=1)
        if rest:
            named[_unescape(key)] = _unescape(rest[0])
        else:
            positional.append(_unescape(key))
    return _unescape(kind), positional, named


def _split_escaped(text: str, separator: str, limit: int = 0) -> list[str]:
    pieces = [""]
    characters = iter(text)
    for character in characters:
        if character == "\\":
            pieces[-1] += character + next(characters, "")
        elif character == separator and (not limit or len(pieces) <= limit):
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def speaks_plain_http(description: str) -> bool:
    """Whether what an endpoint description opens is reached by `http://` and its own address, as claude's MCP client
    reaches it.

    It is not behind a unix socket, TLS or another protocol in front. A kind that is not known here counts as such.
    """
    kind, _, named = split_endpoint(description)
    return kind in ("tcp", "tcp6") or (kind == "systemd" and named.get("domain", "").upper() != "UNIX")


def is_loopback_endpoint(description: str) -> bool | None:
    """Whether only this machine can connect to what an endpoint description opens.

    None means that only the opened socket shows it (`systemd:`). A kind that is not known here counts as reachable from
    elsewhere, which errs on the safe side: it then takes a token.
    """
    kind, positional, named = split_endpoint(description)
    if kind == "systemd":
        return None
    if kind == "unix":
        return True
    # Where each kind takes its interface when it is not named: twisted.internet.endpoints.
    place = {"tcp": 1, "tcp6": 2}.get(kind)
    if place is None and kind != "ssl":
        return False
    interface = named.get("interface", positional[place] if place is not None and len(positional) > place else "")
    if interface == "localhost":
        return True
    try:
        return ipaddress.ip_address(interface).is_loopback
    except ValueError:
        return False
