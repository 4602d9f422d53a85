"""Copies that the broker makes of a waiting record: the same message, with another topic and other properties. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...model.errors import MessageIllegal
from ...model.properties import REAL_QUEUE_ID, REAL_TOPIC, encode_properties
from ...record.kernel import StoredMessage, encode_record


def copied_record(
    message: StoredMessage, topic: str, queue_id: int, properties: bytes, *, cause: int, sys_flag: int, host_bytes: int
) -> bytes:
    """`cause`: the prepared transaction offset; -1 - the physical offset of the record whose wait the copy ends, or 0.
    `host_bytes`: of the broker's address in it, 8 or 20.

    The copy keeps the body CRC that the message came with: if that is wrong, nobody is told that the body is good.
    """
    record = encode_record(
        topic=topic.encode(),
        body=message.body_as_stored,
        properties=properties,
        queue_id=queue_id,
        flag=message.flag,
        sys_flag=sys_flag,
        born_timestamp_ms=message.born_at_ms,
        born_host=message.born_host,
        store_host=bytes(host_bytes),
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=cause,
    )
    return b"".join((record[:8], message.body_crc.to_bytes(4, "big"), record[12:]))


def real_queue(properties: Mapping[str, str]) -> tuple[str, int]:
    """The queue that a waiting record is for. Raises MessageIllegal if its properties do not name one."""
    topic, text = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "")
    if not topic or not (text.isascii() and text.isdigit() and len(text) < 10):
        raise MessageIllegal(f"{REAL_TOPIC} {topic[:255]!r}, {REAL_QUEUE_ID} {text[:16]!r} name no queue")
    return topic, int(text)


def changed(properties: bytes, without: frozenset[bytes], added: Mapping[str, str]) -> bytes:
    """A record's properties without some names, and with others appended. Raises MessageTooLarge."""
    kept = [entry for entry in properties.split(b"\x02") if entry and entry.partition(b"\x01")[0] not in without]
    return b"".join([entry + b"\x02" for entry in kept]) + encode_properties(added)
