"""The values that pass between layers: frozen, without behaviour beyond their own reading. Owns no I/O.

Times are aware UTC datetimes; durations are seconds. `Signal` here is what a subagent reported, never a Unix signal.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from attrs import evolve, field, fields, frozen

CONTROL_SERVER = "subagent_control"
"""The name of the signal route's MCP server in every subagent's config; nobody else may bear it."""

DEFAULT_MAX_TURNS = 5
"""The turns of a goal that was given without `max_turns`."""


class Outcome(StrEnum):
    """What was observed of a turn's end."""

    FINISHED = "finished"
    CUT = "cut"
    FAILED = "failed"
    KILLED = "killed"


class State(StrEnum):
    """The state of a subagent, as `status` names it."""

    RUNNING = "running"
    WAITING = "waiting"
    IDLE = "idle"
    BLOCKED = "blocked"
    KILLED = "killed"
    FAILED = "failed"


class StopKind(StrEnum):
    """Why no further turn follows."""

    TURN_ENDED = "turn_ended"
    GOAL_REACHED = "goal_reached"
    NEED_HELP = "need_help"
    TURN_CAP = "turn_cap"
    KILLED = "killed"
    FAILED = "failed"
    CUT = "cut"
    BUDGET_SPENT = "budget_spent"
    NO_CONTROL = "no_control"
    CHECK_PASSED = "check_passed"


class SignalKind(StrEnum):
    """The two things a subagent can say about itself."""

    GOAL_REACHED = "goal_reached"
    NEED_HELP = "need_help"


class Control(StrEnum):
    """Whether the subagent reached its signal route, as `init` said or as its first request showed."""

    CONNECTED = "connected"
    FAILED = "failed"
    UNKNOWN = "unknown"


class TodoState(StrEnum):
    """What became of the todo of a subagent's last run; with several sinks, the worst of them."""

    NONE = "none"
    PENDING = "pending"
    DELIVERED = "delivered"
    UNDELIVERED = "undelivered"


class CheckOutcome(StrEnum):
    """What was observed of a check's run. Only `passed` and `failed` say something of the work."""

    PASSED = "passed"
    FAILED = "failed"
    KILLED = "killed"
    TIMED_OUT = "timed_out"
    NOT_RUN = "not_run"


@frozen(kw_only=True)
class CheckEnd:
    """How a check ended. `exit_code`: None where there was none. `detail`: why it says nothing of the work, "" where it
    does. `tail`: the end of its output, redacted, at most 4,000 characters.
    """

    name: str
    outcome: CheckOutcome
    exit_code: int | None
    detail: str
    tail: str
    ended_at: datetime


@frozen(kw_only=True)
class Signal:
    """A claim by a subagent: labelled as one wherever it is shown."""

    kind: SignalKind
    message: str
    at: datetime


@frozen(kw_only=True)
class StopReason:
    """Why a run goes no further."""

    kind: StopKind
    message: str


@frozen(kw_only=True)
class Init:
    """Claude's `init` event: what the session really got.

    `session_id`, `cwd`: as claude names them, or None when absent. `tools`: the built-in and MCP tool names, in
    claude's order. `mcp_servers`: server name -> status (`connected`, `failed`, …). Either is None when absent.
    """

    session_id: str | None
    cwd: str | None
    tools: tuple[str, ...] | None
    mcp_servers: dict[str, str] | None


@frozen(kw_only=True)
class Result:
    """The facts of one `result` event. `text` is cut at 100,000 characters; `text_after` is what comes right after, ""
    if nothing does, for nobody but the redactor: a secret that was cut is whole with it. `structured`: its
    `structured_output` as JSON, None where it has none. Costs are US dollars,
    `total_cost_usd` the whole session's so far; the token counts are those of the last answer alone (claude-cli
    measurements).
    """

    is_error: bool
    subtype: str
    text: str
    text_after: str = field(default="", repr=False)
    structured: str | None = field(default=None, repr=False)
    errors: tuple[str, ...] = ()
    terminal_reason: str | None = None
    stop_reason: str | None = None
    api_error_status: int | None = None
    session_id: str | None = None
    num_turns: int = 0
    total_cost_usd: float | None = None
    input_tokens: int = 0
    output_tokens: int = 0


@frozen(kw_only=True)
class Retry:
    """Claude waits for its API before it tries again. `error`, `status`: why, as claude says, such as
    `authentication_failed` and 401, or None. `attempt` of `max_attempts`: which comes next.
    """

    error: str | None
    status: int | None
    attempt: int
    max_attempts: int


