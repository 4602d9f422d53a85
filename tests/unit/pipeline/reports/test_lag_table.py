"""How far a query is behind, out of Spark's progress, and the three ways in which it is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from zenitmq.pipeline.reading.offsets import QueueKey
from zenitmq.pipeline.reports.lag_table import (
    LagTable,
    lag_document,
    lag_line,
    lag_table,
    prometheus_text,
    queue_offsets,
)

NOW_MS = 1_000_000
ORDERS = [QueueKey("orders", "broker-a", number) for number in range(3)]


def progress(end: object, latest: object, **more: Any) -> dict[str, Any]:
    return {
        "id": "an-id",
        "name": "copy",
        "batchId": 4,
        "numInputRows": 30,
        "processedRowsPerSecond": 12.34,
        "sources": [{"endOffset": end, "latestOffset": latest}],
        **more,
    }


def offsets(*numbers: int) -> dict[str, Any]:
    return {"orders": {"broker-a": {str(queue): number for queue, number in enumerate(numbers)}}}


def nobody(wanted: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
    return {}


def test_rows_and_seconds_behind() -> None:
    asked: list[dict[QueueKey, int]] = []

    def stored_at(wanted: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
        asked.append(dict(wanted))
        return {ORDERS[0]: NOW_MS - 2_500, ORDERS[1]: NOW_MS + 40}

    table = lag_table(progress(offsets(5, 6, 7), offsets(9, 8, 7)), stored_at, now_ms=NOW_MS)
    assert asked == [{ORDERS[0]: 5, ORDERS[1]: 6}]
    assert [(lag.rows_behind, lag.seconds_behind) for lag in table.queues] == [(4, 2.5), (2, 0.0), (0, 0.0)]
    assert (table.query, table.batch_id, table.rows, table.rows_per_second) == ("copy", 4, 30, 12.3)
    assert (table.rows_behind, table.seconds_behind) == (6, 2.5)


def test_who_is_behind_nothing_asks_nobody() -> None:
    def stored_at(wanted: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
        raise AssertionError("asked")

    table = lag_table(progress(offsets(5), offsets(5)), stored_at, now_ms=NOW_MS)
    assert (table.rows_behind, table.seconds_behind) == (0, 0.0)
    ahead = lag_table(progress(offsets(6), offsets(5)), stored_at, now_ms=NOW_MS)
    assert ahead.rows_behind == 0


def test_what_nobody_knows_is_none() -> None:
    table = lag_table(progress(offsets(5), offsets(9, 3)), nobody, now_ms=NOW_MS)
    assert [(lag.read_to, lag.latest, lag.rows_behind) for lag in table.queues] == [(5, 9, 4), (None, 3, None)]
    assert (table.rows_behind, table.seconds_behind) == (None, None)
    silent = lag_table(progress(offsets(5), None), nobody, now_ms=NOW_MS)
    assert silent.queues[0].rows_behind is None


def test_sources_of_another_kind_are_passed_over() -> None:
    mixed = progress(offsets(1), offsets(2))
    mixed["sources"] = [{"endOffset": 7, "latestOffset": "0"}, {"endOffset": "no JSON"}, {}, *mixed["sources"]]
    assert [lag.queue for lag in lag_table(mixed, nobody, now_ms=NOW_MS).queues] == ORDERS[:1]
    assert lag_table({}, nobody, now_ms=NOW_MS) == LagTable("", 0, NOW_MS, 0, 0.0, 0, ())


def test_a_query_without_a_name_goes_by_its_id_and_late_rows_are_counted() -> None:
    late = progress(offsets(1), offsets(1), name=None, stateOperators=[{"numRowsDroppedByWatermark": 3}, {}])
    table = lag_table(late, nobody, now_ms=NOW_MS)
    assert (table.query, table.late_rows) == ("an-id", 3)


@pytest.mark.parametrize("value", [offsets(3), json.dumps(offsets(3))])
def test_offsets_come_as_objects_or_as_their_text(value: object) -> None:
    assert queue_offsets(value) == {ORDERS[0]: 3}


@pytest.mark.parametrize(
    "value", [None, 7, "7", "{", {"orders": 1}, {"orders": {"b": {"x": 1}}}, {"o": {"b": {"0": -1}}}]
)
def test_offsets_of_another_form_are_none(value: object) -> None:
    assert queue_offsets(value) == {}


def test_the_document_has_every_number() -> None:
    document = lag_document(lag_table(progress(offsets(5), offsets(9)), nobody, now_ms=NOW_MS))
    assert json.loads(json.dumps(document)) == {
        "query": "copy",
        "batch_id": 4,
        "at_ms": NOW_MS,
        "rows": 30,
        "rows_per_second": 12.3,
        "late_rows": 0,
        "rows_behind": 4,
        "seconds_behind": None,
        "queues": [
            {
                "topic": "orders",
                "broker_name": "broker-a",
                "queue_id": 0,
                "read_to": 5,
                "latest": 9,
                "rows_behind": 4,
                "seconds_behind": None,
            }
        ],
    }


def test_the_line_names_those_furthest_behind() -> None:
    def stored_at(wanted: Mapping[QueueKey, int]) -> dict[QueueKey, int]:
        return dict.fromkeys(wanted, NOW_MS - 1_500)

    table = lag_table(
        progress(offsets(0, 0, 0, 0), offsets(1, 9, 5, 3), stateOperators=[{"numRowsDroppedByWatermark": 2}]),
        stored_at,
        now_ms=NOW_MS,
    )
    assert lag_line(table) == (
        "query=copy batch=4 rows=30 rows_per_second=12 rows_behind=18 seconds_behind=1.5 late_rows=2 "
        "furthest=orders/broker-a:1=9,orders/broker-a:2=5,orders/broker-a:3=3"
    )
    done = lag_table(progress(offsets(5), offsets(5)), nobody, now_ms=NOW_MS)
    assert lag_line(done).endswith("rows_behind=0 seconds_behind=0")
    assert "rows_behind=unknown" in lag_line(lag_table(progress(offsets(5), None), nobody, now_ms=NOW_MS))


def test_prometheus_is_told_what_is_known() -> None:
    table = lag_table(progress(offsets(5), offsets(9), name='a "b"\\\n'), nobody, now_ms=NOW_MS)
    other = lag_table(progress(offsets(1), offsets(1), name="a"), nobody, now_ms=NOW_MS)
    lines = prometheus_text([table, other]).splitlines()
    assert "# TYPE zenit_pipeline_rows_behind gauge" in lines
    assert r'zenit_pipeline_rows_behind{query="a \"b\"\\\n",topic="orders",broker="broker-a",queue="0"} 4' in lines
    assert [line for line in lines if line.startswith("zenit_pipeline_seconds_behind")] == [
        'zenit_pipeline_seconds_behind{query="a",topic="orders",broker="broker-a",queue="0"} 0.0'
    ]
    assert 'zenit_pipeline_progress_timestamp_seconds{query="a"} 1000.0' in lines
    assert prometheus_text([]) == ""
