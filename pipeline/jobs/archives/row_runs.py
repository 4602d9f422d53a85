"""Runs of rows in an Arrow batch: adjacent rows of one queue with consecutive offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from .manifest import FileRange


def codes(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int32]]:
    """A number for each text of a column; equal texts have equal numbers."""
    found: np.ndarray[Any, np.dtype[np.int32]] = column.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return found


def runs(batch: pa.RecordBatch, *others: np.ndarray[Any, Any]) -> Iterator[tuple[int, int, FileRange]]:
    """(first row, row behind the last, offsets) of each run of a batch with broker, queueId and queueOffset.

    `others`: more columns; a change in one ends a run.
    """
    if batch.num_rows == 0:
        return
    offsets = batch.column("queueOffset").to_numpy()
    queue_ids = batch.column("queueId").to_numpy()
    brokers = batch.column("broker")
    ends = np.diff(offsets) != 1
    for column in (queue_ids, codes(brokers), *others):
        ends |= np.diff(column) != 0
    begins = [0, *(int(row) + 1 for row in np.flatnonzero(ends))]
    for begin, end in zip(begins, [*begins[1:], batch.num_rows], strict=True):
        first = int(offsets[begin])
        yield begin, end, FileRange(brokers[begin].as_py(), int(queue_ids[begin]), first, first + end - begin)


def joined(ranges: list[FileRange], new: FileRange) -> None:
    """Appends a run to those of a file, merged with the last one if it continues that."""
    last = ranges[-1] if ranges else None
    if last is not None and (last.broker, last.queue_id, last.end) == (new.broker, new.queue_id, new.begin):
        ranges[-1] = FileRange(last.broker, last.queue_id, last.begin, new.end)
    else:
        ranges.append(new)
