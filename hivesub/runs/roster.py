"""The names that are remembered: each with its last run, and with the calls that bore a `request_key`.

Owns the order of ending and the bound on what is remembered.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from attrs import define, field

from hivesub.errors import UnknownName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hivesub.runs.run import Run
    from hivesub.shapes import AnswerExtras

REMEMBERED = 1000
"""How many ended subagents are remembered."""
KEPT_RESULTS_BYTES = 1_000_000
"""Of what ended subagents said last, the latest first: some ten of the longest."""
CUT_RESULT_CHARS = 200
"""What is kept of one beyond that."""
RESULT_CUT = "… [cut: only the latest results are kept whole]"
KEPT_KEYS = 20
"""How many request keys are kept with a subagent."""


@define(eq=False)
class KeptCall:
    """A call that bore a key: the digest of what it asked for, the run that it made, and what its answer says beside
    the record. `answered`: its caller had the answer that the run was made.
    """

    digest: bytes
    run: Run
    extras: AnswerExtras
    answered: bool = False


@define(eq=False)
class Subagent:
    """A name: its last run, and the calls that bore a key, by tool and key."""

    run: Run
    calls: dict[tuple[str, str], KeptCall] = field(factory=dict)

    def keep(self, tool: str, key: str, call: KeptCall) -> None:
        """Keep a call with its run; the oldest goes where there are too many."""
        self.calls[tool, key] = call
        while len(self.calls) > KEPT_KEYS:
            del self.calls[next(iter(self.calls))]

    def forget(self, call: KeptCall) -> None:
        """Forget a call that came to nothing: its key may be used again."""
        self.calls = {key: kept for key, kept in self.calls.items() if kept is not call}


class Roster:
    """Names and their subagents, in the order in which their last runs ended."""

    def __init__(self) -> None:
        self._subagents: dict[str, Subagent] = {}

    def get(self, name: str) -> Subagent | None:
        """The subagent of a name, None where it is not known."""
        return self._subagents.get(name)

    def known(self, name: str) -> Subagent:
        """The subagent of a name.

        :raises UnknownName: the text lists the known names.
        """
        subagent = self._subagents.get(name)
        if subagent is None:
            names = ", ".join(sorted(self._subagents)) or "none yet"
            raise UnknownName(f"no subagent is named {name!r}; known: {names}")
        return subagent

    def runs(self) -> list[Run]:
        """The last run of each name."""
        return [subagent.run for subagent in self._subagents.values()]

    def place(self, run: Run) -> Subagent | None:
        """Let a run be its name's last one.

        :returns: what stood there, for `put_back`.
        """
        earlier = self._subagents.get(run.name)
        self._subagents[run.name] = Subagent(run, dict(earlier.calls) if earlier is not None else {})
        return earlier

    def put_back(self, name: str, earlier: Subagent | None) -> None:
        """Let a name be as it was before `place`."""
        if earlier is None:
            del self._subagents[name]
        else:
            self._subagents[name] = earlier

    def ended(self, name: str, running: Iterable[str]) -> None:
        """Note that the run of a name ended; the names beyond `REMEMBERED` are forgotten, the oldest first, and what
        earlier ones said last is cut.
        """
        self._subagents[name] = self._subagents.pop(name)
        going = set(running)
        over = [name for name in self._subagents if name not in going]
        for old in over[:-REMEMBERED]:
            del self._subagents[old]
        room = KEPT_RESULTS_BYTES
        for kept in reversed(over[-REMEMBERED:]):
            run = self._subagents[kept].run
            if run.said is None or run.said.endswith(RESULT_CUT):
                continue
            room -= sys.getsizeof(run.said)
            if room < 0 and len(run.said) > CUT_RESULT_CHARS:
                run.said = run.said[:CUT_RESULT_CHARS] + RESULT_CUT
