"""Where the queues of a job begin and end, asked of the brokers by the driver."""

from __future__ import annotations

from collections.abc import Mapping

from ..boundaries import Held, offsets_at, times_wanted
from ..offsets import Offsets
from ..options import EARLIEST, ReadOptions
from ..topic_positions import TopicPositions


def reading(settings: Mapping[str, str]) -> ReadOptions:
    """Options of the source, written as a reader has them, as values. Raises what is wrong with them."""
    return ReadOptions.parse({name.lower(): value for name, value in settings.items()})


def held(settings: Mapping[str, str]) -> Held:
    """What the queues hold that these options name. Raises TopicNotFound, and why brokers did not answer."""
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
