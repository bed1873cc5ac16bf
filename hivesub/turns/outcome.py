"""How a turn ended: the verdict on one claude process, from what was observed of it.

Owns the rules and their words, pure and in one place; observing the exit and reading the output are others' work.
Neither the exit code nor the death signal alone distinguishes a finished turn from a killed one: after SIGINT claude
exits 0, after SIGTERM with code 143 (measured, claude 2.1.332).
"""

from __future__ import annotations

import signal as signals
from collections.abc import Callable
from datetime import datetime

from attrs import frozen

from hivesub.records import LeftProcess, Outcome, Result, TurnEnd, UsageLimit
from hivesub.turns.stream import Stream

DETAIL_LIMIT = 2000
"""Characters of `TurnEnd.detail`, the note of the cut included."""

_CUT_NOTE = " … (cut)"
_CUTS = {
    "tool_use": "its last answer asked for a tool that was never run",
    "max_tokens": "its last answer was cut at the most tokens that one may have",
    "model_context_window_exceeded": "its last answer was cut at the end of the model's context",
    "pause_turn": "its last answer was paused and not taken up again",
}
"""The `stop_reason`s of a last answer that is not whole, though it is no error and the exit code is 0."""
_STDERR_SHARE = 800
_TASKS_NAMED = 5
_TASK_CHARS = 100

# Signals that end no process by default: an exit code of 128 plus one of these is no trace of a signal.
_HARMLESS = frozenset(
    {"SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGWINCH", "SIGINFO"}
)


@frozen(kw_only=True)
class _Observed:
    exit_code: int | None
    signal: int | None
    stream: Stream
    stderr_tail: str
    our_stop: str | None
    last_sent_signal: int | None
    lingered: bool
    not_as_granted: str | None
    redact: Callable[[str], str]


@frozen
class _Verdict:
    outcome: Outcome
    detail: str
    signal: str | None = None
    error: str = ""
    budget_stop: bool = False
    limit: UsageLimit | None = None


def judge(
    *,
    exit_code: int | None,
    signal: int | None,
    stream: Stream,
    ended_at: datetime,
    redact: Callable[[str], str],
    stderr_tail: str = "",
    our_stop: str | None = None,
    last_sent_signal: int | None = None,
    lingered: bool = False,
    lingered_result: Result | None = None,
    not_as_granted: str | None = None,
    survivors: int | None = 0,
    left: tuple[LeftProcess, ...] = (),
) -> TurnEnd:
    """The end of a turn, from what was seen of it.

    :param exit_code: as the wait gave it; None when the process died on a signal, and, with `signal` None too, when
        nobody could tell.
    :param signal: the number of the signal that it died on, or None.
    :param stream: its stdout, finished.
    :param redact: replaces the daemon's secrets in a text; what is cut is cut after it, so that no half of a secret
        is left.
    :param stderr_tail: the end of its stderr, unredacted.
    :param our_stop: why we stopped it, a clause such as `interrupted by the agent`, or None.
    :param last_sent_signal: the number of the last signal that we sent, or None.
    :param lingered: it was ended by us since it stayed after its result.
    :param lingered_result: the result it had then: what it writes under our signals does not count. None: the last one.
    :param not_as_granted: it was ended by us since `init` listed too much or too little: a sentence, or None.
    :param survivors: how many processes that it started were still there after our SIGKILL, None where nobody could
        tell.
    :param left: what outlived it, these among them.
    """
    result = lingered_result if lingered and lingered_result is not None else stream.result
    observed = _Observed(
        exit_code=exit_code,
        signal=signal,
        stream=stream,
        stderr_tail=redact(stderr_tail),
        our_stop=our_stop,
        last_sent_signal=last_sent_signal,
        lingered=lingered,
        not_as_granted=not_as_granted,
        redact=redact,
    )
    verdict = _verdict(observed, result)
    return TurnEnd(
        outcome=verdict.outcome,
        signal=verdict.signal,
        exit_code=exit_code,
        detail=_detail(redact(verdict.detail), survivors),
        ended_at=ended_at,
        under_way=stream.inits > 0,
        error=_cut(redact(verdict.error), DETAIL_LIMIT),
        budget_stop=verdict.budget_stop,
        limit=stream.limit if verdict.outcome is Outcome.FAILED and _limited(result) else None,
        lingered=lingered,
        left=left,
        init=stream.init,
        result=result,
        usage=stream.usage,
    )


