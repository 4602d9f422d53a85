"""The only file of the queues that knows RocksDB: rows of units and of ends (unit_rows) in one directory.

The loop writes batches; they reach the operating system at once, and the disk by `flush`, which a worker calls. A write holds
the interpreter's lock, so a batch is small. Reads: any thread. Both families are flushed together, so a power failure takes
back whole batches, newest first. Our options suit RocketMQ's RocksDB (8.4), which opens the directory again.

If the disk was full, RocksDB refuses every write until it is opened again (`write` does that).
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    DBCompactionStyle,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from ....model.errors import StoreFormatError, StoreLocked
from .unit_rows import OFFSET_FAMILY, bounds, offset_of, unit_key, unit_keys

SCAN_THRESHOLD: Final = 4
"""Up to so many units are read by their keys, more by an iterator. Opening one takes 2 us, a key 0.7 us, a step 0.1 us: so
none is kept for the next read, which would pin what has been deleted since.
"""

_BUFFER_BYTES: Final = 128 << 20
_BLOCK_BYTES: Final = 16 << 10  # neighbours are read together, and large blocks are made with less work
_RUNS_TO_MERGE: Final = 8  # sorted runs; more: a row is written again less often, and a read looks into more files
_CACHE_BYTES: Final = 64 << 20
_ROOM_BYTES: Final = 16 << 20  # of the disk, for RocksDB to open again after it was full
_FORMAT_VERSION: Final = 5  # the newest that RocketMQ's RocksDB reads
_OWN_FILE: Final = "rocksdict-config.json"  # the binding writes it even for a reader

_OFFSET_LIMIT: Final = 1 << 63
_PUT_END: Final = "put end"
_DELETE_END: Final = "delete end"
_DELETE_UNITS: Final = "delete units"

_T = TypeVar("_T")


class UnitBatch:
    """Changes that are written together, in this order. `count`: how many units and ranges.

    RocksDB's own batch is used up even by a write that fails, so it is made from these when they are written.
    """

    __slots__ = ("_steps", "count")

    def __init__(self) -> None:
        self._steps: list[tuple[list[bytes], list[bytes]] | tuple[str, bytes, bytes] | tuple[list[bytes]]] = []
        self.count = 0

    def put_units(self, keys: list[bytes], values: list[bytes]) -> None:
        """Rows of the default family."""
        self._steps.append((keys, values))
        self.count += len(keys)

    def put_end(self, key: bytes, value: bytes) -> None:
        """A row of the offset family."""
        self._steps.append((_PUT_END, key, value))

    def delete_end(self, key: bytes) -> None:
        """Of the offset family."""
        self._steps.append((_DELETE_END, key, b""))

    def delete_each(self, keys: list[bytes]) -> None:
        """Units, one by one: a range costs every read from then on, until RocksDB has merged it."""
        self._steps.append((keys,))
        self.count += len(keys)

    def delete_units(self, begin: bytes, end: bytes) -> None:
        """All units with keys in [begin, end)."""
        self._steps.append((_DELETE_UNITS, begin, end))
        self.count += 1

    def made(self, ends: Any) -> Any:
        """RocksDB's batch. `ends`: the handle of the offset family."""
        batch: Any = WriteBatch(raw_mode=True)
        for step in self._steps:
            if len(step) == 2:
                deque(map(batch.put, *step), maxlen=0)
                continue
            if len(step) == 1:
                deque(map(batch.delete, *step), maxlen=0)
                continue
            what, key, more = step
            if what == _PUT_END:
                batch.put(key, more, ends)
            elif what == _DELETE_END:
                batch.delete(key, ends)
            else:
                batch.delete_range(key, more)
        return batch


