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

HOOK = Path(__file__).parents[2] / "plugin" / "hooks" / "todos.py"
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

    def prompt(self, **environ: str) -> str:
        """What the hook puts beside a prompt, "" for nothing."""
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
        if not done.stdout:
            return ""
        answer: dict[str, Any] = json.loads(done.stdout)["hookSpecificOutput"]
        assert answer["hookEventName"] == "UserPromptSubmit"
        return str(answer["additionalContext"])


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def test_each_todo_is_told_once_at_the_next_prompt(session: Session) -> None:
    assert session.prompt() == ""
    session.append(1, 2)
    told = session.prompt()
    assert told.index("number 1.") < told.index("number 2.")
    assert session.prompt() == ""
    session.append(3)
    told = session.prompt()
    assert "number 3." in told and "number 2." not in told


def test_a_todo_that_came_before_the_first_prompt_is_told(session: Session) -> None:
    session.append(1)
    assert "number 1." in session.prompt()
    assert session.prompt() == ""


def test_of_a_long_history_only_the_newest_ten_are_told(session: Session) -> None:
    session.append(*range(50))
    told = session.prompt()
    assert told.count("number ") == 10
    assert "number 40." in told and "number 49." in told
    assert session.prompt() == ""


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


def test_a_place_that_was_damaged_is_begun_anew(session: Session) -> None:
    session.append(1)
    session.prompt()
    (place,) = (Path(session.environ["CLAUDE_PLUGIN_DATA"])).iterdir()
    place.write_text("{broken")
    session.append(2)
    assert "number 2." in session.prompt()


def test_the_default_file_is_the_daemons_own_default(tmp_path: Path) -> None:
    from hivesub.system.dirs import default_state_dir

    session = Session(tmp_path)
    del session.environ["HIVESUB_TODOS"]
    session.todos = default_state_dir(session.environ) / "todos.jsonl"
    session.todos.parent.mkdir(parents=True)
    session.append(1)
    assert "number 1." in session.prompt()