def broken(error: Exception, ended_at: datetime) -> TurnEnd:
    """The end of a turn that the daemon itself could not judge."""
    said = f"internal error: {type(error).__name__}"
    return TurnEnd(
        outcome=Outcome.FAILED,
        signal=None,
        exit_code=None,
        detail=said,
        ended_at=ended_at,
        under_way=True,
        error=said,
    )


def signal_name(number: int) -> str:
    """`SIGTERM` for 15; `SIGRTMIN+3` for the real-time ones; `signal N` for what this system has no name for."""
    try:
        return signals.Signals(number).name
    except ValueError:
        first, last = getattr(signals, "SIGRTMIN", 0), getattr(signals, "SIGRTMAX", -1)
        return f"SIGRTMIN+{number - first}" if first < number <= last else f"signal {number}"


def signal_of_exit_code(exit_code: int | None) -> str | None:
    """The name of the signal n that an exit code of 128+n speaks of, or None; only signals that end a process count."""
    if exit_code is None or not 128 < exit_code < 256:
        return None
    name = signal_name(exit_code - 128)
    return None if name in _HARMLESS or not name.startswith("SIG") else name


def _verdict(observed: _Observed, result: Result | None) -> _Verdict:
    good = result is not None and _is_good(result)
    if observed.not_as_granted is not None:
        said = observed.not_as_granted
        return _Verdict(Outcome.FAILED, f"{said}. The daemon ended the turn", error=said)
    if observed.lingered and result is not None:
        if good:
            said = "lingered: its result was good, then it neither wrote nor exited and was ended by the daemon"
            return _finished(observed, said)
        stayed = "stayed after its result and was ended by the daemon"
        return _cut_off(result, stayed) or _failed(observed, result, stayed)
    signal = signal_name(observed.signal) if observed.signal is not None else signal_of_exit_code(observed.exit_code)
    if observed.our_stop is not None:
        return _stopped_by_us(observed, observed.our_stop, signal, good)
    if signal is not None:
        return _killed_from_elsewhere(observed, signal, good)
    if observed.exit_code == 0 and (observed.stream.user_interrupted or _aborted(result)):
        return _interrupted_from_elsewhere(good)
    if result is not None and not result.is_error and not observed.stream.answered:
        result, good = None, False  # it came before the last init, and answers nothing that was asked since
    if observed.exit_code == 0 and good:
        return _finished(observed)
    cut = None if result is None or not (result.is_error or observed.exit_code == 0) else _cut_off(result)
    return cut or _failed(observed, result)


def _is_good(result: Result) -> bool:
    """Whether a result says that the work came to its own end."""
    return not (result.is_error or _refused(result) or _broken_off(result))


def _broken_off(result: Result) -> bool:
    # A typed result is given by calling a tool, and with that the turn ends (measured, claude 2.1.332).
    return not result.is_error and result.stop_reason in _CUTS and result.structured is None


def _refused(result: Result | None) -> bool:
    return result is not None and result.stop_reason == "refusal"


def _finished(observed: _Observed, *said: str) -> _Verdict:
    return _Verdict(Outcome.FINISHED, "; ".join(filter(None, (*said, _stopped_tasks(observed)))))


def _cut_off(result: Result, *how: str) -> _Verdict | None:
    """The verdict where claude broke its turn off by itself; None where it did not."""
    budget_stop, words = False, _own_words(result)
    if result.subtype == "error_max_budget_usd":
        budget_stop, what = True, f"stopped by claude at its --max-budget-usd: {words}"
    elif result.subtype == "error_max_turns":
        what = f"stopped by claude at its own bound of turns: {words}"
    elif _broken_off(result):
        what = f"{_CUTS[result.stop_reason or '']} (stop_reason {result.stop_reason})"
    else:
        return None
    return _Verdict(Outcome.CUT, "; ".join((what, *how)), budget_stop=budget_stop)


def _stopped_tasks(observed: _Observed) -> str:
    names = [_cut(observed.redact(name), _TASK_CHARS) or "one without a name" for name in observed.stream.stopped_tasks]
    if not names:
        return ""
    more = f" and {len(names) - _TASKS_NAMED} more" if len(names) > _TASKS_NAMED else ""
    return f"claude stopped background work at its exit, which is not done: {', '.join(names[:_TASKS_NAMED])}{more}"


def _stopped_by_us(observed: _Observed, reason: str, signal: str | None, good: bool) -> _Verdict:
    if signal is None and observed.last_sent_signal is not None:
        signal = signal_name(observed.last_sent_signal)
    parts = [reason]
    if observed.exit_code is not None:
        parts.append(f"exit code {observed.exit_code}")
    if good:
        parts.append("a good result had been written before")
    return _Verdict(Outcome.KILLED, "; ".join(parts), signal)


