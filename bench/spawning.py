"""Spawning a turn beside `subprocess.Popen`, in a process of 100 MB and in one of 1 GB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bench.figures import ROUNDS, Figure, Goal

BALLAST_MB = {"100 MB": 50, "1 GB": 950}
"""What is added to what Python and the modules take."""


def figures(root: Path) -> Iterator[Figure]:
    # The kernel gives `echo` the script's path, which it writes: nothing is there sooner than this.
    command = root / "claude"
    command.write_text("#!/bin/echo\n")
    command.chmod(0o755)
    for label, ballast_mb in BALLAST_MB.items():
        rounds = [_round(ballast_mb, command) for _ in range(ROUNDS)]
        for what, ours, theirs, goal in (
            ("reactor blocked by the process", "turn", "bare", Goal(2.0)),
            ("reactor blocked, token and config file too", "whole", "bare", None),
            ("until claude itself runs", "turn_exec", "bare_exec", Goal(5.0)),
        ):
            yield Figure(
                what=f"spawn of a turn at {label}: {what}",
                against="`subprocess.Popen` with a cwd",
                unit="ms",
                ours=[one[ours] for one in rounds],
                theirs=[one[theirs] for one in rounds],
                goal=goal,
            )


def _round(ballast_mb: int, command: Path) -> dict[str, float]:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    argv = [sys.executable, "-m", "bench.spawn_side", str(ballast_mb), str(command)]
    done = subprocess.run(argv, cwd="/tmp", env=environ, stdout=subprocess.PIPE, check=True, timeout=120)
    took = json.loads(done.stdout)
    return {kind: median(values) * 1e3 for kind, values in took.items() if isinstance(values, list)}
