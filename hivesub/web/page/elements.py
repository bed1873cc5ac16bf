"""What the page shows, from the records and their history. All text goes through twisted.web.template, which escapes
it.

The sentences about ends are `hivesub.wording`'s, as in `status`, the todo and the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any

from twisted.internet.defer import Deferred
from twisted.web.iweb import IRequest, ITemplateLoader
from twisted.web.template import Element, Tag, XMLString, renderer, tags

from hivesub.endings import CHECKS, GOING_ON, UNVERIFIED
from hivesub.readable import NOT_KNOWN, clean, clock, cut, dollars, liveliness, size, span, whole
from hivesub.records import CheckOutcome, Outcome, StopKind
from hivesub.shapes import OperatorList, OperatorRecord, StepRecord
from hivesub.web.page.draw import activity, activity_words, timeline
from hivesub.wording import (
    check_sentence,
    claims_sentence,
    held_up_sentence,
    outcome_sentence,
    stop_sentence,
    title_words,
    turn_phrase,
)

Pause = Callable[[], Deferred[str]]

ROW_SLOTS = 24
"""Slots of output in a row of the list: two minutes."""
SHOWN_STEPS = 20
"""Of what a subagent did last, on its page."""
BATCH_ROWS = 8
"""Rows that are made at a stretch: one takes about a millisecond, and tool calls wait meanwhile."""


@cache
def _loader(name: str) -> ITemplateLoader:
    markup = (files(__package__) / f"{name}.xhtml").read_text(encoding="utf-8")
    return XMLString(markup)


def _pill(record: OperatorRecord) -> Tag:
    state = record["state"]
    return tags.span(state, class_=f"pill {state}")


def _turn(record: OperatorRecord) -> Tag:
    """`Turn N of M` and the same as a bar."""
    phrase = turn_phrase(record)
    if not phrase:
        return tags.span("single turn")
    bar = tags.progress(value=str(record["turn"]), max=str(record["max_turns"]), **{"aria-label": phrase})
    return tags.span(phrase, bar)


def _age(record: OperatorRecord) -> Tag:
    age = record["last_event_age_s"]
    if age is None:
        going_on = "waiting" if record.get("waiting_until") else "starting"
        return tags.span(going_on if record["state"] in GOING_ON else f"ended {clock(record['ended_at'])}")
    # The script makes it tick.
    return tags.span(f"{span(age)} ago", class_=f"age {liveliness(age)}".strip(), **{"data-age": f"{age:g}"})


def _strip(record: OperatorRecord, length: int) -> Tag:
    output = record["history"]["activity"]
    return activity(output["bytes"][-length:], output["slot_s"], record["state"], live=record["state"] in GOING_ON)


def _todo(record: OperatorRecord) -> str:
    return NOT_KNOWN if record["todo"] == "none" else str(record["todo"])


def _why(record: OperatorRecord, now: datetime) -> str:
    if record["state"] in GOING_ON:
        return " ".join(filter(None, (held_up_sentence(record, now), cut(claims_sentence(record)))))
    words = title_words(record)
    reason, last = record["stop_reason"], record["last_turn"]
    if reason and reason["kind"] == StopKind.NEED_HELP and record["signals"]:
        return f"{words}: “{cut(record['signals'][-1]['message'])}”"
    detail = (last and last["detail"]) or (reason and reason["message"])
    told = record["state"] in {"failed", "killed"} or (last is not None and last["outcome"] == Outcome.CUT)
    return f"{words}: {cut(detail)}" if told and detail else words


class Overview(Element):
    """All subagents as a table.

    :param now: the wall clock's time.
    :param pause: gives a Deferred that fires with "" after the reactor had its turn.
    """

    def __init__(self, records: list[OperatorRecord], now: datetime, pause: Pause) -> None:
        super().__init__(_loader("overview"))
        self._records = records
        self._now = now
        self._pause = pause

    @renderer
    def empty(self, request: IRequest, tag: Tag) -> Tag | str:
        return "" if self._records else tag

    @renderer
    def table(self, request: IRequest, tag: Tag) -> Tag | str:
        return tag if self._records else ""

    @renderer
    def rows(self, request: IRequest, tag: Tag) -> Iterator[Tag | Deferred[str]]:
        for at, record in enumerate(self._records, 1):
            if at % BATCH_ROWS == 0:
                yield self._pause()
            yield tag.clone().fillSlots(
                name=record["name"],
                goal=tags.p(record["goal"], class_="goal") if record["goal"] else "",
                state=record["state"],
                pill=_pill(record),
                turn=_turn(record),
                age=_age(record),
                strip=_strip(record, ROW_SLOTS),
                why=_why(record, self._now),
                cost=dollars(record["usage"]["cost_usd"]),
                todo=_todo(record),
            )


class Subagent(Element):
    """One subagent.

    :param now: the wall clock's time.
    :param steps: what it did last, in order.
    """

    def __init__(self, record: OperatorRecord, now: datetime, steps: Sequence[StepRecord]) -> None:
        super().__init__(_loader("subagent"))
        self._steps = steps
        self._record = record
        self._history = record["history"]
        self._now = now

    @property
    def _running_s(self) -> float | None:
        since = self._history["turn_started_at"]
        return None if since is None else max(0.0, (self._now - datetime.fromisoformat(since)).total_seconds())

    @renderer
    def name(self, request: IRequest, tag: Tag) -> str:
        return str(self._record["name"])

    @renderer
    def pill(self, request: IRequest, tag: Tag) -> Tag:
        return _pill(self._record)

    @renderer
    def turn(self, request: IRequest, tag: Tag) -> Tag:
        return tag(_turn(self._record), class_=f"is-{self._record['state']}")

    @renderer
    def age(self, request: IRequest, tag: Tag) -> Tag:
        return tag("Last event " if self._record["last_event_age_s"] is not None else "", _age(self._record))

    @renderer
    def standing(self, request: IRequest, tag: Tag) -> Tag:
        running = self._record["state"] in GOING_ON
        held_up = held_up_sentence(self._record, self._now)
        sentences = [held_up] if running else [outcome_sentence(self._record), stop_sentence(self._record)]
        return tag(" ".join(each for each in (*sentences, claims_sentence(self._record)) if each))

    @renderer
    def strip(self, request: IRequest, tag: Tag) -> Tag:
        return _strip(self._record, len(self._history["activity"]["bytes"]))

    @renderer
    def scale(self, request: IRequest, tag: Tag) -> Tag:
        output, live = self._history["activity"], self._record["state"] in GOING_ON
        length = span(len(output["bytes"]) * output["slot_s"])
        ends = (f"{length} ago", "now") if live else (f"{length} before", "last output")
        return tag(
            tags.span(ends[0]), tags.span(activity_words(output["bytes"], output["slot_s"], live=live)),
            tags.span(ends[1]),
        )  # fmt: skip

    @renderer
    def timeline(self, request: IRequest, tag: Tag) -> Tag | str:
        drawn = self._history["turns"] or self._running_s is not None
        return timeline(self._history["turns"], self._running_s) if drawn else ""

    @renderer
    def no_turns(self, request: IRequest, tag: Tag) -> Tag | str:
        return "" if self._history["turns"] else tag

    @renderer
    def turns_table(self, request: IRequest, tag: Tag) -> Tag | str:
        return tag if self._history["turns"] else ""

    @renderer
    def turns(self, request: IRequest, tag: Tag) -> Iterator[Tag]:
        for turn in reversed(self._history["turns"]):
            outcome = turn["outcome"]
            signal = f" {turn['signal']}" if turn["signal"] else ""
            yield tag.clone().fillSlots(
                # A turn that a usage limit refused is there, and again once it was run again.
                id=f"{turn['run']}-{turn['number']}-{turn['started_at']}",
                label=f"{turn['number']}" if self._history["run"] == 1 else f"{turn['number']} of run {turn['run']}",
                outcome=[tags.span(f"{outcome}{signal}", class_=f"pill {outcome}"), _tick(turn["check"])],
                started=clock(turn["started_at"]),
                took=_took(turn["duration_s"]),
                wrote=size(turn["bytes_read"]),
                cost=dollars(turn["cost_usd"]),
                detail=turn["detail"],
            )

    @renderer
    def steps_section(self, request: IRequest, tag: Tag) -> Tag | str:
        return tag if self._steps else ""

    @renderer
    def steps(self, request: IRequest, tag: Tag) -> Iterator[Tag]:
        for step in self._steps[: -SHOWN_STEPS - 1 : -1]:
            at = clock(step["at"]) if step["at"] else NOT_KNOWN
            yield tag.clone().fillSlots(at=at, what=step["what"], text=step["text"])

    @renderer
    def goal_section(self, request: IRequest, tag: Tag) -> Tag | str:
        return tag.fillSlots(goal=self._record["goal"]) if self._record["goal"] else ""

    @renderer
    def signals_section(self, request: IRequest, tag: Tag) -> Tag | str:
        signals = self._record["signals"]
        if not signals:
            return ""
        return tag.fillSlots(
            signals=[
                tags.li(
                    tags.strong(each["kind"]),
                    f" ({UNVERIFIED})" if each["kind"] == "goal_reached" else "",
                    f", {clock(each['at'])}",
                    tags.blockquote(each["message"]) if each["message"] else "",
                )
                for each in signals
            ]
        )

    @renderer
    def facts(self, request: IRequest, tag: Tag) -> Iterator[Tag]:
        for term, fact in _facts(self._record):
            yield tags.dt(term)
            yield tags.dd(fact)


def _facts(record: OperatorRecord) -> Iterator[tuple[str, Any]]:
    usage = record["usage"]
    yield "Report file", tags.code(record["report_file"]) if record["report_file"] else "none asked for"
    if record["report_error"]:
        yield "Report error", record["report_error"]
    yield "Todo", "none yet: the run goes on" if record["todo"] == "none" else record["todo"]
    yield "Cost", f"{dollars(usage['cost_usd'])} in this run"
    yield "Tokens", f"{usage['input_tokens']} in, {usage['output_tokens']} out, by {usage['claude_turns']} answers"
    yield "Signal route", record["control"]
    if check_sentence(record):
        yield "Check", check_sentence(record)
    if record["missing_tools"]:
        yield "Missing tools", ", ".join(record["missing_tools"])
    yield "Directory", tags.code(record["dir"])
    yield "Session", tags.code(record["session_id"] or NOT_KNOWN)
    if record["transcript"]:
        yield "Transcript", tags.code(record["transcript"])
    if record.get("left_running"):
        yield "Left running", f"{record['left_running']} processes that its turns started"
    if record.get("pid") is not None:
        yield "Process", str(record["pid"])
    if record["history"]["bytes_read"] is not None:
        yield "Written in this turn", size(record["history"]["bytes_read"])
    yield "Started", whole(record["started_at"])
    yield "Ended", whole(record["ended_at"]) if record["ended_at"] else "it goes on"


def _tick(check: str | None) -> Tag | str:
    """What was observed of the turn's check: a tick, a cross, or a question mark where it says nothing of the work."""
    if check is None:
        return ""
    mark = {CheckOutcome.PASSED: "✓", CheckOutcome.FAILED: "✗"}.get(CheckOutcome(check), "?")
    return tags.span(f" {mark}", title=f"check {CHECKS[CheckOutcome(check)]}", class_=f"check {check}")


