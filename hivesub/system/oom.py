"""Which process the kernel ends first where memory runs out: a child before the daemon, which could not say how its
children ended otherwise."""

from __future__ import annotations

from pathlib import Path

STEP = 500
"""How much likelier a child is chosen, of 1,000: as if it held half of the memory more."""
MOST = 1000

_PROC = Path("/proc")


def offer_first(pid: int, *, proc: Path = _PROC) -> None:
    """Raise a child's `oom_score_adj` above the daemon's own; what it starts inherits it, what it becomes keeps it.

    Right after the spawn, from outside: a wrapper that does it costs another exec. Where the system does not let us,
    nothing is done.
    """
    try:
        own = int((proc / "self" / "oom_score_adj").read_text())
        (proc / str(pid) / "oom_score_adj").write_text(str(min(MOST, own + STEP)))
    except (OSError, ValueError):
        pass  # not Linux; or it is gone already, or has changed its user
