"""The plugin's hook, run as Claude Code runs it: a program that gets JSON and prints JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HOOKS = Path(__file__).parents[2] / "plugin" / "hooks"
HOOK = HOOKS / "todos.py"
BLOCKS_THE_PROMPT = 2
"""The exit status of a hook that claude takes for a refusal of the prompt."""
BOUND_S = 30


class Session:
    """An agent's session whose prompts run the hook."""

    def __init__(self, root: Path) -> None:
        self.todos = root / "todos.jsonl"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(root),
            "HIVESUB_TODOS": str(self.todos),
            "CLAUDE_PLUGIN_DATA": str(root / "data"),
        }

    def append(self, *numbers: int, body: str = "It ended.") -> None:
        with self.todos.open("a") as file:
            for number in numbers:
                todo = {"id": f"id-{number}", "kind": "subagent_run_ended", "title": f"number {number}.", "body": body}
                file.write(json.dumps(todo) + "\n")

    @property
    def place(self) -> Path:
        """The file in which the hook keeps how far it has read."""
        (place,) = Path(self.environ["CLAUDE_PLUGIN_DATA"]).iterdir()
        return place

    def prompt(self, **environ: str) -> str:
        """What the hook puts beside a prompt, "" for nothing."""
        answer = self.answer(**environ)
        if "hookSpecificOutput" not in answer:
            return ""
        assert answer["hookSpecificOutput"]["hookEventName"] == "UserPromptSubmit"
        return str(answer["hookSpecificOutput"]["additionalContext"])

    def answer(self, **environ: str) -> dict[str, Any]:
        """All that the hook says at a prompt."""
        done = subprocess.run(
            [sys.executable, str(HOOK)],
            input=json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": "go on"}),
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return dict(json.loads(done.stdout)) if done.stdout else {}


@pytest.fixture
def new(tmp_path: Path) -> Session:
    """One whose first prompt is yet to come."""
    return Session(tmp_path)


@pytest.fixture
def session(new: Session) -> Session:
    """One in which a prompt was given before there was any todo."""
    assert new.prompt() == ""
    return new


def test_each_todo_is_told_once_at_the_next_prompt(session: Session) -> None:
    assert session.prompt() == ""
    session.append(1, 2)
    told = session.prompt()
    assert told.index("number 1.") < told.index("number 2.")
    assert session.prompt() == ""
    session.append(3)
    told = session.prompt()
    assert "number 3." in told and "number 2." not in told


def test_what_ended_before_the_first_prompt_is_history(new: Session) -> None:
    new.append(*range(12))
    assert new.prompt() == ""
    new.append(12)
    told = new.prompt()
    assert "number 12." in told and told.count("number ") == 1


def test_a_file_that_is_still_empty_at_the_first_prompt_has_no_history(new: Session) -> None:
    old = new.todos.with_name("todos.jsonl.1")
    new.append(1)
    new.todos.rename(old)
    new.todos.touch()
    assert new.prompt() == ""
    new.append(2)
    told = new.prompt()
    assert "number 2." in told and "number 1." not in told


def test_inside_a_subagent_nothing_is_said_and_nothing_is_taken(session: Session) -> None:
    session.append(1)
    assert session.prompt(HIVESUB_TURN="a-mark") == ""
    assert "number 1." in session.prompt()


def test_a_line_that_is_still_being_written_waits_for_its_end(session: Session) -> None:
    session.append(1)
    whole = session.todos.read_bytes()
    session.todos.write_bytes(whole[:20])
    assert session.prompt() == ""
    session.todos.write_bytes(whole)
    assert "number 1." in session.prompt()


@pytest.mark.parametrize("junk", [b"{broken\n", b"[]\n", b"null\n", b"\xff\xfe\n", b'{"kind": "else"}\n', b"\n"])
def test_a_line_that_is_no_todo_is_passed_over(session: Session, junk: bytes) -> None:
    session.todos.write_bytes(junk)
    session.append(1)
    assert "number 1." in session.prompt()
    assert session.prompt() == ""


def empty(todos: Path) -> None:
    todos.write_text("")


def rotate(todos: Path) -> None:
    todos.rename(todos.with_suffix(".old"))


@pytest.mark.parametrize("renew", [empty, rotate])
def test_a_file_that_begins_anew_brings_the_new_and_not_the_old(
    session: Session, renew: Callable[[Path], None]
) -> None:
    session.append(1, 2, 3)
    session.prompt()
    renew(session.todos)
    session.append(2, 4)
    told = session.prompt()
    assert "number 4." in told and "number 2." not in told


def test_what_is_too_much_for_one_prompt_comes_with_the_next(session: Session) -> None:
    session.prompt()
    session.append(1, 2, 3, body="x" * 5000)
    told = [session.prompt() for _ in range(4)]
    assert [text.count("number ") for text in told] == [1, 1, 1, 0]
    assert "2 more will come" in told[0]
    assert all(len(text) < 10_000 for text in told)


def moved_aside(todos: Path) -> None:
    todos.rename(todos.with_name("todos.jsonl.1"))


def test_what_was_not_read_yet_when_the_file_was_rotated_is_read_first(session: Session) -> None:
    session.append(1)
    session.prompt()
    session.append(2, 3)
    moved_aside(session.todos)
    session.append(4)
    told = session.prompt()
    assert told.count("number ") == 3 and told.index("number 2.") < told.index("number 3.") < told.index("number 4.")
    session.append(5)
    told = session.prompt()
    assert told.count("number ") == 1 and "number 5." in told


def test_a_prompt_in_the_middle_of_a_rotation_loses_nothing(session: Session) -> None:
    session.append(1)
    session.prompt()
    session.append(2)
    moved_aside(session.todos)
    assert "number 2." in session.prompt()
    session.append(3)
    told = session.prompt()
    assert told.count("number ") == 1 and "number 3." in told


def test_what_is_too_much_for_one_prompt_is_found_after_a_rotation(session: Session) -> None:
    session.append(1, 2, body="x" * 5000)
    assert session.prompt().count("number ") == 1
    moved_aside(session.todos)
    session.append(3)
    told = session.prompt()
    assert "number 2." in told and "number 3." in told


def test_a_file_that_was_rotated_twice_between_two_prompts_brings_what_is_still_there(session: Session) -> None:
    for number in (1, 2):
        session.append(number)
        moved_aside(session.todos)
    session.append(3)
    told = session.prompt()
    assert "number 2." in told and "number 3." in told


DAMAGES = {
    "cut": b"{broken",
    "no JSON object": b"[]",
    "empty object": b"{}",
    "offset a text": b'{"ids": [], "offset": "x"}',
    "offset negative": b'{"ids": [], "offset": -5}',
    "offset a fraction": b'{"ids": [], "offset": 1.5}',
    "offset true": b'{"ids": [], "offset": true}',
    "offset null": b'{"ids": [], "offset": null}',
    "ids no list": b'{"ids": 5, "offset": 0}',
    "ids no texts": b'{"ids": [[1]], "offset": 0}',
    "file a text": b'{"ids": [], "offset": 0, "file": "x"}',
    "no UTF-8": b"\xff\xfe\xe9",
    "too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_place_is_begun_anew_with_the_newest_and_says_so_once(session: Session, damage: bytes) -> None:
    session.append(*range(20))
    session.prompt()
    heard(session).unlink()
    session.place.write_bytes(damage)
    session.append(20)
    told = session.prompt()
    assert told.count("number ") == 10 and "number 20." in told
    assert told.count("was damaged") == 1
    assert session.prompt() == ""
    session.append(21)
    told = session.prompt()
    assert "number 21." in told and told.count("number ") == 1 and "damaged" not in told


def test_a_damaged_place_without_any_todo_is_mentioned_once_too(session: Session) -> None:
    session.place.write_bytes(b"{broken")
    assert "was damaged" in session.prompt()
    assert session.prompt() == ""


@pytest.mark.parametrize("what", ["place", "todos"])
def test_a_file_that_cannot_be_opened_is_one_line_for_the_user_and_no_error(session: Session, what: str) -> None:
    path = session.place if what == "place" else session.todos
    path.unlink(missing_ok=True)
    path.mkdir()
    answer = session.answer()
    assert list(answer) == ["systemMessage"]
    assert "cannot be shown here" in answer["systemMessage"] and str(path) in answer["systemMessage"]


def test_a_file_system_without_locks_is_mentioned_once_and_todos_still_come(session: Session, tmp_path: Path) -> None:
    (tmp_path / "fcntl.py").write_text("LOCK_EX = 2\ndef flock(file, how): raise OSError(37, 'No locks available')\n")
    session.append(1)
    answer = session.answer(PYTHONPATH=str(tmp_path))
    assert "number 1." in answer["hookSpecificOutput"]["additionalContext"]
    assert "knows no locks (No locks available)" in answer["systemMessage"]
    session.append(2)
    answer = session.answer(PYTHONPATH=str(tmp_path))
    assert "number 2." in answer["hookSpecificOutput"]["additionalContext"]
    assert "systemMessage" not in answer


def heard(session: Session) -> Path:
    return session.todos.with_name("todos.jsonl.heard")


def test_an_end_that_the_agent_has_heard_of_is_left_out(session: Session) -> None:
    session.append(1, 2, 3)
    heard(session).write_text("id-1\nid-3\n")
    told = session.prompt()
    assert told.count("number ") == 1 and "number 2." in told
    session.append(4)
    heard(session).unlink()
    told = session.prompt()
    assert told.count("number ") == 1 and "number 4." in told


def test_what_is_shown_is_added_to_what_the_agent_has_heard_of(session: Session) -> None:
    session.append(1)
    heard(session).write_text("id-1\nof-another\n")
    session.append(2, 3, body="x" * 5000)
    session.prompt()
    assert heard(session).read_text() == "id-1\nof-another\nid-2\n"
    session.prompt()
    assert heard(session).read_text() == "id-1\nof-another\nid-2\nid-3\n"
    session.prompt()
    assert heard(session).read_text() == "id-1\nof-another\nid-2\nid-3\n"


def test_a_damaged_place_brings_nothing_again_that_the_agent_has_heard_of(session: Session) -> None:
    session.append(*range(20))
    session.prompt()
    session.place.write_bytes(b"{broken")
    session.append(20)
    told = session.prompt()
    assert told.count("number ") == 1 and "number 20." in told


def test_the_daemon_reads_what_the_hook_has_added(session: Session) -> None:
    from twisted.internet.defer import succeed
    from twisted.internet.task import Clock

    from hivesub.todos.heard import Heard

    session.append(1)
    session.prompt()
    ids = Heard([session.todos], Clock(), lambda call, *args: succeed(call(*args))).ids()
    assert ids.result == frozenset({"id-1"})


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.write_bytes(b"\xff\xfe\n" * 200_000)])
def test_where_it_cannot_be_read_what_the_agent_has_heard_of_all_is_shown(
    session: Session, make: Callable[[Path], None]
) -> None:
    make(heard(session))
    session.append(1)
    assert "number 1." in session.prompt()
    assert session.prompt() == ""


