"""What all sends of one producer share."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...record.kernel import Accumulator
from ..client_counts import ClientCounts
from ..connection.connection import Connection
from ..connection.retry import RetryPolicy
from ..connection.waiting import Waits
from ..tracing.client_telemetry import ClientTelemetry
from ..tracing.trace import TraceRecorder
from .accumulators import topic_accumulator
from .attempts import SendAttempts
from .destinations import Destinations
from .latency_fault import LatencyFault


@dataclass(frozen=True, slots=True, kw_only=True)
class SendContext:
    """`group`: the producer's. `compress_over`: the size of the largest body that is not compressed. `trace`: None without
    tracing. `telemetry`: who measures, None = nobody. `is_of_transactions`: what is sent waits for its producer's decision.
    """

    connection: Connection
    waits: Waits
    group: str
    destinations: Destinations
    fault: LatencyFault
    retry: RetryPolicy
    attempts: SendAttempts
    compress_over: int
    trace: TraceRecorder | None = None
    telemetry: ClientTelemetry | None = None
    is_of_transactions: bool = False
    counts: ClientCounts = field(default_factory=ClientCounts)

    def wrap_over(self, topic: str) -> int | None:
        """None if the topic takes plain records; if it takes each batch as one record, `compress_over` of its body."""
        route = self.connection.routes.cached(topic)
        return self.compress_over if route is not None and route.is_batched else None

    def new_accumulator(self, topic: str, capacity: int) -> Accumulator:
        """Creates an accumulator for its records of a topic."""
        return topic_accumulator(self.connection, topic, capacity, self.attempts.own_properties)
