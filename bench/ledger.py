"""What was started, what was said of it, and what the todos tell: whether an outcome was lost, twice told or untrue."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field


@define
class Entry:
    """One run. `outcomes`: those that would be true; `said`: those that the daemon's answers have told of it."""

    name: str
    outcomes: frozenset[str]
    said: set[str] = field(factory=set)


@define
class Ledger:
    """The runs by their session id, which each start makes anew. Used from several threads."""

    entries: dict[str, Entry] = field(factory=dict)
    lost: list[str] = field(factory=list)
    _lock: threading.Lock = field(factory=threading.Lock)

    def started(self, record: Mapping[str, Any], *outcomes: str) -> str:
        """Note the answer of a start; the session's id."""
        session: str = record["session_id"]
        with self._lock:
            if session in self.entries:
                self.lost.append(f"{record['name']}: the session {session} was started twice")
            self.entries[session] = Entry(record["name"], frozenset(outcomes))
        return session

    def stopped(self, session: str) -> None:
        """Note that an interrupt is on its way: from now on the run may be killed."""
        with self._lock:
            entry = self.entries[session]
            entry.outcomes |= {"killed"}

    def seen(self, record: Mapping[str, Any]) -> None:
        """Note what an answer tells of a run that has ended."""
        last = record["last_turn"]
        with self._lock:
            entry = self.entries.get(record["session_id"])
            if entry is not None and record["state"] != "running" and last is not None:
                entry.said.add(last["outcome"])

    def fault(self, what: str) -> None:
        """Note what should not have been."""
        with self._lock:
            self.lost.append(what)

    def audit(self, todos: Iterable[Mapping[str, Any]]) -> list[str]:
        """What was lost, by the todos that came; empty where each run has one todo and all that was said is true."""
        told: dict[str, str] = {}
        details: dict[str, str] = {}
        times: Counter[str] = Counter()
        found = list(self.lost)
        for todo in todos:
            record = todo["subagent"]
            times[record["session_id"]] += 1
            told[record["session_id"]] = record["last_turn"]["outcome"]
            details[record["session_id"]] = record["last_turn"]["detail"]
        for session, entry in self.entries.items():
            if times[session] != 1:
                found.append(f"{entry.name}: {times[session]} todos")
            elif told[session] not in entry.outcomes:
                was = " or ".join(sorted(entry.outcomes))
                found.append(f"{entry.name}: told as {told[session]}, was {was} ({details[session]})")
            elif untrue := sorted(entry.said - {told[session]}):
                found.append(f"{entry.name}: its todo tells {told[session]}, an answer said {', '.join(untrue)}")
        found += [f"a todo of a run that nobody started: {session}" for session in told if session not in self.entries]
        return found


def read_todos(text: str) -> list[dict[str, Any]]:
    """The todos of a file, one a line; a last line that is not whole yet is left out."""
    return [json.loads(line) for line in text.split("\n")[:-1]]
