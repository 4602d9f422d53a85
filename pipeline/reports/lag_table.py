"""The lag of a streaming query, queue by queue, from Spark's progress report of each batch. Pure.

    endOffset ..... latestOffset      of a source, {"topic": {"broker": {"queue": offset}}}: read so far, and to be read

Sources of another kind are skipped. Unknown values are None: the rows of a queue that the query has not begun, or of a
source without a latest offset; the seconds if the store time of the next row was not found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ...model.errors import InvalidParameter
from ..reading.offsets import Offsets, QueueKey, offsets_of, parse_offsets

QUEUES_IN_LINE_MAX: Final = 3

Document = dict[str, Any]

StoredAt = Callable[[Mapping[QueueKey, int]], Mapping[QueueKey, int]]
"""{queue: offset of a message} -> {queue: its store time, ms since the epoch}, for those that were found."""


@dataclass(frozen=True, slots=True)
class QueueLag:
    """One queue. `read_to`: the offset that the query reads next, None = not begun; `latest`: one past the last row."""

    queue: QueueKey
    read_to: int | None
    latest: int | None
    rows_behind: int | None
    seconds_behind: float | None


@dataclass(frozen=True, slots=True)
class LagTable:
    """One query after one batch. `rows`: of the batch; `late_rows`: behind the watermark and dropped."""

    query: str
    batch_id: int
    at_ms: int
    rows: int
    rows_per_second: float
    late_rows: int
    queues: tuple[QueueLag, ...]

    @property
    def rows_behind(self) -> int | None:
        """Of all queues; None if that of any is unknown."""
        found = [queue.rows_behind for queue in self.queues]
        return None if None in found else sum(rows for rows in found if rows is not None)

    @property
    def seconds_behind(self) -> float | None:
        """Of the queue furthest behind; None if that of any is unknown."""
        found = [queue.seconds_behind for queue in self.queues]
        known = [seconds for seconds in found if seconds is not None]
        return None if len(known) < len(found) else max(known, default=0.0)


def lag_table(progress: Mapping[str, Any], stored_at: StoredAt, *, now_ms: int) -> LagTable:
    """The table of a progress report of Spark (StreamingQueryProgress.json). Calls `stored_at` at most once."""
    read_to: Offsets = {}
    latest: Offsets = {}
    for source in progress.get("sources", ()):
        read_to |= queue_offsets(source.get("endOffset"))
        latest |= queue_offsets(source.get("latestOffset"))
    waiting = {queue: offset for queue, offset in read_to.items() if latest.get(queue, offset) > offset}
    stored_ms = stored_at(waiting) if waiting else {}
    queues = sorted(read_to.keys() | latest.keys())
    return LagTable(
        query=progress.get("name") or str(progress.get("id", "")),
        batch_id=int(progress.get("batchId", 0)),
        at_ms=now_ms,
        rows=int(progress.get("numInputRows", 0)),
        rows_per_second=round(float(progress.get("processedRowsPerSecond") or 0), 1),
        late_rows=sum(int(state.get("numRowsDroppedByWatermark", 0)) for state in progress.get("stateOperators", ())),
        queues=tuple(_queue_lag(queue, read_to.get(queue), latest.get(queue), stored_ms, now_ms) for queue in queues),
    )


def _queue_lag(
    queue: QueueKey, read_to: int | None, latest: int | None, stored_ms: Mapping[QueueKey, int], now_ms: int
) -> QueueLag:
    if read_to is None or latest is None:
        return QueueLag(queue, read_to, latest, None, None)
    rows = max(0, latest - read_to)
    if not rows:
        return QueueLag(queue, read_to, latest, 0, 0.0)
    since_ms = stored_ms.get(queue)
    seconds = None if since_ms is None else max(0, now_ms - since_ms) / 1000
    return QueueLag(queue, read_to, latest, rows, seconds)


def queue_offsets(value: object) -> Offsets:
    """The offsets of a source as Spark gives them, an object or its JSON text; empty if they are not in our form."""
    with contextlib.suppress(InvalidParameter):
        return parse_offsets("offsets", value) if isinstance(value, str) else offsets_of(value)
    return {}


# ---- output


def lag_document(table: LagTable) -> Document:
    """The table as JSON. Times in ms since the epoch; unknown values are null."""
    return {
        "query": table.query,
        "batch_id": table.batch_id,
        "at_ms": table.at_ms,
        "rows": table.rows,
        "rows_per_second": table.rows_per_second,
        "late_rows": table.late_rows,
        "rows_behind": table.rows_behind,
        "seconds_behind": table.seconds_behind,
        "queues": [
            {
                "topic": lag.queue.topic,
                "broker_name": lag.queue.broker,
                "queue_id": lag.queue.queue_id,
                "read_to": lag.read_to,
                "latest": lag.latest,
                "rows_behind": lag.rows_behind,
                "seconds_behind": lag.seconds_behind,
            }
            for lag in table.queues
        ],
    }


def lag_line(table: LagTable) -> str:
    """One line for a log: the total, and the queues furthest behind."""
    behind = [lag for lag in table.queues if lag.rows_behind]
    behind.sort(key=lambda lag: lag.rows_behind or 0, reverse=True)
    worst = ",".join(
        f"{lag.queue.topic}/{lag.queue.broker}:{lag.queue.queue_id}={lag.rows_behind}"
        for lag in behind[:QUEUES_IN_LINE_MAX]
    )
    return (
        f"query={table.query} batch={table.batch_id} rows={table.rows} rows_per_second={table.rows_per_second:.0f} "
        f"rows_behind={_known(table.rows_behind)} seconds_behind={_known(table.seconds_behind)}"
        + (f" late_rows={table.late_rows}" if table.late_rows else "")
        + (f" furthest={worst}" if worst else "")
    )


def _known(number: float | None) -> str:
    return "unknown" if number is None else f"{number:g}" if isinstance(number, float) else str(number)


def prometheus_text(tables: Iterable[LagTable]) -> str:
    """The text file for Prometheus' node exporter; unknown values have no sample."""
    tables = sorted(tables, key=lambda table: table.query)
    metrics: list[tuple[str, str, list[tuple[str, float]]]] = [
        (
            "zenit_pipeline_rows_behind",
            "Rows of a queue that the query has still to read.",
            [(_labels(t, lag), lag.rows_behind) for t in tables for lag in t.queues if lag.rows_behind is not None],
        ),
        (
            "zenit_pipeline_seconds_behind",
            "How long the next row of a queue has been waiting for the query.",
            [
                (_labels(t, lag), lag.seconds_behind)
                for t in tables
                for lag in t.queues
                if lag.seconds_behind is not None
            ],
        ),
        (
            "zenit_pipeline_rows_per_second",
            "Speed of the last batch.",
            [(_labels(t), t.rows_per_second) for t in tables],
        ),
        ("zenit_pipeline_batch", "Number of the last batch.", [(_labels(t), t.batch_id) for t in tables]),
        (
            "zenit_pipeline_progress_timestamp_seconds",
            "When the last batch was told of.",
            [(_labels(t), t.at_ms / 1000) for t in tables],
        ),
    ]
    lines = []
    for name, meaning, samples in metrics:
        if samples:
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} gauge"]
            lines += [f"{name}{labels} {value!r}" for labels, value in samples]
    return "".join(f"{line}\n" for line in lines)


def _labels(table: LagTable, lag: QueueLag | None = None) -> str:
    pairs = {"query": table.query}
    if lag is not None:
        pairs |= {"topic": lag.queue.topic, "broker": lag.queue.broker, "queue": str(lag.queue.queue_id)}
    return "{" + ",".join(f'{name}="{_quoted(value)}"' for name, value in pairs.items()) + "}"


def _quoted(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
