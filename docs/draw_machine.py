"""Draws the machine of a run as Mermaid text from the code's own table, between two marks of a page.

`python docs/draw_machine.py` rewrites the page; a test compares.
"""

from __future__ import annotations

from pathlib import Path

from hivesub.runs.machine import TRANSITIONS

PAGE = Path(__file__).parent / "explanation" / "life-of-a-run.md"
BEGIN, END = "<!-- machine: begin -->\n", "<!-- machine: end -->\n"


def drawing() -> str:
    """The machine as a fenced Mermaid block; inputs that change nothing are left out."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {TRANSITIONS[0][0].value}"]
    lines += [
        f"    {state.value} --> {following.value}: {step.__name__}"
        for state, step, following, _ in TRANSITIONS
        if state != following
    ]
    return "\n".join([*lines, "    over --> [*]", "```", ""])


def redrawn(page: str) -> str:
    """The page with the drawing that the code now gives."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{drawing()}{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
