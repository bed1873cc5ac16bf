"""Keeps the daemon's secrets out of what is shown: one redactor for details, errors and logs."""

from __future__ import annotations

import json
import re
from collections import Counter, OrderedDict
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

from zope.interface import implementer

from hivesub.interfaces import IRedactor

REDACTED = "[redacted]"

MIN_SECRET_LENGTH = 8
"""Shorter ones are not replaced: they occur by chance in ordinary text, and whoever uses them has no secret."""

DEAD_TOKENS = 1000
"""How many dead tokens are remembered: an old one may still stand in a late error text."""

# Every how many characters a text is looked at for a piece of a token.
_STEP = 8

# One to three words with a sign between them and perhaps a number after, each in one case: `postgres`, `reviewer-1`.
_WORDS = re.compile(r"(?=.{1,20}\Z)(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_. ](?:[A-Z]?[a-z]+|[A-Z]+)){0,2}(?:[-_. ]?[0-9]{1,4})?")
_PERCENT = re.compile("%[0-9A-F]{2}")
_SIGNAL_URL = re.compile(r"(/signal/mcp(?:/|%2[Ff]|\\/))[^\s\"'<>/?#&\\]+")
# Something with a digit in it: `Bearer authentication failed` is plain English.
_BEARER = re.compile(r"\b(Bearer\s+)(?=\S*\d)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)


@implementer(IRedactor)
class Redactor:
    """Knows secrets that live as long as the daemon, and signal tokens, living and lately dead.

    A secret is found plain, as it stands inside a JSON string, and percent-encoded. Whatever follows `/signal/mcp/`
    or `Bearer` is replaced, known or not.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._forms: set[str] = set()
        self._strong_forms: set[str] = set()  # of secrets that are no ordinary words
        self._pattern = self._strong_pattern = _any_of(())
        self._tokens: set[str] = set()
        self._dead: OrderedDict[str, None] = OrderedDict()
        self._pieces: dict[int, Counter[str]] = {}  # by the length of the token
        for secret in secrets:
            self.add(secret)

    def add(self, secret: str) -> None:
        """Learn a secret. Ones below `MIN_SECRET_LENGTH` characters are passed over."""
        secret = secret.strip()
        if len(secret) >= MIN_SECRET_LENGTH:
            self._forms |= _forms(secret)
            self._pattern = _any_of(self._forms)
            if not _WORDS.fullmatch(secret):
                self._strong_forms |= _forms(secret)
                self._strong_pattern = _any_of(self._strong_forms)

    def add_token(self, token: str) -> None:
        """Learn a signal token, which is of URL-safe characters."""
        if token not in self._tokens:
            self._tokens.add(token)
            self._pieces.setdefault(len(token), Counter()).update(_pieces(token))

    def forget_token(self, token: str) -> None:
        """Note a token's death; it is remembered until `DEAD_TOKENS` more have died."""
        self._dead[token] = None
        self._dead.move_to_end(token)
        while len(self._dead) > DEAD_TOKENS:
            self._drop(self._dead.popitem(last=False)[0])

    def redact(self, text: str) -> str:
        return self._redacted(text, self._pattern)

    def redact_identifier(self, text: str) -> str:
        return self._redacted(text, self._strong_pattern)

    def _redacted(self, text: str, secrets: re.Pattern[str]) -> str:
        text = secrets.sub(REDACTED, text)
        text = self._without_tokens(text)
        text = _SIGNAL_URL.sub(rf"\g<1>{REDACTED}", text)
        return _BEARER.sub(rf"\g<1>{REDACTED}", text)

    def _drop(self, token: str) -> None:
        if token in self._tokens:
            self._tokens.remove(token)
            known = self._pieces[len(token)]
            for piece in _pieces(token):
                known[piece] -= 1
                if not known[piece]:
                    del known[piece]

    def _without_tokens(self, text: str) -> str:
        # Looked up by pieces: one pattern of a thousand tokens would have to be compiled anew at every turn, and a look
        # for whole ones at each place of a long text takes ten times as long.
        for length, known in self._pieces.items():
            step, size = _step(length), _piece_size(length)
            starts = range(0, len(text) - size + 1, step)
            for token in {
                token
                for start in [start for start in starts if text[start : start + size] in known]
                for at in range(max(0, start - step + 1), start + 1)
                if (token := text[at : at + length]) in self._tokens
            }:
                text = text.replace(token, REDACTED)
        return text


def _pieces(token: str) -> list[str]:
    """Its pieces, one of which is met wherever the token stands in a text that is looked at every `_step`."""
    size = _piece_size(len(token))
    return [token[at : at + size] for at in range(_step(len(token)))]


def _step(length: int) -> int:
    return max(1, min(_STEP, length // 2))


def _piece_size(length: int) -> int:
    return length - _step(length) + 1


def _forms(secret: str) -> set[str]:
    """How a secret may stand in a text: plain, in a JSON string (in another one too), in a URL, in a Python repr."""
    in_json = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    in_json |= {text.replace("/", "\\/") for text in in_json} | {json.dumps(text)[1:-1] for text in in_json}
    # A secret may hold lone surrogates where it was read as bytes of another encoding: they have no URL form.
    encodable = secret.encode("utf-8", "surrogateescape")
    in_url = {quote(encodable), quote(encodable, safe=""), quote_plus(encodable)}
    in_url |= {_PERCENT.sub(lambda found: found[0].lower(), text) for text in in_url}
    return {secret, repr(secret)[1:-1], *in_json, *in_url}


def _any_of(forms: Iterable[str]) -> re.Pattern[str]:
    # The longest first: a secret that begins with another must not leave its rest behind.
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")
