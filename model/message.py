"""A producer's message, and the receipt of its send. Pure.

Consumers receive a `StoredMessage`: a lazy view of a record's bytes, decoded by `record/kernel.py`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from .queue import MessageQueue, PhysicalOffset, QueueOffset

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
RECORD_BYTES_MAX: Final = BODY_BYTES_MAX + 64 * 1024


@dataclass(slots=True)
class Message:
    """One message to send.

    `tags`: one tag by which consumers filter. `keys`: texts without blanks under which the message can be queried.
    `properties`: the sender's own, names and values non-empty text. `flag`: 32 bits that the broker does not interpret. At
    most one of these sets its delivery time: `delay`, from its arrival at the broker; `deliver_at`, with a time zone, where
    a time in the past means now; `delay_level`, 1 to 18 (1s 5s 10s 30s 1m 2m ... 10m 20m 30m 1h 2h). `priority`: 0 to 9, of
    topics whose messages are received by priority; None = any queue. `lite_topic`: of a topic with `message.type=LITE`, the
    small ordered queue for which it is. `light_queues`: names of light queues into which it goes beside its topic's queue,
    each `%LMQ%` and a name.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    delay: timedelta | None = None
    deliver_at: datetime | None = None
    delay_level: int = 0
    flag: int = 0
    priority: int | None = None
    lite_topic: str | None = None
    light_queues: Sequence[str] = ()


class SendStatus(enum.Enum):
    """How a send ended. A send that failed raises instead."""

    OK = "OK"


@dataclass(frozen=True, slots=True)
class SendReceipt:
    """Where one message is stored, and its ids.

    A delayed message is not in its queue yet: `queue_offset` is -1, `physical_offset` and `offset_message_id` give the
    place where it waits, and `recall_handle` is needed to recall it.
    """

    message_id: str
    offset_message_id: str
    queue: MessageQueue
    queue_offset: QueueOffset
    physical_offset: PhysicalOffset
    status: SendStatus = SendStatus.OK
    recall_handle: str | None = None


@dataclass(frozen=True, slots=True)
class BatchReceipt:
    """A run of messages was stored in one queue at [queue_offset, queue_offset + count)."""

    queue: MessageQueue
    queue_offset: QueueOffset
    count: int
    status: SendStatus = SendStatus.OK


@dataclass(frozen=True, slots=True)
class FailedSend:
    """A posted message that was not acknowledged, and why; `error` says whether it may be stored nevertheless.

    `properties`: the sender's own.
    """

    topic: str
    body: bytes
    tags: str | None
    keys: tuple[str, ...]
    error: Exception
    properties: Mapping[str, str] = field(default_factory=dict)
    sharding_key: str | None = None
