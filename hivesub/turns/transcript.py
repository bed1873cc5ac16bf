"""Claude's own record of a session: where it is, and the last steps in it. For people alone: nothing of it goes to the
agent.

A file of one JSON object a line, ``<config dir>/projects/<encoded directory>/<session id>.jsonl``. The directory is the
one that the session was started in: a resume from elsewhere goes on in the same file (measured, claude 2.1.332).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from glob import escape, glob
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from zope.interface import implementer

from hivesub.interfaces import ITranscripts
from hivesub.shapes import StepRecord, Steps
from hivesub.turns.events import parse_event
from hivesub.wording import visible

TAIL_BYTES = 1 << 20
"""How much of the end of a transcript is read."""
STEPS = 50
"""How many of the last steps in it are given."""
STEP_CHARS = 200
LOOK_S = 5.0
"""How long a look may take: the file system may be a dead mount."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LONGEST = 200
"""Of an encoded directory that has no hash behind it."""
# Of a tool's input, what says most in a few words; else its first text.
_TELLING = ("command", "file_path", "path", "pattern", "url", "query", "skill", "description", "message", "reason")

InThread = Callable[..., Deferred[Any]]


def encoded(directory: str) -> str:
    """The name that claude gives to the folder of a directory's sessions: a dash for each UTF-16 unit that is no ASCII
    letter or digit.
    """
    units = directory.encode("utf-16-le", "surrogatepass")
    pairs = (units[at : at + 2] for at in range(0, len(units), 2))
    return "".join(chr(low) if not high and chr(low).isalnum() and low < 128 else "-" for low, high in pairs)


def find_transcript(config_dir: str, session_id: str, directory: str) -> str | None:
    """The path of a session's transcript; None where there is none here. Blocking."""
    if not _UUID.fullmatch(session_id):
        return None
    projects = os.path.join(config_dir, "projects")
    folder = encoded(directory)
    likely = os.path.join(projects, folder, f"{session_id}.jsonl")
    if len(folder) <= _LONGEST and os.path.isfile(likely):
        return likely
    return next(iter(glob(os.path.join(escape(projects), "*", f"{session_id}.jsonl"))), None)


def read_steps(path: str, after: int, redact: Callable[[str], str]) -> tuple[list[StepRecord], int]:
    """The last steps in a transcript, and where its last whole line ends. Blocking.

    :param after: where an earlier look ended: only what came since is given; 0 at the first.
    :raises OSError: when it cannot be read.
    """
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = after if 0 < after <= size else 0
        cut = size - begin > TAIL_BYTES
        begin = file.seek(max(begin, size - TAIL_BYTES))
        data = file.read(TAIL_BYTES)
    end = data.rfind(b"\n") + 1
    lines = data[:end].split(b"\n")
    steps = [step for line in (lines[1:] if cut else lines) for step in _steps(line, redact)]
    return steps[-STEPS:], begin + end


def _steps(line: bytes, redact: Callable[[str], str]) -> Iterator[StepRecord]:
    event = parse_event(line)
    if event.get("type") not in {"assistant", "user"} or event.get("isMeta") is True:
        return
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    at = event.get("timestamp")
    for block in blocks:
        found = _step(block, str(event["type"])) if isinstance(block, dict) else None
        if found is not None:
            what, text = found
            yield {
                "at": _short(at, redact) if isinstance(at, str) else "",
                "what": _short(what, redact),
                "text": _short(text, redact),
            }


def _step(block: dict[str, Any], who: str) -> tuple[str, str] | None:
    """What was done, and a text about it; None for what is no step, such as a thought or a tool's answer."""
    kind, text = block.get("type"), block.get("text")
    if kind == "text" and isinstance(text, str) and text.strip():
        return ("says" if who == "assistant" else "is asked"), text
    if kind == "tool_use" and isinstance(block.get("name"), str):
        return block["name"], _about(block.get("input"))
    if kind == "tool_result" and block.get("is_error") is True:
        return "error", _about(block.get("content"))
    return None


def _about(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        texts = [value.get(key) for key in _TELLING] + list(value.values())
    else:
        texts = [block.get("text") for block in value if isinstance(block, dict)] if isinstance(value, list) else []
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _short(text: str, redact: Callable[[str], str]) -> str:
    """One line of it, cut after it was redacted so that no half of a secret is left."""
    line = " ".join(visible(each) for each in redact(text).split())
    return line if len(line) <= STEP_CHARS else f"{line[:STEP_CHARS]}…"


@implementer(ITranscripts)
class Transcripts:
    """The transcripts below one config directory of claude.

    :param in_thread: calls a blocking function off the reactor.
    """

    def __init__(self, config_dir: str, clock: IReactorTime, in_thread: InThread, redact: Callable[[str], str]) -> None:
        self._config_dir = config_dir
        self._clock = clock
        self._in_thread = in_thread
        self._redact = redact

    def find(self, session_id: str, directory: str, within_s: float = LOOK_S) -> Deferred[str | None]:
        looking = self._in_thread(find_transcript, self._config_dir, session_id, directory)
        return looking.addTimeout(within_s, self._clock).addErrback(lambda _: None)

    def steps(self, path: str, after: int) -> Deferred[Steps]:
        looking = self._in_thread(read_steps, path, after, self._redact).addTimeout(LOOK_S, self._clock)
        looking.addErrback(lambda _: ([], 0))
        return looking.addCallback(lambda found: {"transcript": path, "steps": found[0], "offset": found[1]})