def _took(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else span(seconds)


class Shell(Element):
    """The page around a body.

    :param counts: by state.
    """

    def __init__(self, title: str, counts: dict[str, int], body: Element | Tag) -> None:
        super().__init__(_loader("shell"))
        self._title = title
        self._counts = counts
        self._body = body

    @renderer
    def title(self, request: IRequest, tag: Tag) -> str:
        return f"{self._title} · hivesub"

    @renderer
    def counts(self, request: IRequest, tag: Tag) -> str:
        return ", ".join(f"{count} {state}" for state, count in self._counts.items() if count) or "no subagents"

    @renderer
    def body(self, request: IRequest, tag: Tag) -> Element | Tag:
        return self._body


def overview_page(listed: OperatorList, now: datetime, pause: Pause) -> Element:
    """The page of all, of what `IOperatorView.overlook` gives; see `Overview`."""
    listed = clean(listed)
    running = listed["counts"]["running"]
    return Shell(f"{running} running", listed["counts"], Overview(listed["subagents"], now, pause))


def subagent_page(
    record: OperatorRecord, counts: dict[str, int], now: datetime, steps: Sequence[StepRecord] = ()
) -> Element:
    """The page of one, of what `IOperatorView.one` and `steps` give."""
    record = clean(record)
    return Shell(f"{record['name']}: {record['state']}", counts, Subagent(record, now, clean(list(steps))))


def unknown_page(counts: dict[str, int]) -> Element:
    """The page for a name that nobody bears."""
    text = "No subagent of that name is known: it was never started, or forgotten since."
    body = tags.div(tags.h1("Not known"), tags.p(text), tags.p(tags.a("All subagents", href="./")))
    return Shell("not known", counts, body)
