"""The daemon's options: what there is to set, and how the command line and the environment become checked `Settings`.

Owns names, defaults and the rules that hold between options. How one text is read is `hivesub.config.optionvalues`;
what twistd needs, and whether Twisted knows the endpoint of `--listen`, is `hivesub.tap`; what `--tools` and
`--mcp-servers` mean is left to those who use them. Nothing here opens a socket or touches a reactor.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from attrs import field, frozen

from hivesub.config.optionvalues import (
    GONE,
    is_loopback_endpoint,
    is_utf_8,
    read_command,
    read_directory,
    read_file_path,
    read_hours,
    read_number,
    read_path,
    read_public_url,
    read_switch,
    read_todo,
    read_token_file,
    shown,
    speaks_plain_http,
    split_endpoint,
)
from hivesub.errors import ConfigError
from hivesub.redaction.detection import url_secrets
from hivesub.system.dirs import default_runtime_dir, default_state_dir, make_private_dir

DEFAULT_PORT = 8787
DEFAULT_MAX_RUNNING = 16
MAX_RUNNING_LIMIT = 10_000
DEFAULT_LIMIT_WAIT_H = 6
MAX_LIMIT_WAIT_H = 24 * 31

TOKEN_NAME = "auth-token"
"""In the state directory: where a daemon looks for its token by itself."""

OPTIONS: tuple[tuple[str, str], ...] = (
    ("port", f"Listen on this TCP port of 127.0.0.1, 0 for any free one. [default: {DEFAULT_PORT}]"),
    ("listen", "Listen on this Twisted endpoint instead, e.g. systemd:domain=INET:index=0 or unix:/run/me/hivesub."),
    ("claude", "The claude program. [default: claude on PATH]"),
    ("dir", "Where subagents work that were given no dir. [default: the current directory]"),
    ("tools", "Exactly these built-in tools for subagents, comma separated. Wins over --tool-groups."),
    (
        "tool-groups",
        "The tool groups that the agent was granted: web_tools (WebFetch, WebSearch), shell_tools (Bash). Wins over "
        "HIVE_TOOL_GROUPS.",
    ),
    (
        "hooks",
        "on: run the hooks of the user, of projects and of plugins in subagents too. What a subagent writes into its "
        "project's settings then runs as a hook, outside its tools. [default: off]",
    ),
    ("mcp-servers", "A JSON file of MCP servers; those that say availableToSubagents are passed on. [default: none]"),
    ("checks", "A JSON file of commands that a goal can be held against, by name. [default: none]"),
    (
        "todo",
        "Where the message goes that a run has ended: an http(s) URL to post to, or a file to append to. May be given "
        "several times. [default: todos.jsonl in the state directory]",
    ),
    (
        "auth-token-file",
        "A file with the bearer token to ask for, or sha256:<hex> of it. [default: auth-token in the state directory, "
        "which `hivesub token` makes; where it is not there none is asked for]",
    ),
    ("public-url", "How subagents reach this daemon, when not by its listening address: http://HOST[:PORT]."),
    (
        "limit-wait",
        "Hours that a run may wait in all for a usage limit of the account to reset; 0 fails it at once. "
        f"[default: {DEFAULT_LIMIT_WAIT_H}]",
    ),
    ("max-running", f"Refuse further runs while this many are going on. [default: {DEFAULT_MAX_RUNNING}]"),
    ("launcher", "A command to put before claude (a sandbox, a resource scope), quoted as in a shell. [default: none]"),
    (
        "runtime-dir",
        "A private directory for what lives as long as the daemon. [default: $RUNTIME_DIRECTORY, else "
        "$XDG_RUNTIME_DIR/hivesub]",
    ),
    (
        "state-dir",
        "A private directory for what outlives the daemon. [default: $STATE_DIRECTORY, else "
        "${XDG_STATE_HOME:-~/.local/state}/hivesub]",
    ),
)
"""Each option's name and what it does, in the order of the help. Each reads `variable_of(name)` too."""

# What a daemon puts into its children, and so has itself where a subagent starts one; the variables of the command
# `hivesub`, of its mcp-config, of the plugin's hook.
_OTHERS = ("HIVESUB_TURN", "HIVESUB_URL", "HIVESUB_TOKEN", "HIVESUB_TODOS")

Given = str | tuple[str, ...] | None
"""What the command line says of an option: nothing, one text, or (`--todo`) all of its texts."""

T = TypeVar("T")


class OptionError(ConfigError):
    """Raised when an option cannot be used. `str` is `--option: why, and what would work`; it repeats no secret."""

    def __init__(self, option: str, why: str) -> None:
        super().__init__(f"--{option}: {why}")
        self.option = option
        self.why = why


