"""Steps that say something: texts, results, failures of the API, background tasks, floods.

Each verb is a function named as it; its docstring's first word list is how the step is written.
"""

from __future__ import annotations

import json
import time

from hivesub.standin import events
from hivesub.standin.play import BUDGET_EXHAUSTED, Ended, Play
from hivesub.standin.sessions import fresh_uuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def options(rest: str) -> tuple[dict[str, str], str]:
    """Leading `key=value` words, and the words after them."""
    found: dict[str, str] = {}
    while rest:
        word, _, after = rest.partition(" ")
        key, equals, value = word.partition("=")
        if not equals or not key.replace("_", "").isalnum():
            break
        found[key] = value
        rest = after.lstrip()
    return found, rest


def text(play: Play, rest: str) -> None:
    """`text WORDS`: the model says it."""
    play.answer = rest
    play.emit(events.assistant(play.session.id, events.text(rest)))


def result(play: Play, rest: str) -> None:
    """`result [subtype=S] [is_error=true] [terminal_reason=R] [stop_reason=R] [cost=USD] [WORDS]`: the turn's result.

    With `is_error` and another subtype than success the words are its `errors`.
    """
    given, words = options(rest)
    subtype = given.get("subtype", "success")
    is_error = given.get("is_error", "false") == "true"
    if "cost" in given:
        play.cost_usd = float(given["cost"])
    play.result(
        words or None,
        subtype=subtype,
        is_error=is_error,
        errors=[words] if is_error and subtype != "success" else None,
        terminal_reason=given.get("terminal_reason", "api_error" if is_error else "completed"),
        stop_reason=given.get("stop_reason", ""),
    )


def structured(play: Play, rest: str) -> None:
    """`structured JSON`: the typed result that `--json-schema` asks for, with which the turn ends."""
    play.structured = json.loads(rest)
    play.result(stop_reason="tool_use")


def no_result(play: Play, rest: str) -> None:
    """`no-result`: the turn ends without one."""
    play.silent_end = True


def cost(play: Play, rest: str) -> None:
    """`cost USD`: what the next result charges."""
    play.cost_usd = float(rest)


def tokens(play: Play, rest: str) -> None:
    """`tokens IN OUT`: the usage that the results give."""
    taken, given = rest.split()
    play.tokens = (int(taken), int(given))


def api_retry(play: Play, rest: str) -> None:
    """`api-retry [status=N] [error=E] [every=SECONDS] N`: N lines of an API that fails, without the waits between them
    unless told so.
    """
    given, count = options(rest)
    status, error = int(given.get("status", 529)), given.get("error", "overloaded")
    for attempt in range(1, int(count or 1) + 1):
        if attempt > 1 and "every" in given:
            play.wait(float(given["every"]))
        fields = {"attempt": attempt, "max_retries": 10, "retry_delay_ms": 500 * 2**attempt, "error_status": status}
        play.emit(events.system("api_retry", play.session.id, **fields, error=error))


def api_error(play: Play, rest: str) -> None:
    """`api-error [status=N] [WORDS]`: the API failed for good; exit 1. Status 0: there was none."""
    given, words = options(rest)
    _failed(play, words or "API Error: 500 scripted failure", status=int(given.get("status", 500)) or None)


def limit(play: Play, rest: str) -> None:
    """`limit SECONDS [KIND]`: a usage limit that resets so many seconds from now refuses the request; exit 1."""
    seconds, _, kind = rest.partition(" ")
    resets_at = int(time.time() + float(seconds or 0))
    play.emit(events.limit(play.session.id, "rejected", resets_at, kind or "five_hour"))
    clock = time.strftime("%I:%M%p", time.gmtime(resets_at)).lstrip("0").lower()
    _failed(play, f"You've hit your 5-hour limit · resets {clock} (UTC)", status=429)


def refuse(play: Play, rest: str) -> None:
    """`refuse [WORDS]`: the model refuses, a second time too; exit 1."""
    words = rest or "API Error: the safeguards flagged this message."
    for _ in range(2):
        play.emit(events.assistant(play.session.id, events.text("no")))
    play.calls += 1
    _failed(play, words, stop_reason="refusal", cost_usd=play.cost_usd)


def _failed(
    play: Play, words: str, *, status: int | None = None, stop_reason: str | None = "", cost_usd: float = 0.0
) -> None:
    text(play, words)
    play.cost_usd = cost_usd
    play.result(words, is_error=True, terminal_reason="api_error", stop_reason=stop_reason, api_status=status)
    raise Ended(1)


