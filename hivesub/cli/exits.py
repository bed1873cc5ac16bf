"""What `hivesub` exits with."""

from __future__ import annotations

from enum import IntEnum

from hivesub.endings import ENDINGS
from hivesub.records import StopKind
from hivesub.shapes import Record
from hivesub.wording import ending_of


class Exit(IntEnum):
    """Exit codes, beside those from 10 on, which `hivesub.endings` gives for a run that was waited for."""

    OK = 0
    REFUSED = 1
    """The daemon refused the call; it says why on stderr."""
    USAGE = 2
    UNREACHABLE = 3
    """No daemon at the URL, or it does not take the token."""
    FAILED = ENDINGS[StopKind.FAILED].exit_code
    INTERRUPTED = 130
    """Ctrl-C. The runs go on."""


def exit_of(record: Record) -> int:
    """How a run ended; `OK` while it goes on."""
    reason = record["stop_reason"]
    return Exit.OK if reason is None else ending_of(reason).exit_code
