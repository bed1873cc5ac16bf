"""The signal route's part below the web: whose request it is, by its token, and what becomes of the claim it brings.

Owns which tokens are alive. Routes and 404s are `web`'s.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from zope.interface import implementer

from hivesub.errors import BadRequest, Unanswered
from hivesub.interfaces import ISignalTarget, ITokens
from hivesub.runs.report import check_within
from hivesub.runs.run import MAX_MESSAGE
from hivesub.wording import visible

if TYPE_CHECKING:
    from datetime import datetime

    from hivesub.records import SignalKind
    from hivesub.runs.run import Run
    from hivesub.system.lookups import Look

TOKEN_BYTES = 32
"""256 random bits."""


class LearnsTokens(Protocol):
    """What tokens need of `hivesub.redaction.redactor.Redactor`."""

    def add_token(self, token: str) -> None: ...

    def forget_token(self, token: str) -> None: ...


@implementer(ITokens)
class Tokens:
    """Living tokens in a dict.

    A dict's lookup takes no constant time, and need not: it compares the strings only once their hashes, keyed afresh
    in each process, are equal, so that its time reveals nothing of a token's first characters, and 256 bits cannot be
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


async def take_claim(
    run: Run,
    turn: int,
    kind: SignalKind,
    message: str,
    path: str | None,
    *,
    redact: Callable[[str], str],
    look: Look,
    at: datetime,
) -> str:
    """Keep a claim of the nth turn: at once, whatever becomes of the path that it names.

    :returns: the note for the answer.
    :raises BadRequest: when that turn has ended.
    """
    if _ended(run, turn):
        raise BadRequest("this turn has ended: nothing was recorded")
    message = redact(message)
    run.claim(kind, message, at)
    note = "Recorded as your claim. No further turn follows this one: end it now."
    if len(message) > MAX_MESSAGE:
        note += f" Of your message the first {MAX_MESSAGE:,} characters were kept."
    if path is None:
        return note
    if run.report_file is not None and run.report_within is None:
        return f"{note} The report file stays {redact(run.report_file)}, as the agent that started you said."
    if visible(path) != path:
        run.report_error = "the path that the subagent named holds control characters: dropped"
        return f"{note} The report_file was dropped: it holds control characters."
    run.read_init(run.turn.init if run.turn is not None else None)  # the directory is the one that it is in
    directory = str(run.dir)
    where = redact(directory)
    try:
        inside = await look("the path that the subagent named", check_within, path, directory)
    except Unanswered as error:
        run.report_error = f"{error}: dropped"
        return f"{note} The report_file was dropped: its file system does not answer."
    if _ended(run, turn):
        return f"{note} The report_file was dropped: this turn has ended meanwhile."
    if inside is None:
        run.report_error = f"the path that the subagent named is not inside {where}: dropped"
        return f"{note} The report_file was dropped: it is not inside {where}."
    run.report_file, run.report_within = inside, directory
    return note


def _ended(run: Run, turn: int) -> bool:
    return run.over or run.turn_number != turn
