"""Reads a queue: its units say where the records are, the log has them, and a status says why there are none.

Reads stop at the confirm offset and before a quarantined range. They answer with views of the log, which pin its maps while
they are held. A read that begins at lost messages says which, and where to continue; if a replica may still have the range,
the read says that nothing is there yet. A unit whose record belongs to another queue or queue offset is damaged: a read
ends before it, and a read that begins at it says so. The statuses and next offsets are RocketMQ's, and one of ours
(`model/get_status`). Loop thread; `offset_by_time`: any.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ...model.errors import OffsetOutOfRange, SystemFault
from ...model.get_status import GetStatus
from ...model.queue import PhysicalOffset, QueueOffset
from ...record.codes import RECORD_OVERHEAD_BYTES
from ...record.kernel import UnitSelector
from ...record.layout import UNIT, store_timestamp_of
from ..compaction.compacted_queues import CompactedQueues
from ..compaction.compacted_reader import read_compacted
from ..config import StoreConfig
from ..get_result import GetResult, Search
from ..integrity.quarantine import Quarantine, overlaps
from ..log.commit_log import CommitLog
from ..log.known_pages import KnownPages
from .batches.batch_reader import BatchQueueReader
from .confirmation import Confirmation
from .queue_engine import QueueEngine
from .queue_places import FILLER_SIZE, UNIT_BYTES, QueuePlaces

_SEARCHES_MAX: Final = 8  # attempts of one search by time; each is restarted if files of the queue expired
HOT_MEMORY_SHARE: Final = 0.4  # this share of memory is assumed to hold the newest part of the log

_NO_END: Final = 1 << 62
_SEARCH_UNITS: Final = 1024  # read at a time in a search by properties
_SEARCH_READ_BYTES: Final = 1 << 20  # of the log, read ahead of a search if they may have to come from the disk


def physical_memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class QueueReader:
    """Reads one store's queues. `quarantine`: the damaged ranges of the log. `compacted`: what it no longer has."""

    def __init__(
        self,
        log: CommitLog,
        queues: QueueEngine,
        config: StoreConfig,
        *,
        confirmation: Confirmation | None = None,
        quarantine: Quarantine | None = None,
        compacted: CompactedQueues,
    ) -> None:
        self.pages = KnownPages(log)
        self._confirmation = confirmation or Confirmation()
        self.waits_above_end = False  # True on a slave: messages behind a queue's end may exist elsewhere
        self._log = log
        self._queues = queues
        self._config = config
        self._selector = UnitSelector(config.pull_messages_max)
        self._hot_bytes = int(physical_memory_bytes() * HOT_MEMORY_SHARE)
        self._quarantine = quarantine or Quarantine()
        self._compacted = compacted
        self._batches = BatchQueueReader(log, config, self.pages, self._quarantine, hot_bytes=self._hot_bytes)

    def get_messages(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        codes: tuple[int, ...],
        confirm_offset: PhysicalOffset,
        search: Search | None = None,
    ) -> GetResult:
        """The messages from `queue_offset` on, at most that many messages and bytes (at least one message).

        With tag codes or a `search` the result may be empty before the end (NO_MATCHED_MESSAGE below the maximum): the
        caller continues at the next offset. A batch queue gives whole batches, from the one of `queue_offset` on, and takes no
        `search`.
        """
        queue = self._queues.get(topic, queue_id)
        if queue is None or queue.next_offset == 0:
            if self.waits_above_end and queue_offset > 0:
                return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, 0, 0)
            is_missing = queue is None
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE if is_missing else GetStatus.NO_MESSAGE_IN_QUEUE, 0, 0, 0)
        low = queue.min_offset(self._log.begin)
        high = max(low, self._confirmation.next_offset(queue))
        first = int(low)
        if self._compacted.manifests:
            if 0 <= queue_offset < low:
                read = self.compacted_read(
                    topic, queue_id, queue_offset, max_messages=max_messages, max_bytes=max_bytes, codes=codes, search=search
                )  # fmt: skip
                if read is not None:
                    return read()
            first = self._compacted.begin(queue.key, low)
        if queue_offset < first:
            return GetResult(GetStatus.OFFSET_TOO_SMALL, first, first, high)
        if queue_offset == high or high < queue_offset <= (_NO_END if self.waits_above_end else queue.next_offset):
            return GetResult(GetStatus.OFFSET_OVERFLOW_ONE, queue_offset, first, high)
        if queue_offset > high:
            return GetResult(GetStatus.OFFSET_OVERFLOW_BADLY, first if first == 0 else high, first, high)
        result = GetResult(GetStatus.NO_MATCHED_MESSAGE, queue_offset, first, high)
        if queue.is_batched:
            return self._batches.read(queue, result, max_messages, max_bytes, codes, confirm_offset)
        if search is not None:
            max_messages = min(max_messages, self._config.pull_messages_max)
            self._search(queue, result, max_messages, max_bytes, confirm_offset, search)
            return result
        units_left = self._config.pull_units_max
        while not result.count and units_left > 0 and result.next_offset < high:
            examined = self._read_units(queue, result, min(max_messages, self._config.pull_messages_max), max_bytes,
                                        codes, confirm_offset, units_left)  # fmt: skip
            if examined == 0:
                break
            units_left -= examined
        return result

    def compacted_read(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        *,
        max_messages: int,
        max_bytes: int,
        codes: tuple[int, ...],
        search: Search | None = None,
    ) -> Callable[[], GetResult] | None:
        """What `get_messages` does if only compacted files can have the message at `queue_offset`; None if the log has it,
        or nothing has. It waits for the disk, in any thread. Raises StoreFormatError, SystemFault, OSError."""
        key = topic, queue_id
        queue = self._queues.get(topic, queue_id) if key in self._compacted.manifests else None
        low = 0 if queue is None else int(queue.min_offset(self._log.begin))
        if queue is None or not 0 <= queue_offset < low:
            return None
        first = self._compacted.begin(key, low)
        result = GetResult(
            GetStatus.NO_MATCHED_MESSAGE, queue_offset, first, max(low, self._confirmation.next_offset(queue))
        )

        def read() -> GetResult:
            read_compacted(
                self._compacted,
                key,
                result,
                below=low,
                max_messages=min(max_messages, self._config.pull_messages_max),
                max_bytes=min(max_bytes, self._config.pull_bytes_max),
                codes=codes,
                search=search,
                rows_max=self._config.pull_units_max,
            )
            return result

        return read

    def _read_units(
        self,
        queue: QueuePlaces,
        result: GetResult,
        max_messages: int,
        max_bytes: int,
        codes: tuple[int, ...],
        confirm_offset: PhysicalOffset,
        units_max: int,
    ) -> int:
        """Reads one step of one file's units; updates `result` and returns how many were examined, 0 to end."""
        wanted = units_max if codes or max_messages > units_max else max_messages
        wanted = min(wanted, result.max_offset - result.next_offset)  # no unit behind the confirm offset
        units = queue.read(result.next_offset, wanted)
        if not units:
            result.status = GetStatus.OFFSET_FOUND_NULL
            result.next_offset = queue.resume_offset(result.next_offset)
            return 0
        first = int.from_bytes(units[:8], "big")
        bound = self._config.pull_bytes_max
        if confirm_offset - first > self._hot_bytes:
            result.is_cold = True
            bound = min(bound, self._config.pull_cold_bytes_max)
        if self._quarantine.ranges:
            units = self._readable(queue, units, result)
            if not units:
                return 0
        selector, bytes_max = self._selector, min(max_bytes, bound)
        matched = selector.select(units, 0, len(units), codes, max_messages, bytes_max, confirm_offset)
        is_touched = not result.is_cold and (first >= self._log.fresh_from or self._are_known(selector, result))
        if not is_touched:  # another thread checks it later, when this selector may have selected something else
            selector = UnitSelector(self._config.pull_messages_max)
            selector.select(units, 0, len(units), codes, max_messages, bytes_max, confirm_offset)
        if selector.examined == 0:
            if self._readable(queue, units, result):
                result.misplaced = result.next_offset
            return 0
        topic, begin = queue.topic.encode(), result.next_offset
        misplaced = self._take_slices(selector, result, (topic, queue.queue_id, begin) if is_touched else None)
        if misplaced is not None:
            result.slices = []
            if misplaced == 0:
                result.misplaced = begin
                return 0
            return self._read_units(queue, result, max_messages, max_bytes, codes, confirm_offset, misplaced)
        if not is_touched:
            result.find_misplaced = partial(_find_misplaced, selector, result.slices, topic, queue.queue_id, begin)
        result.count = matched
        result.next_offset += selector.examined
        if matched:
            result.status = GetStatus.FOUND
        return int(selector.examined)

    def _are_known(self, selector: UnitSelector, result: GetResult) -> bool:
        """Whether the selected records may be touched; if not, `result` says where they are."""
        runs = selector.runs
        places = tuple((runs[2 * run], runs[2 * run + 1]) for run in range(selector.run_count))
        result.untouched = () if self.pages.hold(places) else places
        return not result.untouched

    def _take_slices(
        self, selector: UnitSelector, result: GetResult, queue: tuple[bytes, int, int] | None
    ) -> int | None:
        """Adds the selected runs to `result`; returns the index of the first damaged unit, if there is one.

        `queue`: the queue and first queue offset that they must belong to; None: do not check that now.
        """
        runs, slices = selector.runs, result.slices
        for run in range(selector.run_count):
            try:
                slices.append(self._log.view(runs[2 * run], runs[2 * run + 1]))
            except OffsetOutOfRange:  # it points before the log, or across two segments
                return int(selector.first_unit(run))
        while queue is not None and selector.checked < selector.run_count:
            base = runs[2 * selector.checked]
            stranger = selector.stranger(self._log.view_onwards(base, self._log.written), base, *queue)
            if stranger >= 0:
                return int(stranger)
        return None

    def _readable(self, queue: QueuePlaces, units: bytes, result: GetResult) -> bytes:
        """The units before the first lost message. If the first one is lost: none, and `result` says so."""
        quarantine = self._quarantine
        whole, lost = _count_lost(units, quarantine)
        if whole:
            return units[: whole * UNIT_BYTES]
        begin, size, _ = UNIT.unpack_from(units)
        if size == FILLER_SIZE:
            begin, _ = queue.places_beside(result.next_offset, self._log.begin, self._log.written)
        last, size, _ = UNIT.unpack_from(units, (lost - 1) * UNIT_BYTES)
        end = last if size == FILLER_SIZE else last + size
        if quarantine.is_awaited(begin, end):
            result.status = GetStatus.OFFSET_OVERFLOW_ONE
            return b""
        touched = quarantine.ranges_in(begin, end)
        result.status = GetStatus.MESSAGES_LOST
        result.lost_from = result.next_offset
        result.next_offset += lost
        result.lost = (touched[0][0], touched[-1][1]) if touched else (begin, end)
        return b""

    def _search(
        self,
        queue: QueuePlaces,
        result: GetResult,
        max_messages: int,
        max_bytes: int,
        confirm_offset: PhysicalOffset,
        search: Search,
    ) -> None:
        """Continues `result` until something is found, time is up, or bytes must be read first."""
        while not result.count and result.next_offset < result.max_offset:
            units = queue.read(result.next_offset, min(_SEARCH_UNITS, result.max_offset - result.next_offset))
            if not units:
                result.status = GetStatus.OFFSET_FOUND_NULL
                result.next_offset = queue.resume_offset(result.next_offset)
                return
            units = self._readable(queue, units, result)
            if not units:
                return
            filler = _leading_filler(units)
            result.next_offset += filler
            units = units[filler * UNIT_BYTES :]
            if units:
                first, size, _ = UNIT.unpack_from(units)
                if not self._log.begin <= first <= confirm_offset - size:
                    result.misplaced = result.next_offset
                    return
                examined = self._search_units(queue, units, result, max_messages, max_bytes, confirm_offset, search)
                if examined == 0:
                    return
                result.next_offset += examined
            if not search.has_time():
                return

    def _search_units(
        self,
        queue: QueuePlaces,
        units: bytes,
        result: GetResult,
        max_messages: int,
        max_bytes: int,
        confirm_offset: PhysicalOffset,
        search: Search,
    ) -> int:
        """Tests units of which the first belongs to a record; returns how many, 0 if bytes must be read first."""
        first, size, _ = UNIT.unpack_from(units)
        bound = self._config.pull_bytes_max
        limit = int(confirm_offset)
        if confirm_offset - first > self._hot_bytes:
            result.is_cold = True
            bound = self._config.pull_cold_bytes_max
            limit = min(limit, search.read_below)
        elif first < self._log.fresh_from:
            limit = min(limit, max(search.read_below, self.pages.end_from(first)))
        if first + size > limit:
            span = max(size, _SEARCH_READ_BYTES)
            result.unread = self._log.view_onwards(first, min(confirm_offset, first + span))
            result.unread_end = first + len(result.unread)
            return 0
        records = self._log.view_onwards(first, limit)
        selector = self._selector
        matched = selector.select_where(
            units, records, first, search.condition.names, search.condition.needs, search.condition.test,
            max_messages, min(max_bytes, bound), search.has_time,
        )  # fmt: skip
        if matched:
            misplaced = self._take_slices(selector, result, (queue.topic.encode(), queue.queue_id, result.next_offset))
            if misplaced is not None:
                result.slices = []
                if misplaced == 0:
                    result.misplaced = result.next_offset
                    return 0
                units = units[: misplaced * UNIT_BYTES]
                return self._search_units(queue, units, result, max_messages, max_bytes, confirm_offset, search)
            result.count = matched
            result.status = GetStatus.FOUND
        return int(selector.examined)

    def first_in_log(self, topic: str, queue_id: int) -> QueueOffset:
        """The first message of a queue that the log has. Any thread. Raises SystemFault as `offset_by_time`."""
        for _ in range(_SEARCHES_MAX):
            with suppress(FileNotFoundError), self._queues.private(topic, queue_id) as queue:
                if queue is None:
                    return QueueOffset(0)
                found = queue.min_offset(self._log.begin)
                if self._queues.begins_at(topic, queue_id, queue.first_offset):
                    return found
        raise SystemFault(f"files of {topic} queue {queue_id} expire as fast as they are searched")

    def offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, *, upper: bool) -> QueueOffset:
        """The first message stored at or after a time (lower), or the last one stored at or before it (`upper`).

        Any thread. As RocketMQ answers: lower behind all messages gives the maximum offset, upper before all gives 0.
        Raises SystemFault if files of the queue expired at every attempt.
        """
        for _ in range(_SEARCHES_MAX):
            found = self._offset_by_time(topic, queue_id, timestamp_ms, upper=upper)
            if found is not None:
                return found
        raise SystemFault(f"files of {topic} queue {queue_id} expire as fast as they are searched")

    def _offset_by_time(self, topic: str, queue_id: int, timestamp_ms: int, *, upper: bool) -> QueueOffset | None:
        """None if a file of the queue expired meanwhile: it may now hold units of another queue."""
        try:
            with self._queues.private(topic, queue_id) as queue:
                if queue is None:
                    return QueueOffset(0)
                found = self.by_time(queue, timestamp_ms, upper=upper)
                return found if self._queues.begins_at(topic, queue_id, queue.first_offset) else None
        except (FileNotFoundError, OffsetOutOfRange):
            return None

    def by_time(self, queue: QueuePlaces, timestamp_ms: int, *, upper: bool) -> QueueOffset:
        """The same in a private copy of a queue; the caller checks that no file of it expired meanwhile."""
        low = queue.min_offset(self._log.begin)
        high = max(low, self._confirmation.next_offset(queue))
        limit = timestamp_ms + 1 if upper else timestamp_ms
        begin, end = int(low), int(high)
        while begin < end:
            middle = (begin + end) // 2
            probe, stored_ms = self._stored_ms(queue, middle, end)
            if stored_ms is None or stored_ms >= limit:
                end = middle
            else:
                begin = probe + 1
        if not upper:
            return QueueOffset(begin)
        return QueueOffset(begin - 1 if begin > low else 0)

    def _stored_ms(self, queue: QueuePlaces, begin: int, end: int) -> tuple[int, int | None]:
        """Queue offset and store time of the first readable message in [begin, end)."""
        for queue_offset in range(begin, end):
            physical, size, _ = queue.unit(queue_offset)
            names_record = physical >= 0 and RECORD_OVERHEAD_BYTES <= size < FILLER_SIZE
            if names_record and not overlaps(self._quarantine.ranges, physical, physical + size):
                stored_ms = queue.stored_ms(queue_offset)
                if stored_ms is not None:
                    return queue_offset, stored_ms
                try:
                    return queue_offset, store_timestamp_of(self._log.read(physical, physical + size))
                except OSError:  # damaged: a reader that gets there has it quarantined
                    continue
        return end, None


