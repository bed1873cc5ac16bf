"""Reading a child's stdout with every fact extracted, beside a stock Twisted protocol and claude-agent-sdk's reader."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from attrs import frozen

from bench.figures import ROUNDS, Figure, Goal

SIZES = {"200 B": 200, "2 KB": 2_000, "100 KB": 100_000}
TOTAL_BYTES = 300_000_000
SDK_BYTES = 60_000_000
"""The SDK's reader is slow enough for less to do."""
_STOCK_GOALS = {"200 B": 0.8, "2 KB": 1.2, "100 KB": 1.4}
_SDK_GOALS = {"200 B": 8.0, "2 KB": 4.0, "100 KB": 3.0}


@frozen
class _Reading:
    """MB/s, and CPU seconds per GB."""

    rate: float
    cpu: float


def figures(root: Path) -> Iterator[Figure]:
    for label, size in SIZES.items():
        write = _writer(root / label.replace(" ", ""), size, TOTAL_BYTES)
        write_less = _writer(root / f"{label.replace(' ', '')}-less", size, SDK_BYTES)
        read: dict[str, list[_Reading]] = {"ours": [], "stock": [], "sdk": []}
        for _ in range(ROUNDS):
            for side in read:
                read[side].append(_read(side, write_less if side == "sdk" else write, root))
        ours, stock, sdk = read.values()
        for against, theirs, goal in (
            ("stock Twisted protocol that does nothing", stock, _STOCK_GOALS[label]),
            ("claude-agent-sdk's reader", sdk, _SDK_GOALS[label]),
        ):
            yield Figure(
                what=f"reading lines of {label}, rate",
                against=against,
                unit="MB/s",
                ours=[one.rate for one in ours],
                theirs=[one.rate for one in theirs],
                goal=Goal(goal, least=True),
            )
            yield Figure(
                what=f"reading lines of {label}, CPU per GB",
                against=against,
                unit="s",
                ours=[one.cpu for one in ours],
                theirs=[one.cpu for one in theirs],
            )


def _read(side: str, command: Path, root: Path) -> _Reading:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    argv = [sys.executable, "-m", "bench.read_side", side, str(command)]
    output = subprocess.run(argv, cwd=root, env=environ, capture_output=True, check=True, timeout=120).stdout
    took, cpu, count = map(float, output.split())
    size = (command.parent / "bytes").stat().st_size
    if side == "ours" and count != size:
        raise RuntimeError(f"{count} of {size} bytes were read")
    return _Reading(size / 1e6 / took, cpu / size * 1e9)


def _writer(directory: Path, line_bytes: int, total_bytes: int) -> Path:
    """An executable that writes a stream of that size: init, answers and what tools told in
    turn, a result, each a line."""
    directory.mkdir()
    init = {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Read"], "mcp_servers": []}
    result = {"type": "result", "subtype": "success", "is_error": False, "result": "done", "num_turns": 1}
    answer = '{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"TEXT"}]}}\n'
    told = '{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"TEXT"}]}}\n'
    code = json.dumps('    12\tif name in known:\n    13\t    raise ValueError(f"{name!r} is taken")\n')[1:-1]
    lines = "".join(_filled(frame, code, line_bytes) for frame in (answer, told))
    with (directory / "bytes").open("w", encoding="utf-8") as file:
        file.write(json.dumps(init, separators=(",", ":")) + "\n")
        for _ in range(total_bytes // len(lines)):
            file.write(lines)
        file.write(json.dumps(result, separators=(",", ":")) + "\n")
    path = directory / "claude"
    path.write_text(f"#!/bin/sh\nexec cat '{directory}/bytes'\n")
    path.chmod(0o755)
    return path


def _filled(frame: str, text: str, line_bytes: int) -> str:
    """The frame with as much text as the line has room for."""
    whole = (text * (line_bytes // len(text) + 1))[: line_bytes - len(frame) + len("TEXT")]
    return frame.replace("TEXT", whole.rstrip("\\"))
