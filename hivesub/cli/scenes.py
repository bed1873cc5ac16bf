"""What the demo plays: three subagents, on the stand-in or on the real claude. Texts alone."""

from __future__ import annotations

from attrs import frozen


@frozen(kw_only=True)
class Scenes:
    """The calls that the demo makes as an agent would.

    `names`: of the one that works toward a goal, the one that asks, the one that goes silent. `check`: the shell
    command that the goal's claims are held against, in the directory where all three work.
    `silence_s`: how long `wedged` may be silent before it is interrupted; `bound_s`: on the whole.
    """

    names: tuple[str, str, str]
    goal_prompt: str
    goal: str
    check: str
    asks_prompt: str
    asks_goal: str
    answer: str
    wedged_prompt: str
    silence_s: float
    bound_s: float


def _steps(words: str, *steps: str) -> str:
    """A prompt with the stand-in's steps."""
    return "\n".join([words, *(f"!standin {step}" for step in steps)])


def _work(seconds: float, *texts: str) -> list[str]:
    """Steps that say something now and then."""
    return [step for text in texts for step in (f"text {text}", f"sleep {seconds / len(texts):g}")]


def _turn(number: int, steps: list[str]) -> list[str]:
    return [f"turn {number}: {step}" for step in steps]


STANDIN = Scenes(
    names=("write-tests", "rename-api", "fix-build"),
    goal_prompt=_steps(
        "Write tests for the module ledger until each of its branches is run.",
        "tokens 5200 1900",
        "cost 0.061",
        *_work(2.6, "I read ledger.py and its tests", "I write test_rounding", "I run the tests"),
        *_turn(2, ["tokens 6100 2300", "cost 0.078", *_work(2.6, "I write test_overdraft", "I write test_fees")]),
        "turn 2: write uncovered.txt ledger.py:88 (overdraft of a closed account) is not run",
        "turn 2: goal_reached every branch of ledger.py is run",
        *_turn(3, ["tokens 3800 900", "cost 0.042", *_work(2.2, "the check is right: line 88", "I write test_closed")]),
        "turn 3: bash rm uncovered.txt",
        "turn 3: goal_reached 14 tests pass and coverage says 100 % of the branches of ledger.py",
    ),
    goal="every branch of ledger.py is run by a test that passes",
    check="if [ -e uncovered.txt ]; then cat uncovered.txt; exit 1; fi; echo every branch is run",
    asks_prompt=_steps(
        "Rename the function charge to debit everywhere.",
        "tokens 2100 400",
        "cost 0.019",
        *_work(2.4, "I look for callers of charge", "a client outside this repository calls it too"),
        "need_help May charge stay as an alias of debit for one release? A client outside calls it.",
    ),
    asks_goal="no caller uses charge any more, and the tests pass",
    answer=_steps(
        "Yes, keep it as an alias for one release, with a warning.",
        "tokens 3300 1200",
        "cost 0.033",
        *_work(2.6, "I rename 23 calls", "I add the alias", "I run the tests"),
        "goal_reached charge is an alias that warns; 23 callers use debit; 211 tests pass",
    ),
    wedged_prompt=_steps(
        "Find out why the build does not end.",
        "cost 0.008",
        *_work(1.5, "I start the build", "it waits for something"),
        "hang",
    ),
    silence_s=6.0,
    bound_s=25.0,
)
"""About thirteen seconds."""

REAL = Scenes(
    names=("poet", "painter", "essayist"),
    goal_prompt=(
        "Write three haiku about bees, one in each turn: haiku-1.txt in the first turn, haiku-2.txt in the second, "
        "haiku-3.txt in the third, in your working directory. End each turn once its file is written."
    ),
    goal="haiku-1.txt, haiku-2.txt and haiku-3.txt each hold a haiku about bees",
    check="for n in 1 2 3; do [ -s haiku-$n.txt ] || { echo haiku-$n.txt is missing; exit 1; }; done",
    asks_prompt=(
        "Write the operator's favourite colour into colour.txt. You cannot know it and must not guess: ask with the "
        "tool need_help and end your turn."
    ),
    asks_goal="colour.txt holds the operator's favourite colour",
    answer="It is amber. Write it, then report the goal reached with the tool goal_reached.",
    wedged_prompt="Write an essay of five thousand words on the history of beekeeping into essay.txt, in one go.",
    silence_s=6.0,
    bound_s=600.0,
)
"""A few minutes, and a few cents to a few dollars by the account's model."""
