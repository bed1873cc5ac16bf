"""The fields of each tool, the rules between them, and the requests they make.

Owns what a call may say, and how it is described to a model. Whether it can be done is the fleet's part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hivesub.errors import BadRequest
from hivesub.records import DEFAULT_MAX_TURNS, ContinueRequest, StartRequest
from hivesub.tools.arguments import Fields
from hivesub.tools.kinds import Amount, Flag, Kind, Text, Whole

MAX_PROMPT_BYTES = 2 * 1024 * 1024
MAX_WAIT_S = 50
_MAX_IDLE_S = 7 * 24 * 3600
_MAX_PATH_BYTES = 4096
_MAX_MESSAGE_CHARS = 100_000
"""Far above the 4,000 at which a signal's message is cut: a long one is cut, and said to be, not refused."""

# Printable ASCII without a blank; no dash first, so that it can never be read as an option.
_FLAG_VALUE = r"^[!-,.-~][!-~]{0,199}$"
_FLAG_VALUE_SAYS = "1 to 200 printable ASCII characters without a blank, the first no dash"

_NAME = Text(
    description="The subagent's name: 1 to 64 of A-Z a-z 0-9 . _ -, the first a letter or digit.",
    pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
    pattern_says="1 to 64 of the characters A-Z a-z 0-9 . _ -, the first a letter or digit",
)


def _prompt(description: str) -> Text:
    # It goes to claude on stdin, where a NUL does no harm.
    return Text(description=description, max_bytes=MAX_PROMPT_BYTES, nul=True)


def _turn_options(
    *, goal: Text, max_turns: Whole, report_file: str, model: str, effort: str, budget: str, idle: str
) -> dict[str, Kind]:
    return {
        "goal": goal,
        "max_turns": max_turns,
        "report_file": Text(description=report_file, max_bytes=_MAX_PATH_BYTES),
        "model": Text(description=model, pattern=_FLAG_VALUE, pattern_says=_FLAG_VALUE_SAYS),
        "effort": Text(description=effort, pattern=_FLAG_VALUE, pattern_says=_FLAG_VALUE_SAYS),
        "max_budget_usd": Amount(description=budget, above=0),
        "idle_timeout_s": Amount(description=idle, above=0, maximum=_MAX_IDLE_S),
        "request_key": Text(
            description=(
                "Any text, new for each call you mean. "
                "Repeat a call whose answer got lost with the same key: it is not done twice."
            ),
            max_chars=200,
        ),
    }


def _dir(description: str) -> Text:
    return Text(
        description=description,
        pattern=r"^[/~][\s\S]*$",
        pattern_says="an absolute path, or one that begins with ~",
        max_bytes=_MAX_PATH_BYTES,
    )


START = Fields(
    {
        "name": _NAME,
        "prompt": _prompt("The task, with all it needs: it sees nothing of your conversation. At most 2 MiB."),
        "dir": _dir("Existing directory to work in, absolute or ~. Default: the daemon's own."),
        **_turn_options(
            goal=Text(
                description="What is to be reached, in words that can be checked. Without it the run is one turn.",
                max_bytes=MAX_PROMPT_BYTES,
                nul=True,
            ),
            max_turns=Whole(
                description="The most turns the run may take toward `goal`. Only with `goal`.",
                minimum=1,
                maximum=100,
                default=DEFAULT_MAX_TURNS,
            ),
            report_file="File for the report, for you to read; relative means in `dir`. How the run ended is appended.",
            model="Model for claude's --model.",
            effort="Effort for claude's --effort.",
            budget="US dollars the whole run may cost. No further turn once they are spent.",
            idle="Interrupt a turn that writes nothing for so many seconds. Default: never.",
        ),
    },
    required=("name", "prompt"),
)

CONTINUE = Fields(
    {
        "name": _NAME,
        "prompt": _prompt("What to do next, or the answer to its need_help. At most 2 MiB."),
        "dir": _dir("Directory the session was started in. Default: the one remembered for this name."),
        "session_id": Text(
            description="The session to resume, where the name alone does not tell.",
            pattern=r"^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
            pattern_says="a session id, a UUID such as 123e4567-e89b-12d3-a456-426614174000",
            lower=True,
        ),
        **_turn_options(
            goal=Text(
                description='A new goal. Default: the one that the last run stopped short of; "" for a single turn.',
                max_bytes=MAX_PROMPT_BYTES,
                blank=True,
                nul=True,
            ),
            max_turns=Whole(
                description="The most turns from here on. Only with a goal. Default: as many as before.",
                minimum=1,
                maximum=100,
            ),
            report_file="As in start. Default: as before.",
            model="As in start. Default: as before.",
            effort="As in start. Default: as before.",
            budget="US dollars for this run anew. Default: as before.",
            idle="As in start. Default: as before.",
        ),
    },
    required=("name", "prompt"),
)

STATUS = Fields(
    {
        "name": Text(
            description="The subagent to tell of. Default: all that run and the last 20 that ended.",
            pattern=_NAME.pattern,
            pattern_says=_NAME.pattern_says,
        ),
        "wait_s": Amount(
            description="Wait up to so many seconds for a run to end, then answer.",
            minimum=0,
            maximum=MAX_WAIT_S,
            default=0,
        ),
        "result": Flag(description="Also give `result`, the last thing that the subagent said."),
    }
)

INTERRUPT = Fields({"name": _NAME}, required=("name",))

# A blank path is taken as none was given: a claim must not be lost over it.
_SIGNAL_REPORT = Text(
    description="File with your findings, inside your working directory.", max_bytes=_MAX_PATH_BYTES, blank=True
)

GOAL_REACHED = Fields(
    {
        "message": Text(
            description="What was reached and how it can be checked. Kept up to 4,000 characters.",
            max_chars=_MAX_MESSAGE_CHARS,
            blank=True,
            nul=True,
        ),
        "report_file": _SIGNAL_REPORT,
    }
)

NEED_HELP = Fields(
    {
        "reason": Text(
            description="What stops you, and the question to answer for you to go on. Kept up to 4,000 characters.",
            max_chars=_MAX_MESSAGE_CHARS,
            nul=True,
        ),
        "report_file": _SIGNAL_REPORT,
    },
    required=("reason",),
)


def start_request(values: Mapping[str, Any]) -> StartRequest:
    """What `START.read` gave, as a request; a goal without a budget gets the default one.

    :raises BadRequest: on `max_turns` without `goal`.
    """
    if "goal" not in values:
        if "max_turns" in values:
            raise BadRequest(
                "max_turns: needs `goal`, since without one a run is a single turn; give a goal, or leave max_turns out"
            )
        return StartRequest(**values)
    return StartRequest(**{"max_turns": DEFAULT_MAX_TURNS, **values})


def continue_request(values: Mapping[str, Any]) -> ContinueRequest:
    """What `CONTINUE.read` gave, as a request. Whether the continued run carries a goal is known to the fleet alone.

    :raises BadRequest: on a blank goal that is not "", and on `max_turns` with a goal of "".
    """
    goal = values.get("goal")
    if goal == "" and "max_turns" in values:
        raise BadRequest('max_turns: needs a goal, and a `goal` of "" asks for a single turn; leave one of the two out')
    if goal and not goal.strip():
        raise BadRequest(
            'goal: must not be blank; give a goal, "" for a single turn, or leave it out to keep the one it had'
        )
    return ContinueRequest(**values)
