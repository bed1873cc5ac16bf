"""Claude's output, read for the few events that matter: `init`, `result`, background tasks, an interruption by the
user.

Owns reading bytes into facts, within bounded memory; holds no clock and no verdict: how the turn ended is `outcome`'s
to say. The stream's shape is that of `claude -p --verbose --output-format stream-json` (measured, claude 2.1.332):
one JSON object a line. Whatever else comes is counted and passed over.
"""

from __future__ import annotations

import re
from typing import Any

from hivesub.records import Init, Result, Retry, TurnUsage, UsageLimit
from hivesub.turns.events import (
    cost_since_last_result,
    is_interruption,
    parse_event,
    read_init,
    read_limit,
    read_result,
    read_retry,
    read_tasks,
    stopped_task,
)

LINE_LIMIT_BYTES = 8 * 1024 * 1024
"""A longer line is dropped unread up to its newline: no event that we look for is near this size."""

_TAIL_LIMIT_BYTES = 8192
_TASKS_LIMIT = 100

# A line without any of these holds no fact, and the search for them costs a small part of what parsing does. In JSON
# text a quote inside a string is escaped, so a quoted word can only be a whole key or value.
_NOTE = b"interrupted by user"
_MARKS = (b'"result"', b'"system"', b'"rate_limit_event"', _NOTE)
_MARKS_AND_ANSWERS = (*_MARKS, b'"assistant"')

# Most lines begin so (measured, claude 2.1.332) and can hold no more than the note. To see that they all do takes a
# third of the time of the search; a line that begins otherwise, with whatever key, is searched.
_TALK = (b'{"type":"assistant"', b'{"type":"user"')
_OTHER_LINE = re.compile(rb'\n(?!\{"type":"(?:assistant|user)")')
# Looking from newline to newline takes half the time of the pattern where lines are long, more where they are short.
_LOOKED_AT_SINGLY = 40

# Of a line, a word, and a value as data have them.
_ENDS = (re.compile(rb"\n"), re.compile(rb"\s"), re.compile(rb"[\"',;{}]"))


