"""The records of a delayed message, each made from the one before: another topic and other properties. Pure."""

from __future__ import annotations

from ...model.names import TIMER_TOPIC
from ...model.properties import TIMER_OUT_MS, UNIQUE_KEY
from ...record.kernel import StoredMessage
from ...record.sys_flag import NOT_COPIED, TRANSACTION_MASK
from ..waiting.copies import changed, copied_record
from .timing import NOT_DELIVERED, NOT_HANDED_OVER, WAITING_NAMES, waiting_properties

_OUT_NAME = frozenset({TIMER_OUT_MS.encode()})


def waiting_record(message: StoredMessage, topic: str, queue_id: int, deliver_at_ms: int, host_bytes: int) -> bytes:
    """The record in which a sender's message waits. Raises MessageTooLarge (properties)."""
    properties = changed(
        message.properties_as_stored, WAITING_NAMES, waiting_properties(topic, queue_id, deliver_at_ms)
    )
    return _record(message, TIMER_TOPIC, 0, properties, 0, host_bytes)


def immediate_record(message: StoredMessage, topic: str, queue_id: int, host_bytes: int) -> bytes:
    """The record of a sender's message that does not wait."""
    return _record(message, topic, queue_id, changed(message.properties_as_stored, WAITING_NAMES, {}), 0, host_bytes)


def delivered_record(message: StoredMessage, topic: str, queue_id: int, host_bytes: int) -> bytes:
    """The copy, in its real queue, of a message that has waited; it ends that wait."""
    properties = changed(message.properties_as_stored, NOT_DELIVERED, {})
    return _record(message, topic, queue_id, properties, -1 - message.physical_offset, host_bytes, without=NOT_COPIED)


def rolled_record(message: StoredMessage, due_ms: int, host_bytes: int) -> bytes:
    """The same waiting message again, for the end of the log; it ends the wait of the first. Raises MessageTooLarge."""
    properties = changed(message.properties_as_stored, _OUT_NAME, {TIMER_OUT_MS: str(due_ms)})
    return _record(message, TIMER_TOPIC, 0, properties, -1 - message.physical_offset, host_bytes, without=NOT_COPIED)


def handed_record(message: StoredMessage, out_ms: int, host_bytes: int) -> bytes:
    """The same message, for RocketMQ to deliver in the whole second `out_ms`; it ends the wait of the first.

    If it came without a unique id it gets one, made from its physical offset: with that we find out later whether RocketMQ
    has delivered it. Raises MessageTooLarge.
    """
    added = {TIMER_OUT_MS: str(out_ms)}
    if UNIQUE_KEY not in message.properties:
        added[UNIQUE_KEY] = f"{message.physical_offset:032X}"
    properties = changed(message.properties_as_stored, NOT_HANDED_OVER, added)
    return _record(message, TIMER_TOPIC, 0, properties, -1 - message.physical_offset, host_bytes, without=NOT_COPIED)


def _record(
    message: StoredMessage,
    topic: str,
    queue_id: int,
    properties: bytes,
    cause: int,
    host_bytes: int,
    *,
    without: int = TRANSACTION_MASK,
) -> bytes:
    """`without`: bits of its sysFlag to clear. The records of a sender's batch keep SEQUENCED, since they are that batch."""
    return copied_record(
        message, topic, queue_id, properties, cause=cause, sys_flag=message.sys_flag & ~without, host_bytes=host_bytes
    )
