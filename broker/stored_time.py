"""When a message of a queue was stored."""

from __future__ import annotations

from ..model.queue import QueueOffset
from ..store.message_store import MessageStore
from ..store.record_kernel import decode_record


def stored_at_ms(store: MessageStore, topic: str, queue_id: int, queue_offset: int) -> int | None:
    """Milliseconds since the epoch; None where the queue holds no message there. Loop thread."""
    found = store.get_messages(topic, queue_id, QueueOffset(queue_offset), max_messages=1, max_bytes=1)
    if not found.slices:
        return None
    stored: int = decode_record(bytes(found.slices[0])).stored_at_ms
    return stored
