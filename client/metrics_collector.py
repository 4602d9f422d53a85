"""What our clients count, as a collector for prometheus_client, in the user's own process.

The numbers are plain integers of ours, read when the program is scraped. prometheus_client is the user's own dependency (the
extra `[prometheus]`), imported when a collector is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from ..metrics.family import Family, FamilyKind, Sample, Value
from ..metrics.histogram import HistogramReading
from ..model.errors import RequirementMissing
from .client_counts import ClientCounts


class CountingClient(Protocol):
    """A producer or a consumer."""

    @property
    def counts(self) -> ClientCounts:
        """What it has counted."""


def metrics_collector(*clients: CountingClient) -> MetricsCollector:
    """A collector for `prometheus_client.REGISTRY.register`, of these clients' numbers.

    Several clients of a process are one collector: `add` takes more, their numbers are added up. docs/metrics.md lists the
    families. Raises RequirementMissing without prometheus_client (`pip install 'zenitmq[prometheus]'`).
    """
    return MetricsCollector(clients)


class MetricsCollector:
    """See `metrics_collector`."""

    def __init__(self, clients: tuple[CountingClient, ...] = ()) -> None:
        try:
            from prometheus_client import core
        except ImportError as error:
            raise RequirementMissing(
                "prometheus_client", "pip install 'zenitmq[prometheus]', in a clone '.[prometheus]'"
            ) from error
        self._made: dict[FamilyKind, Any] = {
            FamilyKind.COUNTER: core.CounterMetricFamily,
            FamilyKind.GAUGE: core.GaugeMetricFamily,
            FamilyKind.HISTOGRAM: core.HistogramMetricFamily,
        }
        self._counts = [client.counts for client in clients]

    def add(self, client: CountingClient) -> None:
        """This client's numbers too, from now on. What a closed client counted stays counted."""
        self._counts.append(client.counts)

    def describe(self) -> list[Any]:
        """Nothing: prometheus_client need not collect at once to learn the names."""
        return []

    def collect(self) -> Iterator[Any]:
        """The families, as prometheus_client takes them."""
        for family, samples in self._sums().items():
            made = self._made[family.kind](family.name, family.help, labels=family.labels)
            for values, value in samples.items():
                if isinstance(value, HistogramReading):
                    made.add_metric(values, buckets=_buckets(value), sum_value=value.total)
                else:
                    made.add_metric(values, value)
            yield made

    def _sums(self) -> dict[Family, dict[tuple[str, ...], Value]]:
        sums: dict[Family, dict[tuple[str, ...], Value]] = {}
        for counts in self._counts:
            for family, samples in counts.readings():
                _add_up(sums.setdefault(family, {}), samples)
        return {family: samples for family, samples in sums.items() if samples}


def _add_up(sums: dict[tuple[str, ...], Value], samples: Any) -> None:
    added: list[Sample] = samples
    for values, value in added:
        before = sums.get(values)
        sums[values] = value if before is None else _sum(before, value)


def _sum(one: Value, other: Value) -> Value:
    if isinstance(one, HistogramReading) and isinstance(other, HistogramReading):
        counts = tuple(a + b for a, b in zip(one.counts, other.counts, strict=True))
        return replace(one, counts=counts, total=one.total + other.total)
    assert not isinstance(one, HistogramReading)
    assert not isinstance(other, HistogramReading)
    return one + other


def _buckets(reading: HistogramReading) -> list[tuple[str, float]]:
    """[(upper bound, how many at or below it)], as prometheus_client takes them."""
    buckets, count = [], 0
    for bound, here in zip((*(str(float(bound)) for bound in reading.bounds), "+Inf"), reading.counts, strict=True):
        count += here
        buckets.append((bound, float(count)))
    return buckets