class Stream:
    """One turn's stdout, fed in pieces of any size. Nothing that is fed to it makes it raise.

    `bytes_read`: all that came, dropped lines among them. `init`, `result`: the last of each; `inits`,
    `results`: how many. `usage`: turns and tokens summed over the results, the cost as of the last. `background_tasks`:
    how many live ones the last list of them held. `answered`: a result came after the last init; until then more work
    is under way, even where an earlier result was good (a resume after cut background work begins with one, measured).
    `retrying`: claude waits for its API, until its next other event. `limit`: the usage limit that refused the last
    request. `stopped_tasks`: descriptions of the background tasks that claude stopped after its last answer.
    `user_interrupted`: the last word is claude's note of an interruption; an answer or a result of another kind that
    comes later clears it.
    """

    def __init__(self, line_limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self.bytes_read = 0
        self.init: Init | None = None
        self.inits = 0
        self.result: Result | None = None
        self.results = 0
        self.answered = False
        self.usage = TurnUsage()
        self.background_tasks = 0
        self.retrying: Retry | None = None
        self.limit: UsageLimit | None = None
        self._tasks: dict[str, str] = {}
        self._stopped: dict[str, str] = {}
        self.user_interrupted = False
        self._line_limit_bytes = line_limit_bytes
        self._open_line = bytearray()
        self._dropping = False

    def feed(self, data: bytes) -> None:
        """Take the next piece of output."""
        self.bytes_read += len(data)
        last = data.rfind(b"\n")
        if last < 0:
            self._keep(data)
            return
        start = 0
        if self._open_line or self._dropping:
            newline = data.find(b"\n")
            self._keep(data[:newline])
            self._end_open_line()
            start = newline + 1
        if self._worth_reading(data, start, last):
            for line in data[start:last].split(b"\n"):
                self._read(line)
        if last + 1 < len(data):
            self._keep(data[last + 1 :])

    def finish(self) -> None:
        """Take the end of the output: a last line without a newline is a line."""
        if self._open_line or self._dropping:
            self._end_open_line()

    def _keep(self, piece: bytes) -> None:
        if self._dropping:
            return
        if len(self._open_line) + len(piece) > self._line_limit_bytes:
            self._dropping = True
            self._open_line = bytearray()
            return
        self._open_line += piece

    def _end_open_line(self) -> None:
        line, self._open_line, self._dropping = self._open_line, bytearray(), False
        self._read(line)

    def _worth_reading(self, data: bytes | bytearray, start: int, end: int, *, one_line: bool = False) -> bool:
        """Whether a line between `start` and the newline at `end` may hold a fact."""
        if self.retrying is not None:
            return True
        answers_count = self.user_interrupted or bool(self._stopped)
        if not answers_count and data.startswith(_TALK, start, end):
            if one_line or _all_talk(data, start, end):
                return data.find(_NOTE, start, end) >= 0
        for mark in _MARKS_AND_ANSWERS if answers_count else _MARKS:
            if data.find(mark, start, end) >= 0:
                return True
        return False

    def _read(self, line: bytes | bytearray) -> None:
        if len(line) > self._line_limit_bytes or not self._worth_reading(line, 0, len(line), one_line=True):
            return
        event = parse_event(line)
        if event and event.get("subtype") != "api_retry":
            self.retrying = None
        match event.get("type"):
            case "rate_limit_event":
                self.limit = read_limit(event)
            case "system":
                self._system(event)
            case "result":
                self._result(event)
            case "user":
                self.user_interrupted = self.user_interrupted or is_interruption(event)
            case "assistant":
                self.user_interrupted = False
                if not event.get("parent_tool_use_id"):
                    self._stopped = {}  # it was told of them

    def _system(self, event: dict[str, Any]) -> None:
        match event.get("subtype"):
            case "init":
                self.init = read_init(event)
                self.inits += 1
                self.answered = False
                self._stopped = {}
            case "background_tasks_changed":
                tasks = read_tasks(event)
                if tasks is not None:
                    self.background_tasks = len(tasks)
                    known = {key: name for key, name in tasks[:_TASKS_LIMIT] if key is not None}
                    # Claude lists a task no longer before it says that it has stopped it, or after.
                    self._tasks = dict([*self._tasks.items(), *known.items()][-_TASKS_LIMIT:])
            case "task_updated" | "task_notification":
                stopped = stopped_task(event)
                if stopped is not None and len(self._stopped) < _TASKS_LIMIT:
                    key, name = stopped
                    self._stopped[key] = name or self._stopped.get(key) or self._tasks.get(key, "")
            case "api_retry":
                self.retrying = read_retry(event)

    @property
    def stopped_tasks(self) -> tuple[str, ...]:
        return tuple(self._stopped.values())

    def _result(self, event: dict[str, Any]) -> None:
        self.result = result = read_result(event)
        self.results += 1
        self.answered = self.inits > 0  # one before the first init belongs to nothing that this process did
        # After an interruption claude may still write a result, and that one only repeats it.
        if result.subtype != "error_during_execution":
            self.user_interrupted = False
        so_far, since = self.usage, cost_since_last_result(event)
        # A resume that finds nothing prints a result of cost 0 before any init: it says nothing about the session.
        total = result.total_cost_usd if self.inits else None
        self.usage = TurnUsage(
            total_cost_usd=so_far.total_cost_usd if total is None else total,
            since_usd=so_far.since_usd if since is None else (so_far.since_usd or 0.0) + since,
            claude_turns=so_far.claude_turns + result.num_turns,
            input_tokens=so_far.input_tokens + result.input_tokens,
            output_tokens=so_far.output_tokens + result.output_tokens,
        )


def _all_talk(data: bytes | bytearray, start: int, end: int) -> bool:
    """Whether all lines after the first begin as most do."""
    for _ in range(_LOOKED_AT_SINGLY):
        newline = data.find(b"\n", start, end)
        if newline < 0:
            return True
        start = newline + 1
        if not data.startswith(_TALK, start, end):
            return False
    return _OTHER_LINE.search(data, start, end) is None


class Tail:
    """The end of a stream of bytes, such as stderr; memory bounded by three times the limit. `bytes_read`: all that
    came.
    """

    def __init__(self, limit_bytes: int = _TAIL_LIMIT_BYTES) -> None:
        self.bytes_read = 0
        self._limit_bytes = limit_bytes
        self._kept = bytearray()

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self.bytes_read += len(data)
        self._kept += data[-self._limit_bytes :]
        if len(self._kept) > 2 * self._limit_bytes:
            del self._kept[: -self._limit_bytes]

    def text(self) -> str:
        """The last bytes as text: U+FFFD stands for what is no UTF-8.

        What is left of a line, a word or a value that the limit has cut is left out, as it may be half of a secret; of
        something longer, half of the limit.
        """
        kept = bytes(self._kept[-self._limit_bytes :])
        if self.bytes_read > self._limit_bytes:
            half = self._limit_bytes // 2
            cut = next((found.end() for end in _ENDS if (found := end.search(kept, 0, half))), half)
            kept = kept[cut:]
        return kept.decode("utf-8", "replace")
