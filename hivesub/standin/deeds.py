"""Steps that do something: wait, exit, die, start commands, touch files, call MCP tools.

Each verb is a function named as it; its docstring begins with how the step is written.
"""

from __future__ import annotations

import json
import os
import signal

from hivesub.standin import events
from hivesub.standin.control import Server
from hivesub.standin.play import Ended, Play, tool_result
from hivesub.standin.sessions import fresh_uuid
from hivesub.standin.speech import options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POLL_S = 0.01
SIGNAL_SERVER = "subagent_control"


def sleep(play: Play, rest: str) -> None:
    """`sleep SECONDS`."""
    play.wait(float(rest))


def hang(play: Play, rest: str) -> None:
    """`hang`: stay until a signal comes."""
    while True:
        signal.pause()


def exit(play: Play, rest: str) -> None:
    """`exit CODE`: end at once, with no result."""
    raise Ended(int(rest or 0))


def kill(play: Play, rest: str) -> None:
    """`kill SIGNAL`: die by it, whatever is caught."""
    number = signal_number(rest or "SIGKILL")
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    hang(play, "")


def ignore(play: Play, rest: str) -> None:
    """`ignore SIGINT,SIGTERM`: these signals do nothing. Takes effect before the init."""
    for name in rest.replace(",", " ").split():
        signal.signal(signal_number(name), signal.SIG_IGN)


def on(play: Play, rest: str) -> None:
    """`on SIGNAL STEP`: what that signal makes of the turn instead; several add up. Takes effect before the init."""
    name, _, step = rest.partition(" ")
    play.on_signal.setdefault(signal.Signals(signal_number(name)).name, []).append(step)


def spawn(play: Play, rest: str) -> None:
    """`spawn [own-session] COMMAND`: a shell command left running, which holds stdout and stderr."""
    word, _, after = rest.partition(" ")
    own = word == "own-session"
    _shell(after if own else rest, own_session=own, silent=False)


def bash(play: Play, rest: str) -> None:
    """`bash COMMAND`: the Bash tool runs it, in a session of its own; SIGINT and SIGTERM end it, SIGKILL does not."""
    call = _tool_use(play, "Bash", {"command": rest})
    pid = _shell(rest, own_session=True, silent=True)
    play.foreground = (pid, call)
    _, status = os.waitpid(pid, 0)
    play.foreground = None
    code = os.waitstatus_to_exitcode(status)
    play.emit(events.user(play.session.id, tool_result(call, f"Exit code {code}", is_error=code != 0)))


def write(play: Play, rest: str) -> None:
    """`write PATH WORDS`: a file that holds them."""
    path, _, words = rest.partition(" ")
    with open(path, "w", encoding="utf-8") as out:
        out.write(words)


def dump(play: Play, rest: str) -> None:
    """`dump PATH`: a JSON file of what this process was given: argv, env, cwd, pid, prompt, mcp servers."""
    given = {
        "argv": play.argv,
        "env": dict(os.environ),
        "cwd": os.getcwd(),
        "pid": os.getpid(),
        "pgid": os.getpgid(0),
        "sid": os.getsid(0),
        "prompt": play.prompt,
        "servers": {one.name: {"url": one.url, "headers": one.headers} for one in play.servers},
    }
    with open(f"{rest}.part", "w", encoding="utf-8", errors="surrogateescape") as out:
        json.dump(given, out)
    os.replace(f"{rest}.part", rest)


def wait_for(play: Play, rest: str) -> None:
    """`wait-for PATH`: until that file exists."""
    while not os.path.exists(rest):
        play.wait(POLL_S)


def close(play: Play, rest: str) -> None:
    """`close stdout|stderr|both`: the stream ends while the process lives."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        if rest in ("both", "stdout" if stream == 1 else "stderr"):
            os.dup2(null, stream)
    os.close(null)


def goal_reached(play: Play, rest: str) -> None:
    """`goal_reached [report_file=PATH] [MESSAGE]`: the signal tool is called."""
    given, words = options(rest)
    _call(play, SIGNAL_SERVER, "goal_reached", {**given, **({"message": words} if words else {})})


def need_help(play: Play, rest: str) -> None:
    """`need_help [report_file=PATH] REASON`: the signal tool is called."""
    given, words = options(rest)
    _call(play, SIGNAL_SERVER, "need_help", {**given, "reason": words})


def call(play: Play, rest: str) -> None:
    """`call SERVER TOOL [JSON]`: a tool of a server in the MCP config is called."""
    server, tool, *arguments = rest.split(" ", 2)
    _call(play, server, tool, json.loads(arguments[0]) if arguments else {})


def call_url(play: Play, rest: str) -> None:
    """`call-url URL TOOL [JSON]`: a tool behind any URL is called."""
    url, tool, *arguments = rest.split(" ", 2)
    stranger = Server("stranger", {"url": url})
    _answered(play, stranger, tool, json.loads(arguments[0]) if arguments else {})


def save(play: Play, rest: str) -> None:
    """`save PATH`: what the last tool answered goes to a file."""
    write(play, f"{rest} {play.said}")


def signal_number(name: str) -> int:
    """The number of `SIGTERM`, `TERM` or `15`."""
    if name.isdigit():
        return int(name)
    return int(signal.Signals[name if name.startswith("SIG") else f"SIG{name}"])


def _call(play: Play, server: str, tool: str, arguments: dict[str, Any]) -> None:
    known = next((one for one in play.servers if one.name == server), None)
    if known is None:
        call_id = _tool_use(play, f"mcp__{server}__{tool}", arguments)
        play.said = f"No such tool available: mcp__{server}__{tool}"
        play.emit(events.user(play.session.id, tool_result(call_id, play.said, is_error=True)))
        return
    _answered(play, known, tool, arguments)


def _answered(play: Play, server: Server, tool: str, arguments: dict[str, Any]) -> None:
    call_id = _tool_use(play, f"mcp__{server.name}__{tool}", arguments)
    is_error, play.said = server.call(tool, arguments)
    play.emit(events.user(play.session.id, tool_result(call_id, play.said, is_error=is_error)))


def _tool_use(play: Play, name: str, arguments: dict[str, Any]) -> str:
    call_id = f"toolu_{fresh_uuid()[:13]}"
    play.calls += 1
    block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    play.emit(events.assistant(play.session.id, block))
    return call_id


def _shell(command: str, *, own_session: bool, silent: bool) -> int:
    actions: list[tuple[int, int, str, int, int]] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    if silent:
        actions += [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)]
    return os.posix_spawn("/bin/sh", ["sh", "-c", command], os.environ, file_actions=actions, setsid=own_session)


VERBS = {
    deed.__name__: deed
    for deed in (
        sleep, hang, exit, kill, ignore, on, spawn, bash, write, dump, wait_for, close, goal_reached, need_help,
        call, call_url, save,
    )
}  # fmt: skip
