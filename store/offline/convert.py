"""Converts a closed store's consume queues to another engine: `zenit store convert`.

The new queues are made beside the old ones, compared with them unit by unit, and take their place in one step (conversion).
What a unit says stays as it is, even where the log cannot say it again. Rows hold the store time of each message, which files
do not: so the log is read once. A unit whose record is damaged there becomes a gap, which a repair fills as in a rebuilt queue.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Final

from ...model.errors import StoreFormatError
from ...model.queue import PhysicalOffset
from ...record.layout import UNIT
from ..config import StoreConfig
from ..integrity.quarantine import QUEUES_AT_STOP, note_facts
from ..integrity.recovery import walk
from ..opening.store_files import StoreLock, read_abort
from ..opening.store_opening import has_commit_log
from ..queues.conversion import adopt_converted, begin_conversion, drop_shadow, finish_conversion
from ..queues.deleted_queues import DELETED_FOLDER
from ..queues.dispatch import Run
from ..queues.engine_choice import ROCKSDB, engine_of, open_plain_engine, open_plain_for_reading
from ..queues.queue_engine import QueueEngine, goes_to_queue, lights_of
from ..queues.queue_places import FILLER_SIZE, UNIT_BYTES, QueuePlaces
from .offline_log import OfflineLog, open_log

_UNITS_AT_ONCE: Final = 4096
_REPORT_UNITS: Final = 100_000

Report = Callable[[int, int], None]


def convert_store(directory: str, to: str, config: StoreConfig, *, report: Report) -> dict[str, Any]:
    """{"engine", "was": None if there were no queues, "queues", "messages": units, "gaps": units that became gaps}.

    `report(done, in all)`: units. Nothing is done if the queues are that engine's. Raises StoreLocked if a broker has the
    store open, StoreFormatError if it is no store, its broker did not close it, or if queues differ afterwards, OSError.
    """
    if not has_commit_log(directory):  # before the lock, which would make the directory
        raise StoreFormatError(directory, "it has no commit log; name a broker's store")
    with StoreLock(directory):
        if read_abort(directory) is not None:
            raise StoreFormatError(directory, "its broker was not stopped cleanly; start it once more, and stop it")
        finish_conversion(directory)
        was = engine_of(directory)
        found: dict[str, Any] = {"engine": to, "was": was, "queues": 0, "messages": 0, "gaps": 0}
        if was in (None, to):
            return found
        deleted = os.path.join(directory, DELETED_FOLDER)
        if os.path.isdir(deleted) and os.listdir(deleted):
            raise StoreFormatError(
                deleted, "the deletion of a topic is not confirmed yet; let the broker run until it is"
            )
        with ExitStack() as opened:
            store = opened.enter_context(open_log(directory, config))
            drop_shadow(directory)
            target = begin_conversion(directory)
            old = open_plain_for_reading(directory, config)
            opened.callback(old.close)
            old.begin(log_end=PhysicalOffset(store.end), reflected=store.end, unclean=False, is_whole=True)
            counts = _convert(store, old, target, to, config, report)
        facts = {
            QUEUES_AT_STOP: {"count": 0, "files": 0, "logEnd": store.end}
        }  # of the old queues; the next stop notes
        note_facts(directory, facts, store.end)
        adopt_converted(directory)
        return found | counts


def _convert(
    store: OfflineLog, old: QueueEngine, target: str, to: str, config: StoreConfig, report: Report
) -> dict[str, int]:
    """Makes the new queues, durably, and compares them."""
    queues = list(_queues(old))
    begin = store.log.begin
    settings = replace(config, consume_queue=to)
    new = open_plain_engine(target, settings, as_put=True)
    try:
        new.begin_at({queue.key: int(queue.min_offset(begin)) for queue in queues})
    finally:
        new.close()
    new = open_plain_engine(target, settings, as_put=True)
    try:
        new.begin(log_end=PhysicalOffset(store.end), reflected=0, unclean=False, is_whole=True)
        total = sum(queue.next_offset - queue.min_offset(begin) for queue in queues)
        progress = _UnitProgress(report, total)
        if to == ROCKSDB:
            _put_with_times(store, old, new, progress)
        else:
            for queue in queues:
                for offset, units in _units(queue, int(queue.min_offset(begin))):
                    _put(new, queue.topic, queue.queue_id, offset, units, 0)
                    new.advance(0)
                    progress.add(len(units) // UNIT_BYTES)
        for queue in queues:
            _put_missing_end(new, queue, store.end)
        new.advance(store.end)
        new.persist()
        return {"queues": len(queues), "messages": total, "gaps": sum(_compare(queue, new, begin) for queue in queues)}
    finally:
        new.close()


class _UnitProgress:
    def __init__(self, report: Report, total: int) -> None:
        self._report, self._total = report, total
        self._done = self._told = 0

    def add(self, count: int) -> None:
        self._done += count
        if self._done - self._told >= _REPORT_UNITS or self._done == self._total:
            self._told = self._done
            self._report(self._done, self._total)


def _queues(engine: QueueEngine) -> Iterator[QueuePlaces]:
    for key in engine.listed():
        queue = engine.get(*key)
        if queue is not None and queue.next_offset:
            yield queue


def _units(queue: QueuePlaces, begin: int) -> Iterator[tuple[int, bytes]]:
    """(queue offset, units) from `begin` to the queue's end."""
    while begin < queue.next_offset:
        units = queue.read(begin, _UNITS_AT_ONCE)
        if units:
            yield begin, units
        begin = begin + len(units) // UNIT_BYTES if units else queue.resume_offset(begin)


