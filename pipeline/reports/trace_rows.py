"""The records of trace messages as rows of one table, so that Spark can count and join them. Pure.

An unreadable body becomes one row of kind DAMAGED, and is counted like the others. So does a record with impossible
numbers: any client may write to the trace topic.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ...client.tracing.trace_format import (
    Consumed,
    Delivered,
    Published,
    TraceRecord,
    TransactionEnded,
    decode_trace,
)
from ...model.errors import TraceDamaged
from ...model.times import TIME_MS_MAX

DAMAGED: Final = "Damaged"
OTHER: Final = "Other"
_ENDS: Final = {"COMMIT_MESSAGE": "commit", "ROLLBACK_MESSAGE": "rollback"}
ATTEMPT_MAX: Final = (1 << 31) - 1

TRACE_TYPE: Final = (
    "array<struct<kind:string,at_ms:bigint,producer_or_group:string,topic:string,message_id:string,request_id:string,"
    "cost_ms:bigint,ok:boolean,code:string,attempt:int,from_check:boolean>>"
)
"""Spark's type of the result of `trace_rows`."""


class TraceRow(NamedTuple):
    """One record; None where its kind does not tell. `attempt`: from 0 on. `code`: how a delivery ended, or a transaction
    (commit, rollback, unknown)."""

    kind: str
    at_ms: int | None = None
    producer_or_group: str | None = None
    topic: str | None = None
    message_id: str | None = None
    request_id: str | None = None
    cost_ms: int | None = None
    ok: bool | None = None
    code: str | None = None
    attempt: int | None = None
    from_check: bool | None = None


def trace_rows(body: bytes | bytearray | None) -> list[TraceRow]:
    """The rows of one trace message's body."""
    try:
        rows = [_row(record) for record in decode_trace(bytes(body or b""))]
    except TraceDamaged:
        return [TraceRow(DAMAGED)]
    return [row if _is_possible(row) else TraceRow(DAMAGED) for row in rows]


def _is_possible(row: TraceRow) -> bool:
    """Whether times are valid and the other numbers fit their columns. A cost is negative if a clock was set back."""
    return (
        0 <= (row.at_ms or 0) <= TIME_MS_MAX
        and -TIME_MS_MAX <= (row.cost_ms or 0) <= TIME_MS_MAX
        and 0 <= (row.attempt or 0) <= ATTEMPT_MAX
    )


def _row(record: TraceRecord) -> TraceRow:
    group = record.group or None
    match record:
        case Published():
            return TraceRow(
                record.kind,
                record.at_ms,
                group,
                topic=record.topic,
                message_id=record.message_id,
                cost_ms=record.cost_ms,
                ok=record.is_ok,
            )
        case Delivered():
            return TraceRow(
                record.kind,
                record.at_ms,
                group,
                message_id=record.message_id,
                request_id=record.request_id,
                attempt=record.retry_times,
            )
        case Consumed():
            return TraceRow(
                record.kind,
                record.at_ms or None,
                group,
                message_id=record.message_id,
                request_id=record.request_id,
                cost_ms=record.cost_ms,
                ok=record.is_ok,
                code=record.code.name.lower(),
            )
        case TransactionEnded():
            return TraceRow(
                record.kind,
                record.at_ms,
                group,
                topic=record.topic,
                message_id=record.message_id,
                code=_ENDS.get(record.state, "unknown"),
                from_check=record.from_check,
            )
        case _:
            return TraceRow(OTHER, record.at_ms, group, topic=record.topic, message_id=record.message_id)