@frozen
class Retrying:
    """A wait for the API, and since when it goes on."""

    retry: Retry
    since: datetime


@frozen(kw_only=True)
class UsageLimit:
    """A limit of the account that refused a request. `kind`: such as `five_hour`. `resets_at`: when it is lifted."""

    kind: str
    resets_at: datetime


@frozen(kw_only=True)
class TurnOptions:
    """What an agent may set for the turns of a run. None leaves it to claude, or sets no bound.

    `max_budget_usd`: for the run, or for the one turn that it is given to. `idle_timeout_s`: a turn that is silent for
    longer is interrupted. `result_schema`: a JSON Schema, as JSON. Which of them are flags of claude is
    `hivesub.turns.command`'s.
    """

    model: str | None = None
    effort: str | None = None
    max_budget_usd: float | None = None
    idle_timeout_s: float | None = None
    result_schema: str | None = field(default=None, repr=False)

    def over(self, earlier: TurnOptions) -> TurnOptions:
        """These, and where nothing is given the earlier ones."""
        names = (attribute.name for attribute in fields(TurnOptions))
        return evolve(earlier, **{name: value for name in names if (value := getattr(self, name)) is not None})


SettingsSeen = Mapping[str, Mapping[str, str]]
"""What the files hold that claude takes settings from: path -> key -> digest (`hivesub.turns.settingsfiles`)."""


@frozen(kw_only=True)
class TurnSpec:
    """All that one claude process is started with.

    `prompt`: bytes for stdin, whole. `tools`: never empty. Exactly one of `session_id` (a new session's UUID) and
    `resume` (id or title) is set. `options`: their `max_budget_usd` is what is left for this turn. `run_mark`: the mark
    of the run's first turn, which those of its later turns begin with; None at the first. `settings_seen`: what
    claude's settings still have to be; None takes them as they are.
    """

    name: str
    prompt: bytes = field(repr=False)
    dir: Path
    tools: tuple[str, ...]
    session_id: str | None = None
    resume: str | None = None
    options: TurnOptions = TurnOptions()
    run_mark: str | None = None
    settings_seen: SettingsSeen | None = field(default=None, repr=False)


@frozen(kw_only=True)
class LeftProcess:
    """A process that a turn started and that outlived it. `name`: the program's, short."""

    pid: int
    name: str


@frozen(kw_only=True)
class TurnEnd:
    """How one turn ended: what was observed, and the last facts of its stream.

    `signal`: a name such as `SIGTERM`, or None. `exit_code`: None when the process died on a signal. `detail`:
    redacted, at most 2,000 characters, "" when there is nothing to add. `under_way`: an `init` event was seen. `limit`:
    the usage limit that it failed at, None for any other failure.
    `error`: claude's own message where it gave one (for the error of a `continue`), "" otherwise. `budget_stop`:
    claude stopped at its own `--max-budget-usd`. `left`: what it started and was still there afterwards.
    """

    outcome: Outcome
    signal: str | None
    exit_code: int | None
    detail: str
    ended_at: datetime
    under_way: bool
    error: str = ""
    budget_stop: bool = False
    limit: UsageLimit | None = None
    lingered: bool = False
    left: tuple[LeftProcess, ...] = ()
    init: Init | None = None
    result: Result | None = None
    usage: TurnUsage | None = None


@frozen(kw_only=True)
class TurnUsage:
    """What a turn's `result` events said it used.

    `total_cost_usd`: the session's, cumulative. `since_usd`: this process's own, the sum of
    `model_usage_since_last_result` over its results. Each is None when no result had it.
    """

    total_cost_usd: float | None = None
    since_usd: float | None = None
    claude_turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@frozen(kw_only=True)
class Usage:
    """What a run used so far; `cost_usd` is None while it is not known (no result yet)."""

    cost_usd: float | None = None
    claude_turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@frozen(kw_only=True)
class RunRequest:
    """What a call that sets a run going can say, checked. None means "not given"."""

    name: str
    prompt: str = field(repr=False)
    dir: str | None = None
    goal: str | None = None
    max_turns: int | None = None
    report_file: str | None = None
    check: str | None = None
    options: TurnOptions = TurnOptions()
    request_key: str | None = None


@frozen(kw_only=True)
class StartRequest(RunRequest):
    """The arguments of `start`. `max_turns` is None without a goal."""


@frozen(kw_only=True)
class ContinueRequest(RunRequest):
    """The arguments of `continue`. `goal` "" asks for a single turn."""

    session_id: str | None = None
