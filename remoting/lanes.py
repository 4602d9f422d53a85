"""Lanes: each class of request has its own limits and its own share of a turn, so that one cannot starve another. Pure.

RocketMQ gives each class a thread pool with its own queue (1 acceptor + N selectors + M1 workers + M2 executors). Here one
loop does the work, because Python runs one thread at a time and the loop is the only writer. The purpose of the pools,
limits and deadlines per class, is fulfilled by these lanes. A SEND is handled as soon as it is received, because its
payload is in the arena; the others wait in their lane for their share.
"""

from __future__ import annotations

from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..model.plain_dataclass import dataclass
from .commands import Lane, Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .server import Call

RETRY_AFTER_MS: Final = 100
"""The retry-after time of a refusal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneLimits:
    """The limits of one lane; a request beyond any of them is answered BrokerBusy.

    `queue_max`: requests waiting for their turn. `in_flight_max`: unanswered requests, deferred ones too. `deadline_ms`:
    how long one may wait for its turn. `share`: requests handled per turn while other lanes wait. A SEND does not wait for
    its turn, so only `in_flight_max` applies to it.
    """

    queue_max: int
    in_flight_max: int
    deadline_ms: int
    share: int


DEFAULT_LANES: Final[Mapping[Lane, LaneLimits]] = MappingProxyType(
    {
        Lane.HEARTBEAT: LaneLimits(queue_max=10_000, in_flight_max=10_000, deadline_ms=10_000, share=64),
        Lane.SEND: LaneLimits(queue_max=10_000, in_flight_max=10_000, deadline_ms=1_000, share=256),
        Lane.PULL: LaneLimits(queue_max=10_000, in_flight_max=100_000, deadline_ms=5_000, share=64),
        Lane.QUERY: LaneLimits(queue_max=5_000, in_flight_max=5_000, deadline_ms=5_000, share=32),
        Lane.ADMIN: LaneLimits(queue_max=1_000, in_flight_max=1_000, deadline_ms=10_000, share=8),
    }
)
"""Counts follow RocketMQ's queue capacities (send 10,000, pull 100,000), times its wait times in queue."""


@dataclass(frozen=True, slots=True)
class LaneStatistics:
    """Counters of one lane since the start; `queued` and `in_flight` are current values."""

    handled: int
    refused: int
    queued: int
    in_flight: int


class LaneState:
    """The current content of one lane. Owned by the loop."""

    __slots__ = ("handled", "in_flight", "limits", "queue", "refused")

    def __init__(self, limits: LaneLimits) -> None:
        self.limits = limits
        self.queue: deque[tuple[Call[Request], int]] = (
            deque()
        )  # each with the monotonic time, ms, after which it is refused
        self.in_flight = 0
        self.handled = 0
        self.refused = 0

    def statistics(self) -> LaneStatistics:
        """A frozen copy of the counters."""
        return LaneStatistics(self.handled, self.refused, len(self.queue), self.in_flight)
