"""Where a turn's steps come from: the prompt itself, what an earlier prompt planned, or a script file.

A step is one line, `VERB REST`, see `speech` and `deeds` for the verbs. A prompt carries steps on lines of its
own that begin with `!standin`; a quotation mark `>` before it does no harm, so that a goal may carry them too:

    !standin text I have started
    !standin goal_reached all done
    !standin turn 2: need_help which branch?

`turn N:` plans for the Nth turn from this one on and is remembered in the session. Steps of the prompt itself
win over planned ones, those over the script file that `STANDIN_SCRIPT` names, that over the default, a short text.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from hivesub.standin.sessions import Session

MARK = "!standin "


class Planned(Exception):
    """A directive or script file that cannot be read. The text says which."""


def directives(prompt: str) -> tuple[list[str], dict[str, list[str]]]:
    """The steps in a prompt: for this turn, and for later ones by their number as text.

    :raises Planned: for a `turn` without a number.
    """
    now: list[str] = []
    later: dict[str, list[str]] = {}
    if MARK.strip() not in prompt:
        return now, later
    for line in prompt.splitlines():
        line = line.lstrip("> \t")
        if not line.startswith(MARK):
            continue
        step = line[len(MARK) :].strip()
        if step.startswith("turn "):
            number, colon, step = step[len("turn ") :].partition(":")
            if not colon or not number.strip().isdigit():
                raise Planned(f"cannot read {line!r}: write `{MARK}turn N: STEP`")
            if int(number) != 1:
                later.setdefault(str(int(number)), []).append(step.strip())
                continue
        now.append(step.strip())
    return now, later


def load(path: str, title: str | None) -> dict[str, Any]:
    """Read a script file: what it holds for a session of this title.

    Shape: `{"turns": [[step, …], …], "each": [step, …]}`, both optional; a bare list is the turns;
    `{"sessions": {title: either}}` beside them is for one title.

    :raises Planned: for a file of another shape.
    """
    try:
        with open(path, encoding="utf-8") as file:
            script = json.load(file)
    except (OSError, ValueError) as why:
        raise Planned(f"cannot read the script {path}: {why}") from why
    if isinstance(script, dict):
        script = script.get("sessions", {}).get(title, script)
    return {"turns": script} if isinstance(script, list) else dict(script)


def steps_for(session: Session, prompt: str) -> list[str]:
    """The steps of the turn that this prompt begins. Remembers in `session` what the prompt plans for later turns.

    :raises Planned: for steps that cannot be read.
    """
    now, later = directives(prompt)
    plan = session.plan
    if later and later != plan.get("turns"):
        plan = session.plan = {"from": session.turns, "turns": later}
    if now:
        return now
    planned = plan.get("turns", {}).get(str(session.turns - plan.get("from", 0) + 1))
    if planned:
        return list(planned)
    path = os.environ.get("STANDIN_SCRIPT")
    if path:
        script = load(path, session.title)
        turns = script.get("turns", [])
        if session.turns < len(turns):
            turn = turns[session.turns]
            return [turn] if isinstance(turn, str) else list(turn)
        if "each" in script:
            return list(script["each"])
    return []


def default_text(prompt: str) -> str:
    """What is said when nobody scripted anything."""
    first = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    return f"This is hivesub's stand-in for claude; no model was asked. The prompt begins: {first[:80]}"