def _put(new: QueueEngine, topic: str, queue_id: int, offset: int, units: bytes, stored_ms: int) -> None:
    new.put(new.get_or_create(topic, queue_id), offset, units, stored_ms)


def _stretches(run: Run) -> Iterator[tuple[str, int, int, bytes]]:
    """(topic, queue id, queue offset of the first, units) of a run in its queue, and in each light queue that it names."""
    if goes_to_queue(run.sys_flag):
        yield run.topic, run.queue_id, run.queue_offset, bytes(run.units)
        for name, queue_offset, unit in lights_of(run):
            yield name, 0, queue_offset, unit


def _put_with_times(store: OfflineLog, old: QueueEngine, new: QueueEngine, progress: _UnitProgress) -> None:
    """Puts each unit with the store time that its record has in the log."""
    waiting = 0
    for run in walk(store.log, store.kernel, store.log.begin, store.end, store.quarantined):
        for topic, queue_id, first, units in _stretches(run):
            queue = old.get(topic, queue_id)
            for offset, held in () if queue is None else _held(queue, first, len(units) // UNIT_BYTES):
                own = units[(offset - first) * UNIT_BYTES :][: len(held)]
                for begin, end in _same(held, own):
                    same = held[begin * UNIT_BYTES : end * UNIT_BYTES]
                    _put(new, topic, queue_id, offset + begin, same, run.store_timestamp_ms)
                    waiting += end - begin
        if waiting >= _UNITS_AT_ONCE:
            new.advance(0)
            progress.add(waiting)
            waiting = 0
    new.advance(0)
    progress.add(waiting)


def _held(queue: QueuePlaces, begin: int, count: int) -> Iterator[tuple[int, bytes]]:
    """(queue offset, units) of those of [begin, begin + count) that the queue has."""
    end = min(begin + count, queue.next_offset)
    begin = max(begin, queue.first_offset)
    while begin < end and (units := queue.read(begin, end - begin)):
        yield begin, units
        begin += len(units) // UNIT_BYTES


def _same(held: bytes, own: bytes) -> list[tuple[int, int]]:
    """The ranges of units in `held` that name the same records as `own`, whatever their tags codes."""
    if held == own:
        return [(0, len(held) // UNIT_BYTES)]
    places = range(0, len(held), UNIT_BYTES)
    return [(at // UNIT_BYTES, at // UNIT_BYTES + 1) for at in places if held[at : at + 12] == own[at : at + 12]]


def _put_missing_end(new: QueueEngine, queue: QueuePlaces, log_end: int) -> None:
    """Where the last records of a queue are damaged: filler, so that no queue offset is used again."""
    made = new.get_or_create(queue.topic, queue.queue_id)
    missing = queue.next_offset - made.next_offset
    if missing > 0:
        _put(new, queue.topic, queue.queue_id, made.next_offset, UNIT.pack(log_end, FILLER_SIZE, 0) * missing, 0)


def _compare(queue: QueuePlaces, new: QueueEngine, log_begin: PhysicalOffset) -> int:
    """How many units of a queue became gaps. Raises StoreFormatError if anything else differs."""
    made = new.get(queue.topic, queue.queue_id)
    name = f"queue {queue.queue_id} of {queue.topic}"
    if made is None or made.next_offset != queue.next_offset:
        raise StoreFormatError(new.directory, f"{name} ends elsewhere; the old queues are left as they were")
    gaps = 0
    for offset, units in _units(queue, int(queue.min_offset(log_begin))):
        for at, held in _held(made, offset, len(units) // UNIT_BYTES):
            own = units[(at - offset) * UNIT_BYTES :][: len(held)]
            gaps += 0 if held == own else _count_gaps(held, own, new.directory, name)
    return gaps


def _count_gaps(made: bytes, own: bytes, directory: str, name: str) -> int:
    gaps = 0
    for at in range(0, len(made), UNIT_BYTES):
        unit = made[at : at + UNIT_BYTES]
        if unit != own[at : at + UNIT_BYTES]:
            if UNIT.unpack(unit)[1] != FILLER_SIZE:
                raise StoreFormatError(directory, f"a unit of {name} differs; the old queues are left as they were")
            gaps += UNIT.unpack_from(own, at)[1] != FILLER_SIZE
    return gaps
