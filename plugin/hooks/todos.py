"""Puts the todos of ended subagents in front of the agent at its next prompt, each once.

A hook for `UserPromptSubmit`: what it prints becomes context beside the prompt. It reads the file that the daemon
appends todos to: `$HIVESUB_TODOS`, else `todos.jsonl` in the daemon's default state directory. How far it has read is
kept in a file of its own. It leaves out what the agent has heard of by an MCP task or an answer of the daemon: the
file beside the todos, `<todos>.heard`, has the ids, and gets those that are reported here. Inside a subagent it says
nothing. The standard library only, Python 3.8 or newer.
"""

import hashlib
import json
import os
import stat
import sys
from contextlib import contextmanager, suppress

MARK = "HIVESUB_TURN"
"""Set in the environment of every subagent."""
LIMIT = 8000
"""Characters at one prompt; what does not fit comes with the next. Claude cuts what a hook says at 10,000."""
NEWEST = 10
"""How many of the newest todos are reported again where it is no longer known how far the file was read."""
REMEMBERED = 1000
"""Ids kept, so that a file that was rotated or written anew brings nothing twice."""

HEARD = ".heard"
"""Behind the name of a todo file: the file with the ids of the todos whose ends the agent has heard of."""
HEARD_BYTES = 256 * 1024

INTRODUCTION = (
    "Runs of your subagents have ended. These are the daemon's messages; what stands in quotation marks there was "
    "said by a subagent and nothing has checked it."
)
HEALED = (
    "The note of how far these messages had been read was damaged and is begun anew with the newest: some may have "
    "been here before, and older ones may be missing. The subagent server's `status` lists what has ended."
)
NO_LOCKS = (
    "hivesub: the file system of {path} knows no locks ({why}), so that two sessions that prompt at once may both get "
    "the same message; set CLAUDE_PLUGIN_DATA to a directory on a local disk."
)


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
    """The place file, open and locked: of two sessions that prompt at once only one reports a todo. With it comes why
    it could not be locked, or None."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        why = None
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except ImportError:  # not on this platform
            pass
        except OSError as error:  # a file system without locks, such as some NFS
            why = error.strerror
        yield file, why


def read_place(data):
    """How far the todos were read, and whether it was damaged: `offset` in the file whose inode is `file`, `ids`."""
    if not data:
        return {}, False
    try:
        place = json.loads(data.decode("utf-8"))
        ids, offset, inode = place["ids"], place["offset"], place.get("file", 0)
        good = type(offset) is int and offset >= 0 and (inode is None or type(inode) is int)
        if good and isinstance(ids, list) and all(isinstance(each, str) for each in ids):
            return place, False
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    return {}, True


def lines_after(path, offset):
    """The whole lines after an offset, each with the inode of its file and the offset of its end. One still being
    written is left for later."""
    with open(path, "rb") as file:
        seen = os.fstat(file.fileno())
        if seen.st_size < offset:
            offset = 0  # emptied
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield line, seen.st_ino, offset


def inode_of(path):
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:  # or it is being moved at this moment
        return None


def unread(path, place):
    """The lines since the place. A file that was moved to `PATH.1` since is read to its end first."""
    offset, inode = place.get("offset", 0), place.get("file", 0)
    now = inode_of(path)
    if "offset" in place and inode != 0 and inode != now:
        try:
            older = path + ".1"
            yield from lines_after(older, offset if os.stat(older).st_ino == inode else 0)
        except FileNotFoundError:
            pass
        offset = 0
    if now is not None:
        yield from lines_after(path, offset)


def told(todo):
    """A todo as text, or None for what is no todo."""
    if not isinstance(todo, dict) or todo.get("kind") != "subagent_run_ended":
        return None
    return f"## {todo.get('title', '')}\n{todo.get('body', '')}"


@contextmanager
def heard_file(todos, flags):
    """The file of ids beside a todo file. One that is none (a FIFO would never answer) is an `OSError`."""
    descriptor = os.open(todos + HEARD, flags | getattr(os, "O_NONBLOCK", 0), 0o644)
    with os.fdopen(descriptor, "ab" if flags & os.O_APPEND else "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("no regular file")
        yield file


def heard_ids(todos):
    with suppress(OSError), heard_file(todos, os.O_RDONLY) as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - HEARD_BYTES))
        return set(file.read(HEARD_BYTES).decode("utf-8", "replace").split())
    return set()


def note_heard(todos, ids):
    """Let the daemon know what was reported. Without it, it names these ends once more, which is no harm."""
    if not ids:
        return
    with suppress(OSError), heard_file(todos, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        file.write("".join(f"{each}\n" for each in ids).encode("utf-8", "replace"))


def take(path, place, damaged=False):
    """The texts to report now, and how many are left for later; `place` is brought up to date.

    Where nothing was read before, all that is there is history: only what comes from then on is reported.
    """
    known, heard = place.setdefault("ids", []), heard_ids(path)
    fresh = []
    for line, inode, end in unread(path, place):
        try:
            todo = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            todo = None
        fresh.append((todo, inode, end))
    if "offset" not in place:
        history = fresh[: max(0, len(fresh) - NEWEST)] if damaged else fresh
        place["file"], place["offset"] = history[-1][1:] if history else (inode_of(path), 0)
        fresh = fresh[len(history) :]
    texts, size = [], 0
    for number, (todo, inode, end) in enumerate(fresh):
        text = told(todo)
        if text is not None and str(todo.get("id")) not in known and str(todo.get("id")) not in heard:
            text = text[:LIMIT]
            if texts and size + len(text) > LIMIT:
                return texts, len(fresh) - number
            texts.append(text)
            size += len(text)
            known.append(str(todo.get("id")))
            del known[:-REMEMBERED]
        place["file"], place["offset"] = inode, end
    return texts, 0


def message(texts, left, healed=False):
    parts = [HEALED] if healed else []
    if texts:
        parts += [INTRODUCTION, *texts]
    if left:
        parts.append(f"{left} more will come with the next prompt.")
    return "\n\n".join(parts)


def main(environ, out):
    if MARK in environ:
        return
    todos = todo_file(environ)
    answer = {}
    try:
        with held(place_file(environ, todos)) as (file, no_locks):
            place, healed = read_place(file.read())
            before = set(place.get("ids", ()))
            texts, left = take(todos, place, healed)
            if texts or healed:
                context = message(texts, left, healed)
                answer["hookSpecificOutput"] = {"hookEventName": "UserPromptSubmit", "additionalContext": context}
            if no_locks and not place.get("no_locks"):
                answer["systemMessage"] = NO_LOCKS.format(path=file.name, why=no_locks)
            if no_locks:
                place["no_locks"] = True
            show(answer, out)
            # After it was shown: a crash between the two shows it twice rather than never.
            file.seek(0)
            file.write(json.dumps(place).encode())
            file.truncate()
            note_heard(todos, [each for each in place["ids"] if each not in before])
    except OSError as error:
        # No obstacle to the prompt, but the user should know why nothing comes.
        show({"systemMessage": f"hivesub: ends of subagents cannot be shown here: {error}"}, out)


def show(answer, out):
    if answer:
        json.dump(answer, out)
        out.flush()


if __name__ == "__main__":
    main(os.environ, sys.stdout)
