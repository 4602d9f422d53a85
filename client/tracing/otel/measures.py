"""The metrics of OpenTelemetry's conventions for messaging, of one process."""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Meter

from .conventions import (
    CONSUMED,
    DURATION_BUCKETS,
    OPERATION_DURATION,
    PROCESS_DURATION,
    SENT,
    attributes_of,
)

NS: Final = 1e9


class Measures:
    """Any thread may call. Attributes are few: the operation, the topic, the consumer group, the class of an error."""

    def __init__(self, meter: Meter) -> None:
        self._operations = meter.create_histogram(
            OPERATION_DURATION,
            "s",
            "Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )
        self._processes = meter.create_histogram(
            PROCESS_DURATION,
            "s",
            "Duration of processing operation.",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )
        self._sent = meter.create_counter(
            SENT, "{message}", "Number of messages producer attempted to send to the broker."
        )
        self._consumed = meter.create_counter(CONSUMED, "{message}", "Number of messages that the application got.")

    def on_sent(self, topic: str, count: int, duration_ns: int, error: str | None) -> None:
        """A send ended; `error`: the class of why it failed."""
        attributes = attributes_of("send", topic, error_type=error)
        self._operations.record(duration_ns / NS, attributes)
        self._sent.add(count, attributes)

    def on_delivered(self, operation: str, topic: str, group: str, count: int) -> None:
        """A consumer got messages: what it asked for ("receive"), or its handler is called ("process")."""
        self._consumed.add(count, attributes_of(operation, topic, group=group or None))

    def on_operation(self, operation: str, topic: str, group: str, duration_ns: int, error: str | None) -> None:
        """A receive, or what settles messages, ended."""
        attributes = attributes_of(operation, topic, group=group or None, error_type=error)
        self._operations.record(duration_ns / NS, attributes)

    def on_processed(self, topic: str, group: str, duration_ns: int, error: str | None) -> None:
        """A handler returned."""
        self._processes.record(duration_ns / NS, attributes_of("process", topic, group=group or None, error_type=error))
