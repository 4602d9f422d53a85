"""What a topic holds after a write, whatever was written: everything, in the order of its queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from zenitmq import FIRST, Admin, PullConsumer, StoredMessage
from zenitmq.model.clock import monotonic_ms

WAIT_MS = 30_000


def count_of(namesrv: str, topic: str) -> int:
    """How many messages a topic holds."""
    with Admin(namesrv) as admin:
        return sum(row["max_offset"] - row["min_offset"] for row in admin.describe_topic(topic)["queues"])


def messages_of(namesrv: str, topic: str) -> list[StoredMessage]:
    """All messages of a topic, by queue and offset."""
    count = count_of(namesrv, topic)
    found: list[StoredMessage] = []
    deadline_ms = monotonic_ms() + WAIT_MS
    with PullConsumer(f"look-{monotonic_ms()}", namesrv=namesrv, start_from=FIRST) as consumer:
        with Admin(namesrv) as admin:
            consumer.assign(admin.queues(topic))
        while len(found) < count and monotonic_ms() < deadline_ms:
            found.extend(consumer.poll(max_messages=10_000, timeout=1.0))
    assert len(found) == count
    return sorted(found, key=lambda message: (message.queue, message.queue_offset))


def twice(bodies: Iterable[bytes]) -> list[bytes]:
    """Bodies that are there more than once."""
    return [body for body, count in Counter(bodies).items() if count > 1]
