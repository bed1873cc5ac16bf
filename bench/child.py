"""A stand-in for claude that costs as little as a program can: a shell script whose prompt says what it does.

The prompt's first word: `silent` stays without a word, `stream` writes 1 MB/s, `wait SECONDS` and anything else end
with a good result, then or at once. Each turn writes when it began and when it ended, in microseconds since the epoch,
and its name to `stamps` beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attrs import frozen

_SCRIPT = r"""#!/bin/bash
began=${EPOCHREALTIME/./}
case $1 in
--version) echo "9.9.9 (bench)"; exit ;;
--help) echo "--tools --settings --strict-mcp-config --mcp-config --session-id --resume --name --model --effort"; exit ;;
esac
for argument; do
    case $argument in
    --session-id=*) id=${argument#--session-id=} ;;
    --resume=*) id=${argument#--resume=} ;;
    --name=*) name=${argument#--name=} ;;
    esac
done
read -r what
echo '{"type":"system","subtype":"init","session_id":"'$id'","cwd":"'$PWD'","tools":["Read"],"mcp_servers":[{"name":"subagent_control","status":"connected"}]}'
case $what in
silent*) exec sleep 100000 ;;
stream*) exec PYTHON -SE STREAM ;;
wait*) sleep ${what#wait } ;;
esac
echo '{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"'$id'","num_turns":1,"total_cost_usd":0.01,"usage":{"input_tokens":10,"output_tokens":5}}'
echo "$began ${EPOCHREALTIME/./} $name" >> STAMPS
"""  # noqa: E501

_STREAM = """\
import os, select
line = b'{"type":"assistant","message":{"content":[{"type":"text","text":"' + b"x" * 1900 + b'"}]}}\\n'
block = line * (100_000 // len(line))
while True:
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
    select.select((), (), (), 0.1)
"""


@frozen
class Stamp:
    """One turn, in microseconds since the epoch."""

    began: int
    ended: int
    name: str


def write_child(directory: Path) -> Path:
    """Write the script, and give its path."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "stream.py").write_text(_STREAM)
    path = directory / "claude"
    names = {"PYTHON": sys.executable, "STREAM": str(directory / "stream.py"), "STAMPS": str(directory / "stamps")}
    text = _SCRIPT
    for name, value in names.items():
        text = text.replace(name, value)
    path.write_text(text)
    path.chmod(0o755)
    return path


def stamps(directory: Path) -> list[Stamp]:
    """What the turns wrote, in order."""
    path = directory / "stamps"
    lines = path.read_text().splitlines() if path.exists() else []
    return [Stamp(int(began), int(ended), name) for began, ended, name in map(str.split, lines)]
