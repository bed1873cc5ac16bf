"""What `hivesub` exits with."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from hivesub.endings import ENDINGS, GOING_ON
from hivesub.records import StopKind
from hivesub.shapes import Record
from hivesub.wording import ending_of


class Exit(IntEnum):
    """Exit codes, beside those from 10 on, which `hivesub.endings` gives for a run that was waited for."""

    OK = 0
    REFUSED = 1
    """The daemon refused the call; it says why on stderr."""
    USAGE = 2
    """The command line, stdin or a file that it names cannot be used."""
    UNREACHABLE = 3
    """No daemon at the URL, or it does not take the token."""
    OUTPUT = 4
    """What was to be printed could not be written, as on a full disk."""
    AMISS = 5
    """`hivesub doctor` found something that has to be put right."""
    FAILED = ENDINGS[StopKind.FAILED].exit_code
    TIMED_OUT = 124
    """`hivesub wait --timeout`: they still run. The number is that of timeout(1)."""
    INTERRUPTED = 130
    """Ctrl-C. The runs go on."""


def is_over(record: Record) -> bool:
    """Whether the run has ended."""
    return record["state"] not in GOING_ON


def exit_of(record: Record) -> int:
    """How a run ended; `OK` while it goes on."""
    reason = record["stop_reason"]
    return Exit.OK if reason is None else ending_of(reason).exit_code


def worst_of(codes: Iterable[int]) -> int:
    """The code of the run that ended worst; `OK` of none."""
    order = [row.exit_code for row in ENDINGS.values() if row.exit_code]  # a bad end stands below a better one
    return max(codes, key=lambda code: order.index(code) if code in order else -1, default=Exit.OK)
