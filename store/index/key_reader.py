"""Finds records by key, unique id or position. Any thread: it reads the index and the log, and stores nothing."""

from __future__ import annotations

from typing import Final

from ...model.errors import CorruptRecordError, MessageNotFound, OffsetOutOfRange
from ...model.properties import KEYS, UNIQUE_KEY
from ...model.queue import PhysicalOffset
from ...record.codes import RECORD_OVERHEAD_BYTES
from ...record.kernel import decode_record, index_key_hash
from ..integrity.quarantine import Quarantine, overlaps
from ..log.commit_log import CommitLog
from ..queues.confirmation import Confirmation
from .key_index import KeyIndex

_SEARCH_STEP: Final = 64


class KeyReader:
    """Reads one store; `index` None: nothing is found by key. `quarantine`: the damaged ranges."""

    def __init__(
        self,
        log: CommitLog,
        index: KeyIndex | None,
        *,
        confirmation: Confirmation | None = None,
        quarantine: Quarantine | None = None,
    ) -> None:
        self._confirmation = confirmation or Confirmation()
        self._log = log
        self._index = index
        self._quarantine = quarantine or Quarantine()

    def query(
        self, topic: str, key: str, *, max_messages: int, begin_ms: int, end_ms: int, unique: bool
    ) -> list[bytes]:
        """Whole records of a topic under a key (or unique id) stored in [begin_ms, end_ms], newest first.

        Hashes collide, so more candidates are requested until enough records really have the key.
        """
        if self._index is None:
            return []
        key_hash = index_key_hash(topic.encode(), key.encode())
        found_max = max_messages + _SEARCH_STEP
        while True:
            offsets = self._index.search(key_hash, begin_ms=begin_ms, end_ms=end_ms, found_max=found_max)
            records: list[bytes] = []
            for offset in dict.fromkeys(offsets):
                record = self._matching(offset, topic, key, begin_ms, end_ms, unique)
                if record is not None:
                    records.append(record)
                    if len(records) == max_messages:
                        return records
            if len(offsets) < found_max:
                return records
            found_max *= 2

    def _matching(self, offset: int, topic: str, key: str, begin_ms: int, end_ms: int, unique: bool) -> bytes | None:
        try:
            record = self.record_at(PhysicalOffset(offset))
        except (MessageNotFound, CorruptRecordError):  # expired, or damaged: it is not found
            return None
        message = decode_record(record)
        properties = message.properties
        held = properties.get(UNIQUE_KEY) == key if unique else key in properties.get(KEYS, "").split(" ")
        return record if message.topic == topic and held and begin_ms <= message.stored_at_ms <= end_ms else None

    def record_at(self, physical_offset: PhysicalOffset) -> bytes:
        """The whole record that begins there. Raises MessageNotFound, CorruptRecordError (damaged)."""
        what = f"physical offset {physical_offset}"
        try:
            head = self._log.read(physical_offset, physical_offset + RECORD_OVERHEAD_BYTES)
            size = int.from_bytes(head[:4], "big")
            if overlaps(self._quarantine.ranges, physical_offset, physical_offset + 1):
                raise CorruptRecordError(physical_offset, size, "quarantined")
            if int.from_bytes(head[28:36], "big") != physical_offset:
                raise MessageNotFound(what)
            if physical_offset + size > self._confirmation.end(self._log.written):
                raise MessageNotFound(what)
            record = bytes(self._log.read(physical_offset, physical_offset + size))
        except OffsetOutOfRange as error:
            raise MessageNotFound(what) from error
        except OSError as error:
            raise CorruptRecordError(physical_offset, 0, "the disk cannot read it") from error
        decode_record(record)
        return record