@frozen
class Settings:
    """What the operator asked for, checked. Paths are absolute; durations and sizes do not occur here."""

    listen: str
    """An endpoint description for `serverFromString`."""
    claude: str
    """An absolute path, or a bare program name to be looked up on PATH; not checked to exist."""
    dir: Path
    tools: str | None
    """The text of `--tools`, unparsed; an empty one is kept, to be refused by the function that resolves the list."""
    tool_groups: str | None
    """The text of `--tool-groups`, unparsed. `HIVE_TOOL_GROUPS` is in `environ`."""
    hooks: bool
    """Whether hooks run in subagents."""
    mcp_servers: Path | None
    checks: Path | None
    todos: tuple[str | Path, ...] = field(repr=False)
    """At least one sink: a str is a URL (which may hold a key), a Path a file to append to."""
    auth_token: str | None = field(repr=False)
    """The token, or `sha256:` and 64 lower-case hex digits; None where none is asked for."""
    public_url: str | None
    """`scheme://host[:port]`, without a slash at the end."""
    max_running: int
    limit_wait_s: float
    launcher: tuple[str, ...]
    runtime_dir: Path
    state_dir: Path
    environ: Mapping[str, str] = field(repr=False)
    """The daemon's environment, as it was when the options were read."""
    warnings: tuple[str, ...] = ()
    """What the operator should know at start but what stops nothing."""


def variable_of(option: str) -> str:
    """The environment variable that an option reads, e.g. `HIVESUB_MAX_RUNNING`."""
    return "HIVESUB_" + option.upper().replace("-", "_")


@frozen
class _Source:
    """Where the options' texts come from: the command line first, then the environment."""

    options: Mapping[str, Given]
    environ: Mapping[str, str]

    def from_command_line(self, option: str) -> bool:
        return self.options.get(option) not in (None, ())

    def text(self, option: str) -> str | None:
        """The option's one text, or None where nobody gave it. A variable that is set counts, even to nothing."""
        given = self.options.get(option)
        if isinstance(given, tuple):
            given = given[-1] if given else None
        return given if given is not None else self.environ.get(variable_of(option))

    def texts(self, option: str) -> tuple[str, ...]:
        """All texts of a repeatable option. The variable holds them separated by white space, quoted as in a shell."""
        given = self.options.get(option)
        if given:
            return (given,) if isinstance(given, str) else given
        variable = self.environ.get(variable_of(option))
        return () if variable is None else self.check(option, lambda: read_command(variable))

    def check(self, option: str, read: Callable[[], T]) -> T:
        """What `read` gives; its ValueError becomes an OptionError that also says where the text was found."""
        try:
            return read()
        except ValueError as error:
            from_variable = not self.from_command_line(option) and variable_of(option) in self.environ
            why = f"{error} (read from {variable_of(option)})" if from_variable else str(error)
            raise OptionError(option, why) from None

    def read(self, option: str, reader: Callable[[str], T]) -> T | None:
        """The option's value by `reader`, or None where nobody gave it."""
        text = self.text(option)
        return None if text is None else self.check(option, lambda: reader(text))