def overflow(play: Play, rest: str) -> None:
    """`overflow`: the conversation no longer fits the context; exit 1."""
    words = "Prompt is too long · the request is ~210000 tokens (limit 200000)"
    text(play, words)
    play.cost_usd = 0.0
    play.result(words, is_error=True, terminal_reason="prompt_too_long", api_status=400)
    raise Ended(1)


def budget(play: Play, rest: str) -> None:
    """`budget [USD]`: claude's own budget stop; exit 1."""
    reached = rest or play.arguments.value("--max-budget-usd") or "0.1"
    play.result(
        subtype="error_max_budget_usd",
        is_error=True,
        errors=[f"Reached maximum budget (${reached})"],
        terminal_reason=BUDGET_EXHAUSTED,
    )
    raise Ended(1)


def interrupted(play: Play, rest: str) -> None:
    """`interrupted`: claude's note that it was interrupted and nothing after it, as older releases end on SIGINT."""
    play.emit(events.user(play.session.id, events.text(events.INTERRUPTED)))
    play.silent_end = True


def background(play: Play, rest: str) -> None:
    """`background SECONDS [WORDS]`: a task that outlives the first result and wakes the model for a second one.

    `background forever` lists the task, writes the first result and stays.
    """
    seconds, _, words = rest.partition(" ")
    begin_task(play)
    text(play, "started it")
    play.result()
    if seconds == "forever":
        play.perform(["hang"])
    play.wait(float(seconds or 0))
    end_task(play)
    play.begin(play.cwd)
    text(play, words or "it ended")
    play.result()


def begin_task(play: Play, rest: str = "") -> None:
    """`begin-task`: a background task is listed from now on."""
    play.session.task = f"b{fresh_uuid()[:8]}"
    play.session.save()
    fields = {"task_id": play.session.task, "task_type": "local_bash", "description": "scripted"}
    play.emit(events.system("background_tasks_changed", play.session.id, tasks=[fields]))
    play.emit(events.system("task_started", play.session.id, **fields, is_backgrounded=True))


def end_task(play: Play, rest: str = "") -> None:
    """`end-task [stopped]`: the background task is done, or claude has stopped it."""
    ended: dict[str, Any] = {"task_id": play.session.task}
    done, told = ("killed", "stopped") if rest == "stopped" else ("completed", "completed")
    play.session.task = None
    play.emit(events.system("task_updated", play.session.id, **ended, patch={"status": done}))
    play.emit(events.system("task_notification", play.session.id, **ended, status=told, summary="scripted"))
    play.emit(events.system("background_tasks_changed", play.session.id, tasks=[]))


def event(play: Play, rest: str) -> None:
    """`event JSON`: this object as an event, with the session's id and a uuid where it names none."""
    play.emit({"session_id": play.session.id, "uuid": fresh_uuid(), **json.loads(rest)})


def line(play: Play, rest: str) -> None:
    """`line BYTES`: one assistant event of about that size."""
    play.emit(events.assistant(play.session.id, events.text("x" * max(0, int(rest) - 400))))


def flood(play: Play, rest: str) -> None:
    """`flood LINES BYTES [PER_SECOND]`: that many assistant events of about that size each."""
    lines, size, *rate = rest.split()
    for _ in range(int(lines)):
        line(play, size)
        if rate:
            play.wait(1 / float(rate[0]))


def raw(data: str) -> bytes:
    """Bytes written as `hex:…`, `base64:…`, or as plain text that gets a newline."""
    kind, _, coded = data.partition(":")
    if kind == "hex":
        return bytes.fromhex(coded)
    if kind == "base64":
        import base64

        return base64.b64decode(coded)
    return data.encode() + b"\n"


def stdout(play: Play, rest: str) -> None:
    """`stdout DATA`: these bytes, see `raw`."""
    play.write(1, raw(rest))


def stderr(play: Play, rest: str) -> None:
    """`stderr DATA`: these bytes, see `raw`."""
    play.write(2, raw(rest))


def fill(play: Play, rest: str) -> None:
    """`fill stdout|stderr BYTES`: that many letters without a newline."""
    stream, size = rest.split()
    play.write(2 if stream == "stderr" else 1, b"x" * int(size))


VERBS = {
    deed.__name__: deed
    for deed in (
        text, result, structured, no_result, cost, tokens, api_retry, api_error, limit, refuse, overflow, budget,
        interrupted, background, begin_task, end_task, event, line, flood, stdout, stderr, fill,
    )
}  # fmt: skip
