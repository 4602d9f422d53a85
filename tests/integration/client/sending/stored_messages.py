"""What a topic has in the end, read from the first message of each queue to the last."""

from __future__ import annotations

from typing import Any

from zenitmq import Admin, PullConsumer


def stored(namesrv: str, topic: str) -> list[Any]:
    """All messages of the topic, queue by queue in order."""
    found: list[Any] = []
    with Admin(namesrv) as admin, PullConsumer("readers", namesrv=namesrv) as consumer:
        queues = sorted(admin.queues(topic))
        count = sum(admin.max_offset(queue) for queue in queues)
        consumer.assign(queues)
        for queue in queues:
            consumer.seek(queue, 0)
        for _ in range(200):
            if len(found) >= count:
                break
            found += consumer.poll(max_messages=10_000, timeout=0.2)
    assert len(found) == count
    return sorted(found, key=lambda message: (message.queue, message.queue_offset))
