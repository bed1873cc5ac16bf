"""The JSON objects that leave the daemon: the record of a subagent, the answers that carry it, the todo.

Their one definition: what builds, reads, shows or documents one imports it from here. Values are str, int, float, bool,
None, lists and dicts alone; the enumerations are strings in JSON.
"""

from typing import Annotated, NotRequired, TypedDict

from hivesub.records import CheckOutcome, Control, Outcome, SignalKind, State, StopKind, TodoState


class LastTurnRecord(TypedDict):
    """How the last turn that ended was observed to end."""

    outcome: Annotated[Outcome, "what was observed, not what was said"]
    signal: Annotated[str | None, "the name of the Unix signal, such as `SIGTERM`, of a killed turn"]
    exit_code: Annotated[int | None, "null where the process died on a signal"]
    detail: Annotated[str, "what else is known: claude's error, the tail of stderr; at most 2,000 characters"]
    ended_at: Annotated[str, "RFC 3339 in UTC"]


class StopReasonRecord(TypedDict):
    """Why no further turn follows."""

    kind: Annotated[StopKind, "see below"]
    message: Annotated[str, "the reason in words; a subagent's own are labelled as self-reported"]


class SignalRecord(TypedDict):
    """A claim by a subagent."""

    kind: Annotated[SignalKind, "which of the two signal tools it called"]
    message: Annotated[str, "what it said, at most 4,000 characters"]
    at: Annotated[str, "RFC 3339 in UTC"]


class RetryRecord(TypedDict):
    """Claude waits for its API."""

    error: Annotated[str | None, "what claude calls it, such as `authentication_failed` or `rate_limit`"]
    status: Annotated[int | None, "the HTTP status; null where there was none"]
    attempt: Annotated[int, "which attempt comes next"]
    max_attempts: Annotated[int, "after how many claude gives up"]
    since: Annotated[str, "when this wait began, RFC 3339 in UTC"]


class CheckRecord(TypedDict):
    """The last run of the run's check: observed by the daemon, unlike a claim."""

    name: Annotated[str, "the check's name"]
    exit_code: Annotated[int | None, "null where there was none"]
    outcome: Annotated[CheckOutcome, "only `passed` and `failed` say something of the work"]
    detail: Annotated[str, "why it says nothing of the work; empty where it does"]
    tail: Annotated[str, "the end of its output, at most 4,000 characters"]
    ended_at: Annotated[str, "RFC 3339 in UTC"]


class CheckingRecord(TypedDict):
    """A check that is running."""

    name: Annotated[str, "the check's name"]
    since: Annotated[str, "when it began, RFC 3339 in UTC"]


class UsageRecord(TypedDict):
    """What a run used so far."""

    cost_usd: Annotated[float | None, "US dollars, as claude counts them; null while it is not known"]
    claude_turns: Annotated[int, "claude's own count, its round trips to the model"]
    input_tokens: Annotated[int, "that claude counted"]
    output_tokens: Annotated[int, "that claude counted"]


class Record(TypedDict):
    """One subagent: its last run, or the one that goes on."""

    name: Annotated[str, "the subagent's name"]
    session_id: Annotated[str | None, "claude's session; null until it is known"]
    dir: Annotated[str, "where it works, as claude's `init` said"]
    state: Annotated[State, "how it stands, see below"]
    turn: Annotated[int | None, 'N of "Turn N of M", in every state; null without a goal']
    max_turns: Annotated[int | None, "M of it; null without a goal"]
    goal: Annotated[str | None, "word for word; cut at 200 characters in a list; null without one"]
    last_event_age_s: Annotated[float | None, "while running: seconds since this turn's process last wrote anything"]
    started_at: Annotated[str, "of the run, RFC 3339 in UTC"]
    ended_at: Annotated[str | None, "of the run; null while it goes on"]
    last_turn: Annotated[LastTurnRecord | None, "how the last turn was observed to end; null before one has"]
    stop_reason: Annotated[StopReasonRecord | None, "why no further turn follows; null while the run goes on"]
    signals: Annotated[list[SignalRecord], "what the subagent reported in this run, in order: claims, not facts"]
    signals_left_out: NotRequired[
        Annotated[int, "only where it reported more than is kept, 100 signals and 40,000 characters: how many more"]
    ]
    transcript: Annotated[str | None, "claude's own record of the session, once it is known where that is"]
    left_running: NotRequired[
        Annotated[
            int, "only where there are some: processes that turns of the run left running and that are still there"
        ]
    ]
    report_file: Annotated[str | None, "where the report goes; null where no path is known"]
    report_error: Annotated[str | None, "why the report, or a path that the subagent named, could not be used"]
    usage: Annotated[UsageRecord, "summed over the run"]
    control: Annotated[Control, "whether it reached its signal route"]
    retrying: Annotated[RetryRecord | None, "while claude waits for its API; null again with its next other event"]
    waiting_until: NotRequired[Annotated[str, "while `waiting`: when the turn is run again, RFC 3339 in UTC"]]
    check: Annotated[CheckRecord | None, "the last run of its check; null where none was asked for or has run"]
    checking: NotRequired[Annotated[CheckingRecord, "while its check runs"]]
    missing_tools: Annotated[list[str], "built-in tools that were asked for and that claude did not give it"]
    todo: Annotated[TodoState, "what became of the run's todo; of several receivers the worst"]
    pid: NotRequired[Annotated[int | None, "while running"]]
    result: NotRequired[
        Annotated[
            str | None,
            "only with `result: true`: the text that it ended its last turn with, at most 100,000 characters",
        ]
    ]
    structured_output: NotRequired[
        Annotated[
            object, "beside `result`, where a `result_schema` was given: what fits it; null where the turn gave none"
        ]
    ]


