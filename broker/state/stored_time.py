"""A message of a queue, and its store time."""

from __future__ import annotations

from ...model.queue import QueueOffset
from ...record.kernel import StoredMessage, decode_record
from ...store.log.segment import page_in
from ...store.message_store import MessageStore


def stored_at_ms(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> int | None:
    """Milliseconds since the epoch, or None as `message_at`. Loop thread."""
    message = message_at(store, topic, queue_id, queue_offset)
    return None if message is None else message.stored_at_ms


def message_at(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> StoredMessage | None:
    """None if the queue has no message there, or the disk cannot read it. Loop thread."""
    found = store.get_messages(topic, queue_id, QueueOffset(queue_offset), max_messages=1, max_bytes=1)
    if not all(page_in(part) for part in found.slices) or not found.slices:
        return None
    return decode_record(bytes(found.slices[0]))
