"""What `/metrics` exposes. How it is answered over HTTP is the integration tests' part."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from twisted.trial.unittest import SynchronousTestCase

from hivesub.records import Outcome, StopKind, TodoState
from hivesub.runs.tally import BOUNDS_S, Reading
from hivesub.web.metrics import Metrics
from tests.support.pagefakes import FakeOperatorView, a_reading


def exposed(reading: Reading) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """Sample name and labels -> value."""
    metrics = Metrics(FakeOperatorView())
    metrics._reading = reading
    registry = CollectorRegistry(auto_describe=False)
    registry.register(metrics)
    text = generate_latest(registry).decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(reading: Reading, name: str, **labels: str) -> float:
    return exposed(reading)[name, frozenset(labels.items())]


class TheFamilies(SynchronousTestCase):
    def test_runs_turns_and_todos_are_told_by_how_they_stand(self) -> None:
        reading = a_reading(
            runs={StopKind.TURN_CAP: 2}, turns={Outcome.KILLED: 3}, todos={TodoState.UNDELIVERED: 4}, running=5,
            bytes_read=6,
        )  # fmt: skip
        self.assertEqual(value(reading, "hivesub_runs_total", stop_reason="turn_cap"), 2)
        self.assertEqual(value(reading, "hivesub_turns_total", outcome="killed"), 3)
        self.assertEqual(value(reading, "hivesub_todos", state="undelivered"), 4)
        self.assertEqual(value(reading, "hivesub_running"), 5)
        self.assertEqual(value(reading, "hivesub_read_bytes_total"), 6)

    def test_what_never_came_is_told_as_zero(self) -> None:
        reading = a_reading()
        for kind in StopKind:
            self.assertEqual(value(reading, "hivesub_runs_total", stop_reason=kind.value), 0)
        for outcome in Outcome:
            self.assertEqual(value(reading, "hivesub_turns_total", outcome=outcome.value), 0)
        states = {dict(labels)["state"] for name, labels in exposed(reading) if name == "hivesub_todos"}
        self.assertEqual(states, {"pending", "delivered", "undelivered"})

    def test_each_of_ours_is_in_the_documentation(self) -> None:
        page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
        for name, _ in exposed(a_reading()):
            self.assertIn(f"`{re.sub('_(bucket|sum|count)$', '', name)}`", page)

    def test_buckets_are_cumulative_and_end_with_all(self) -> None:
        counts = (2, 0, 1, *(0,) * (len(BOUNDS_S) - 3), 4)
        reading = a_reading(spawn=(counts, 12.5))
        self.assertEqual(value(reading, "hivesub_spawn_seconds_bucket", le="0.005"), 2)
        self.assertEqual(value(reading, "hivesub_spawn_seconds_bucket", le="0.025"), 3)
        self.assertEqual(value(reading, "hivesub_spawn_seconds_bucket", le="5.0"), 3)
        self.assertEqual(value(reading, "hivesub_spawn_seconds_bucket", le="+Inf"), 7)
        self.assertEqual(value(reading, "hivesub_spawn_seconds_count"), 7)
        self.assertEqual(value(reading, "hivesub_spawn_seconds_sum"), 12.5)
