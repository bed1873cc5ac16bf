"""What a turn's process is started with: its arguments and its environment. Pure; spawning is `spawner`'s
part.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from hivesub.records import TurnSpec

MARK_VARIABLE = "HIVESUB_TURN"

OPTION_FLAGS = {
    "model": "--model",
    "effort": "--effort",
    "max_budget_usd": "--max-budget-usd",
    "result_schema": "--json-schema",
}
"""Which of `hivesub.records.TurnOptions` are flags of claude; what is left out is the daemon's own to heed."""

_NESTING = frozenset(
    {
        # What claude sets for the commands that it runs, the messaging token among it (measured, claude 2.1.332). With
        # these a child takes itself for part of the session that the daemon was started from.
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_SESSION_ATTENDED",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_EFFORT",
        "CLAUDE_PID",
        # What it sets for hooks, plugins and an editor's terminal, and what the SDK sets for the claude that it starts.
        "CLAUDE_AGENT_SDK_CLIENT_APP",
        "CLAUDE_AGENT_SDK_VERSION",
        "CLAUDE_CODE_LAUNCHED_BY_SESSION_IDS",
        "CLAUDE_CODE_RESUME_INTERRUPTED_TURN",
        "CLAUDE_CODE_SESSION_KIND",
        "CLAUDE_CODE_SESSION_NAME",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_TASK_LIST_ID",
        "CLAUDE_ENV_FILE",
        "CLAUDE_JOB_DIR",
        "CLAUDE_PLUGIN_DATA",
        "CLAUDE_PLUGIN_ROOT",
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_SKILL_DIR",
    }
)
_NESTING_PREFIXES = (
    "CLAUDE_BG_",
    "CLAUDE_BRIDGE_",
    "CLAUDE_CODE_BRIDGE_",
    "CLAUDE_CODE_CHILD_",
    "CLAUDE_CODE_MESSAGING_",
    "CLAUDE_CODE_RELAUNCH_",
)

# What systemd gives the daemon for itself: with these a child could speak in the daemon's name or find its files.
_SERVICE = frozenset(
    {
        "CACHE_DIRECTORY",
        "CONFIGURATION_DIRECTORY",
        "CREDENTIALS_DIRECTORY",
        "FDSTORE",
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LOGS_DIRECTORY",
        "MAINPID",
        "MANAGERPID",
        "NOTIFY_SOCKET",
        "RUNTIME_DIRECTORY",
        "STATE_DIRECTORY",
        "SYSTEMD_EXEC_PID",
    }
)
_SERVICE_PREFIXES = ("HIVESUB_", "LISTEN_", "MEMORY_PRESSURE_", "WATCHDOG_")

# They name the daemon's directory, and the child runs in another.
_PLACE = frozenset({"OLDPWD", "PWD"})

_CD = 'cd -- "$1" && shift && exec "$@"'


@frozen(kw_only=True)
class Wrappers:
    """The programs that stand before claude, each a path, or None where the machine has none that will do. All exec
    in place, so the process id stays (measured, Linux).

    `env`: with `-C` it sets the working directory, which keeps the spawn on the fast path. `setsid`: a session of its
    own. `setpriv`: death with the daemon.
    """

    env: str | None = None
    setsid: str | None = None
    setpriv: str | None = None


def find_wrappers(path: str | None, platform: str = sys.platform) -> Wrappers:
    """The wrappers that a `PATH` holds. Elsewhere than on Linux, and in busybox and toybox, `env` and `setpriv` lack
    what we need.
    """

    def found(name: str) -> str | None:
        program = shutil.which(name, path=path)
        if program is None or os.path.basename(os.path.realpath(program)) in {"busybox", "toybox"}:
            return None
        return program

    if platform != "linux":
        return Wrappers()
    return Wrappers(env=found("env"), setsid=shutil.which("setsid", path=path), setpriv=found("setpriv"))


def claude_argv(spec: TurnSpec, *, claude: str, config_path: str, settings: str, flags: Iterable[str]) -> list[str]:
    """Claude's own command line.

    Each value is joined to its option by `=`: several of the options are variadic and would swallow what follows
    (measured). That of `--settings` is a word of its own: joined, claude 2.0.46 does not see it (measured).

    :param settings: what confines the session: JSON, or the path of a file that holds it.
    :param flags: those that this claude has; only `--name` may be missing.
    :raises ValueError: when the tools are empty, which would leave claude's own default to decide, or when not
        exactly one of `session_id` and `resume` is set.
    """
    tools = ",".join(spec.tools)
    if not tools or not all(spec.tools):
        raise ValueError("the list of tools is empty: --tools is never given without a value")
    if (spec.session_id is None) == (spec.resume is None):
        raise ValueError("a turn has either a session_id or a resume")
    argv = [claude, "-p", "--verbose", "--output-format", "stream-json", "--dangerously-skip-permissions"]
    argv += ["--strict-mcp-config", f"--mcp-config={config_path}", f"--tools={tools}"]
    argv += ["--settings", settings]
    if "--name" in flags:
        argv.append(f"--name={spec.name}")
    argv.append(f"--resume={spec.resume}" if spec.session_id is None else f"--session-id={spec.session_id}")
    for name, flag in OPTION_FLAGS.items():
        value = getattr(spec.options, name)
        if value is not None:
            argv.append(f"{flag}={f'{value:.6f}' if isinstance(value, float) else value}")
    return argv


def wrapped_argv(argv: Sequence[str], *, dir: str, wrappers: Wrappers, launcher: Sequence[str] = ()) -> list[str]:
    """The whole command line: working directory, session and death with the daemon, then the operator's launcher,
    then claude.

    :param dir: absolute. Where no `env -C` is to be had a shell changes to it.
    """
    changed = ["/bin/sh", "-c", _CD, "sh", dir] if wrappers.env is None else [wrappers.env, "-C", dir]
    session = [] if wrappers.setsid is None else [wrappers.setsid]
    death = [] if wrappers.setpriv is None else [wrappers.setpriv, "--pdeathsig", "TERM"]
    return [*changed, *session, *death, *launcher, *argv]


def child_environment(environ: Mapping[str, str], *, mark: str) -> dict[str, str]:
    """The child's environment: the daemon's, less what would make the child nested or leak, plus the turn's mark.

    What configures claude stays: keys, providers, limits, `CLAUDE_CONFIG_DIR`.
    """
    dropped = _NESTING | _SERVICE | _PLACE
    prefixes = _NESTING_PREFIXES + _SERVICE_PREFIXES
    kept = {key: value for key, value in environ.items() if key not in dropped and not key.startswith(prefixes)}
    return {**kept, MARK_VARIABLE: mark}


def global_config(environ: Mapping[str, str]) -> str:
    """The path of the file in which claude keeps what belongs to no project, by the child's environment."""
    home = environ.get("CLAUDE_CONFIG_DIR") or environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, ".claude.json")


def config_dir(environ: Mapping[str, str]) -> str:
    """Where claude keeps its sessions, by the child's environment: `$CLAUDE_CONFIG_DIR`, or `~/.claude`."""
    configured = environ.get("CLAUDE_CONFIG_DIR")
    if configured:
        return configured
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(home, ".claude")
