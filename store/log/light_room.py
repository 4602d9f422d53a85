"""Room for light queues' offsets in records that the broker makes from older ones, which RocketMQ may have written. Pure."""

from __future__ import annotations

from typing import Final

from ...model.properties import decode_properties, encode_properties
from ...model.topics.light_queues import LIGHT_OFFSETS, LIGHT_QUEUES, LIGHT_SEPARATOR, light_room
from ...record.codes import LIGHT_DIGITS
from ...record.kernel import StoredMessage, decode_batch, encode_record

_NAMES: Final = LIGHT_QUEUES.encode() + b"\x01"


def properties_with_room(properties: bytes) -> bytes:
    """Encoded properties, with the room that the light queues in them take. Raises MessageTooLarge."""
    if _NAMES not in properties:
        return properties
    decoded = decode_properties(properties)
    count = len(decoded.get(LIGHT_QUEUES, "").split(LIGHT_SEPARATOR))
    if LIGHT_QUEUES not in decoded or len(decoded.get(LIGHT_OFFSETS, "")) == count * (LIGHT_DIGITS + 1) - 1:
        return properties
    return encode_properties(decoded | {LIGHT_OFFSETS: light_room(count)})


def records_with_room(records: bytes) -> bytes:
    """The same for contiguous records. Raises MessageTooLarge."""
    return b"".join(map(_with_room, decode_batch(records))) if _NAMES in records else records


def _with_room(message: StoredMessage) -> bytes:
    properties = properties_with_room(message.properties_as_stored)
    if properties == message.properties_as_stored:
        return message.record
    return encode_record(
        topic=message.topic.encode(),
        body=message.body_as_stored,
        properties=properties,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_at_ms,
        born_host=message.born_host,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )
