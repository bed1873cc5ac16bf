"""What `hivesub doctor` looks at, a function for each. None changes anything, and none asks a model."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

from attrs import frozen

from hivesub.cli.daemon import connected, token_for
from hivesub.cli.given import Target
from hivesub.cli.troubles import Trouble
from hivesub.config.options import TOKEN_NAME
from hivesub.config.optionvalues import read_token_file
from hivesub.shipped import plugin_dir
from hivesub.system.dirs import default_runtime_dir, default_state_dir, make_private_dir
from hivesub.turns.command import find_wrappers
from hivesub.turns.program import KNOWN, NEEDED

ASK_S = 15
_CREDENTIALS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
)

Level = Literal["ok", "warn", "fail"]


@frozen
class Finding:
    """What was found of a subject; `text` says what to do where it is not in order."""

    level: Level
    subject: str
    text: str


def claude(name: str, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether there is one, it runs, and it has the flags that a subagent needs."""
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    if path is None:
        yield Finding("fail", "claude", f"no program {name!r} is found: install Claude Code, or name it with --claude")
        return
    version, listed = _output(path, "--version"), _output(path, "--help")
    if version is None or listed is None:
        yield Finding("fail", "claude", f"{path} does not run: try `{path} --version`")
        return
    lacks = [flag for flag in KNOWN if not re.search(rf"(?<![\w-]){flag}(?![\w-])", listed)]
    said = f"{path}, {(version.strip().splitlines() or ['of unknown version'])[0][:100]}"
    if set(lacks) & set(NEEDED):
        text = f"{said}, lacks {', '.join(lacks)}: a subagent could not be confined; install a newer one"
        yield Finding("fail", "claude", text)
    elif lacks:
        yield Finding("warn", "claude", f"{said}, lacks {', '.join(lacks)}: subagents run without; a newer one has it")
    else:
        yield Finding("ok", "claude", said)
    if os.geteuid() == 0 and environ.get("IS_SANDBOX") != "1":
        text = "claude refuses to run subagents as root: run the daemon as another user, or set IS_SANDBOX=1"
        yield Finding("fail", "user", text)


