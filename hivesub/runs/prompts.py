"""What a subagent reads: the first prompt of a run and the one of each later turn. Pure text;
short on purpose.

The goal is quoted verbatim between two lines that it does not itself contain, so that a goal of many lines, or one
that tries to speak as the harness, stays clearly apart from what the harness says.
"""

from __future__ import annotations

from hivesub.records import CONTROL_SERVER, CheckEnd, SignalKind

SIGNAL_TOOLS = tuple(f"mcp__{CONTROL_SERVER}__{kind}" for kind in (SignalKind.GOAL_REACHED, SignalKind.NEED_HELP))
"""The two signal tools, as claude names them to the model (measured, claude 2.1.332)."""


_UNSIGNALLED = "Your last turn ended without a signal"


def first_prompt(prompt: str, *, goal: str | None, turn: int, max_turns: int | None, report_file: str | None) -> bytes:
    """The prompt of a run's first turn, as UTF-8.

    Without a goal it is the agent's prompt byte for byte, whatever the report file; with one our text follows the
    prompt.

    :raises UnicodeEncodeError: when the prompt or goal holds lone surrogates; callers refuse such text before.
    """
    if goal is None or max_turns is None:
        return _bytes(prompt)
    return _bytes(
        prompt,
        "\n---",
        f"This session works toward a goal. Turn {turn} of {max_turns}.{_last(turn, max_turns)}",
        _quoted(goal),
        *_how_to_signal(report_file),
        "",
    )


def next_prompt(
    *,
    goal: str,
    turn: int,
    max_turns: int,
    report_file: str | None,
    cut: str = "",
    failed_check: CheckEnd | None = None,
) -> bytes:
    """The prompt of a later turn of a run, as UTF-8: the goal, which turn of how many this is, and how to signal.

    :param cut: why the turn before was cut off, "" where it was not.
    :param failed_check: the check that failed after the turn before, None where none did.
    """
    before = f"Your last turn was cut off ({cut}): look at what is not done" if cut else _UNSIGNALLED
    if failed_check is not None:
        before = "The goal is not reached yet"
    return _bytes(
        f"{before}, {'and' if cut else 'so'} go on toward the goal. "
        f"Turn {turn} of {max_turns}.{_last(turn, max_turns)}",
        *_checked(failed_check),
        _quoted(goal),
        *_how_to_signal(report_file),
        "",
    )


def _bytes(*lines: str) -> bytes:
    """The lines as UTF-8; a path that is none goes to claude as it is on the disk."""
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _checked(check: CheckEnd | None) -> list[str]:
    if check is None:
        return []
    head = f"The check `{check.name}`, which the goal is held against, failed with exit code {check.exit_code}."
    return [head, _fenced("The end of its output", "output", check.tail)] if check.tail.strip() else [head]


def _how_to_signal(report_file: str | None) -> list[str]:
    goal_reached, need_help = SIGNAL_TOOLS
    lines = [
        f"When the goal is reached, call {goal_reached} and say what shows it: the claim will be checked.",
        f"When you are stuck on what only the agent that started you can unblock, call {need_help} with the reason.",
        "With neither call you get another turn while the budget lasts.",
    ]
    if report_file is not None:
        lines.append(f"Write your findings to {report_file}; how the run ended is appended there.")
    return lines


def _last(turn: int, max_turns: int) -> str:
    return " This is the last turn: leave the work in a state that others can take up." if turn >= max_turns else ""


def _quoted(goal: str) -> str:
    return _fenced("The goal", "goal", goal)


def _fenced(what: str, word: str, text: str) -> str:
    fence = "=" * 8
    while fence in text:
        fence += "="
    return f"{what}, verbatim between the two lines:\n{fence} {word}\n{text}\n{fence} end of {word}"
