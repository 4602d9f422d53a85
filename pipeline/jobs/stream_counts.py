"""A streaming query's totals so far, from Spark's progress reports of its last batches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .summary import rows_behind


@dataclass(slots=True)
class StreamCounts:
    """The totals of one query.

    `late_rows`: behind the watermark and left out; `duplicates`: left out by a deduplication; `state_rows_ended`: removed
    from the state, as finished windows are; `rows_behind`: None = not known.
    """

    rows: int = 0
    batches: int = 0
    late_rows: int = 0
    duplicates: int = 0
    state_rows_ended: int = 0
    rows_behind: int | None = None
    _last: tuple[int, str] = field(default=(-1, ""))

    def on_progress(self, recent: Iterable[Mapping[str, Any]]) -> None:
        """Adds the reports that were not counted before. `recent`: Spark's, in the order of time, some of them known."""
        for progress in recent:
            stamp = (int(progress["batchId"]), str(progress["timestamp"]))
            if stamp <= self._last:
                continue
            self._last = stamp
            rows = int(progress.get("numInputRows", 0))
            self.rows += rows
            self.batches += 1 if rows else 0
            for state in progress.get("stateOperators", ()):
                self.late_rows += int(state.get("numRowsDroppedByWatermark", 0))
                self.duplicates += int(state.get("customMetrics", {}).get("numDroppedDuplicateRows", 0))
                self.state_rows_ended += int(state.get("numRowsRemoved", 0))
            behind = rows_behind(progress)
            self.rows_behind = self.rows_behind if behind is None else behind
