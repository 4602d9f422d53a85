"""What a query has done, whatever part of Spark's memory of it is looked at when."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from zenitmq.pipeline.jobs.stream_counts import StreamCounts


def progress(batch: int, rows: int, *, second: int | None = None, **state: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "batchId": batch,
        "timestamp": f"2026-11-21T00:00:{batch if second is None else second:02d}Z",
        "numInputRows": rows,
    }
    return found | ({"stateOperators": [state]} if state else {})


def test_each_batch_is_counted_once() -> None:
    counts = StreamCounts()
    counts.on_progress([progress(0, 5), progress(1, 6)])
    counts.on_progress([progress(1, 6), progress(2, 7)])
    assert (counts.rows, counts.batches) == (18, 3)


def test_idle_batches_are_none_and_their_number_comes_again() -> None:
    counts = StreamCounts()
    counts.on_progress([progress(0, 5), progress(1, 0, second=7)])
    counts.on_progress([progress(1, 0, second=7), progress(1, 4, second=9)])
    assert (counts.rows, counts.batches) == (9, 2)


def test_what_state_operators_say() -> None:
    counts = StreamCounts()
    counts.on_progress(
        [
            progress(0, 5, numRowsDroppedByWatermark=1, customMetrics={"numDroppedDuplicateRows": 2}, numRowsRemoved=0),
            progress(1, 5, numRowsDroppedByWatermark=3, numRowsRemoved=4),
        ]
    )
    assert (counts.late_rows, counts.duplicates, counts.state_rows_ended) == (4, 2, 4)


def test_rows_behind_are_those_last_told() -> None:
    counts = StreamCounts()
    source = {"endOffset": {"t": {"b": {"0": 5}}}, "latestOffset": {"t": {"b": {"0": 9}}}}
    counts.on_progress([progress(0, 5) | {"sources": [source]}])
    counts.on_progress([progress(1, 5)])
    assert counts.rows_behind == 4


@given(st.lists(st.integers(1, 9), max_size=30), st.lists(st.integers(0, 30), max_size=10))
def test_looks_at_any_time_count_the_same(rows: list[int], looks: list[int]) -> None:
    every = [progress(batch, count) for batch, count in enumerate(rows)]
    counts = StreamCounts()
    for seen in sorted(min(look, len(every)) for look in looks):
        counts.on_progress(every[:seen])
    counts.on_progress(every)
    assert counts.rows == sum(rows)
