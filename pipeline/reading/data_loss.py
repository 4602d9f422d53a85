"""Rows that expired before they were read: an error, or skipped and counted in the log, by the user's choice."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from ...model.errors import DataLost
from .boundaries import beyond_minimum, raised
from .offsets import Offsets, QueueKey

log = logging.getLogger(__name__)


def passed_over(
    start: Mapping[QueueKey, int],
    minimum: Mapping[QueueKey, int],
    *,
    fail: bool,
    compacted: Collection[QueueKey] = (),
) -> Offsets:
    """The start, moved behind expired rows; in `compacted` queues newer ones have replaced them. Raises DataLost if `fail`."""
    lost = beyond_minimum(start, {key: minimum[key] for key in minimum if key in start})
    for key, rows in sorted(lost.items()):
        if key in compacted:
            continue
        if fail:
            raise DataLost(str(key), start[key], minimum[key])
        log.warning("rows expired before they were read queue=%s rows=%s from_offset=%s", key, rows, start[key])
    return raised(start, lost)