def _count_lost(units: bytes, quarantine: Quarantine) -> tuple[int, int]:
    """(how many units come before the first lost message, how many lost ones follow from there on).

    Lost are messages in a quarantined range, and filler after the queue's beginning: those records were unreadable when the
    queue was built.
    """
    import numpy as np  # a broker without damage need not load it

    table = np.frombuffer(units, dtype=[("physical", ">i8"), ("size", ">i4"), ("code", ">i8")])
    begin, size = table["physical"].astype(np.int64), table["size"].astype(np.int64)
    is_filler = size == FILLER_SIZE
    lost = (is_filler & (begin > 0)) | (~is_filler & quarantine.touched(begin, begin + size))
    whole = int(lost.argmax()) if lost.any() else len(lost)
    rest = lost[whole:]
    return whole, int(rest.argmin()) if not rest.all() else len(rest)


def _find_misplaced(
    selector: UnitSelector, slices: list[memoryview], topic: bytes, queue_id: int, begin: int
) -> int | None:
    """The first queue offset whose record belongs to another queue or offset; None if all are right. Touches the records."""
    for run, view in enumerate(slices):
        stranger = selector.stranger(view, selector.runs[2 * run], topic, queue_id, begin)
        if stranger >= 0:
            return begin + int(stranger)
    return None


def _leading_filler(units: bytes) -> int:
    """How many of the units are filler before the first record's."""
    for at in range(0, len(units), UNIT_BYTES):
        if UNIT.unpack_from(units, at)[1] != FILLER_SIZE:
            return at // UNIT_BYTES
    return len(units) // UNIT_BYTES
