"""The names of OpenTelemetry's conventions for messaging that we use, as of version 1.45. Pure.

In that version `messaging.system` is `messaging.system.name`, and attributes of RocketMQ begin with `rocketmq.`. The
conventions are still in development: this file is the one place to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SCOPE: Final = "zenitmq"
SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.45.0"

SYSTEM: Final = "messaging.system.name"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
GROUP: Final = "messaging.consumer.group.name"
BATCH_COUNT: Final = "messaging.batch.message_count"
MESSAGE_ID: Final = "messaging.message.id"
BODY_SIZE: Final = "messaging.message.body.size"
ERROR_TYPE: Final = "error.type"

ROCKETMQ_TAG: Final = "rocketmq.message.tag"
ROCKETMQ_KEYS: Final = "rocketmq.message.keys"
ROCKETMQ_TYPE: Final = "rocketmq.message.type"
ROCKETMQ_MODEL: Final = "rocketmq.consumption_model"

OPERATION_DURATION: Final = "messaging.client.operation.duration"
SENT: Final = "messaging.client.sent.messages"
CONSUMED: Final = "messaging.client.consumed.messages"
PROCESS_DURATION: Final = "messaging.process.duration"
DURATION_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)

_TYPES: Final = {"create": "create", "send": "send", "receive": "receive", "process": "process"}
"""Of operations; every other one settles a message: ack, change_invisible, dead_letter."""

Value = str | int | float | bool | tuple[str, ...]


def attributes_of(operation: str, topic: str, **more: Value | None) -> dict[str, Value]:
    """The attributes that every span and every measurement of an operation has, and `more` of those above, by the names of
    the constants in lower case; those that are None are left out."""
    given = {_NAMES[name]: value for name, value in more.items() if value is not None}
    return {
        SYSTEM: "zenitmq",
        OPERATION: operation,
        OPERATION_TYPE: _TYPES.get(operation, "settle"),
        DESTINATION: topic,
        **given,
    }


_NAMES: Final[Mapping[str, str]] = {
    "partition": PARTITION,
    "group": GROUP,
    "batch_count": BATCH_COUNT,
    "message_id": MESSAGE_ID,
    "body_size": BODY_SIZE,
    "error_type": ERROR_TYPE,
    "tag": ROCKETMQ_TAG,
    "keys": ROCKETMQ_KEYS,
    "message_type": ROCKETMQ_TYPE,
    "model": ROCKETMQ_MODEL,
}
