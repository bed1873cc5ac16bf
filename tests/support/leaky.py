"""A claude that tells all that it knows: the stand-in with one more step, `leak`, and a hunt for what it told.

`leak WHERE` says every secret of the turn, each spelled in several ways: on `stderr`, on `stdout` beside the events, in
a good `result`, in an `error`, in the `init`, or in the call of a signal tool (`need_help`, `goal_reached`,
`report_file`, `unknown-field`, `wrong-tool`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
from attrs import define, field

ROOT = Path(__file__).parents[2]

_PROGRAM = """\
#!{python} -SE
import json, os, sys, urllib.parse
sys.path.insert(0, {root!r})
from hivesub.standin import deeds, main, speech

def leak(play, where):
    known = [os.environ.get(name, "") for name in ("ANTHROPIC_API_KEY", "HTTPS_PROXY", "ANTHROPIC_CUSTOM_HEADERS")]
    # The daemon's own, which a process of the same user can read.
    with open("/proc/" + str(os.getppid()) + "/environ") as environ:
        known += [each for each in environ.read().split("\\0") if each.startswith("HIVESUB_TODO=")]
    for server in play.servers:
        known += [server.url, server.url.rpartition("/")[2], *server.headers.values()]
    spelled = [*known, json.dumps(known), repr(known), *(urllib.parse.quote(each, safe="") for each in known)]
    said = " | ".join(spelled)
    url = next(server.url for server in play.servers if server.name == "subagent_control")
    if where == "stderr":
        play.write(2, ("Error: " + said + "\\n").encode())
    elif where == "stdout":
        play.write(1, (said + "\\n").encode())
    elif where == "init":
        play.emit({{"type": "system", "subtype": "init", "session_id": url, "cwd": "/" + url, "tools": ["Read", said],
                   "mcp_servers": [{{"name": said, "status": said}}]}})
    elif where == "result":
        play.result(said)
    elif where == "error":
        play.result(said, is_error=True, subtype="error_during_execution", errors=[said], terminal_reason=url)
    elif where == "need_help":
        deeds._call(play, "subagent_control", "need_help", {{"reason": said}})
    elif where == "goal_reached":
        deeds._call(play, "subagent_control", "goal_reached", {{"message": said}})
    elif where == "report_file":
        deeds._call(play, "subagent_control", "need_help", {{"reason": "x", "report_file": "/" + url}})
    elif where == "inner_report_file":
        deeds._call(play, "subagent_control", "need_help", {{"reason": "x", "report_file": url.rpartition("/")[2]}})
    elif where == "unknown-field":
        deeds._call(play, "subagent_control", "need_help", {{url: url, "reason": said}})
    elif where == "wrong-tool":
        deeds._call(play, "subagent_control", url, {{url: said}})
    else:
        raise ValueError(where)

deeds.VERBS["leak"] = leak
main.leave(sys.argv[1:])
"""


def write_leaky(path: Path) -> str:
    """Write the program; gives its path."""
    path.write_text(_PROGRAM.format(python=sys.executable, root=str(ROOT)))
    path.chmod(0o755)
    return str(path)


@define
class Hunt:
    """Looks for marks, which are parts of secrets that no escaping changes.

    `marks`: what each is a part of. `found`: where one was.
    """

    marks: dict[str, str]
    found: list[str] = field(factory=list)
    looked_at: int = 0

    def look(self, where: str, text: str | bytes) -> None:
        """Look into one text."""
        self.looked_at += 1
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        for mark, what in self.marks.items():
            at = data.find(mark.encode())
            if at >= 0:
                self.found.append(f"{what} in {where}: …{data[max(0, at - 60) : at + 60]!r}…")

    def look_at_files(self, root: Path) -> None:
        """Look into every file below a directory, and at its name."""
        for path in root.rglob("*"):
            self.look(f"the name of {path}", str(path))
            if path.is_file() and not path.is_symlink():
                self.look(str(path), path.read_bytes())

    def look_at_arguments(self) -> None:
        """Look at what every user of the machine can read of the processes that run."""
        for process in psutil.process_iter():
            try:
                self.look(f"the arguments of {process.name()}", "\0".join(process.cmdline()))
            except psutil.Error:
                continue
