"""Which of the values that the daemon is given are secrets: those of its environment, and those inside URLs.

Owns the guess by name and shape, for the redactor; a value that is missed here is one that a subagent's error text may
show. Values of the operator's server file are `hivesub.turns.mcpconfig`'s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

_NAMES = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|COOKIE|AUTHORIZATION|(^|_)PAT)$", re.IGNORECASE)
# A part of a path that no person chose: webhooks have their key there.
_KEYLIKE = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~-]{16,}")
_HEADERS_VARIABLE = "ANTHROPIC_CUSTOM_HEADERS"


def environment_secrets(environ: Mapping[str, str]) -> set[str]:
    """Values of variables that are named like a secret (`ANTHROPIC_API_KEY`, `GITHUB_TOKEN`, `PGPASSWORD`), the
    passwords of URLs in any other (`HTTPS_PROXY`), and the values of claude's extra headers.
    """
    found: set[str] = set()
    for name, value in environ.items():
        if _NAMES.search(name):
            # A line of a value of several lines, such as a private key, turns up by itself.
            found |= {value, *value.splitlines()}
        elif name == _HEADERS_VARIABLE:
            for line in value.splitlines():
                header = line.partition(":")[2].strip()
                # The part after the scheme of `Authorization: Bearer …` turns up by itself.
                found |= {header, header.rpartition(" ")[2]}
        elif "://" in value:
            found |= _passwords(value)
    return {value for value in found if value.strip()}


def url_secrets(url: str) -> set[str]:
    """The user name and password of a URL, the values of its query, and the parts of its path that look random: each
    may be a key.
    """
    try:
        parts = urlsplit(url)
        found = {part for part in (parts.username, parts.password) if part}
        found |= {part for part in parts.path.split("/") if _KEYLIKE.fullmatch(unquote(part))}
        found |= {unquote(part) for part in found} | {value for _, value in parse_qsl(parts.query)}
    except ValueError:
        return set()
    return {value for value in found if value}


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