class AnswerExtras(TypedDict, total=False):
    """What the answer of a call that made a run says beside the record."""

    replaced_session_id: Annotated[
        str, "the session that bore the name before; `continue` with it still resumes that one"
    ]
    previous_signal: Annotated[str, "the signal that killed the turn before: its work may be cut off"]
    same_goal: Annotated[bool, "true where the goal of the run before was kept, with as many turns again"]
    no_goal_remembered: Annotated[
        bool, "true where nothing is known of the name, as after a restart, so that this is a single turn"
    ]
    budget_anew_usd: Annotated[float, "the `max_budget_usd` of the run before, which this one may cost anew"]


class RunAnswer(AnswerExtras):
    """What `start`, `continue` and `interrupt` answer."""

    subagent: Annotated[Record, "the [record](#the-record)"]
    under_way: NotRequired[
        Annotated[bool, "false where claude had not said within 5 s that it resumed the session: the todo will say"]
    ]
    escalated: NotRequired[Annotated[bool, "whether more than SIGINT was needed"]]
    session_kept: NotRequired[
        Annotated[
            bool, "whether claude has kept the session, so that `continue` finds it; absent where that is unknown"
        ]
    ]


class StatusAnswer(TypedDict):
    """What `status` answers."""

    subagents: Annotated[list[Record], "of one, or of all that run and the last 20 that ended: [records](#the-record)"]
    counts: NotRequired[Annotated[dict[str, int], "without `name`: how many there are in each state"]]


class SignalAnswer(TypedDict):
    """What `goal_reached` and `need_help` answer."""

    recorded: Annotated[bool, "the report is recorded"]
    note: Annotated[str, "what else the subagent should know, such as that a path was dropped"]


class TaskState(TypedDict):
    """A run as a client sees it that was answered with a task. `announcement`: title and body of the run's todo, None
    until the end is announced.
    """

    id: str
    record: Record
    created_at: str
    updated_at: str
    announcement: str | None


class Todo(TypedDict):
    """The one message that the daemon pushes when a run ends."""

    id: str
    kind: str
    title: str
    body: str
    subagent: Record
    created_at: str


class PastTurnRecord(TypedDict):
    """A turn that ended, for the operator: the nth of the nth run."""

    run: int
    number: int
    outcome: Outcome
    signal: str | None
    exit_code: int | None
    detail: str
    started_at: str
    ended_at: str
    duration_s: float
    bytes_read: int
    cost_usd: float | None
    check: str | None


class StepRecord(TypedDict):
    """Something that a subagent did, off claude's record of its session: `what` is a tool, `says`, `is asked` or
    `error`.
    """

    at: str
    what: str
    text: str


class Steps(TypedDict):
    """The last steps of a subagent. `transcript`: where they were read. `offset`: where that look ended."""

    transcript: str | None
    steps: list[StepRecord]
    offset: int


class ActivityRecord(TypedDict):
    """Bytes that came, by slots of `slot_s` seconds, oldest first."""

    slot_s: int
    bytes: list[int]


class HistoryRecord(TypedDict):
    """The past of a subagent. `turn_started_at`, `bytes_read`: of the turn in flight, or None."""

    run: int
    turns: list[PastTurnRecord]
    turn_started_at: str | None
    bytes_read: int | None
    activity: ActivityRecord


class OperatorRecord(Record):
    """A record as the operator's page sees it."""

    history: HistoryRecord


class OperatorList(TypedDict):
    """All that the operator's page lists; `counts` by state."""

    subagents: list[OperatorRecord]
    counts: dict[str, int]