class RocksDbUnits:
    """One directory. Reads raise StoreFormatError if they meet damage; closed with `close`."""

    def __init__(self, directory: str, *, writable: bool = True) -> None:
        """Raises StoreLocked, StoreFormatError, OSError."""
        self.directory = directory
        self._writable = writable
        self._had_own_file = os.path.exists(os.path.join(directory, _OWN_FILE))
        if writable:
            os.makedirs(directory, exist_ok=True)
        self._use = threading.Lock()  # a flush, or the opening anew
        self._write_options = WriteOptions()
        self._write_options.memtable_insert_hint_per_batch = True
        self._open()

    def _open(self) -> None:
        access = AccessType.read_write() if self._writable else AccessType.read_only(False)
        families = {OFFSET_FAMILY: _options()}
        try:
            self._db = Rdict(self.directory, _options(), families, access_type=access)
            self._ends = self._db.get_column_family(OFFSET_FAMILY)
            self._end_handle: Any = self._db.get_column_family_handle(OFFSET_FAMILY)
        except Exception as error:  # the binding has no class for RocksDB's errors
            text = str(error)
            if "While lock file" in text or "lock hold by" in text:
                raise StoreLocked(self.directory) from error
            raise _mapped(error, self.directory) from error

    def close(self) -> None:
        """Nobody reads or writes any more."""
        self._end_handle = None
        for family in (self._ends, self._db):
            with suppress(Exception):  # what a full disk refused follows from the log again
                family.close()
        if not self._writable and not self._had_own_file:
            with suppress(OSError):
                os.unlink(os.path.join(self.directory, _OWN_FILE))

    # ---- the loop's

    def batch(self) -> UnitBatch:
        """An empty one."""
        return UnitBatch()

    def write(self, batch: UnitBatch) -> None:
        """All of it or nothing. Raises OSError; after ENOSPC the same batch may be written again by `write_again`."""
        self._guarded(lambda: self._db.write(batch.made(self._end_handle), self._write_options))

    def write_again(self, batch: UnitBatch) -> None:
        """Writes after a failed write: RocksDB may ask to be opened anew for that, which takes room itself. Raises OSError."""
        with suppress(OSError):
            return self.write(batch)
        usage = os.statvfs(self.directory)
        if usage.f_bavail * usage.f_frsize < _ROOM_BYTES:  # reads go on meanwhile
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.directory)
        with self._use:
            self.close()
            self._open()
        return self.write(batch)

    # ---- a worker's

    def flush(self) -> None:
        """Makes durable what was written. Raises OSError."""
        with self._use:
            self._guarded(lambda: self._db.flush_wal(True))

    def _guarded(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except Exception as error:  # the binding has no class for RocksDB's errors
            raise _mapped(error, self.directory) from error

    # ---- anybody's

    def end(self, key: bytes) -> bytes | None:
        """A row of the offset family."""
        return cast("bytes | None", self._guarded(lambda: self._ends.get(key)))

    def ends(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows of the offset family."""
        return self._pairs(self._ends, None, None)

    def all_units(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows of the default family."""
        return self._pairs(self._db, None, None)

    def value(self, prefix: bytes, queue_offset: int) -> bytes | None:
        """The row of one unit of the queue with this prefix."""
        return cast("bytes | None", self._guarded(lambda: self._db.get(unit_key(prefix, queue_offset))))

    def values(self, prefix: bytes, begin: int, end: int) -> list[bytes | None]:
        """The rows of the units [begin, end); None for each that is not there, as at an offset that no queue has."""
        if begin < 0 or end > _OFFSET_LIMIT:
            return [None] * (end - begin)
        if end - begin <= SCAN_THRESHOLD:
            keys: Any = unit_keys(prefix, begin, end)
            return cast("list[bytes | None]", self._guarded(lambda: self._db.get(keys)))
        return self._scanned(prefix, begin, end)

    def _scanned(self, prefix: bytes, begin: int, end: int) -> list[bytes | None]:
        options = ReadOptions()
        options.set_iterate_upper_bound(min(unit_key(prefix, end), bounds(prefix)[1]))
        found = cast(
            "list[bytes | None]",
            self._guarded(lambda: list(self._db.values(from_key=unit_key(prefix, begin), read_opt=options))),
        )
        if len(found) == end - begin:
            return found
        sparse: list[bytes | None] = [None] * (end - begin)
        for key, value in self._pairs(self._db, unit_key(prefix, begin), unit_key(prefix, end)):
            sparse[offset_of(key) - begin] = value
        return sparse

    def first(self, prefix: bytes, begin: int) -> tuple[int, bytes] | None:
        """(queue offset, row) of the first unit from `begin` on; None if there is none."""
        _, stop = bounds(prefix)
        return next(
            ((offset_of(key), value) for key, value in self._pairs(self._db, unit_key(prefix, begin), stop)), None
        )

    def _pairs(self, family: Rdict, begin: bytes | None, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        options = ReadOptions()
        if end is not None:
            options.set_iterate_upper_bound(end)
        found = family.iter(options)
        if begin is None:
            found.seek_to_first()
        else:
            found.seek(begin)
        while found.valid():
            yield cast(bytes, found.key()), cast(bytes, found.value())
            found.next()
        self._guarded(found.status)  # it ends with the rows, and at an unreadable block


def _mapped(error: Exception, directory: str) -> Exception:
    text = str(error)[:200]
    if "no space" in text.lower():
        return OSError(errno.ENOSPC, text, directory)
    if text.startswith(("Corruption", "Invalid argument")) or "olumn famil" in text:
        return StoreFormatError(
            directory, f"{text}; where it stays so, move the whole of it away: all queues are made again from the log"
        )
    return OSError(errno.EIO, text, directory)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_atomic_flush(True)
    options.set_allow_concurrent_memtable_write(False)  # the loop writes alone
    options.set_write_buffer_size(_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(2)
    options.set_compaction_style(DBCompactionStyle.universal())
    options.set_level_zero_file_num_compaction_trigger(_RUNS_TO_MERGE)
    options.set_level_zero_slowdown_writes_trigger(100)  # a write that waits for a compaction stops the loop
    options.set_level_zero_stop_writes_trigger(200)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_max_open_files(256)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_CACHE_BYTES))
    table.set_block_size(_BLOCK_BYTES)
    table.set_bloom_filter(10, False)
    table.set_format_version(_FORMAT_VERSION)
    options.set_block_based_table_factory(table)
    return options
