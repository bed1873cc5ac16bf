"""What the tutorial tells a newcomer to type is what the command line and the stand-in take."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from hivesub.cli.main import hivesub
from hivesub.standin import deeds, speech
from hivesub.standin.script import directives
from hivesub.tools.arguments import ContinueArguments, StartArguments, read

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial"
_FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HERE_TEXT = re.compile(r" <<'END'\n(.*?)^END$", re.MULTILINE | re.DOTALL)


def shell_blocks() -> Iterator[str]:
    """The text of each fenced block of shell commands, page by page."""
    for page in sorted(TUTORIAL.glob("*.md")):
        for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
            yield found[1]


def hivesub_lines() -> list[list[str]]:
    """The words after `hivesub` of each such command."""
    lines = (line for block in shell_blocks() for line in _HERE_TEXT.sub("", block).splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("hivesub ")]


def prompts() -> list[str]:
    """The prompts that are given on stdin."""
    return [found[1] for block in shell_blocks() for found in _HERE_TEXT.finditer(block)]


def parsed(line: list[str]) -> dict[str, Any]:
    """What the command would get."""
    return hivesub.commands[line[0]].make_context(line[0], line[1:]).params


class TheTutorial(SynchronousTestCase):
    def test_each_hivesub_command_is_one_that_the_command_line_takes(self) -> None:
        lines = hivesub_lines()
        for line in lines:
            parsed(line)
        self.assertEqual({"continue", "demo", "interrupt", "start", "status", "wait"}, {line[0] for line in lines})

    def test_each_start_and_continue_has_fields_that_the_tools_take(self) -> None:
        for line in hivesub_lines():
            models: dict[str, type[StartArguments | ContinueArguments]]
            models = {"start": StartArguments, "continue": ContinueArguments}
            model = models.get(line[0])
            if model is not None:
                given = parsed(line)
                read(model, {name: given.get({"dir": "directory"}.get(name, name)) for name in model.model_fields})

    def test_each_directive_is_one_that_the_stand_in_knows(self) -> None:
        verbs = set()
        for prompt in prompts():
            now, later = directives(prompt)
            verbs |= {step.partition(" ")[0] for step in [*now, *(step for steps in later.values() for step in steps)]}
        self.assertEqual({"goal_reached", "hang", "need_help", "text"}, verbs)
        self.assertTrue(verbs <= {*speech.VERBS, *deeds.VERBS})
