"""Finds records by key, unique id or position. Any thread: it reads the index and the log, and stores nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ...model.errors import CorruptRecordError, MessageNotFound, OffsetOutOfRange
from ...model.queue import PhysicalOffset
from ...record.codes import RECORD_OVERHEAD_BYTES
from ...record.kernel import accepted_messages, decode_record, index_key_hash
from ...record.layout import store_timestamp_of
from ..integrity.quarantine import Quarantine, overlaps
from ..log.commit_log import CommitLog
from ..query import NO_END, LogPlace, Page, StoreQuery
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

        However long it takes.
        """
        if not key:
            return []
        query = StoreQuery(
            topic=topic, key=key, unique=unique, begin_ms=begin_ms, end_ms=end_ms, max_messages=max_messages,
            max_bytes=NO_END,
        )  # fmt: skip
        return self.page(query, lambda: True).records[:max_messages]

    def page(self, query: StoreQuery, has_time: Callable[[], bool]) -> Page:
        """The next page of a query with a key. It looks at one candidate at least, then while `has_time`."""
        page = Page(query, query.start)
        if self._index is None:
            page.place = LogPlace.end()
        key_hash = index_key_hash(query.topic.encode(), query.key.encode())
        while self._index is not None and page.place.below > self._log.begin:
            offsets, behind = self._index.search(
                key_hash, begin_ms=query.begin_ms, end_ms=query.end_ms, start=page.place, found_max=_SEARCH_STEP
            )
            for offset in dict.fromkeys(offsets):
                found = self._accepted(offset, page)
                if found and not page.has_room(found):
                    return page
                page.add(found)
                page.place = replace(page.place, below=offset)
                page.examined += 1
                if page.is_full or not has_time():
                    return page
            page.place = behind
            if not has_time():
                return page
        page.place = LogPlace.end()
        return page

    def _accepted(self, offset: int, page: Page) -> list[bytes]:
        """The messages of the record there that the query accepts; none as well if it has expired or is damaged."""
        try:
            record = self.record_at(PhysicalOffset(offset))
        except (MessageNotFound, CorruptRecordError):
            return []
        page.reached_ms = store_timestamp_of(record)
        return accepted_messages(record, page.query.accepts)

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
