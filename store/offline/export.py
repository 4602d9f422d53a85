"""Exports a store's messages without its broker: `zenit store export`. Reads only; a damaged range is told and counted.

What only compacted files have comes first. A message of the log is exported if its queue has it at that place, or if it lies
behind all that the queue was told (the broker was killed). Others are of deleted topics, or of topics that were deleted and
made again; they are counted as `in_no_queue`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

from ...model.errors import CorruptRecordError, RemoteProtocolError
from ...model.export_line import ExportedMessage
from ...model.names import is_system_topic
from ...record.kernel import StoredMessage
from ..queues.queue_engine import goes_to_queue
from .offline import OfflineQueues, open_queues
from .offline_compacted import compacted_messages
from .offline_log import DamagedRange, read_checked

_NO_END: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which messages. `topics`: empty = all but the system's own, unless `with_system`. Stored in [begin_ms, end_ms)."""

    topics: frozenset[str] = frozenset()
    with_system: bool = False
    begin_ms: int = 0
    end_ms: int = _NO_END

    def has(self, message: StoredMessage) -> bool:
        """True if the message is wanted."""
        return self.has_topic(message.topic) and self.begin_ms <= message.stored_at_ms < self.end_ms

    def has_topic(self, topic: str) -> bool:
        """True if messages of the topic are wanted."""
        return topic in self.topics if self.topics else self.with_system or not is_system_topic(topic)


class ExportWriter(Protocol):
    """A file of one format, which gets its name once it is whole."""

    def write(self, message: ExportedMessage) -> None:
        """Raises OSError."""

    def end(self, counts: dict[str, int]) -> None:
        """All messages are written: ends the file. Raises OSError."""


def export_store(
    directory: str,
    writer: ExportWriter,
    selection: Selection,
    *,
    on_damage: Callable[[int, int, str], None],
    report: Callable[[int, int], None],
) -> dict[str, int]:
    """{"messages", "bytes": of their bodies, "damaged_ranges", "damaged_bytes", "unreadable_bodies", "in_no_queue"}.

    `on_damage(begin, end, reason)`: for each damaged range, and each record whose body cannot be read. `report(done, total)`:
    bytes of the log. Raises StoreFormatError, OSError.
    """
    names = ("messages", "bytes", "damaged_ranges", "damaged_bytes", "unreadable_bodies", "in_no_queue")
    counts = dict.fromkeys(names, 0)
    with open_queues(directory) as opened:
        begin, end = int(opened.store.log.begin), opened.store.end

        def write(message: StoredMessage) -> None:
            try:
                exported = exported_message(message)
            except (CorruptRecordError, RemoteProtocolError) as error:
                counts["unreadable_bodies"] += 1
                at = message.physical_offset
                on_damage(at, at + message.size_bytes, str(error))
                return
            writer.write(exported)
            counts["messages"] += 1
            counts["bytes"] += len(exported.body)

        def tell(damage: DamagedRange) -> None:
            counts["damaged_ranges"] += 1
            counts["damaged_bytes"] += damage.end - damage.begin
            on_damage(damage.begin, damage.end, damage.reason)

        for found in _compacted(opened, selection):
            if isinstance(found, DamagedRange):
                tell(found)
            elif selection.has(found):
                write(found)
        for piece in read_checked(opened.store):
            if isinstance(piece, DamagedRange):
                tell(piece)
                continue
            for message in piece:
                if not selection.has(message):
                    continue
                if not _is_in_its_queue(opened, message):
                    counts["in_no_queue"] += 1
                    continue
                write(message)
            report(message.physical_offset + message.size_bytes - begin, end - begin)
    writer.end(counts)
    return counts


def _compacted(opened: OfflineQueues, selection: Selection) -> Iterator[StoredMessage | DamagedRange]:
    """What only compacted files have of the topics."""
    for topic, queue_id in sorted(opened.compacted.manifests):
        queue = opened.queues.get(topic, queue_id)
        if selection.has_topic(topic) and queue is not None:
            low = int(queue.min_offset(opened.store.log.begin))
            yield from compacted_messages(opened.compacted, queue.key, low)


def exported_message(message: StoredMessage) -> ExportedMessage:
    """The message with its plain body. Raises CorruptRecordError, RemoteProtocolError."""
    return ExportedMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        message_id=message.message_id,
        properties=message.properties_as_stored,
        body=message.body,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_at_ms=message.born_at_ms,
        born_host=message.born_host,
        stored_at_ms=message.stored_at_ms,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )


def _is_in_its_queue(opened: OfflineQueues, message: StoredMessage) -> bool:
    if not goes_to_queue(message.sys_flag):
        return False
    at, offset = message.physical_offset, message.queue_offset
    queue = opened.queues.get(message.topic, message.queue_id)
    told = 0 if not opened.queues.count else opened.store.checkpoint.dispatched_offset or 0
    if queue is None or queue.next_offset == queue.first_offset:
        return at >= told
    if offset < queue.next_offset:
        return queue.is_place_of(offset, at)
    return at > queue.unit(queue.next_offset - 1)[0]
