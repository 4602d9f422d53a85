"""The begins and ends of a job's queues; the driver asks the brokers."""

from __future__ import annotations

from collections.abc import Mapping

from ...options.boundary import EARLIEST
from ...options.options import ReadOptions
from ...reading.boundaries import Held, offsets_at, times_wanted
from ...reading.offsets import Offsets, QueueRange
from ...reading.topic_positions import TopicPositions


def reading(settings: Mapping[str, str]) -> ReadOptions:
    """The source's options, written as for a reader, as values. Raises errors about them."""
    return ReadOptions.parse({name.lower(): value for name, value in settings.items()})


def held(settings: Mapping[str, str]) -> Held:
    """The present bounds of the queues in these options. Raises TopicNotFound, and errors of brokers."""
    return TopicPositions(reading(settings)).look()


def begin_and_end(settings: Mapping[str, str]) -> tuple[Offsets, Offsets]:
    """Where each queue would be read from by these options, and where it ends now."""
    options = reading(settings)
    positions = TopicPositions(options)
    there = positions.look()
    starting = options.starting or EARLIEST
    at_time = positions.at_times(times_wanted(starting, there))
    begin = offsets_at(starting, there, at_time, side="starting", none_from_time=options.none_from_time)
    return begin, there.end


def between_times(settings: Mapping[str, str], since_ms: int | None, until_ms: int | None) -> list[QueueRange]:
    """The queues' messages stored in [since, until), as the brokers find them by time; None: no bound."""
    positions = TopicPositions(reading(settings))
    there = positions.look()
    begins = there.minimum if since_ms is None else positions.at_times(dict.fromkeys(there.end, since_ms))
    ends = there.end if until_ms is None else positions.at_times(dict.fromkeys(there.end, until_ms))
    found = []
    for key in sorted(there.end):
        start = max(begins[key], there.minimum[key])
        end = min(ends[key], there.end[key])
        if start < end:
            life = there.lives.get((key.topic, key.broker), 0)
            found.append(QueueRange(key.topic, key.broker, key.queue_id, start, end, life))
    return found
