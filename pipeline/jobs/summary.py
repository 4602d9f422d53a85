"""A job's progress as one line, also from Spark's progress report of a query. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Rows and seconds; `rows_behind`: those still to come, None if unknown."""

    rows: int
    seconds: float
    rows_behind: int | None = None

    def line(self) -> str:
        """1,234 rows, 567 rows/s, 89 rows behind."""
        behind = "" if self.rows_behind is None else f", {self.rows_behind:,} rows behind"
        return f"{self.rows:,} rows, {rate(self.rows, self.seconds):,.0f} rows/s{behind}"


def rate(rows: int, seconds: float) -> float:
    """Rows a second, to one decimal; 0 if no time has passed."""
    return round(rows / seconds, 1) if seconds > 0 else 0.0


def rows_behind(progress: Mapping[str, Any]) -> int | None:
    """How many rows a streaming query has yet to read, from its progress report; None if it does not say."""
    behind = None
    for source in progress.get("sources") or ():
        end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
        if end is not None and latest is not None:
            done = dict(_leaves(end))
            left = sum(max(0, offset - done.get(queue, 0)) for queue, offset in _leaves(latest))
            behind = left + (behind or 0)
    return behind


def _offsets(value: object) -> dict[str, Any] | None:
    """Spark gives offsets as JSON texts or as objects, depending on its version."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, dict) else None


def _leaves(offsets: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], int]]:
    for name, value in offsets.items():
        if isinstance(value, dict):
            yield from _leaves(value, (*path, name))
        elif isinstance(value, int):
            yield (*path, name), value
