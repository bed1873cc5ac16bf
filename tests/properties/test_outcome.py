"""The verdict on a turn is total: whatever was observed, there is one, and it keeps its own rules."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hivesub.records import Outcome
from hivesub.turns.outcome import DETAIL_LIMIT, judge, signal_of_exit_code
from hivesub.turns.stream import Stream
from tests.properties import events

NOW = datetime(2031, 1, 1, tzinfo=UTC)
SECRET = "s3cret-of-the-operator"

exit_codes = st.none() | st.sampled_from([0, 1, 2, 127, 129, 130, 137, 143, 255]) | st.integers(-300, 600)
death_signals = st.none() | st.sampled_from([1, 2, 6, 9, 11, 15, 35, 64]) | st.integers(-5, 200)
stderr = st.text(max_size=200) | st.sampled_from(
    ["", "Error: a\nb", "x" * 9000, SECRET, f"Error: {SECRET}\n{SECRET * 200}"]
)


@given(
    output=events.output,
    exit_code=exit_codes,
    died_on=death_signals,
    stderr_tail=stderr,
    our_stop=st.none() | st.sampled_from(["interrupted by the agent", f"because of {SECRET}"]),
    last_sent_signal=st.none() | st.integers(1, 64),
    lingered=st.booleans(),
    lingered_result=st.booleans(),
    not_as_granted=st.none() | st.text(max_size=10).map(lambda text: f"{text}{SECRET}"),
)
def test_every_observation_has_a_verdict(
    output: bytes,
    exit_code: int | None,
    died_on: int | None,
    stderr_tail: str,
    our_stop: str | None,
    last_sent_signal: int | None,
    lingered: bool,
    lingered_result: bool,
    not_as_granted: str | None,
) -> None:
    stream = Stream()
    stream.feed(output)
    stream.finish()
    end = judge(
        exit_code=exit_code,
        signal=died_on,
        stream=stream,
        ended_at=NOW,
        redact=lambda text: text.replace(SECRET, "[redacted]"),
        stderr_tail=stderr_tail,
        our_stop=our_stop,
        last_sent_signal=last_sent_signal,
        lingered=lingered,
        lingered_result=stream.result if lingered_result else None,
        not_as_granted=not_as_granted,
    )
    assert (end.exit_code, end.under_way, end.init) == (exit_code, stream.inits > 0, stream.init)
    assert max(len(end.detail), len(end.error)) <= DETAIL_LIMIT
    assert SECRET not in end.detail + end.error
    if end.outcome is Outcome.KILLED:
        # Somebody's signal, or our own stop of a child that took it for an order to exit.
        assert end.signal is not None or our_stop is not None
        assert end.detail
    else:
        assert end.signal is None
    if end.outcome is Outcome.FINISHED:
        good = end.result is not None and not end.result.is_error
        assert good or end.budget_stop
        assert lingered or end.budget_stop or (exit_code == 0 and died_on is None)
    if end.outcome is Outcome.FAILED:
        assert end.detail
    ended_by_us = not_as_granted is not None or (lingered and end.result is not None)
    if not ended_by_us and (died_on is not None or signal_of_exit_code(exit_code) is not None or our_stop is not None):
        # A cut turn is never told as a finished one.
        assert end.outcome is Outcome.KILLED
