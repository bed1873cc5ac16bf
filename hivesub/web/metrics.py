"""`/metrics`: the daemon's counts in Prometheus's text format, through prometheus_client's own Twisted resource.

Owns names and help texts. The counting is `hivesub.runs.tally`'s; the client library is loaded at the first scrape.
"""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from twisted.web.resource import IResource, Resource

from hivesub.records import CheckOutcome, Outcome, StopKind, TodoState
from hivesub.runs.tally import BOUNDS_S, Reading
from hivesub.web.tree import USE_GET

if TYPE_CHECKING:
    from hivesub.interfaces import IOperatorView
    from hivesub.web.site import BoundedRequest


class Metrics(Resource):
    """The resource. Its answer is made in a thread, of numbers that were read before: the daemon's state is the
    reactor's alone.
    """

    isLeaf = True

    def __init__(self, overlook: IOperatorView) -> None:
        super().__init__()
        self._overlook = overlook
        self._reading: Reading | None = None
        self._exposition: IResource | None = None

    def render(self, request: BoundedRequest) -> Any:
        request.setHeader("Cache-Control", "no-store")
        if request.method not in (b"GET", b"HEAD"):
            return USE_GET.render(request)
        self._reading = self._overlook.reading()
        if self._exposition is None:
            self._exposition = self._load()
        _withhold_broken_accept(request)
        # prometheus_client knows no HEAD; the body of its answer is left out by twisted.web, by the method.
        method, request.method = request.method, b"GET"
        try:
            return self._exposition.render(request)
        finally:
            request.method = method

    def _load(self) -> IResource:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.twisted import MetricsResource

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        ProcessCollector(registry=registry)
        exposition: IResource = MetricsResource(registry)
        return exposition

    def describe(self) -> Iterable[Any]:
        """Nothing: a registry would collect to learn the names."""
        return ()

    def collect(self) -> Iterator[Any]:
        """The families, of the reading taken last. Called by the registry, in a thread."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        reading = self._reading
        if reading is None:
            return
        yield GaugeMetricFamily("hivesub_running", "Runs going on.", value=reading.running)
        yield GaugeMetricFamily("hivesub_max_running", "Runs that may go on at once.", value=reading.max_running)
        yield _by(
            CounterMetricFamily,
            "hivesub_runs",
            "Runs that ended, by stop reason.",
            "stop_reason",
            StopKind,
            reading.runs,
        )
        yield _by(
            CounterMetricFamily, "hivesub_turns", "Turns that ended, by outcome.", "outcome", Outcome, reading.turns
        )
        states = [state for state in TodoState if state is not TodoState.NONE]
        yield _by(
            GaugeMetricFamily, "hivesub_todos", "Todos made since the start, by what became of them.",
            "state", states, reading.todos,
        )  # fmt: skip
        yield _by(
            CounterMetricFamily, "hivesub_checks", "Runs of checks, by what was observed.", "result", CheckOutcome,
            reading.checks,
        )  # fmt: skip
        yield CounterMetricFamily("hivesub_read_bytes", "Bytes that claude wrote.", value=reading.bytes_read)
        yield _histogram("hivesub_spawn_seconds", "From a call of start or continue to the process.", reading.spawn)
        yield _histogram("hivesub_continue_seconds", "From a call of continue to its answer.", reading.resume)


def _withhold_broken_accept(request: BoundedRequest) -> None:
    """Leave out an `Accept` that prometheus_client raises on: who sent it gets the plain text format."""
    from prometheus_client.exposition import choose_encoder

    accepted = b",".join(request.requestHeaders.getRawHeaders(b"accept", []))
    try:
        choose_encoder(accepted.decode("latin-1"))
    except (TypeError, ValueError):  # from a version that is no number
        request.requestHeaders.removeHeader(b"accept")


def _by(family: Any, name: str, text: str, label: str, kinds: Iterable[StrEnum], counts: dict[Any, int]) -> Any:
    """A family with a sample for every kind, also those that never came, so that a rate is known from the first on."""
    made = family(name, text, labels=[label])
    for kind in kinds:
        made.add_metric([kind.value], counts.get(kind, 0))
    return made


def _histogram(name: str, text: str, latencies: tuple[tuple[int, ...], float]) -> Any:
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    counts, sum_s = latencies
    buckets, so_far = [], 0
    for bound, count in zip((*BOUNDS_S, float("inf")), counts, strict=True):
        so_far += count
        buckets.append((floatToGoString(bound), so_far))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=sum_s)
