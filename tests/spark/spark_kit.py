"""What tests of the source do to topics, and what they expect to find in them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from zenitmq import FIRST, Message, MessageQueue, Producer, PullConsumer, StoredMessage
from zenitmq.model.clock import monotonic_ms
from zenitmq.pipeline.column_names import COLUMN_NAMES

Place = tuple[str, str, int, int]

REPLAY_COLUMNS = ("topic", "broker", "queueId", "queueOffset", "messageId", "body")


def send(
    namesrv: str, topic: str, count: int, *, first: int = 0, body_bytes: int = 16, timeout: float = 30
) -> list[bytes]:
    """Sends messages with different bodies, with tags, keys and properties, spread over the queues; returns the bodies."""
    bodies = [(b"%010d-" % number).ljust(body_bytes, b".") for number in range(first, first + count)]
    messages = [
        Message(
            topic,
            body,
            tags="even" if number % 2 == 0 else "odd",
            keys=[f"k{number}", f"m{number % 7}"] if number % 3 else (),
            properties={"number": str(number)},
            flag=number % 5,
        )
        for number, body in enumerate(bodies, first)
    ]
    part = max(1, count // 16)
    with Producer("p", namesrv=namesrv) as producer:
        for begin in range(0, count, part):
            producer.send_batch(messages[begin : begin + part], timeout=timeout)
    return bodies


def stored(namesrv: str, topic: str, count: int) -> dict[Place, StoredMessage]:
    """The first `count` messages of a topic as a consumer sees them, by where they lie."""
    found: dict[Place, StoredMessage] = {}
    deadline_ms = monotonic_ms() + 100_000
    with PullConsumer(f"look-{monotonic_ms()}", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        while len(found) < count and monotonic_ms() < deadline_ms:
            for message in consumer.poll(max_messages=1000, timeout=1.0):
                queue: MessageQueue = message.queue
                found[topic, queue.broker_name, queue.queue_id, message.queue_offset] = message
    assert len(found) == count
    return found


def expected_row(message: StoredMessage) -> dict[str, Any]:
    """The row that a message is to be."""
    queue = message.queue
    row = dict.fromkeys(COLUMN_NAMES)
    row |= {
        "topic": queue.topic,
        "broker": queue.broker_name,
        "queueId": queue.queue_id,
        "queueOffset": message.queue_offset,
        "messageId": message.message_id,
        "keys": " ".join(message.keys) or None,
        "tags": message.tags,
        "messageGroup": message.properties.get("__SHARDINGKEY"),
        "body": bytearray(message.body),
        "properties": message.properties,
        "bornTimestamp": utc(message.born_at_ms),
        "storeTimestamp": utc(message.stored_at_ms),
        "reconsumeTimes": message.reconsume_times,
        "bodyCrc": message.body_crc,
        "flag": message.flag,
    }
    return row


def place(row: Any) -> Place:
    """Where a row lies."""
    return row["topic"], row["broker"], row["queueId"], row["queueOffset"]


def utc(timestamp_ms: int) -> datetime:
    """As Spark's session hands it over: without a zone, in this process's own."""
    return datetime.fromtimestamp(timestamp_ms / 1000)  # noqa: DTZ006  # Spark's rows have no zone
