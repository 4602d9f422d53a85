"""A slave's append: the bytes that its master's log holds, at the same place, checked, then told as a master's turn is.

A chunk is whole records of one segment and, where the segment ends with it, the 8 bytes of its blank (chunk_reader).
All of it is checked before any of it is written: sizes, magics, inner lengths, positions, topics. So a chunk goes in
whole or not at all, and a slave's log is its master's, byte for byte. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..model.errors import CorruptRecordError, InvalidName, OffsetOutOfRange, StoreNotWriteable
from ..model.names import check_topic
from .chunk_reader import BLANK_BYTES
from .config import StoreConfig
from .record_kernel import MAGIC_BLANK, REASONS, RUN_BLANK, RUN_END, RUN_MORE
from .run_dispatch import TOPIC_EVENTS, RunDispatch, RunTarget, WrittenRun
from .store_opening import Opened, scanning_kernel

_INVISIBLE: Final = 0xC  # sysFlag: half, committed or rolled back
_NAMES_MAX: Final = 10_000

# topic, queue id, queue offset, count, begin, end, time, units begin, units end, keys begin, keys end, sysFlag
_Found = tuple[str, int, int, int, int, int, int, int, int, int, int, int]


class ChunkAppender:
    """Appends to one open store."""

    def __init__(self, config: StoreConfig, opened: Opened, dispatch: RunDispatch) -> None:
        self._log, self._queues = opened.log, opened.queues
        self._dispatch = dispatch
        self._kernel = scanning_kernel(config, opened.log.segment_bytes)
        self._names: dict[bytes, str] = {}  # checked

    def append(self, data: memoryview, begin: int, end: int, *, before_dispatch: Callable[[], None]) -> None:
        """`data`: of a chunk [begin, end). `before_dispatch`: called once the bytes are in the log.

        Raises OffsetOutOfRange where the log does not end at `begin`, CorruptRecordError, StoreNotWriteable (retriable):
        nothing was appended then. Raises StorePoisoned.
        """
        log = self._log
        if begin != log.written:
            raise OffsetOutOfRange("commit log", begin, log.written, log.written)
        segment_end = begin - begin % log.segment_bytes + log.segment_bytes
        has_blank = end == segment_end
        size = len(data) - (BLANK_BYTES if has_blank else 0)
        if has_blank:
            _check_blank(data, begin, size, segment_end)
        elif size <= 0 or begin + size != end or segment_end - end < BLANK_BYTES:
            raise CorruptRecordError(begin, len(data), f"a chunk up to {end}")
        self._kernel.clear()
        found = self._scan(data, begin, size)
        if self._dispatch.is_blocked:
            raise StoreNotWriteable("disk full: queue units or index keys wait")
        log.place(0)
        log.append_copy(data[:size], data[size:])
        before_dispatch()
        try:
            self._tell(found, data, begin)
        except OSError as error:
            raise log.poison(f"queues or index: {error.strerror or error}") from error

    def _scan(self, data: memoryview, begin: int, size: int) -> list[_Found]:
        """The runs of records in data[:size], which lie at `begin` in the log. Raises CorruptRecordError."""
        kernel, at = self._kernel, 0
        found: list[_Found] = []
        units_begin = keys_begin = 0
        while at < size:
            count = kernel.scan(data, at, size, begin + at, False)
            if not count:
                raise CorruptRecordError(begin + at, size - at, _reason(kernel.status))
            topic = self._names.get(kernel.topic) or self._checked_name(kernel.topic, begin + at, kernel.end - at)
            if kernel.queue_id < 0:
                raise CorruptRecordError(begin + at, kernel.end - at, f"queue id {kernel.queue_id}")
            units_end, keys_end, run_end = kernel.units_end, kernel.keys_end, kernel.end
            found.append(
                (topic, kernel.queue_id, kernel.queue_offset, count, begin + at, begin + run_end,
                 kernel.store_timestamp_ms, units_begin, units_end, keys_begin, keys_end, kernel.sys_flag)
            )  # fmt: skip
            at, units_begin, keys_begin = run_end, units_end, keys_end
        return found

    def _checked_name(self, raw: bytes, offset: int, size: int) -> str:
        """A topic becomes a path, so it is none that a path could hide in."""
        try:
            topic = raw.decode("utf-8")
            check_topic(topic)
        except (UnicodeDecodeError, InvalidName) as error:
            raise CorruptRecordError(offset, size, "topic") from error
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self._names[raw] = topic
        return topic

    def _tell(self, found: list[_Found], data: memoryview, begin: int) -> None:
        """Everybody who is told of a master's turns. An event about topics ends a group: it may delete queues that the
        records behind it make anew.
        """
        group: list[_Found] = []
        for run in found:
            group.append(run)
            if run[0] == TOPIC_EVENTS:
                self._tell_group(group, data, begin)
                group = []
        if group:
            self._tell_group(group, data, begin)

    def _tell_group(self, group: list[_Found], data: memoryview, begin: int) -> None:
        targets: dict[tuple[str, int], RunTarget] = {}
        ends: dict[RunTarget, int] = {}
        runs: list[WrittenRun] = []
        grouped = True
        for topic, queue_id, offset, count, low, high, now_ms, ub, ue, kb, ke, flags in group:
            target = targets.get((topic, queue_id))
            if target is None:
                queue = self._queues.get_or_create(topic, queue_id)
                target = targets[topic, queue_id] = RunTarget(queue)
                grouped = grouped and not queue.delays_ms
            grouped = grouped and not flags & _INVISIBLE and ends.get(target, offset) == offset
            ends[target] = offset + count
            runs.append((target, offset, count, low, high, now_ms, ub, ue, kb, ke, low - begin, flags))
        self._dispatch.dispatch(runs, self._kernel, data, grouped=grouped)


def _check_blank(data: memoryview, begin: int, size: int, segment_end: int) -> None:
    """Raises CorruptRecordError where data[size:] is not the blank that ends the segment there."""
    rest = segment_end - begin - size
    blank = rest.to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")
    if size < 0 or rest < BLANK_BYTES or data[size:] != blank:
        raise CorruptRecordError(begin + max(size, 0), BLANK_BYTES, "blank")


def _reason(status: int) -> str:
    known = {RUN_END: "no record", RUN_MORE: "no record", RUN_BLANK: "a blank inside"}
    return known.get(status) or REASONS.get(status, "structure")
