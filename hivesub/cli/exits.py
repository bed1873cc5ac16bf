"""What `hivesub` exits with."""

from __future__ import annotations

from enum import IntEnum

from hivesub.records import RecordDict, StopKind


class Exit(IntEnum):
    """Exit codes. From 10 on they tell how a run ended that was waited for."""

    OK = 0
    REFUSED = 1
    """The daemon refused the call; it says why on stderr."""
    USAGE = 2
    UNREACHABLE = 3
    """No daemon at the URL, or it does not take the token."""
    BLOCKED = 10
    STOPPED_SHORT = 11
    """Turn cap, budget spent or no signal route: the goal was not reported reached."""
    KILLED = 12
    FAILED = 13
    INTERRUPTED = 130
    """Ctrl-C. The runs go on."""


def exit_of(record: RecordDict) -> Exit:
    """How a run ended; `OK` where its turn ended by itself or its goal is reported reached."""
    by_state = {"blocked": Exit.BLOCKED, "killed": Exit.KILLED, "failed": Exit.FAILED}
    if record["state"] in by_state:
        return by_state[record["state"]]
    kind = (record["stop_reason"] or {}).get("kind")
    short = {StopKind.TURN_CAP.value, StopKind.BUDGET_SPENT.value, StopKind.NO_CONTROL.value}
    return Exit.STOPPED_SHORT if kind in short else Exit.OK
