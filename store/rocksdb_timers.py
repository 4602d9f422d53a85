"""What waits for its time, ordered by it, in RocksDB: derived from the log, and made anew from it where it is lost.

    'd' due 8 | physical offset 8  ->  nothing         found in the order of time
    'o' physical offset 8          ->  due 8           found by the record, and in the order of the log
    'm'                            ->  reflected 8 | count 8

All numbers are big-endian. One write batch holds what follows from the log up to `reflected`, and says so: there is no
state in between. `write` and `flush` belong to one worker, reading to the loop; RocksDB lets both go on at a time.
A write holds the interpreter's lock, so that a batch is small.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, WriteBatch

from ..model.errors import StoreFormatError, StoreLocked

log = logging.getLogger(__name__)

TIMER_FOLDER: Final = "timers"

_WRITE_BUFFER_BYTES: Final = 8 << 20
_CACHE_BYTES: Final = 8 << 20
_NUMBER: Final = struct.Struct(">Q")
_PAIR: Final = struct.Struct(">QQ")
_BY_TIME: Final = b"d"
_BY_OFFSET: Final = b"o"
_MARK: Final = b"m"

Change = tuple[int, int]
"""(due, ms since the epoch; physical offset) of a record that waits from now on; due -1: it waits no longer."""


class TimerStore:
    """One directory. `reflected`: what follows from the log below is in it; `count`: how many wait."""

    def __init__(self, directory: str) -> None:
        """Opens it; one that is damaged is emptied. Raises StoreLocked, StoreFormatError."""
        self.directory = os.path.join(directory, TIMER_FOLDER)
        self.reflected = 0
        self.count = 0
        os.makedirs(directory, exist_ok=True)
        try:
            self._open()
        except StoreFormatError as error:
            log.warning("the index of what waits is damaged and made anew dir=%s error=%s", self.directory, error)
            shutil.rmtree(self.directory, ignore_errors=True)
            self._open()

    def _open(self) -> None:
        try:
            self._db = Rdict(self.directory, _options())
            mark = self._db.get(_MARK)
        except Exception as error:  # the binding has no class for what RocksDB says
            if "lock" in str(error).lower():
                raise StoreLocked(self.directory) from error
            raise StoreFormatError(self.directory, str(error)[:200]) from error
        self.reflected, self.count = _PAIR.unpack(mark) if mark is not None and len(mark) == _PAIR.size else (0, 0)

    def close(self) -> None:
        """Once nobody reads or writes any more."""
        self._db.close()

    def clear(self) -> None:
        """Forgets everything; the log is told again from its begin on."""
        self._db.close()
        shutil.rmtree(self.directory)
        self._open()

    # ---- the worker's

    def write(self, changes: Sequence[Change], reflected: int) -> None:
        """All of `changes` and what they bring the index to, or nothing. A record that is not there may end. Raises OSError."""
        batch = WriteBatch(raw_mode=True)
        count = self.count
        within: dict[int, int | None] = {}  # what this batch says of a record: due, or None: it has ended
        for due_ms, offset in changes:
            if due_ms >= 0:
                batch.put(_BY_TIME + _PAIR.pack(due_ms, offset), b"")
                batch.put(_BY_OFFSET + _NUMBER.pack(offset), _NUMBER.pack(due_ms))
                within[offset] = due_ms
                count += 1
            else:
                due = within[offset] if offset in within else self.due_of(offset)
                within[offset] = None
                if due is not None:
                    batch.delete(_BY_TIME + _PAIR.pack(due, offset))
                    batch.delete(_BY_OFFSET + _NUMBER.pack(offset))
                    count -= 1
        batch.put(_MARK, _PAIR.pack(reflected, count))
        self._on_disk(lambda: self._db.write(batch))
        self.reflected, self.count = reflected, count

    def flush(self) -> None:
        """Makes what was written durable. Raises OSError."""
        self._on_disk(lambda: self._db.flush_wal(True))

    def _on_disk(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # the binding has no class for what RocksDB says
            full = "no space" in str(error).lower()
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)[:200], self.directory) from error

    # ---- anybody's

    def due_of(self, offset: int) -> int | None:
        """When the record at this physical offset is due; None where it does not wait."""
        value = self._db.get(_BY_OFFSET + _NUMBER.pack(offset))
        return None if value is None else int(_NUMBER.unpack(value)[0])

    def due_from(self, due_ms: int, offset: int, *, until_ms: int, count_max: int) -> list[tuple[int, int]]:
        """(due, physical offset) of what waits, from this one on, due up to `until_ms`, in the order of time."""
        found: list[tuple[int, int]] = []
        for key in self._keys(_BY_TIME + _PAIR.pack(due_ms, offset)):
            if len(key) != 1 + _PAIR.size or len(found) == count_max:
                break
            due, at = _PAIR.unpack_from(key, 1)
            if due > until_ms:
                break
            found.append((due, at))
        return found

    def below(self, offset: int, *, count_max: int) -> list[int]:
        """Physical offsets, below `offset`, of records that wait, in the order of the log."""
        found: list[int] = []
        for key in self._keys(_BY_OFFSET):
            at = _NUMBER.unpack_from(key, 1)[0]
            if at >= offset or len(found) == count_max:
                break
            found.append(at)
        return found

    def _keys(self, begin: bytes) -> Iterator[bytes]:
        """From `begin` on, as far as its kind reaches."""
        for key in cast(Iterator[bytes], self._db.keys(from_key=begin)):
            if key[:1] != begin[:1]:
                return
            yield key


def _options() -> Options:
    """Small and quiet: some megabytes of memory, whatever waits."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_max_open_files(64)
    options.set_compression_type(DBCompressionType.lz4())
    table = BlockBasedOptions()
    table.set_block_cache(Cache(_CACHE_BYTES))
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options
