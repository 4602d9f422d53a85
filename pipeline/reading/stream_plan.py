"""Plans one trigger of a stream: from its position, the available rows and the limits to its end offsets. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from ..options.options import ReadOptions
from .offsets import Offsets, QueueKey, row_count, within_bytes, within_rows


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limits of one trigger; 0 = none. `delay_max_ms`: how long to wait for `rows_min`."""

    rows_min: int = 0
    rows_max: int = 0
    bytes_max: int = 0
    delay_max_ms: int = 0

    @staticmethod
    def of(options: ReadOptions) -> BatchLimits:
        """The limits in a reader's options."""
        return BatchLimits(options.rows_min, options.rows_max, options.bytes_max, options.delay_max_ms)

    def without_minimum(self) -> BatchLimits:
        """The limits of a run that reads what is there and ends: it waits for nothing."""
        return BatchLimits(0, self.rows_max, self.bytes_max, 0)


def reachable(start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> Offsets:
    """How far each queue can be read: its end, and for a queue of `start` never less than that.

    A queue of `start` that is not in `end` stays where it is: its broker is down, or it is not read any more.
    """
    known = {key: max(offset, end.get(key, offset)) for key, offset in start.items()}
    return known | {key: offset for key, offset in end.items() if key not in start}


def until(target: Mapping[QueueKey, int], start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> Offsets:
    """The end, reduced to a fixed target: without queues that are not in it, and never below the start."""
    return {
        key: max(start.get(key, 0), min(offset, target.get(key, 0)))
        for key, offset in end.items()
        if key in target or key in start
    }


def is_waiting(
    start: Mapping[QueueKey, int], end: Mapping[QueueKey, int], limits: BatchLimits, *, waited_ms: int
) -> bool:
    """Whether there are too few rows yet to begin a batch."""
    return bool(limits.rows_min) and row_count(start, end) < limits.rows_min and waited_ms < limits.delay_max_ms


def next_end(
    start: Mapping[QueueKey, int], end: Mapping[QueueKey, int], limits: BatchLimits, row_bytes: Mapping[QueueKey, int]
) -> Offsets:
    """The end of the next batch. `row_bytes`: of each queue with new rows, if `bytes_max` is set."""
    taken = dict(end)
    if limits.rows_max:
        taken = within_rows(start, taken, limits.rows_max)
    if limits.bytes_max:
        taken = within_bytes(start, taken, limits.bytes_max, row_bytes)
    return taken


def made_anew(before: Mapping[tuple[str, str], int], now: Mapping[tuple[str, str], int]) -> frozenset[tuple[str, str]]:
    """The (topic, broker) at which the topic was recreated. An unknown incarnation counts as the same."""
    return frozenset(place for place, life in before.items() if now.get(place, life) != life)


def begun_anew(
    start: Mapping[QueueKey, int], minimum: Mapping[QueueKey, int], anew: Collection[tuple[str, str]]
) -> Offsets:
    """The start, at the first row for recreated topics, without queues that the new topics do not have."""
    return {
        key: minimum[key] if (key.topic, key.broker) in anew else offset
        for key, offset in start.items()
        if key in minimum or (key.topic, key.broker) not in anew
    }


def shrunk(start: Mapping[QueueKey, int], end: Mapping[QueueKey, int]) -> Offsets:
    """{queue: how far its end is below its start}: it was deleted and created again, or its log was lost."""
    return {key: offset - end[key] for key, offset in start.items() if key in end and end[key] < offset}