def _output(path: str, argument: str) -> str | None:
    try:
        done = subprocess.run(
            [path, argument], stdin=subprocess.DEVNULL, capture_output=True, timeout=ASK_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return (done.stdout + done.stderr).decode("utf-8", "replace")


def login(environ: Mapping[str, str]) -> Finding:
    """Whether claude has something to log in with. Whether its API takes it is not asked."""
    config = _claude_config(environ)
    named = [variable for variable in _CREDENTIALS if environ.get(variable)]
    if named:
        return Finding("ok", "login", f"claude seems logged in, by {named[0]}")
    if (config / ".credentials.json").is_file():
        return Finding("ok", "login", f"claude seems logged in, by {config / '.credentials.json'}")
    if _json(config / "settings.json").get("apiKeyHelper"):
        return Finding("ok", "login", f"claude seems logged in, by the apiKeyHelper of {config / 'settings.json'}")
    return Finding("warn", "login", "no login of claude is found: run `claude` once as the daemon's user, and log in")


def _claude_config(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser()


def _json(path: Path) -> dict[str, object]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


async def daemon(target: Target) -> Finding:
    """Whether it answers, and takes the token."""
    try:
        token = token_for(target)
        async with connected(target.url, token) as calls:
            counts = (await calls.call("status")).get("counts", {})
    except Trouble as trouble:
        advice = "; `hivesub service install` keeps one up" if "no daemon answers" in str(trouble) else ""
        return Finding("fail", "daemon", f"{trouble}{advice}")
    shown = ", ".join(f"{count} {state}" for state, count in counts.items() if count) or "no subagent yet"
    return Finding("ok", "daemon", f"{target.url} answers{' and takes the token' if token else ''}; {shown}")


def connection(target: Target, environ: Mapping[str, str]) -> Finding:
    """Whether claude itself has the server, in every directory."""
    own = environ.get("CLAUDE_CONFIG_DIR")
    path = Path(own or "~").expanduser() / ".claude.json"
    servers = _json(path).get("mcpServers")
    server = servers.get("subagent") if isinstance(servers, dict) else None
    url = server.get("url") if isinstance(server, dict) else None
    if url == f"{target.url}/mcp":
        return Finding("ok", "agent", f"claude knows the server subagent at {url}")
    found = f"knows the server subagent elsewhere, at {url}" if url else "knows no server subagent in every directory"
    return Finding("warn", "agent", f"claude {found}: paste the line of `hivesub mcp-config`, or use the plugin")


def plugin(environ: Mapping[str, str]) -> Finding:
    """Whether the shipped plugin is whole, and its hook runs."""
    place = plugin_dir()
    missing = [
        name
        for name in (".claude-plugin/plugin.json", ".mcp.json", "hooks/hooks.json", "hooks/todos.py")
        if not (place / name).is_file()
    ]
    if missing:
        return Finding("fail", "plugin", f"{place} lacks {', '.join(missing)}: install hivesub anew")
    python = shutil.which("python3", path=environ.get("PATH", os.defpath))
    if python is None:
        return Finding("fail", "plugin", "its hook needs python3, and none is on PATH")
    with tempfile.TemporaryDirectory(prefix="hivesub-doctor-") as scratch:
        # Where it finds no todo, and keeps its place apart: nothing is announced that the agent would then miss.
        given = {**environ, "CLAUDE_PLUGIN_DATA": scratch, "HIVESUB_TODOS": f"{scratch}/todos.jsonl"}
        try:
            done = subprocess.run(
                [python, str(place / "hooks" / "todos.py")],
                env=given,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=ASK_S,
            )
        except (OSError, subprocess.SubprocessError) as error:
            return Finding("fail", "plugin", f"its hook does not run by {python}: {error}")
    if done.returncode != 0:
        said = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return Finding("fail", "plugin", f"its hook fails by {python}, saying {said!r}")
    return Finding("ok", "plugin", f"claude --plugin-dir {place}; its hook runs")


def todos(environ: Mapping[str, str]) -> Finding:
    """Whether this user, as the plugin's hook, can read the file of todos."""
    named = environ.get("HIVESUB_TODOS")
    path = Path(named).expanduser() if named else default_state_dir({**environ, "STATE_DIRECTORY": ""}) / "todos.jsonl"
    try:
        path.open("rb").close()
    except FileNotFoundError:
        return Finding("ok", "todos", f"{path} is not there yet: the first run that ends makes it")
    except OSError as error:
        text = f"{path} cannot be read by you ({error.strerror}): give the daemon a --todo that you can read"
        return Finding("fail", "todos", f"{text}, and name it in HIVESUB_TODOS")
    return Finding("ok", "todos", f"{path} can be read")


def directories(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether state and runtime directory are private, and what is in them is in order."""
    state = Path(environ.get("HIVESUB_STATE_DIR") or default_state_dir(environ)).expanduser()
    runtime = Path(environ.get("HIVESUB_RUNTIME_DIR") or default_runtime_dir(environ)).expanduser()
    for subject, path in (("state", state), ("runtime", runtime)):
        try:
            there = os.path.lexists(path)
            if there:
                make_private_dir(path)
            digest = path / TOKEN_NAME
            asked = subject == "state" and os.path.lexists(digest) and bool(read_token_file(digest))
        except (OSError, ValueError) as error:
            yield Finding("fail", subject, str(error))
            continue
        kept = ", with the digest of a token" if asked else ""
        yield Finding("ok", subject, f"{path} is private{kept}" if there else f"{path} is made by the daemon")


def system(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Whether what ends a subagent for certain is there."""
    wrappers = find_wrappers(environ.get("PATH", os.defpath))
    missing = [name for name in ("setpriv", "setsid", "env") if getattr(wrappers, name) is None]
    if missing:
        text = f"not found: {', '.join(missing)}: a claude lives on when its daemon is killed, until the next start"
        yield Finding("warn", "setpriv", f"{text}; install util-linux and coreutils")
    else:
        yield Finding("ok", "setpriv", f"{wrappers.setpriv}: a claude dies with its daemon")
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        yield Finding("ok", "cgroup", "control groups, version 2: a unit's stop ends what hides, MemoryMax= bounds")
    else:
        text = "no control groups of version 2 are mounted: under systemd memory cannot be bounded for each daemon"
        yield Finding("warn", "cgroup", f"{text}; boot with systemd.unified_cgroup_hierarchy=1")


def installation() -> Finding:
    """What is asked."""
    from hivesub import __version__

    return Finding("ok", "hivesub", f"{__version__}, by {sys.executable}")