def _killed_from_elsewhere(observed: _Observed, signal: str, good: bool) -> _Verdict:
    how = (
        f"died on {signal}"
        if observed.exit_code is None
        else f"exit code {observed.exit_code}, which stands for {signal}"
    )
    parts = [f"{how}; the daemon did not send it"]
    if good:
        parts.append("a good result had been written before")
    return _Verdict(Outcome.KILLED, "; ".join(parts + _stderr_part(observed)), signal)


def _interrupted_from_elsewhere(good: bool) -> _Verdict:
    parts = ["interrupted by a SIGINT that the daemon did not send; exit code 0"]
    if good:
        parts.append("a good result had been written before")
    return _Verdict(Outcome.KILLED, "; ".join(parts), "SIGINT")


def _aborted(result: Result | None) -> bool:
    """Whether a result only says that claude was interrupted: `aborted_streaming` or `aborted_tools` (measured)."""
    return result is not None and result.is_error and (result.terminal_reason or "").startswith("aborted_")


def _failed(observed: _Observed, result: Result | None, what: str | None = None) -> _Verdict:
    own_words = observed.redact(_own_words(result))
    if what is None:
        what = "its exit was not observed" if observed.exit_code is None else f"exit code {observed.exit_code}"
        if result is None and observed.exit_code == 0:
            what = "exit 0 without a result"
        elif result is not None and _is_good(result):
            what += " after a good result"
    if _refused(result):
        what = "the model refused"
    elif result is not None and result.is_error and not own_words:
        what += "; its result is an error without a text"
    if _overflowed(result):
        what = f"context overflow: the session outgrew the model's context; the daemon does not compact ({what})"
    said = f"{what}: {_cut(own_words, DETAIL_LIMIT // 2)}" if own_words else what
    error = own_words or _last_words(observed.stderr_tail)
    return _Verdict(Outcome.FAILED, "; ".join([said, *_stderr_part(observed, unless=own_words)]), error=error)


def _own_words(result: Result | None) -> str:
    """What claude said of its error or the model's refusal: its `errors`, else the result's text, else the subtype,
    unless that says `success`. "" for any other result.
    """
    if result is None or not (result.is_error or _refused(result)):
        return ""
    subtype = result.subtype if result.subtype != "success" else ""
    return "; ".join(error.strip() for error in result.errors if error.strip()) or result.text.strip() or subtype


def _limited(result: Result | None) -> bool:
    """Whether it is by the usage limit that a turn failed: one that was told earlier may have been paid to go on."""
    return result is not None and result.is_error and result.api_error_status in (429, None)


def _overflowed(result: Result | None) -> bool:
    if result is None or not result.is_error:
        return False
    # Releases that lack `terminal_reason` say it in the result's text alone; of an answer that fills the context it is
    # said nowhere else (measured, 2.1.332).
    words = _own_words(result).lower()
    told = words.startswith("prompt is too long") or "has reached its context window limit" in words[:200]
    return result.terminal_reason == "prompt_too_long" or told


def _last_words(stderr_tail: str) -> str:
    """Claude's message off stderr: from its line `Error: …` on, which may go over several lines, else the last line."""
    lines = [line for line in stderr_tail.splitlines() if line.strip()]
    for index, line in enumerate(lines):
        if line.startswith(("Error:", "error:")):
            return "\n".join(lines[index:]).strip()
    return lines[-1].strip() if lines else ""


def _stderr_part(observed: _Observed, unless: str = "") -> list[str]:
    """The end of stderr, its most useful part; nothing when it only repeats `unless`."""
    tail = observed.stderr_tail.strip()
    if not tail or tail.removeprefix("Error:").strip() == unless.removeprefix("Error:").strip():
        return []
    return [f"stderr: {tail if len(tail) <= _STDERR_SHARE else '…' + tail[1 - _STDERR_SHARE :]}"]


def _detail(said: str, survivors: int | None) -> str:
    left = ""
    if survivors is None:
        left = "what it started may still be there: it could not be looked for"
    elif survivors:
        what = "1 process that it started was" if survivors == 1 else f"{survivors} processes that it started were"
        left = f"{what} still there after SIGKILL"
    return with_note(said, left)


def with_note(detail: str, note: str) -> str:
    """A detail and what somebody has to act on, which is not cut off with the rest; either may be ""."""
    room = DETAIL_LIMIT - (len(note) + 2 if note else 0)
    return "; ".join(filter(None, [_cut(detail, room), note]))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - len(_CUT_NOTE)] + _CUT_NOTE
