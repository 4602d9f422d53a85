"""What a request loop says about itself at a scrape. Any thread: it copies plain numbers."""

from __future__ import annotations

from collections.abc import Iterator

from ..metrics.family import Reading
from ..metrics.table import (
    AUTH_REFUSED,
    IN_FLIGHT_BYTES,
    LANE_HANDLED,
    LANE_IN_FLIGHT,
    LANE_REFUSED,
    LANE_WAITING,
    LOOP_FAULTS,
    LOOP_MALFORMED,
    LOOP_TURN,
    OTHER_CLUSTER,
    REPLIES_DROPPED,
    RPC,
    RPC_FAILED,
)
from .server import RequestLoop


def loop_readings(loop: RequestLoop) -> Iterator[Reading]:
    """Turns, requests and lanes."""
    counts = loop.statistics()
    yield LOOP_FAULTS, [((), counts.faults)]
    yield LOOP_MALFORMED, [((), counts.malformed)]
    yield OTHER_CLUSTER, [((), counts.other_cluster)]
    yield AUTH_REFUSED, [(("connection",), loop.refused_connections), (("request",), counts.denied)]
    yield REPLIES_DROPPED, [(("slow",), counts.dropped_slow), (("gone",), counts.dropped_gone)]
    yield IN_FLIGHT_BYTES, [((), counts.in_flight_bytes)]
    lanes = [((lane.value,), state) for lane, state in counts.lanes.items()]
    yield LANE_WAITING, [(name, state.queued) for name, state in lanes]
    yield LANE_IN_FLIGHT, [(name, state.in_flight) for name, state in lanes]
    yield LANE_HANDLED, [(name, state.handled) for name, state in lanes]
    yield LANE_REFUSED, [(name, state.refused) for name, state in lanes]
    times = loop.times
    if times is None:
        return
    yield LOOP_TURN, [((), times.turns.reading())]
    yield RPC, [((made.__name__,), one.reading()) for made, one in times.requests.copy().items()]
    yield RPC_FAILED, [((made.__name__, str(code)), count) for (made, code), count in times.failed.copy().items()]
