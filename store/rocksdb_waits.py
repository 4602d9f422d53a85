"""An ordered index of waiting records in RocksDB: derived from the log, and rebuilt from it if it is lost.

    'd' due 8 | physical offset 8  ->  nothing         found in the order of time
    'o' physical offset 8          ->  due 8           found by the record, and in the order of the log
    'm'                            ->  reflected 8 | count 8

All numbers are big-endian. One write batch holds everything that follows from the log up to `reflected`, and that number:
there is no state in between. One worker calls `write` and `flush`, the loop reads; RocksDB allows both at a time.
A write holds the interpreter's lock, so a batch is small.

RocksDB finds a damaged block only when it reads it, and never a table that its manifest has lost: so all keys are counted at
the opening (0.4 us each). If damage is met later, nothing else in the index can be trusted: `is_damaged` says so, and so does a
file beside the tables, which makes the next opening begin with an empty index.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, Rdict, ReadOptions, WriteBatch

from ..model.errors import StoreFormatError, StoreLocked
from .log.segment import make_directory

log = logging.getLogger(__name__)

TIMER_FOLDER: Final = "timers"
HALF_FOLDER: Final = "halves"

BUFFER_BYTES: Final = 8 << 20
_CACHE_BYTES_MAX: Final = 8 << 20
_DAMAGED_FILE: Final = "DAMAGED"
_NUMBER: Final = struct.Struct(">Q")
_PAIR: Final = struct.Struct(">QQ")
_BY_TIME: Final = b"d"
_BY_OFFSET: Final = b"o"
_MARK: Final = b"m"

_T = TypeVar("_T")

Change = tuple[int, int]
"""(due, ms since the epoch; physical offset) of a record that waits from now on; due -1: it no longer waits."""


class WaitStore:
    """One directory. `reflected`: the index has what follows from the log below; `count`: the number of waiting records.

    Every read and write raises StoreFormatError if it meets damage.
    """

    def __init__(self, directory: str, folder: str, *, buffer_bytes: int = BUFFER_BYTES) -> None:
        """Opens `folder` of a store; a damaged one is emptied. `buffer_bytes`: memory for changes before they become a
        file; cached blocks of files take as much, at most 8 MiB, even of deleted files.

        Raises StoreLocked, StoreFormatError.
        """
        self.directory = os.path.join(directory, folder)
        self._buffer_bytes = buffer_bytes
        self.reflected = 0
        self.count = 0
        self.is_damaged = False
        make_directory(directory)  # it may be the first to come, and the store is in it
        try:
            if os.path.exists(self._damaged_path):
                raise StoreFormatError(self.directory, "it was found damaged")
            self._open()
        except StoreFormatError as error:
            log.warning("the index of what waits is damaged and made anew dir=%s error=%s", self.directory, error)
            shutil.rmtree(self.directory, ignore_errors=True)
            self.is_damaged, self.reflected, self.count = False, 0, 0
            self._open()

    @property
    def _damaged_path(self) -> str:
        return os.path.join(self.directory, _DAMAGED_FILE)

    def _open(self) -> None:
        try:
            self._db = Rdict(self.directory, _options(self._buffer_bytes))
        except Exception as error:  # the binding has no class for RocksDB's errors
            if _says_locked(str(error)):
                raise StoreLocked(self.directory) from error
            raise StoreFormatError(self.directory, str(error)[:200]) from error
        flaw = self._flaw()
        if flaw:
            self.close()  # it lets go once no iterator is left, not even in a traceback
            raise StoreFormatError(self.directory, flaw)

    def _flaw(self) -> str:
        """Reads all of it: returns what is wrong, or "". Sets `reflected` and `count`."""
        try:
            mark = self._read(lambda: self._db.get(_MARK))
            self.reflected, self.count = (0, 0) if mark is None else _PAIR.unpack(mark)
            held = self._count_keys(_BY_TIME), self._count_keys(_BY_OFFSET)
        except StoreFormatError as error:
            return error.reason
        return "" if held == (self.count, self.count) else f"{held} keys where it says {self.count} of either kind"

    def _count_keys(self, kind: bytes) -> int:
        options: Any = ReadOptions()
        options.set_iterate_upper_bound(bytes([kind[0] + 1]))
        options.fill_cache(False)
        keys = self._db.iter(options)
        keys.seek(kind)
        count = 0
        while keys.valid():
            count += 1
            keys.next()
        self._read(keys.status)
        return count

    def close(self) -> None:
        """Called when nobody reads or writes any more. Changes that a full disk refused follow from the log again."""
        try:
            self._db.close()
        except Exception as error:  # noqa: BLE001  # the binding has no class for what RocksDB says
            log.warning("the index of what waits was closed after an error dir=%s error=%s", self.directory, error)

    def clear(self) -> None:
        """Empties the index; the log will be dispatched again from its begin."""
        self.close()
        shutil.rmtree(self.directory)
        self._open()

    # ---- the worker's

    def write(self, changes: Sequence[Change], reflected: int) -> None:
        """Writes all of `changes` and the new `reflected`, or nothing. A missing record may end. Raises OSError."""
        batch = WriteBatch(raw_mode=True)
        count = self.count
        within: dict[int, int | None] = {}  # the state of a record in this batch: due, or None: it has ended
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
        """Makes the writes durable. Raises OSError."""
        self._on_disk(lambda: self._db.flush_wal(True))

    def _on_disk(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # the binding has no class for RocksDB's errors
            if str(error).startswith("Corruption"):  # found by its background compaction
                raise self._damaged(error) from error
            full = "no space" in str(error).lower()
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)[:200], self.directory) from error

    # ---- anybody's

    def due_of(self, offset: int) -> int | None:
        """The due time of the record at this physical offset; None if it does not wait."""
        value = self._read(lambda: self._db.get(_BY_OFFSET + _NUMBER.pack(offset)))
        return None if value is None else int(_NUMBER.unpack(value)[0])

    def due_from(self, due_ms: int, offset: int, *, until_ms: int, count_max: int) -> list[tuple[int, int]]:
        """(due, physical offset) of waiting records, from this one on, due up to `until_ms`, by time."""
        found: list[tuple[int, int]] = []
        for key in self._keys(_BY_TIME + _PAIR.pack(due_ms, offset)):
            if len(key) != 1 + _PAIR.size or len(found) == count_max:
                break
            due, at = _PAIR.unpack_from(key, 1)
            if due > until_ms:
                break
            found.append((due, at))
        return found

    def below(self, offset: int, *, count_max: int, begin: int = 0) -> list[int]:
        """Physical offsets, from `begin` on, below `offset`, of waiting records, in the order of the log."""
        found: list[int] = []
        for key in self._keys(_BY_OFFSET + _NUMBER.pack(begin)):
            at = _NUMBER.unpack_from(key, 1)[0]
            if at >= offset or len(found) == count_max:
                break
            found.append(at)
        return found

    def _keys(self, begin: bytes) -> Iterator[bytes]:
        """From `begin` on, as far as its kind reaches."""
        found = self._db.iter()
        found.seek(begin)
        while found.valid():
            key = cast(bytes, found.key())
            if key[:1] != begin[:1]:
                return
            yield key
            found.next()
        self._read(found.status)  # it ends with the keys, and at an unreadable block

    def _read(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except Exception as error:  # the binding has no class for RocksDB's errors
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> StoreFormatError:
        """Records the damage for the next opening of the directory, by this process or another."""
        self.is_damaged = True
        with suppress(OSError), open(self._damaged_path, "wb"):
            pass
        return StoreFormatError(self.directory, f"{str(error)[:200]}; it is rebuilt when it is opened again")


def _says_locked(text: str) -> bool:
    """By another process, or by another object of this one."""
    return "While lock file" in text or "lock hold by" in text


def _options(buffer_bytes: int) -> Options:
    """Small and quiet: some megabytes of memory, whatever waits."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(buffer_bytes)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_max_open_files(64)
    options.set_compression_type(DBCompressionType.lz4())
    table = BlockBasedOptions()
    table.set_block_cache(Cache(min(buffer_bytes, _CACHE_BYTES_MAX)))
    table.set_bloom_filter(10, False)
    options.set_block_based_table_factory(table)
    return options