def read_settings(options: Mapping[str, Given], environ: Mapping[str, str], cwd: Path | None = None) -> Settings:
    """Check every option and give the settings. Makes nothing: see `make_directories`.

    The command line wins over the environment. Relative paths are relative to `cwd`, by default the current directory.
    :raises OptionError: for the first option that cannot be used.
    """
    source = _Source(options, environ)
    here = _current_directory() if cwd is None else cwd
    warnings = _unread_variables(environ)

    def path(text: str) -> Path:
        return read_path(text, environ, here)

    listen = _read_listen(source)
    public_url = source.read("public-url", read_public_url)
    if public_url is None and not speaks_plain_http(listen):
        raise OptionError(
            "public-url",
            f"subagents cannot reach a {split_endpoint(listen)[0]}: endpoint by http:// and its address; say by which "
            "URL they reach this daemon. With TLS that is https:// and a host that its certificate names, which claude "
            "has to trust (NODE_EXTRA_CA_CERTS)",
        )

    state_dir = source.read("state-dir", path) or default_state_dir(environ)
    token_file = source.read("auth-token-file", path) or _made_token(state_dir)
    token = None
    if token_file is not None:
        known = token_file
        token, warning = source.check("auth-token-file", lambda: read_token_file(known))
        warnings += () if warning is None else (warning,)
    elif is_loopback_endpoint(listen) is False:
        raise OptionError(
            "listen",
            "others than this machine could connect; make a token with `hivesub token`, add --auth-token-file, or "
            "listen on interface=127.0.0.1",
        )

    todos = tuple(
        source.check("todo", lambda text=text: read_todo(text, environ, here))  # type: ignore[misc]
        for text in source.texts("todo")
    )
    if source.from_command_line("todo") and any(isinstance(todo, str) and url_secrets(todo) for todo in todos):
        warnings += (
            "--todo: its URL holds a password or key, and every user of this machine can read a process's arguments: "
            "put it into HIVESUB_TODO instead",
        )
    directory = source.read("dir", lambda text: read_directory(text, environ, here)) or _default_dir(here)
    if not is_utf_8(directory):
        warnings += (f"--dir: {shown(directory)} is no UTF-8, and claude cannot work there: give subagents a `dir`",)
    runtime_dir = source.read("runtime-dir", path) or default_runtime_dir(environ)
    if not is_utf_8(runtime_dir):
        raise OptionError("runtime-dir", f"{shown(runtime_dir)} is no UTF-8, and claude could open no file there")
    max_running = source.read("max-running", lambda text: read_number(text, 1, MAX_RUNNING_LIMIT))
    limit_wait_h = source.read("limit-wait", lambda text: read_hours(text, MAX_LIMIT_WAIT_H))
    return Settings(
        listen=listen,
        claude=source.read("claude", lambda text: _read_program(text, environ, here)) or "claude",
        dir=directory,
        tools=source.text("tools"),
        tool_groups=source.text("tool-groups"),
        hooks=source.read("hooks", read_switch) or False,
        mcp_servers=source.read("mcp-servers", lambda text: read_file_path(text, environ, here)),
        checks=source.read("checks", lambda text: read_file_path(text, environ, here)),
        todos=todos or (state_dir / "todos.jsonl",),
        auth_token=token,
        public_url=public_url,
        max_running=DEFAULT_MAX_RUNNING if max_running is None else max_running,
        limit_wait_s=3600.0 * (DEFAULT_LIMIT_WAIT_H if limit_wait_h is None else limit_wait_h),
        launcher=source.read("launcher", lambda text: _read_launcher(text, environ, here)) or (),
        runtime_dir=runtime_dir,
        state_dir=state_dir,
        environ=dict(environ),
        warnings=warnings,
    )


def _current_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was deleted: only who needs it is refused
        return Path()


def _made_token(state_dir: Path) -> Path | None:
    """The file that `hivesub token` makes; one that is there and cannot be used stops the daemon."""
    made = state_dir / TOKEN_NAME
    return made if os.path.lexists(made) else None


def _default_dir(here: Path) -> Path:
    if not here.is_absolute():
        raise OptionError("dir", GONE)
    return here


def make_directories(settings: Settings) -> None:
    """Make the runtime and the state directory, mode 0700, where they are not there yet.

    :raises OptionError: where one cannot be made or is not this user's own.
    """
    for option, path in (("runtime-dir", settings.runtime_dir), ("state-dir", settings.state_dir)):
        try:
            make_private_dir(path)
        except ValueError as error:
            raise OptionError(option, str(error)) from None


def _read_listen(source: _Source) -> str:
    """The endpoint to listen on, of `--listen` and `--port`: both at once have to mean the same."""
    port = source.read("port", lambda text: read_number(text, 0, 65535))
    listen = source.text("listen")
    by_port = f"tcp:port={DEFAULT_PORT if port is None else port}:interface=127.0.0.1"
    if listen is None:
        return by_port
    if not listen.strip():
        raise OptionError("listen", "it is empty; give a Twisted endpoint, or leave the option out")
    if port is not None and source.from_command_line("port") == source.from_command_line("listen"):
        kind, positional, named = split_endpoint(listen)
        if (kind, (named.get("port"), *positional)) not in (("tcp", (str(port),)), ("tcp", (None, str(port)))):
            raise OptionError("listen", "--port says something else; give one of the two")
    elif source.from_command_line("port"):
        return by_port
    return listen


def _read_program(text: str, environ: Mapping[str, str], cwd: Path) -> str:
    """A bare name is left for PATH; anything with a slash or a `~` becomes absolute."""
    if os.sep not in text and not text.startswith("~") and text:
        return text
    return str(read_path(text, environ, cwd))


def _read_launcher(text: str, environ: Mapping[str, str], cwd: Path) -> tuple[str, ...]:
    """The launcher's argument list; its program is made absolute where it is a path, and has to be there."""
    first, *rest = read_command(text)
    program = _read_program(first, environ, cwd)
    if shutil.which(program, path=environ.get("PATH", os.defpath)) is None:
        raise ValueError(f"{first!r} is no program to be found; give a path or a name on PATH")
    return (program, *rest)


def _unread_variables(environ: Mapping[str, str]) -> tuple[str, ...]:
    """A warning for each `HIVESUB_*` variable that no option reads: most likely a misspelt one."""
    known = {variable_of(name) for name, _ in OPTIONS} | set(_OTHERS)
    unread = sorted(name for name in environ if name.startswith("HIVESUB_") and name not in known)
    return tuple(f"{name} is set, but there is no such option" for name in unread)
