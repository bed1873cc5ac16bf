"""Signal tokens: who a request to the signal route is from (spec section 2). Owns which tokens live; routes and 404s
are `web`'s part.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

from zope.interface import implementer

from hivesub.interfaces import ISignalTarget, ITokens

TOKEN_BYTES = 32
"""256 random bits (spec section 2)."""


class LearnsTokens(Protocol):
    """What tokens need of `hivesub.redact.Redactor`."""

    def add_token(self, token: str) -> None: ...

    def forget_token(self, token: str) -> None: ...


@implementer(ITokens)
class Tokens:
    """Living tokens in a dict.

    A dict's lookup takes no constant time, and need not: it compares the strings only once their hashes, keyed afresh
    in each process, are equal, so that its time tells nothing of a token's first characters, and 256 bits cannot be
    tried one by one.

    :param redactor: learns each token, so that none is ever shown.
    :param random_token: gives a fresh token, in URL-safe characters; injected by tests.
    """

    def __init__(
        self, redactor: LearnsTokens, random_token: Callable[[], str] = lambda: secrets.token_urlsafe(TOKEN_BYTES)
    ) -> None:
        self._redactor = redactor
        self._random_token = random_token
        self._living: dict[str, ISignalTarget] = {}

    def mint(self, target: ISignalTarget) -> str:
        token = self._random_token()
        if token in self._living:
            raise RuntimeError("the random source gave a living token again")
        self._redactor.add_token(token)
        self._living[token] = target
        return token

    def resolve(self, token: str) -> ISignalTarget | None:
        return self._living.get(token)

    def revoke(self, token: str) -> None:
        if self._living.pop(token, None) is not None:
            self._redactor.forget_token(token)
