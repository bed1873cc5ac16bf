"""The stand-in from its arguments to its exit code."""

from __future__ import annotations

import json
import os
import sys

from hivesub.standin import arguments, deeds, events, script, sessions, speech
from hivesub.standin.arguments import Arguments, Refused
from hivesub.standin.control import Server
from hivesub.standin.play import Ended, Play, Stopped, listen_for_signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_STDIN_BYTES = 10 * 1024 * 1024
ROOT_REFUSED = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons"
INPUT_MISSING = "Error: Input must be provided either through stdin or as a prompt argument when using --print"
INPUT_TOO_BIG = "Error: piped stdin input exceeds 10MB. Pass large content as a file path in your prompt instead."
INPUT_BLANK = (
    "Error: Input contained only whitespace. "
    "Provide a prompt with text through stdin or as a prompt argument when using --print"
)

KNOWN_TOOLS = (
    "Agent", "Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "Skill", "Task", "TodoWrite", "ToolSearch",
    "WebFetch", "WebSearch", "Write",
)  # fmt: skip
DEFAULT_TOOLS = ("Bash", "Edit", "NotebookEdit", "Read", "Skill", "Task", "WebFetch", "WebSearch", "Write")


def main(argv: list[str]) -> int:
    """Run one claude process. Gives its exit code."""
    listen_for_signals()
    try:
        return _run(argv)
    except Refused as why:
        sys.stderr.write(f"{why}\n")
        return 1
    except Ended as end:
        return end.code
    except Stopped as stop:
        return 0 if stop.number == 2 else 128 + stop.number


def leave(argv: list[str]) -> None:
    """Run one claude process and be gone: no interpreter shutdown for a late signal to break into."""
    code = main(argv)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            code = code or 1
    os._exit(code)


def _run(argv: list[str]) -> int:
    given = arguments.parse(argv)
    if "--version" in given.bare:
        sys.stdout.write(f"{arguments.VERSION}\n")
        return 0
    if "--help" in given.bare:
        sys.stdout.write(arguments.help_text())
        return 0
    _check(given)
    cwd = os.path.realpath(os.getcwd())
    if seen_as(cwd) != cwd:
        raise Refused(f'Error: Can\'t access working directory {seen_as(cwd)}: Path "{seen_as(cwd)}" does not exist')
    servers = _servers(given)
    prompt = _prompt(given)
    try:
        session = _session(given, cwd)
    except sessions.NotFound as why:
        wanted = given.value("--resume") or ""
        missed = events.miss(wanted if sessions.is_uuid(wanted) else sessions.fresh_uuid(), str(why))
        sys.stdout.write(json.dumps(missed, separators=(",", ":")) + "\n")
        raise Refused(str(why)) from why
    play = Play(given, session, prompt, {**speech.VERBS, **deeds.VERBS})
    play.argv, play.cwd, play.servers = list(argv), cwd, servers
    return _play(play)


def _check(given: Arguments) -> None:
    """Refuse what claude refuses before it reads its input."""
    if "--print" not in given.bare:
        raise Refused("standin: only print mode (-p) is played")
    if given.value("--output-format") == "stream-json" and "--verbose" not in given.bare:
        raise Refused("Error: When using --print, --output-format=stream-json requires --verbose")
    given.budget_usd  # noqa: B018 - read for its refusal
    _check_settings(given.value("--settings"))
    session_id = given.value("--session-id")
    if session_id is not None:
        if not sessions.is_uuid(session_id):
            raise Refused("Error: Invalid session ID. Must be a valid UUID.")
        if sessions.by_id(session_id) is not None:
            raise Refused(f"Error: Session ID {session_id} is already in use.")
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if root and "--dangerously-skip-permissions" in given.bare and os.environ.get("IS_SANDBOX") != "1":
        raise Refused(ROOT_REFUSED)


def _check_settings(value: str | None) -> None:
    """Refuse settings that are neither a JSON object nor a file that is there."""
    if value is None:
        return
    if not (value.strip().startswith("{") and value.strip().endswith("}")):
        if not os.path.exists(value):
            raise Refused(f"Error: Settings file not found: {os.path.abspath(value)}")
        return
    try:
        json.loads(value)
    except ValueError:
        raise Refused("Error: Invalid JSON provided to --settings") from None


