"""The seams: what each layer needs of the one below it. The contracts live here; implementations say only how they
differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zope.interface import Attribute, Interface

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from twisted.internet.defer import Deferred

    from hivesub.records import (
        CheckEnd,
        ContinueRequest,
        Control,
        Init,
        Result,
        Retrying,
        SettingsSeen,
        SignalKind,
        StartRequest,
        TodoState,
        TurnEnd,
        TurnSpec,
    )
    from hivesub.shapes import OperatorList, OperatorRecord, Record, RunAnswer, StatusAnswer, Steps, TaskState, Todo

    Signalled = Callable[[SignalKind, str, str | None], Deferred[str]]
    """Takes (kind, message, report_file) of a signal; fires with the note for its answer."""

# What `web` puts into the ASGI scope of a request for `tools`, which find it as `ctx.request.scope`.
TARGET_KEY = "hivesub.target"
"""The `ISignalTarget` that the token of a signal URL stands for."""
STREAMED_KEY = "hivesub.streamed"
"""There when the answer is an event stream, so that progress notifications reach the client."""
SENT_ARGUMENTS_KEY = "hivesub.sent_arguments"
"""A call's arguments as they were sent, when half a surrogate pair is in them: the SDK's are mended."""


class ITurn(Interface):
    """One claude process, from spawn to exit."""

    mark: str = Attribute("The value of HIVESUB_TURN in the child's environment: random, no secret.")
    settings_seen: SettingsSeen | None = Attribute("What the settings were that claude took up.")
    pid: int | None = Attribute("The child's process id while it lives, else None.")
    last_event_at: float | None = Attribute(
        "Monotonic seconds of the last byte read; the spawn's at first; None once ended."
    )
    control: Control = Attribute("A `hivesub.records.Control`.")
    init: Init | None = Attribute("The last `hivesub.records.Init` seen, or None.")
    result: Result | None = Attribute("The last `hivesub.records.Result` seen, or None.")
    retrying: Retrying | None = Attribute("A `hivesub.records.Retrying` while claude waits for its API, else None.")
    escalated: bool = Attribute("Whether the child needed more than the first signal of the kill ladder.")
    signals_sent: tuple[int, ...] = Attribute("The numbers of the signals that went to the living child, in order.")
    bytes_read: int = Attribute("Bytes read from stdout and stderr so far.")
    activity: Mapping[int, int] = Attribute("The same by slot of the monotonic clock (`hivesub.turns.activity`).")

    def when_under_way() -> Deferred[None]:
        """Wait for the turn to be under way.

        :returns: fires with None at the first `init` event, or when the turn has ended before one. Each call gives its
            own Deferred; cancelling it forgets the wait and leaves the turn alone.
        """

    def when_ended() -> Deferred[TurnEnd]:
        """Wait for the end.

        :returns: fires once the process is gone and its output read. Each call gives its own Deferred; cancelling it
            leaves the turn alone. Never errbacks.
        """

    def stop(reason: str) -> None:
        """Begin the kill ladder, once; later calls and calls after the end change nothing.

        :param reason: a clause for `detail`, such as ``interrupted by the agent``.
        """


class ITurnSpawner(Interface):
    """Starts turns."""

    def spawn(spec: TurnSpec, signalled: Signalled) -> Deferred[ITurn]:
        """Start one claude process.

        :param signalled: called with (kind, message, report_file) for each signal that came by this turn's URL; gives
            the note for the answer.
        :returns: fires with the turn once the process exists. Cancelling before that starts none.
        :raises SpawnError: (as a failure) when no process could be made; nothing is left behind.
        """

    def end_left(run_mark: str) -> Deferred[int]:
        """End what the turns of a run that is over have left running: SIGTERM, then SIGKILL.

        :returns: fires with how many there were, once they are gone, within 6 s or so.
        """

    def still_there(run_mark: str, pids: Iterable[int]) -> set[int]:
        """Which of the processes that the turns of a run left are still there: a reused id is none of them."""


class ICheck(Interface):
    """One run of a check."""

    name: str = Attribute("The check's name.")
    began_at: float = Attribute("Monotonic seconds.")

    def when_ended() -> Deferred[CheckEnd]:
        """Wait for the end.

        :returns: fires once the process is gone, and all that it started. Each call gives its own Deferred. Never
            errbacks.
        """

    def stop(reason: str) -> None:
        """Begin the kill ladder, once; calls after the end change nothing.

        :param reason: a clause for `detail`, such as ``interrupted by the agent``.
        """


class IChecks(Interface):
    """The operator's checks."""

    names: tuple[str, ...] = Attribute("Of all checks, in the order of the file.")

    def start(name: str, directory: str, mark: str) -> ICheck:
        """Run a check. One that cannot be run ends at once and says so.

        :param mark: the value of HIVESUB_TURN in its environment.
        """


