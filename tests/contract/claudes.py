"""The two claudes behind one face: the same acts, played by the stand-in and by the real binary.

An act is what the model does in a turn. For the stand-in it becomes directives in the prompt, for the real one
steps of the scripted model, found by a marker in the prompt.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import attrs

from tests.realclaude.model import ScriptedModel
from tests.realclaude.sandbox import claude_environment
from tests.realclaude.steps import Step, broken_off, hang, limit, overflow, refuse, say, use

WAIT_S = 60.0
ANSWER_USD = 0.00014
"""What one short scripted answer costs by claude's own price list (measured, claude 2.1.332)."""
OUTPUT_TOKENS_PER_USD = 50_000
"""At that list's price; the scripted model's way of making an answer cost something."""

Event = dict[str, Any]


@attrs.frozen
class Act:
    """One thing that happens in a turn: how the stand-in and how the scripted model are told of it."""

    directives: tuple[str, ...]
    steps: tuple[Step, ...]


def says(text: str) -> Act:
    """The model answers and ends its turn."""
    return Act((f"text {text}",), (say(text),))


def signals(tool: str, field: str, words: str) -> Act:
    """The model calls a signal tool and then answers `done`."""
    return Act((f"{tool} {words}", "text done"), (use(f"mcp__subagent_control__{tool}", **{field: words}), say("done")))


def hangs() -> Act:
    """The model begins to answer and never ends."""
    return Act(("hang",), (hang("I begin"),))


def runs(command: str) -> Act:
    """The model runs a shell command that stays in the foreground."""
    return Act((f"bash {command}", "text done"), (use("Bash", command=command, description="x"), say("done")))


def waits_in_background(command: str, seconds: float) -> Act:
    """The model starts `command` in the background, which takes about `seconds`, answers, and is woken by its end."""
    start = use("Bash", command=command, description="x", run_in_background=True)
    return Act((f"background {seconds} it ended",), (start, say("started it"), say("it ended")))


def stays_in_background(mark: str = "unmarked") -> Act:
    """The model starts a background command that never ends, and answers. `mark` finds the command, see `pids_with`."""
    start = use("Bash", command=f"tail -f /dev/null; : {mark}", description="x", run_in_background=True)
    return Act(("background forever",), (start, say("started it")))


def fails() -> Act:
    """The API answers 500 to everything."""
    return Act(("api-retry 1", "api-error API Error: 500 boom"), (refuse(500, "boom"),) * 12)


def overflows() -> Act:
    """The conversation does not fit the context from its first request on."""
    return Act(("overflow",), (overflow(),) * 4)


def lacks_its_key() -> Act:
    """The API takes the key for none."""
    words = "Failed to authenticate. API Error: 401 invalid x-api-key"
    return Act(
        ("api-retry status=401 error=authentication_failed 1", f"api-error status=401 {words}"),
        (refuse(401, "invalid x-api-key", "authentication_error"),) * 12,
    )


def hits_its_limit(resets_at: int) -> Act:
    """The subscription's five hours are used up; the limit resets at that time in Unix seconds."""
    return Act((f"limit {max(0, resets_at - int(time.time()))}",), (limit(resets_at),) * 4)


def gives_shape(value: Mapping[str, Any]) -> Act:
    """The model gives the typed result that it was asked for."""
    return Act((f"structured {json.dumps(value)}",), (use("StructuredOutput", **value), say("unused")))


def refuses() -> Act:
    """The model refuses, and once more when claude asks it again."""
    return Act(("refuse",), (broken_off("refusal", "no"),) * 4)


def runs_out_of_tokens() -> Act:
    """Each answer is cut at the most tokens that it may have."""
    words = "API Error: Claude's response exceeded the 128000 output token maximum."
    return Act((f"api-error status=0 {words}",), (broken_off("max_tokens"),) * 8)


def pauses() -> Act:
    """The answer is paused, and not taken up again."""
    return Act(("text half of it", "result stop_reason=pause_turn"), (broken_off("pause_turn"),))


def uses_up_its_turns() -> Act:
    """The model calls a tool in each answer, for two answers."""
    words = "Reached maximum number of turns (2)"
    bent = "subtype=error_max_turns is_error=true terminal_reason=max_turns stop_reason=tool_use"
    return Act((f"result {bent} {words}",), (use("Read", file_path="/etc/hostname"),) * 3)


def leaves_background_work_to_be_stopped(marker: str) -> Act:
    """The model starts a subagent of claude's own in the background and answers; claude stops that and exits.

    `marker` is what the subagent's prompt holds; its script has to hang.
    """
    start = use("Task", description="scripted", prompt=marker, subagent_type="general-purpose", run_in_background=True)
    return Act(("begin-task", "text started it", "end-task stopped", "result started it"), (start, say("started it")))


def spends(usd: float) -> Act:
    """One answer that costs about `usd`."""
    return Act((f"cost {usd}", "text dear"), (Step(text="dear", output_tokens=round(usd * OUTPUT_TOKENS_PER_USD)),))


