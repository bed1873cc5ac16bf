"""Which of the values that the daemon is given are secrets: those of an environment, of headers, of a command's
arguments, and those inside URLs.

Owns the guess by name and shape, for the redactor. A secret that is missed here may show in a subagent's error text; a
false positive, such as a directory's name, is redacted from text that the parent agent needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import parse_qsl, unquote, urlsplit

_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|COOKIE|AUTHORIZATION|(^|_)PAT)$", re.IGNORECASE)
# Either the secret, or a path: of the file that holds it, of a working directory.
_NAMES_OF_PATHS_TOO = re.compile(r"(CREDENTIALS|(^|_)PASS|PWD)$", re.IGNORECASE)
_HEADERS_VARIABLE = "ANTHROPIC_CUSTOM_HEADERS"

_SECRET_WORDS = re.compile(
    r"(key|token|secret|auth|authorization|password|passwd|cookie|signature|credential|(^|[_-])(sig|pass|code|pat))s?"
    r"(?![a-z])",
    re.IGNORECASE,
)
_OPTION = re.compile(
    r"--?[\w.-]*(?:token|key|secret|password)s?(?![a-z])[\w.-]*(?:[= ](?P<value>.*))?", re.IGNORECASE | re.DOTALL
)
# `-e NAME=value` of a container, `--header "Name: value"` of a bridge.
_PAIR = re.compile(r"(?:-\w|--[\w-]+=)?(?P<name>[A-Za-z][\w-]*)(?P<sign>=|:\s*)(?P<value>.*)", re.DOTALL)
_BEARER = re.compile(r"\bBearer\s+([^\s'\"]+)", re.IGNORECASE)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")

_RUN = re.compile(r"[A-Za-z0-9]{8,}")
_BETWEEN_WORDS = re.compile(r"[\s=,;:&?@'\"]+")
_ORDINARY = re.compile(r"[A-Za-z_-]{0,15}|/.*", re.DOTALL)


def environment_secrets(environ: Mapping[str, str]) -> set[str]:
    """Values of variables that are named like a secret (`ANTHROPIC_API_KEY`, `GITHUB_TOKEN`, `PGPASSWORD`), the
    passwords of URLs in any other (`HTTPS_PROXY`), and the values of claude's extra headers.
    """
    found: set[str] = set()
    for name, value in environ.items():
        if _NAMES.search(name) or (_NAMES_OF_PATHS_TOO.search(name) and not value.startswith("/")):
            # A line of a value of several lines, such as a private key, turns up by itself.
            found |= {value, *value.splitlines()}
        elif name == _HEADERS_VARIABLE:
            for line in value.splitlines():
                found |= _header(line.partition(":")[2].strip())
        elif "://" in value:
            found |= _passwords(value)
    return {value for value in found if value.strip()}


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables that hold a secret, by `environment_secrets`."""
    return {name: value for name, value in environ.items() if not environment_secrets({name: value})}


def server_secrets(env: Mapping[str, str], headers: Mapping[str, str], args: Sequence[str]) -> set[str]:
    """The secrets that an MCP server is given: every header; of its environment and its arguments what is named like
    one, and what looks random whatever it is called; of URLs, what `url_secrets` gives.
    """
    found = environment_secrets(env) | _argument_secrets(args)
    for value in headers.values():
        found |= _header(value)
    for value in (*env.values(), *headers.values(), *args):
        found |= _random_words(value) | set(_BEARER.findall(value))
        found |= set().union(*(url_secrets(url) for url in _URL.findall(value)))
    return {value for value in found if value.strip()}


def url_secrets(url: str) -> set[str]:
    """The user name and password of a URL, the values of its query that are named like a secret, and what looks random
    in its query and path: each may be a key. An ordinary user name beside a password (`postgres`) is none.
    """
    try:
        parts = urlsplit(url)
        user, password = parts.username or "", parts.password or ""
        found = {password, user if not password or not _ORDINARY.fullmatch(user) else ""}
        if parts.hostname:  # else it is a path of this machine
            # Webhooks have their key there.
            found |= set().union(*(_random_words(part) for part in parts.path.split("/")))
        found |= {unquote(part) for part in found}
        found |= {value for name, value in parse_qsl(parts.query) if _SECRET_WORDS.search(name) or _looks_random(value)}
    except ValueError:
        return set()
    return {value for value in found if value}


def _argument_secrets(args: Iterable[str]) -> set[str]:
    found: set[str] = set()
    value_follows = False
    for argument in args:
        value = argument if value_follows and not argument.startswith("-") else ""
        option = _OPTION.fullmatch(argument)
        if option is not None:
            value = option["value"] or ""
        value_follows = option is not None and option["value"] is None
        if not value.startswith("/"):
            found.add(value)
        pair = _PAIR.fullmatch(argument)
        if pair is not None and pair["sign"] == "=":
            found |= environment_secrets({pair["name"]: pair["value"]})
        elif pair is not None and _SECRET_WORDS.search(pair["name"]):
            found |= _header(pair["value"])
    return found


def _header(value: str) -> set[str]:
    # The part after the scheme of `Authorization: Bearer …` turns up by itself.
    return {value, value.rpartition(" ")[2]}


def _random_words(text: str) -> set[str]:
    return {word for word in (text, *_BETWEEN_WORDS.split(text)) if _looks_random(word)}


def _looks_random(word: str) -> bool:
    """Whether no person chose it: a name is of words and numbers with signs between them (`customer-portal-2024`), a
    path has slashes.
    """
    if len(word) < 16 or re.search(r"[\s/]", word):
        return False
    return any(not run.isalpha() and not run.isdigit() for run in _RUN.findall(word))


def _passwords(text: str) -> set[str]:
    found = set()
    for url in text.split():
        try:
            password = urlsplit(url).password
        except ValueError:
            continue
        if password:
            found |= {password, unquote(password)}
    return found
