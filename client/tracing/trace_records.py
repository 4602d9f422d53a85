"""The trace records of batches that were sent, delivered or consumed, created one by one when they are taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, cast

from ...model.handles.transaction import Resolution, TransactionId
from ...model.ids import HostAddress, offset_message_id
from ...model.properties import (
    DELAY_LEVEL,
    HALF_SENDER,
    KEYS,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from ...record.kernel import MessageBatch, StoredMessage, decode_batch
from ..sending.delayed_send import Answer
from ..sending.send_future import record_begins, record_position
from .trace_format import REGION, ConsumeCode, Consumed, Delivered, Published, TracedType, TransactionEnded

_DELAYS: Final = frozenset({DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELIVER_MS})

ENDED_STATES: Final = {
    Resolution.COMMIT: "COMMIT_MESSAGE",
    Resolution.ROLLBACK: "ROLLBACK_MESSAGE",
    Resolution.UNKNOWN: "UNKNOW",
}
"""As RocketMQ writes them, the last one misspelt."""

Messages = MessageBatch | Sequence[StoredMessage]


@dataclass(frozen=True, slots=True)
class Sent:
    """A batch as its producer encoded it, and how its send ended. `reply` None: it failed, or was sent one way."""

    records: bytes
    group: str
    reply: Answer | None
    is_ok: bool
    cost_ms: int


@dataclass(frozen=True, slots=True)
class Handed:
    """Messages that a consumer got together. `request_id`: of this delivery."""

    messages: Messages
    group: str
    request_id: str
    at_ms: int
    size_bytes: int


def published(sent: Sent) -> Iterator[Published]:
    """One record per message of the batch."""
    messages = list(_each(decode_batch(sent.records)))
    reply = sent.reply
    host = (
        "" if reply is None else str(HostAddress(reply.store_host[:-4], int.from_bytes(reply.store_host[-4:], "big")))
    )
    begins = record_begins(message.size_bytes for message in messages)
    for index, message in enumerate(messages):
        properties = message.properties
        offset_id = ""
        if reply is not None:
            offset_id = offset_message_id(reply.store_host, record_position(reply, begins, index))
        yield Published(
            at_ms=message.born_at_ms,
            region=REGION,
            group=sent.group,
            topic=message.topic,
            message_id=properties.get(UNIQUE_KEY, offset_id),
            tags=properties.get(TAGS, ""),
            keys=properties.get(KEYS, ""),
            store_host=host,
            body_bytes=len(message.body_as_stored),
            cost_ms=sent.cost_ms,
            message_type=_type_of(properties),
            offset_message_id=offset_id,
            is_ok=sent.is_ok,
        )


def delivered(handed: Handed) -> Iterator[Delivered]:
    """One record per message, before its consumer handles it."""
    for message in _each(handed.messages):
        properties = message.properties
        yield Delivered(
            at_ms=handed.at_ms,
            region=REGION,
            group=handed.group,
            request_id=handed.request_id,
            message_id=properties.get(UNIQUE_KEY) or message.offset_message_id,
            retry_times=message.reconsume_times,
            keys=properties.get(KEYS, ""),
        )


def consumed(handed: Handed, code: ConsumeCode, *, at_ms: int, cost_ms: int, count: int) -> Iterator[Consumed]:
    """One record for each of the first `count` messages, after their handling."""
    for message in islice(_each(handed.messages), count):
        properties = message.properties
        yield Consumed(
            request_id=handed.request_id,
            message_id=properties.get(UNIQUE_KEY) or message.offset_message_id,
            cost_ms=cost_ms,
            is_ok=code is ConsumeCode.SUCCESS,
            keys=properties.get(KEYS, ""),
            code=code,
            at_ms=at_ms,
            group=handed.group,
        )


def transaction_ended(
    which: TransactionId, resolution: Resolution, group: str, *, at_ms: int, tags: str, keys: str, from_check: bool
) -> TransactionEnded:
    """What a producer decided, or could not tell (UNKNOWN). `tags`, `keys`: "" where the producer has only the name."""
    return TransactionEnded(
        at_ms=at_ms,
        region=REGION,
        group=group,
        topic=which.topic,
        message_id=which.message_id,
        tags=tags,
        keys=keys,
        store_host="",
        message_type=TracedType.TRANSACTION_COMMIT,  # RocketMQ writes that for a rollback too
        transaction_id=which.encode(),
        state=ENDED_STATES[resolution],
        from_check=from_check,
    )


def _each(messages: Messages) -> Iterable[StoredMessage]:
    return cast("Iterable[StoredMessage]", messages)


def _type_of(properties: dict[str, str]) -> TracedType:
    if HALF_SENDER in properties or properties.get(TRANSACTION_PREPARED) == "true":
        return TracedType.TRANSACTION_HALF
    if not _DELAYS.isdisjoint(properties):
        return TracedType.DELAY
    return TracedType.NORMAL