def _servers(given: Arguments) -> list[Server]:
    """The servers of every `--mcp-config`, not connected yet."""
    found: dict[str, Server] = {}
    for config in given.values.get("--mcp-config", []):
        text, config = config, seen_as(config)
        if not config.lstrip().startswith("{"):
            try:
                with open(config, encoding="utf-8") as file:
                    text = file.read()
            except FileNotFoundError:
                raise Refused(
                    f"Error: Invalid MCP configuration:\nMCP config file not found: {os.path.abspath(config)}"
                ) from None
        try:
            entries: dict[str, Any] = json.loads(text)["mcpServers"]
        except (ValueError, KeyError, TypeError):
            raise Refused("Error: Invalid MCP configuration:\nMCP config is not a valid JSON") from None
        found.update({name: Server(name, entry) for name, entry in entries.items()})
    return list(found.values())


def seen_as(path: str) -> str:
    """A path as claude sees it: as UTF-8, with what is none replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def _prompt(given: Arguments) -> str:
    """The prompt: the argument, and what stdin holds up to its end."""
    raw = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(raw) > MAX_STDIN_BYTES:
        raise Refused(INPUT_TOO_BIG)
    typed = raw.decode("utf-8", "replace")
    prompt = typed if given.prompt is None else f"{given.prompt}\n{typed}" if typed else given.prompt
    if not prompt:
        raise Refused("\n".join([*given.swallowed, INPUT_MISSING]))
    if not prompt.strip():
        raise Refused(INPUT_BLANK)
    return prompt


def _session(given: Arguments, cwd: str) -> sessions.Session:
    """The session of this process: resumed or new, titled as `--name` says.

    :raises sessions.NotFound: where there is none.
    """
    wanted = given.value("--resume")
    if wanted is not None:
        session = sessions.resume(wanted, cwd)
    else:
        session = sessions.new(given.value("--session-id") or sessions.fresh_uuid(), cwd)
    session.title = given.value("--name") or session.title
    return session


def _play(play: Play) -> int:
    """Play the turn to its end, whatever breaks in."""
    pending: Stopped | None = None
    while True:
        try:
            code = _turn(play) if pending is None else play.stopped(pending.number)
        except Ended as end:
            code = end.code
        except Stopped as stop:
            pending = stop
            continue
        if play.begun:
            # Only now, as claude does: what a killed process spent is not remembered.
            play.session.cost_usd += play.spent_usd
            play.session.save()
        return code


def _turn(play: Play) -> int:
    session = play.session
    try:
        steps = script.steps_for(session, play.prompt) or [f"text {script.default_text(play.prompt)}"]
    except script.Planned as why:
        raise Refused(f"standin: {why}") from why
    session.turns += 1
    early = [step for step in steps if step.split(" ")[0] in ("ignore", "on")]
    before = [step.split(" ", 1)[1] for step in steps if step.startswith("before-init ")]
    overrides = [step.partition(" ")[2] for step in steps if step.split(" ")[0] == "init"]
    rest = [step for step in steps if step.split(" ")[0] not in ("ignore", "on", "before-init", "init")]
    play.perform(early)
    if session.title is not None:
        play.emit(events.system("session_title_changed", session.id, title=session.title))
    asked = given_tools(play.arguments)
    play.tools = sorted({name for name in asked if name in KNOWN_TOOLS})
    _prepare(play, overrides)
    play.perform(before)
    if "none" not in overrides:
        _wake_after_cut_task(play)
        play.begin(play.cwd)
    play.perform(rest)
    return play.conclude()


def given_tools(given: Arguments) -> list[str]:
    """The built-in tools that were asked for; all of the default set when nothing was said."""
    if "--tools" not in given.values:
        return list(DEFAULT_TOOLS)
    names = arguments.split_tools(given.values["--tools"])
    return list(DEFAULT_TOOLS) if names == ["default"] else names


def _prepare(play: Play, overrides: list[str]) -> None:
    """Connect the servers, and bend what `init` will say as `init tools=…` and `init mcp=failed` ask."""
    given, _ = speech.options(" ".join(word for word in overrides if word != "none"))
    if "tools" in given:
        play.tools = [name for name in given["tools"].split(",") if name]
    if given.get("mcp") == "none":
        play.servers = []
    if given.get("mcp") != "failed":
        for server in play.servers:
            server.connect()


def _wake_after_cut_task(play: Play) -> None:
    """Where the last process was stopped with a background task, claude first reports it with an empty result."""
    task = play.session.task
    play.session.task = None
    if task is None:
        return
    fields = {"task_id": task, "status": "stopped", "output_file": "", "summary": "scripted"}
    play.emit(events.system("task_notification", play.session.id, **fields))
    play.begin(play.cwd)
    play.cost_usd, play.calls = 0.0, -1
    play.result("", terminal_reason=None)
    play.calls, play.exit_code = 0, None
    play.worked = False
