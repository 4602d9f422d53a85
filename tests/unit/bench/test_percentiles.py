"""Percentiles are observed values, and nothing is lost silently."""

from __future__ import annotations

import numpy as np
import pytest

from zenitmq.bench.percentiles import Samples, joined, latency_us, percentile_curve


def test_percentiles_of_a_known_column() -> None:
    values = np.arange(1, 10_001, dtype=np.int64) * 1000  # 1 us to 10 ms
    shuffled = np.random.default_rng(7).permutation(values)
    assert latency_us(shuffled) == {"p50": 5000.0, "p90": 9000.0, "p99": 9900.0, "p99_9": 9990.0, "max": 10_000.0}


def test_a_rare_stall_shows_only_where_it_belongs() -> None:
    values = np.full(1000, 2000, dtype=np.int64)
    values[500] = 5_000_000
    table = latency_us(values)
    assert table is not None
    assert (table["p99_9"], table["max"]) == (2.0, 5000.0)


def test_nothing_recorded_is_no_table() -> None:
    assert latency_us(Samples(10).values) is None
    assert percentile_curve(Samples(10).values) == []


def test_what_does_not_fit_is_counted() -> None:
    samples = Samples(3)
    samples.record(5)
    samples.record_all(np.array([6, 7, 8, 9], dtype=np.int64))
    samples.record(10)
    assert samples.values.tolist() == [5, 6, 7]
    assert (samples.count, samples.missed) == (3, 3)


def test_columns_of_processes_become_one() -> None:
    assert joined([np.array([1, 2], dtype=np.int64), np.array([3], dtype=np.int64)]).tolist() == [1, 2, 3]
    assert len(joined([])) == 0


@pytest.mark.parametrize("count", [1, 2, 17, 5000])
def test_the_curve_climbs_to_the_largest(count: int) -> None:
    values = np.random.default_rng(count).integers(1000, 1_000_000, count)
    curve = percentile_curve(values)
    assert [y for _, y in curve] == sorted(y for _, y in curve)
    assert curve[-1] == (100.0, values.max() / 1000)