class ISignalTarget(Interface):
    """What a living signal token stands for: one turn of one subagent."""

    def request_began() -> None:
        """Note that a request came by this turn's URL: the turn's end waits a little for it."""

    def request_ended() -> None:
        """Note that the answer to such a request was given, or its client is gone."""

    def signal(kind: SignalKind, message: str, report_file: str | None) -> Deferred[str]:
        """Record a claim by the subagent, at once.

        :returns: fires with the note for the answer, once the path has been looked at.
        """


class ITokens(Interface):
    """Signal tokens: at least 256 random bits, alive from mint to revoke."""

    def mint(target: ISignalTarget) -> str:
        """A new token, in URL-safe characters, that resolves to the target."""

    def resolve(token: str) -> ISignalTarget | None:
        """What a token stands for, or None for whatever is not a living token."""

    def revoke(token: str) -> None:
        """From now on the token resolves to nothing. Unknown tokens are ignored."""


class IFleet(Interface):
    """Names and their subagents: what the four tools mean."""

    def start(request: StartRequest) -> Deferred[RunAnswer]:
        """Start a subagent.

        :returns: fires with the answer's fields, `subagent` and `replaced_session_id` where one was replaced, once the
            process exists. Cancelling forgets the answer; the run goes on.
        :raises HivesubError: (as a failure) when refused; nothing changed.
        """

    def resume(request: ContinueRequest) -> Deferred[RunAnswer]:
        """Continue a subagent, as `start`; `previous_signal` where the previous turn was killed."""

    def status(name: str | None, *, wait_s: float, wait_for_all: bool, result: bool) -> Deferred[StatusAnswer]:
        """Show one subagent, or all that run and the last that ended, with `counts`.

        :param wait_s: first wait so long at most for one of the runs asked about to end, or for all of them.
        """

    def interrupt(name: str) -> Deferred[RunAnswer]:
        """Stop a run: `{"subagent": record, "escalated": bool}`."""

    def news(shown: Iterable[str]) -> Deferred[list[Record]]:
        """The runs that have ended since the agent last heard of ends; each is given once.

        :param shown: names whose end the agent hears of otherwise at this moment, which are left out.
        """

    def as_task(name: str) -> TaskState | None:
        """The run that goes on as a task, which it stays; None where none goes on."""

    def task_state(task_id: str) -> TaskState | None:
        """How a task stands; None where no run is known that is one of this id."""

    def told_by_task(task_id: str) -> None:
        """Note that the agent has heard of the end of this task's run."""

    def cancel_task(task_id: str) -> None:
        """Begin an interrupt of a task's run. Does nothing where it has ended."""


class ITranscripts(Interface):
    """Claude's own records of its sessions, on this machine. Whatever cannot be read is as if it were not there."""

    def find(session_id: str, directory: str, within_s: float = 5.0) -> Deferred[str | None]:
        """Find a session's record.

        :param directory: the one that it works in, where it is looked for first.
        :returns: fires with its path, or with None where there is none here or the look takes longer.
        """

    def steps(path: str, after: int) -> Deferred[Steps]:
        """Read the last steps in one, redacted.

        :param after: the `offset` of an earlier look, whose steps are left out; 0 at the first.
        """


class IOperatorView(Interface):
    """The fleet as its operator sees it. Nothing here changes anything."""

    def all() -> OperatorList:
        """All that run, and the last that ended: as `status` without a name, each record with its history."""

    def one(name: str) -> OperatorRecord | None:
        """One subagent's record with its history; None when there is none."""

    def steps(name: str, after: int) -> Deferred[Steps | None]:
        """What a subagent did last, off claude's own record of its session; fires with None when there is no such
        subagent.
        """

    def reading() -> Any:
        """A `hivesub.runs.tally.Reading`: what was counted since the daemon's start."""


class IOutbox(Interface):
    """Takes todos for delivery and reports what became of them."""

    def push(todo: Todo, changed: Callable[[TodoState], None]) -> None:
        """Keep a todo in the state directory, then deliver it to each sink. Never blocks, never raises.

        :param todo: the whole JSON object.
        :param changed: called at each change of what became of it (the worst of all sinks).
        """


class IHeard(Interface):
    """Of which ends an agent has heard, by the ids of their todos; shared with what else reports ends to it, such as
    the plugin's hook.
    """

    def note(todo_id: str) -> None:
        """The agent has heard of this end. Never blocks, never raises."""

    def ids() -> Deferred[frozenset[str]]:
        """Those that are noted, by whomever. Never fails; without what cannot be read within a second."""


class IReport(Interface):
    """Appends to report files."""

    def append(path: str, text: str, within: str | None) -> Deferred[None]:
        """Append text whole to a regular file, creating it but no folder.

        :param within: when given, the directory that the path must resolve inside of, checked again at the append.
        :raises AppendError: (as a failure) says which path and why.
        """


class IRedactor(Interface):
    """Knows the daemon's secrets."""

    def redact(text: str) -> str:
        """The text with each known secret, and whatever looks like a signal URL, replaced. For what others said."""

    def redact_identifier(text: str) -> str:
        """The same, but for secrets that are ordinary words, such as `postgres`: these stay.

        For names, paths and ids, and for texts that are made of them: a name that is replaced because a password
        happens to be that word can be used by nobody.
        """
