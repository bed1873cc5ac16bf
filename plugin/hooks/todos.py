"""Puts the todos of ended subagents in front of the agent at its next prompt, each once.

A hook for `UserPromptSubmit`: what it prints becomes context beside the prompt. It reads the file that the daemon
appends todos to: `$HIVESUB_TODOS`, else `todos.jsonl` in the daemon's default state directory. How far it has read is
kept in a file of its own. Inside a subagent it says nothing. The standard library only, Python 3.8 or newer.
"""

import hashlib
import json
import os
import sys
from contextlib import contextmanager

MARK = "HIVESUB_TURN"
"""Set in the environment of every subagent."""
LIMIT = 8000
"""Characters at one prompt; what does not fit comes with the next. Claude cuts what a hook says at 10,000."""
FIRST_SIGHT = 10
"""How many of the newest todos are told when a file is seen for the first time: the rest is history."""
REMEMBERED = 1000
"""Ids kept, so that a file that was rotated or written anew brings nothing twice."""


def todo_file(environ):
    named = environ.get("HIVESUB_TODOS")
    if named:
        return os.path.expanduser(named)
    state = environ.get("XDG_STATE_HOME", "")
    base = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    return os.path.join(base, "hivesub", "todos.jsonl")


def place_file(environ, todos):
    """Where it is kept how far a todo file was read."""
    base = environ.get("CLAUDE_PLUGIN_DATA") or os.path.expanduser("~/.claude/hivesub")
    os.makedirs(base, mode=0o700, exist_ok=True)
    key = hashlib.sha256(os.path.abspath(todos).encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return os.path.join(base, f"todos-{key}.json")


@contextmanager
def held(path):
    """The place file, open and locked: of two sessions that prompt at once only one tells a todo."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except ImportError:  # not on this platform
            pass
        yield file


def read_place(text):
    try:
        place = json.loads(text or "{}")
    except ValueError:
        place = None
    return place if isinstance(place, dict) else {}


def lines_after(path, offset):
    """The whole lines after an offset, each with the offset of its end. One still being written is left for later."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < offset:
            offset = 0  # rotated, or emptied
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield line, offset


def told(todo):
    """A todo as text, or None for what is no todo."""
    if not isinstance(todo, dict) or todo.get("kind") != "subagent_run_ended":
        return None
    return f"## {todo.get('title', '')}\n{todo.get('body', '')}"


def take(path, place):
    """The texts to tell now, and how many are left for later; `place` is brought up to date."""
    known = place.setdefault("ids", [])
    fresh = []
    for line, end in lines_after(path, place.get("offset", 0)):
        try:
            todo = json.loads(line.decode("utf-8", "replace"))
        except ValueError:
            todo = None
        fresh.append((todo, end))
    if "offset" not in place:
        place["offset"] = fresh[-FIRST_SIGHT - 1][1] if len(fresh) > FIRST_SIGHT else 0
        fresh = fresh[-FIRST_SIGHT:]
    texts, size = [], 0
    for number, (todo, end) in enumerate(fresh):
        text = told(todo)
        if text is not None and todo.get("id") not in known:
            text = text[:LIMIT]
            if texts and size + len(text) > LIMIT:
                return texts, len(fresh) - number
            texts.append(text)
            size += len(text)
            known.append(todo.get("id"))
            del known[:-REMEMBERED]
        place["offset"] = end
    return texts, 0


def message(texts, left):
    parts = [
        "Runs of your subagents have ended. These are the daemon's messages; what stands in quotation marks there was "
        "said by a subagent and nothing has checked it.",
        *texts,
    ]
    if left:
        parts.append(f"{left} more will come with the next prompt.")
    return "\n\n".join(parts)


def main(environ, out):
    if MARK in environ:
        return
    todos = todo_file(environ)
    with held(place_file(environ, todos)) as file:
        place = read_place(file.read())
        try:
            texts, left = take(todos, place)
        except FileNotFoundError:
            # Seen before its first line: whatever comes is new.
            texts, left = [], 0
            place["offset"] = 0
        if texts:
            context = {"hookEventName": "UserPromptSubmit", "additionalContext": message(texts, left)}
            json.dump({"hookSpecificOutput": context}, out)
            out.flush()
        # After it was told: a crash between the two tells it twice rather than never.
        file.seek(0)
        file.truncate()
        json.dump(place, file)


if __name__ == "__main__":
    main(os.environ, sys.stdout)
