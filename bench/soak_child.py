"""The child of the load: a shell script in place of claude, and a program of which two hundred fit on two cores.

A prompt is one line: `short END` or `stream SECONDS END`. Ends: `good` and `error` write a result that says so, `exit`
exits with 3 and `kill` dies by SIGKILL, both without one; `stubborn` is `good`, and ignores SIGINT.
"""

from __future__ import annotations

import sys
from pathlib import Path

ENDS = {"good": "finished", "stubborn": "finished", "error": "failed", "exit": "failed", "kill": "killed"}
"""Each end, and the outcome that it has to be told as."""

_SCRIPT = r"""#!/bin/sh
case $1 in
--version) echo "9.9.9 (soak)"; exit ;;
--help) echo "--tools --settings --strict-mcp-config --mcp-config --session-id --resume --name --model --effort"; exit ;;
esac
for argument; do
    case $argument in --session-id=*) id=${argument#--session-id=} ;; esac
done
read -r what first second
echo '{"type":"system","subtype":"init","session_id":"'$id'","cwd":"'$PWD'","tools":["Read"],"mcp_servers":[{"name":"subagent_control","status":"connected"}]}'
case $what in stream) exec PYTHON -SE WRITER "$id" "$first" "$second" ;; esac
case $first in
exit) exit 3 ;;
kill) kill -9 $$ ;;
error) wrong=true ;;
*) wrong=false ;;
esac
echo '{"type":"result","subtype":"success","is_error":'$wrong',"result":"'$id'","session_id":"'$id'","num_turns":1,"total_cost_usd":0.01,"usage":{"input_tokens":10,"output_tokens":5}}'
"""  # noqa: E501

# The bytes are in short, long and very long lines, about as many in each. A write ends where the pace says, not where a
# line does.
_WRITER = r"""
import json, os, random, signal, sys, time

session, seconds, end = sys.argv[1], float(sys.argv[2]), sys.argv[3]
signal.signal(signal.SIGINT, signal.SIG_IGN if end == "stubborn" else signal.SIG_DFL)

def line(size):
    kind = random.choice(("assistant", "assistant", "user"))
    event = {"type": kind, "message": {"content": [{"type": "text", "text": "häufig " * (size // 12)}]}}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

lines = [line(size) for size in [200] * 1500 + [2000] * 150 + [30000] * 5 + [150000, 300000]]
lines += [b"\n", b"no json\n", b'{"type":"system","subtype":"status","status":null}\n'] * 2
random.shuffle(lines)
cycle = memoryview(b"".join(lines))

def write(piece):
    while piece:
        piece = piece[os.write(1, piece):]

began, written, passed = time.monotonic(), 0, 0.0
while passed < seconds:
    passed = min(seconds, time.monotonic() - began)
    while written < passed * RATE:
        at = written % len(cycle)
        piece = cycle[at:at + min(262144, int(passed * RATE) - written + 1)]
        write(piece)
        written += len(piece)
    time.sleep(0.2)
at = written % len(cycle)
rest = bytes(cycle[at:])
write(rest[:rest.index(b"\n") + 1])
if end == "exit":
    sys.exit(3)
if end == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
wrong = end == "error"
said = {"type": "result", "subtype": "success", "is_error": wrong, "session_id": session, "num_turns": 1}
said["result"] = f"{session} {written} {time.monotonic() - began:.3f}"
write(json.dumps(said).encode() + b"\n")
sys.exit(1 if wrong else 0)
"""


def write_soak_child(directory: Path, bytes_a_second: int = 1_000_000) -> Path:
    """Write both programs, and give the path of what stands for claude."""
    directory.mkdir(parents=True, exist_ok=True)
    writer = directory / "writer.py"
    writer.write_text(_WRITER.replace("RATE", str(bytes_a_second)))
    script = directory / "claude"
    script.write_text(_SCRIPT.replace("PYTHON", sys.executable).replace("WRITER", str(writer)))
    script.chmod(0o755)
    return script
