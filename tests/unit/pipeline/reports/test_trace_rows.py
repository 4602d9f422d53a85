"""Trace messages as rows: every kind of record, damage counted, names as Spark was told."""

from __future__ import annotations

from dataclasses import replace

import pytest

from zenitmq.client.tracing.trace_format import (
    ConsumeCode,
    Consumed,
    Delivered,
    Published,
    Recalled,
    TracedType,
    TraceRecord,
    TransactionEnded,
    encode_trace,
)
from zenitmq.model.times import TIME_MS_MAX
from zenitmq.pipeline.reports.report_pages import moment
from zenitmq.pipeline.reports.trace_rows import DAMAGED, OTHER, TRACE_TYPE, TraceRow, trace_rows

PUBLISHED = Published(5, "r", "p", "orders", "U1", "", "", "", 10, 3, TracedType.NORMAL, "ID", True)
DELIVERED = Delivered(9, "r", "g", "R1", "U1", 2, "")
CONSUMED = Consumed("R1", "U1", 4, False, "", ConsumeCode.EXCEPTION, 13, "g")
OLD = Consumed("R1", "U1", 4, True, "")
RECALLED = Recalled(5, "r", "p", "orders", "U1", True)


def rows(*records: TraceRecord) -> list[TraceRow]:
    return trace_rows(encode_trace(records))


def test_each_kind() -> None:
    published, delivered, consumed, old, recalled = rows(PUBLISHED, DELIVERED, CONSUMED, OLD, RECALLED)
    assert published == TraceRow("Pub", 5, "p", "orders", "U1", cost_ms=3, ok=True)
    assert delivered == TraceRow("SubBefore", 9, "g", message_id="U1", request_id="R1", attempt=2)
    assert consumed == TraceRow(
        "SubAfter", 13, "g", message_id="U1", request_id="R1", cost_ms=4, ok=False, code="exception"
    )
    assert (old.producer_or_group, old.at_ms, old.code) == (None, None, "success")
    assert recalled == TraceRow(OTHER, 5, "p", "orders", "U1")


@pytest.mark.parametrize(
    ("state", "code"),
    [("COMMIT_MESSAGE", "commit"), ("ROLLBACK_MESSAGE", "rollback"), ("UNKNOW", "unknown"), ("?", "unknown")],
)
def test_a_transaction_says_how_it_ended(state: str, code: str) -> None:
    ended = TransactionEnded(
        5, "r", "p", "orders", "U1", "", "", "", TracedType.TRANSACTION_COMMIT, "T", state, from_check=True
    )
    assert rows(ended) == [TraceRow("EndTransaction", 5, "p", "orders", "U1", code=code, from_check=True)]


def test_a_damaged_body_is_one_row() -> None:
    assert trace_rows(b"\xff") == [TraceRow(DAMAGED)]
    assert trace_rows(b"Pub\x01x\x02") == [TraceRow(DAMAGED)]
    assert trace_rows(b"") == trace_rows(None) == []


@pytest.mark.parametrize(
    "absurd",
    [
        replace(DELIVERED, at_ms=TIME_MS_MAX + 1),
        replace(DELIVERED, at_ms=-1),
        replace(DELIVERED, retry_times=1 << 31),
        replace(PUBLISHED, cost_ms=10**18),
        replace(CONSUMED, cost_ms=-(10**18)),
        replace(RECALLED, at_ms=(1 << 63) - 1),
    ],
)
def test_a_record_with_an_absurd_number_is_damaged_and_those_beside_it_are_not(absurd: TraceRecord) -> None:
    """No calendar and no column has room for it: one such record would end a whole report."""
    assert rows(PUBLISHED, absurd) == [*rows(PUBLISHED), TraceRow(DAMAGED)]


def test_the_last_time_that_is_taken_can_be_shown() -> None:
    (row,) = rows(replace(DELIVERED, at_ms=TIME_MS_MAX))
    assert moment(row.at_ms) == "9999-12-31 23:59:59"


def test_spark_is_told_the_fields_in_their_order() -> None:
    fields = TRACE_TYPE.removeprefix("array<struct<").removesuffix(">>").split(",")
    assert tuple(field.partition(":")[0] for field in fields) == TraceRow._fields