@attrs.frozen
class Ran:
    """How one process went.

    Shape: `code` is the exit code, negative for death by a signal; `events` are the stdout lines, parsed.
    """

    code: int
    events: list[Event]
    stderr: str

    def first(self, type: str, subtype: str | None = None) -> Event | None:
        """The first event of that type."""
        return next(iter(self.all(type, subtype)), None)

    def all(self, type: str, subtype: str | None = None) -> list[Event]:
        """Every event of that type, in order."""
        return [e for e in self.events if e["type"] == type and subtype in (None, e.get("subtype"))]

    @property
    def init(self) -> Event:
        """The first init event, which has to be there."""
        event = self.first("system", "init")
        assert event is not None, (self.code, self.stderr, self.events)
        return event

    @property
    def result(self) -> Event:
        """The last result event, which has to be there."""
        found = self.all("result")
        assert found, (self.code, self.stderr, self.events)
        return found[-1]

    @property
    def shapes(self) -> list[str]:
        """The events as words, in order: the subtype of system events, the type of others."""
        return [str(e["subtype"]) if e["type"] == "system" else str(e["type"]) for e in self.events]

    @property
    def user_texts(self) -> list[str]:
        """The plain texts in user events: claude's own notes."""
        blocks = [block for e in self.all("user") for block in e["message"]["content"] if isinstance(block, dict)]
        return [block["text"] for block in blocks if block.get("type") == "text"]


@attrs.frozen
class Claude:
    """One of the two claudes, with a home and a project directory of its own.

    `binary` is what to run; `model` is None for the stand-in.
    """

    kind: str
    binary: Path
    home: Path
    project: Path
    control_url: str
    model: ScriptedModel | None

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        """The child's whole environment."""
        url = self.model.url if self.model else "http://127.0.0.1:9"
        return claude_environment(self.home, url, **{"CLAUDE_CODE_MAX_RETRIES": "1", **extra})

    def prompt(self, act: Act | None, words: str) -> str:
        """The text that makes this claude play `act`."""
        if act is None:
            return words
        if self.model is None:
            return "\n".join([words, *(f"!standin {step}" for step in act.directives)])
        marker = f"[script {uuid4().hex}]"
        self.model.script(marker, *act.steps)
        return f"{words} {marker}"

    def start(
        self,
        prompt: str,
        flags: Sequence[str],
        *,
        tools: str = "--tools=Edit,Glob,Grep,Read,Skill,Write",
        url: str | None = None,
        config: str | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start one process as hivesub does, with `prompt` on stdin and then EOF."""
        servers = {"subagent_control": {"type": "http", "url": url or self.control_url}}
        written = self.home / f"mcp-{uuid4().hex}.json"
        self.home.mkdir(parents=True, exist_ok=True)
        written.write_text(json.dumps({"mcpServers": servers}))
        argv = [
            str(self.binary),
            "-p",
            "--verbose",
            "--output-format",
            "stream-json",
            "--dangerously-skip-permissions",
            "--strict-mcp-config",
            f"--mcp-config={config or written}",
            tools,
            *flags,
        ]
        child = subprocess.Popen(
            argv,
            cwd=cwd or self.project,
            env=self.environment(env or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert child.stdin is not None
        rest = memoryview(prompt.encode())
        try:
            while rest:
                rest = rest[os.write(child.stdin.fileno(), rest) :]
        except BrokenPipeError:
            pass  # It refused its arguments before it read a word, or it had read too much.
        child.stdin.close()
        child.stdin = None  # Or `communicate` would flush what is closed.
        return child

    def run(self, act: Act | None, *flags: str, words: str = "do it", **start: Any) -> Ran:
        """Run one process to its end."""
        with self.start(self.prompt(act, words), flags, **start) as child:
            return watch(child)

    def run_signalled(
        self, act: Act, number: signal.Signals, when: Callable[[Event], bool], *flags: str, **start: Any
    ) -> Ran:
        """Run one process and send it a signal once an event came that `when` likes.

        The real one gets a moment more, to have its request on its way.
        """
        with self.start(self.prompt(act, "do it"), flags, **start) as child:

            def send() -> None:
                threading.Timer(0.5 if self.model else 0.1, child.send_signal, (number,)).start()

            return watch(child, when, send)

    def run_killed_at_its_title(self, session_id: str) -> Ran:
        """Run a new session and kill it at its first event, before it has asked the model anything."""
        prompt = self.prompt(Act(("before-init sleep 5",), (say("never"),)), "do it")
        with self.start(prompt, [f"--session-id={session_id}", "--name=short"]) as child:
            return watch(child, lambda event: True, child.kill)


def watch(
    child: subprocess.Popen[bytes], when: Callable[[Event], bool] | None = None, then: Callable[[], None] | None = None
) -> Ran:
    """Read a process to its end; call `then` at the first event that `when` likes. Ends it after `WAIT_S`."""
    assert child.stdout is not None and child.stderr is not None
    deadline = threading.Timer(WAIT_S, child.kill)
    deadline.start()
    errors: list[bytes] = []
    reading = threading.Thread(target=lambda: errors.append(child.stderr.read() if child.stderr else b""))
    reading.start()
    events: list[Event] = []
    pending = when
    for line in child.stdout:
        event = json.loads(line)
        events.append(event)
        if pending is not None and then is not None and pending(event):
            pending = None
            then()
    code = child.wait()
    reading.join()
    deadline.cancel()
    return Ran(code, events, b"".join(errors).decode())


def is_init(event: Event) -> bool:
    """True for the event that says a turn is under way."""
    return event["type"] == "system" and event.get("subtype") == "init"


def is_tool_use(event: Event) -> bool:
    """True once the model has called a tool."""
    return event["type"] == "assistant" and any(b["type"] == "tool_use" for b in event["message"]["content"])


def is_good_result(event: Event) -> bool:
    """True for a result that says the turn went well."""
    return event["type"] == "result" and event["is_error"] is False


def pids_with(mark: str) -> Iterator[int]:
    """The processes that have `mark` in their arguments. Linux only, as the tests of processes are."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            arguments = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if mark.encode() in arguments and int(entry) != os.getpid():
            yield int(entry)
