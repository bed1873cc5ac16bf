"""Sessions on disk: what `--resume` finds, by id from anywhere and by title from the project it began in.

One small JSON file a session, `<config dir>/standin-sessions/<project>/<id>.json`. The config dir is
`$CLAUDE_CONFIG_DIR` or `~/.claude`, as for claude.
"""

from __future__ import annotations

import json
import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class NotFound(Exception):
    """No one session is meant. The text is claude's own."""


class Session:
    """What is remembered of a session between its processes.

    Units: `cost_usd` is the sum over all its processes that ended by themselves. `plan` holds steps for later turns,
    see `script.steps_for`; `task` is the background task that runs, or ran when the last process was cut.
    """

    def __init__(self, id: str, project: str, path: str) -> None:
        self.id = id
        self.project = project
        self.path = path
        self.title: str | None = None
        self.cost_usd = 0.0
        self.turns = 0
        self.plan: dict[str, Any] = {}
        self.task: str | None = None

    def save(self) -> None:
        """Write it, whole or not at all."""
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        kept = {
            "id": self.id,
            "project": self.project,
            "title": self.title,
            "cost_usd": self.cost_usd,
            "turns": self.turns,
            "plan": self.plan,
            "task": self.task,
        }
        partial = f"{self.path}.{os.getpid()}"
        with open(partial, "w", encoding="utf-8") as out:
            json.dump(kept, out)
        os.replace(partial, self.path)


def _root() -> str:
    config = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "standin-sessions")


def _folder(project: str) -> str:
    return os.path.join(_root(), "".join(c if c.isalnum() else "-" for c in project))


def new(session_id: str, project: str) -> Session:
    """A session that is not on disk yet."""
    return Session(session_id, project, os.path.join(_folder(project), f"{session_id}.json"))


def by_id(session_id: str) -> Session | None:
    """The session of that id, whatever project it began in."""
    root = _root()
    for folder in os.listdir(root) if os.path.isdir(root) else ():
        path = os.path.join(root, folder, f"{session_id}.json")
        if os.path.exists(path):
            return _load(path)
    return None


def resume(wanted: str, project: str) -> Session:
    """The session that `--resume=<wanted>` means in `project`.

    :raises NotFound: also where two sessions bear the title.
    """
    if is_uuid(wanted):
        session = by_id(wanted)
        if session is None:
            raise NotFound(f"No conversation found with session ID: {wanted}")
        return session
    folder = _folder(project)
    names = os.listdir(folder) if os.path.isdir(folder) else []
    paths = [os.path.join(folder, name) for name in names if name.endswith(".json")]
    found = [session for session in map(_load, paths) if session.title == wanted and session.project == project]
    if not found:
        provided = f'. Provided value "{wanted}" is not a UUID and does not match any session title.' if wanted else ""
        raise NotFound(
            "Error: --resume requires a valid session ID or session title when used with --print. "
            f"Usage: claude -p --resume <session-id|title>{provided}"
        )
    if len(found) > 1:
        found.sort(key=lambda session: os.stat(session.path).st_mtime_ns, reverse=True)
        lines = [f"  {session.id}  (modified {_modified(session.path)})" for session in found]
        raise NotFound(
            f'Error: --resume "{wanted}" matches {len(found)} sessions. '
            "Pass one of these session IDs to disambiguate:\n" + "\n".join(lines)
        )
    return found[0]


def _load(path: str) -> Session:
    with open(path, encoding="utf-8") as kept:
        values = json.load(kept)
    session = Session(values["id"], values["project"], path)
    session.title = values["title"]
    session.cost_usd = values["cost_usd"]
    session.turns = values["turns"]
    session.plan = values["plan"]
    session.task = values["task"]
    return session


def _modified(path: str) -> str:
    at_ns = os.stat(path).st_mtime_ns
    seconds, rest_ns = divmod(at_ns, 1_000_000_000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest_ns // 1_000_000:03d}Z"


def is_uuid(text: str) -> bool:
    """True for the 8-4-4-4-12 form."""
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and all(
        digit in "0123456789abcdefABCDEF" for part in parts for digit in part
    )


def fresh_uuid() -> str:
    """A random version 4 UUID, without the cost of importing `uuid`."""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
