"""A slave's append: a chunk of its master's log, written at the same place, checked, then dispatched like a master's turn.

A chunk is whole records of one segment and, if the segment ends with it, the 8 bytes of its blank (chunk_reader).
All of it is checked before any of it is written: sizes, magics, inner lengths, positions, topics. So a chunk is
appended whole or not at all, and a slave's log equals its master's byte for byte. Loop thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ...model.errors import CorruptRecordError, InvalidName, OffsetOutOfRange, StoreNotWriteable
from ...model.names import check_topic
from ...record.codes import BLANK_BYTES, MAGIC_BLANK, REASONS, RUN_BLANK, RUN_END, RUN_MORE
from ...record.kernel import WrittenRun
from ...record.sys_flag import INNER_BATCH
from ..config import StoreConfig
from ..opening.store_opening import Opened, scanning_kernel
from ..queues.run_dispatch import TOPIC_EVENTS, UNITS_WAIT, RunDispatch, RunTarget

_TOPIC_EVENTS: Final = TOPIC_EVENTS.encode()
_NAMES_MAX: Final = 10_000


class _Target(RunTarget):
    """`next_offset`: behind the last run. `is_batched`: its first run is a batch. `queue` is looked up when the group is
    dispatched: it may be deleted before."""

    __slots__ = ("is_batched", "next_offset")

    def __init__(self, topic: str, queue_id: int, next_offset: int, *, is_batched: bool) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.next_offset = next_offset
        self.is_batched = is_batched


@dataclass(slots=True)
class _Group:
    """Runs that are dispatched together. `is_plain`: all are visible, and those of one queue are consecutive."""

    runs: list[WrittenRun] = field(default_factory=list)
    targets: dict[tuple[bytes, int], _Target] = field(default_factory=dict)
    is_plain: bool = True


class ChunkAppender:
    """The appends of one open store."""

    def __init__(self, config: StoreConfig, opened: Opened, dispatch: RunDispatch) -> None:
        self._log, self._queues = opened.log, opened.queues
        self._dispatch = dispatch
        self._kernel = scanning_kernel(config, opened.log.segment_bytes)
        self._names: dict[bytes, str] = {}  # checked

    def append(
        self, data: memoryview, begin: int, end: int, *, crc: int | None, before_dispatch: Callable[[], None]
    ) -> None:
        """`data`: of a chunk [begin, end). `crc`: of it, if known. `before_dispatch`: called once it is in the log.

        Raises OffsetOutOfRange if the log does not end at `begin`, CorruptRecordError, StoreNotWriteable (retriable):
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
        groups = self._scan(data, begin, size)
        if self._dispatch.is_blocked:
            raise StoreNotWriteable(UNITS_WAIT)
        log.place(0)
        log.append_copy(data[:size], data[size:], crc=None if has_blank else crc)
        before_dispatch()
        try:
            for group in groups:
                self._tell(group, data)
        except OSError as error:
            raise log.poison(f"queues or index: {error.strerror or error}") from error

    def _scan(self, data: memoryview, begin: int, size: int) -> list[_Group]:
        """The runs of records in data[:size], which begin at `begin` in the log. Raises CorruptRecordError.

        An event about topics ends a group: it may delete queues that the records behind it create again.
        """
        kernel, at = self._kernel, 0
        groups: list[_Group] = []
        while at < size:
            group = _Group()
            groups.append(group)
            group.is_plain = kernel.scan_runs(
                data, at, size, begin + at, group.targets, self._target, _TOPIC_EVENTS, group.runs
            )
            at = kernel.end
            if not kernel.count:
                raise CorruptRecordError(begin + at, size - at, _reason(kernel.status))
        return groups

    def _target(self, offset: int, size: int) -> _Target:
        """The topic and queue of the last scanned run, at `offset`. Raises CorruptRecordError."""
        kernel = self._kernel
        topic = self._names.get(kernel.topic) or self._checked_name(kernel.topic, offset, size)
        if kernel.queue_id < 0:
            raise CorruptRecordError(offset, size, f"queue id {kernel.queue_id}")
        return _Target(topic, kernel.queue_id, kernel.queue_offset, is_batched=bool(kernel.sys_flag & INNER_BATCH))

    def _checked_name(self, raw: bytes, offset: int, size: int) -> str:
        """A topic becomes a path, so it must be a valid name."""
        try:
            topic = raw.decode("utf-8")
            check_topic(topic)
        except (UnicodeDecodeError, InvalidName) as error:
            raise CorruptRecordError(offset, size, "topic") from error
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self._names[raw] = topic
        return topic

    def _tell(self, group: _Group, data: memoryview) -> None:
        """Dispatches to everybody who gets a master's turns."""
        for target in group.targets.values():
            create = self._queues.get_or_create_batched if target.is_batched else self._queues.get_or_create
            target.queue = create(target.topic, target.queue_id)
            if target.queue.keeps_times:
                group.is_plain = False
        if group.runs:
            self._dispatch.dispatch(group.runs, self._kernel, data, grouped=group.is_plain)


def _check_blank(data: memoryview, begin: int, size: int, segment_end: int) -> None:
    """Raises CorruptRecordError if data[size:] is not the blank that ends the segment there."""
    rest = segment_end - begin - size
    blank = rest.to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")
    if size < 0 or rest < BLANK_BYTES or data[size:] != blank:
        raise CorruptRecordError(begin + max(size, 0), BLANK_BYTES, "blank")


def _reason(status: int) -> str:
    known = {RUN_END: "no record", RUN_MORE: "no record", RUN_BLANK: "a blank inside"}
    return known.get(status) or REASONS.get(status, "structure")
