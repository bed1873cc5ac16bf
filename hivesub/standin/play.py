"""One turn as it is played: what was said so far, what it cost, how it ends, and what a signal does to it."""

from __future__ import annotations

import json
import os
import select
import signal

from hivesub.standin import events

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from hivesub.standin.arguments import Arguments
    from hivesub.standin.control import Server
    from hivesub.standin.sessions import Session

ANSWER_COST_USD = 0.00014
ANSWER_TOKENS = (10, 5)
BUDGET_EXHAUSTED = "budget_exhausted"
STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")


class Ended(BaseException):
    """The process ends now, with `code`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Stopped(BaseException):
    """A signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Play:
    """The state of one turn.

    `verbs` maps a verb to what performs it, called with this play and the rest of the step.
    """

    def __init__(self, arguments: Arguments, session: Session, prompt: str, verbs: dict[str, Verb]) -> None:
        self.arguments = arguments
        self.session = session
        self.prompt = prompt
        self.argv: list[str] = []
        self.cwd = ""
        self.verbs = verbs
        self.servers: list[Server] = []
        self.tools: list[str] = []
        self.streaming = arguments.value("--output-format") == "stream-json"
        self.begun = False
        self.said = ""
        self.answer = ""
        self.structured: Any = None  # a typed result, see `--json-schema`
        self.calls = 0
        self.cost_usd = ANSWER_COST_USD
        self.tokens = ANSWER_TOKENS
        self.spent_usd = 0.0
        self.results = 0
        self.exit_code: int | None = None
        self.silent_end = False
        self.foreground: tuple[int, str] | None = None
        self.worked = False
        self.on_signal: dict[str, list[str]] = {}

    def emit(self, event: dict[str, Any]) -> None:
        """Write an event as one line."""
        if self.streaming:
            self.write(1, json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def write(self, descriptor: int, data: bytes) -> None:
        """Write bytes, all of them. A reader that is gone ends the process, as it does claude."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except BrokenPipeError:
            raise Ended(1) from None

    def wait(self, seconds: float) -> None:
        """Let time pass; a signal breaks in."""
        select.select((), (), (), seconds)

    def perform(self, steps: list[str]) -> None:
        """Do the steps in order. An unknown verb ends the process with exit 2 and says so on stderr."""
        for step in steps:
            verb, _, rest = step.partition(" ")
            deed = self.verbs.get(verb.replace("-", "_"))
            if deed is None:
                self.write(2, f"standin: unknown step {step!r}; known: {', '.join(sorted(self.verbs))}\n".encode())
                raise Ended(2)
            deed(self, rest.strip())

    def begin(self, cwd: str) -> None:
        """Write the `init` event, and keep the session from here on."""
        self.begun = True
        self.session.save()
        servers = [{"name": one.name, "status": one.status, "source": "dynamic"} for one in self.servers]
        if self.arguments.value("--json-schema") is not None:
            self.tools = [*self.tools, "StructuredOutput"]
        offered = [f"mcp__{one.name}__{tool}" for one in self.servers for tool in one.tools]
        model = self.arguments.value("--model") or events.MODEL
        self.emit(events.init(self.session.id, cwd, self.tools + offered, servers, model))

    def conclude(self) -> int:
        """End the turn as its steps left it: with a good result when they wrote none. Gives the exit code."""
        if not self.worked and not self.silent_end:
            self.result()
        return self.exit_code or 0

    def result(
        self,
        words: str | None = None,
        *,
        subtype: str = "success",
        is_error: bool = False,
        errors: list[str] | None = None,
        terminal_reason: str | None = "completed",
        stop_reason: str | None = "",
        api_status: int | None = None,
    ) -> None:
        """Write a `result` event, charge for the answer and settle the exit code that goes with it.

        `stop_reason` "" stands for the one that goes with the rest.
        """
        self.spent_usd += self.cost_usd
        budget_usd = self.arguments.budget_usd
        if not is_error and budget_usd is not None and self.spent_usd >= budget_usd:
            subtype, is_error, terminal_reason = "error_max_budget_usd", True, BUDGET_EXHAUSTED
            errors = [f"Reached maximum budget (${self.arguments.value('--max-budget-usd')})"]
        spoken = words if words is not None else self.answer
        event = events.result(
            self.session.id,
            subtype=subtype,
            is_error=is_error,
            words=spoken if subtype == "success" else None,
            errors=errors,
            num_turns=self.calls + 1,
            total_cost_usd=self.session.cost_usd + self.spent_usd,
            cost_usd=self.cost_usd,
            tokens=self.tokens,
            terminal_reason=terminal_reason,
            stop_reason=stop_reason if stop_reason != "" else _stop_reason(is_error, terminal_reason),
            api_status=api_status,
            index=self.results,
            structured=self.structured,
        )
        self.results += 1
        self.worked = True
        self.exit_code = 1 if is_error else 0
        self.cost_usd = ANSWER_COST_USD
        self.emit(event)
        if not self.streaming:
            self.write(1, f"{spoken}\n".encode())

    def stopped(self, number: int) -> int:
        """What a signal does. Gives the exit code: 0 after SIGINT, 128 + number after the others, as claude's."""
        name = signal.Signals(number).name
        running = self.foreground
        if running is not None:
            self.foreground = None
            _kill_group(running[0])
        scripted = self.on_signal.get(name)
        if scripted is not None:
            self.perform(scripted)
        elif number == signal.SIGINT:
            self._interrupted(running)
        else:
            self._terminated(running)
        return 0 if number == signal.SIGINT else 128 + number

    def _interrupted(self, running: tuple[int, str] | None) -> None:
        if not self.begun:
            return
        if self.session.task is not None:
            self._task_stopped()
            if self.worked:
                return
        note, reason = events.INTERRUPTED, "aborted_streaming"
        if running is not None:
            note, reason = events.INTERRUPTED_TOOL, "aborted_tools"
            self.emit(events.user(self.session.id, tool_result(running[1], events.REJECTED, is_error=True)))
        self.emit(events.user(self.session.id, events.text(note)))
        self.cost_usd = 0.0
        diagnosis = "[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null"
        self.calls += 1
        self.result(subtype="error_during_execution", is_error=True, errors=[diagnosis], terminal_reason=reason)

    def _terminated(self, running: tuple[int, str] | None) -> None:
        if running is not None:
            self.emit(events.user(self.session.id, tool_result(running[1], "Exit code 137", is_error=True)))
        if self.session.task is not None:
            self._task_stopped()

    def _task_stopped(self) -> None:
        stopped = {"task_id": self.session.task, "status": "stopped", "output_file": "", "summary": "scripted"}
        self.emit(events.system("task_notification", self.session.id, **stopped))
        self.emit(events.system("background_tasks_changed", self.session.id, tasks=[]))


if TYPE_CHECKING:
    Verb = Callable[[Play, str], None]


def _stop_reason(is_error: bool, terminal_reason: str | None) -> str | None:
    if terminal_reason in ("api_error", "prompt_too_long"):
        return "stop_sequence"
    return "end_turn" if not is_error or terminal_reason == BUDGET_EXHAUSTED else None


def tool_result(call_id: str, words: str, *, is_error: bool = False) -> dict[str, Any]:
    """The block in which the model reads what a tool answered."""
    return {"type": "tool_result", "content": words, "is_error": is_error, "tool_use_id": call_id}


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def listen_for_signals() -> None:
    """From now on the signals that stop claude raise `Stopped` wherever the turn is."""

    def stop(number: int, frame: object) -> None:
        raise Stopped(number)

    for name in STOPPING:
        signal.signal(getattr(signal, name), stop)