def test_the_newest_ids_of_a_long_file_are_read(session: Session) -> None:
    heard(session).write_text("".join(f"other-{number}\n" for number in range(50_000)) + "id-1\n")
    session.append(1)
    assert session.prompt() == ""


@pytest.mark.parametrize("spoil", [Path.unlink, lambda script: (script.unlink(), script.mkdir())])
def test_a_script_that_is_missing_or_cannot_be_read_is_no_obstacle_to_a_prompt(
    tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    script = tmp_path / "hooks" / "todos.py"
    script.parent.mkdir()
    script.touch()
    spoil(script)
    ((group,),) = json.loads((HOOKS / "hooks.json").read_text())["hooks"].values()
    ((hook,),) = group.values()
    environ = {**os.environ, "CLAUDE_PLUGIN_ROOT": str(tmp_path)}
    done = subprocess.run(["sh", "-c", hook["command"]], env=environ, capture_output=True, timeout=BOUND_S, check=False)
    assert done.returncode not in (0, BLOCKS_THE_PROMPT)


def test_the_default_file_is_the_daemons_own_default(tmp_path: Path) -> None:
    from hivesub.system.dirs import default_state_dir

    session = Session(tmp_path)
    del session.environ["HIVESUB_TODOS"]
    session.todos = default_state_dir(session.environ) / "todos.jsonl"
    session.todos.parent.mkdir(parents=True)
    session.prompt()
    session.append(1)
    assert "number 1." in session.prompt()
