"""Computes the begin and end offsets of a read from its options and the queues' ranges. Pure.

A queue's range is `[minimum, end)`, with `end` confirmed by its replica group. The brokers have looked up times before:
`at_time` is the first offset stored at or after the requested time, or the queue's end if there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...model.errors import InvalidParameter, OffsetOutOfRange, OffsetsIncomplete, TopicReplaced
from ..options.boundary import Boundary
from .offsets import EARLIEST_MARK, LATEST_MARK, Lives, Offsets, QueueKey

Side = Literal["starting", "ending"]


@dataclass(frozen=True, slots=True)
class Held:
    """The ranges of the queues to read. `lives`: the incarnation of each topic at its broker. `compacted`: the queues whose
    minimum rises because newer messages replace the first ones: nothing is lost by that."""

    minimum: Offsets
    end: Offsets
    lives: Lives = field(default_factory=dict)
    compacted: frozenset[QueueKey] = frozenset()


def times_wanted(boundary: Boundary, held: Held) -> Offsets:
    """The time, in milliseconds since the epoch, to be looked up for each queue; empty if there are none."""
    if boundary.kind == "time":
        return dict.fromkeys(held.end, boundary.time_ms)
    if boundary.kind == "times":
        return _for_each(boundary, held.end)
    return {}


def offsets_at(
    boundary: Boundary,
    held: Held,
    at_time: Mapping[QueueKey, int],
    *,
    side: Side,
    none_from_time: Literal["error", "latest"],
) -> Offsets:
    """The offset of each queue. `none_from_time`: what to do at the start if nothing was stored from its time on.

    Raises OffsetsIncomplete, InvalidParameter, OffsetOutOfRange, and TopicReplaced if it belongs to a deleted topic.
    """
    for (topic, broker), life in sorted(boundary.lives.items()):
        if held.lives.get((topic, broker), life) != life:
            offsets = (offset for key, offset in boundary.offsets.items() if (key.topic, key.broker) == (topic, broker))
            offset = max(offsets, default=0)
            raise TopicReplaced(topic, broker, offset)
    if boundary.kind == "earliest":
        return dict(held.minimum)
    if boundary.kind == "latest":
        return dict(held.end)
    if boundary.kind in ("time", "times"):
        return {key: _by_time(key, boundary, held, at_time[key], side, none_from_time) for key in held.end}
    return {key: _given(key, offset, held) for key, offset in _for_each(boundary, held.end).items()}


def beyond_minimum(start: Mapping[QueueKey, int], minimum: Mapping[QueueKey, int]) -> Offsets:
    """{queue: how many of its messages from `start` on have expired}; a queue that is not in `start` began with 0."""
    return {key: offset - start.get(key, 0) for key, offset in minimum.items() if offset > start.get(key, 0)}


def raised(start: Mapping[QueueKey, int], lost: Mapping[QueueKey, int]) -> Offsets:
    """The start, moved behind the lost messages."""
    return {key: offset + lost.get(key, 0) for key, offset in start.items()}


def _by_time(
    key: QueueKey, boundary: Boundary, held: Held, found: int, side: Side, none_from_time: Literal["error", "latest"]
) -> int:
    if side == "starting" and none_from_time == "error" and found >= held.end[key]:
        raise InvalidParameter(
            boundary.option,
            boundary.time_ms or boundary.offsets.get(key, 0),
            f"a time from which {key} has messages; or startingOffsetsByTimestampStrategy=latest",
        )
    return min(found, held.end[key])


def _given(key: QueueKey, offset: int, held: Held) -> int:
    if offset == EARLIEST_MARK:
        return held.minimum[key]
    if offset == LATEST_MARK:
        return held.end[key]
    if offset > held.end[key]:
        raise OffsetOutOfRange(str(key), offset, held.minimum[key], held.end[key])
    return offset


def _for_each(boundary: Boundary, queues: Iterable[QueueKey]) -> Offsets:
    """The given offset of each queue. All of them must be named, and no others."""
    wanted = set(queues)
    for key in sorted(wanted - boundary.offsets.keys()):
        raise OffsetsIncomplete(boundary.option, str(key), "is not named; every queue that is read has to be")
    for key in sorted(boundary.offsets.keys() - wanted):
        raise OffsetsIncomplete(boundary.option, str(key), "is named but is not among the queues that are read")
    return boundary.offsets
