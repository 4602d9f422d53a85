# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""Runs of records: checks and stamps an incoming batch, scans bytes on disk. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cython

from .codes import (
    BAD_BATCH_LIGHT,
    BAD_BODY_CRC,
    BAD_BODY_SIZE,
    BAD_COUNT,
    BAD_INNER_BATCH,
    BAD_OFFSET,
    BAD_SIZE,
    BAD_SYS_FLAG,
    BAD_TOPIC,
    BAD_TRANSACTION,
    BATCH_FLAGS,
    BLANK_BYTES,
    BODY_CRC_AT,
    BODY_LENGTH_BACK,
    BODY_LENGTH_ON,
    BODY_ON,
    BORN_HOST_V6,
    COMPRESSED_BIT,
    HOST_V6_BYTES,
    HOST_V6_MORE,
    INNER_BASE_DIGITS,
    INNER_BATCH_BIT,
    INNER_BODY_AT,
    INNER_BODY_LENGTH_AT,
    INNER_PREFIX_BYTES,
    LONG_NAME_BYTES,
    MAGIC_AT,
    NAME_END,
    PHYSICAL_OFFSET_AT,
    PREPARED_OFFSET_BACK,
    PREPARED_OFFSET_ON,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    REASONS,
    RECORD_OVERHEAD_BYTES,
    RUN_ALONE,
    RUN_BLANK,
    RUN_END,
    RUN_MORE,
    SHORT_NAME_BYTES,
    SPACE,
    STORE_HOST_V6,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
    UNIT_BYTES,
    UNIT_SIZE_AT,
    UNIT_TAGS_AT,
    VALUE_END,
    WHY_BAD_SIZE,
)
from .index import index_hash
from .inner_batches import base_digits, count_inner, inner_count
from .lights import _write_offsets, is_light, light_offset, names_lights
from .primitives import (
    CLIENT_SYS_FLAGS,
    LIGHT_BIT,
    MAGIC_BLANK_C,
    MASK32,
    NAME_INNE,
    NAME_KEY,
    NAME_KEYS,
    NAME_TAGS,
    NAME_UNIQ,
    OFFSET_MAX,
    SEQUENCED_BIT,
    SIGN32,
    STORED_BITS,
    check_lengths,
    copy_in,
    crc_in,
    find_body,
    find_byte,
    find_topic,
    get32,
    get64,
    get_s32,
    hash_on,
    put32,
    put64,
    topic_size,
)


def ended_waits(records: cython.const[cython.uchar][::1]) -> list[tuple[int, int, int]]:
    """(position behind it, physical offset of the record that waited, its own sysFlag) of each record that ends a wait.

    `records`: proven and contiguous.
    """
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(records)
    cause: cython.longlong
    sys_flag: cython.uint
    found: list[tuple[int, int, int]] = []
    while at < end:
        cause = get64(records, find_body(records, at) - PREPARED_OFFSET_BACK)
        sys_flag = get32(records, at + SYS_FLAG_AT)
        at += get32(records, at)
        if cause < 0:
            found.append((at, -1 - cause, sys_flag))
    return found


def why_refused(
    reason: int, batch: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> str:
    """The error text for a sender whose batch in batch[begin:end] `stamp` or `write_sequences` refused with `reason`."""
    at: cython.Py_ssize_t = begin
    body: cython.Py_ssize_t
    index: cython.Py_ssize_t = 0
    text: str = REASONS.get(reason, WHY_BAD_SIZE)
    if reason != BAD_BODY_CRC:
        return text
    while check_lengths(batch, at, end, end - begin) > 0:
        body = find_body(batch, at)
        if crc_in(batch, body, get32(batch, body - BODY_LENGTH_BACK)) != get32(batch, at + BODY_CRC_AT):
            break
        at += get32(batch, at)
        index += 1
    return f"{text}: message {index} (from 0) of the batch, at byte {at - begin}; encode it again and send it again"


def whole_records(segment: cython.const[cython.uchar][::1], begin: int, stop: int, full: int) -> tuple[int, int]:
    """(position behind the last whole record, what follows it) of the records from `begin` on.

    They end before `stop`, and before `full` unless the first one alone exceeds it. What follows: RUN_MORE = a record that
    does not fit any more, or `stop`; RUN_BLANK = the blank record that fills the segment; BAD_SIZE = no valid record.
    """
    at: cython.Py_ssize_t = begin
    first: cython.Py_ssize_t = begin
    end: cython.Py_ssize_t = stop
    room_end: cython.Py_ssize_t = full
    size: cython.Py_ssize_t
    if begin < 0 or end > len(segment):
        raise ValueError("outside the segment")
    while at < end:
        if end - at < BLANK_BYTES:
            return at, BAD_SIZE
        size = get32(segment, at)
        if get32(segment, at + MAGIC_AT) == MAGIC_BLANK_C:
            return at, RUN_BLANK if at + size == len(segment) else BAD_SIZE
        if size < RECORD_OVERHEAD_BYTES or size > end - at:
            return at, BAD_SIZE
        if at > first and at + size > room_end:
            break
        at += size
    return at, RUN_MORE


@cython.final
@cython.cclass
class WrittenRun:
    """A written run of records of one queue: its place in the log, and of its units and keys in `RunKernel`."""

    target = cython.declare(object, visibility="readonly")  # the caller's object for the queue
    queue_offset = cython.declare(cython.longlong, visibility="readonly")  # of the first
    count = cython.declare(cython.int, visibility="readonly")
    begin = cython.declare(cython.longlong, visibility="readonly")  # physical
    end = cython.declare(cython.longlong, visibility="readonly")
    store_timestamp_ms = cython.declare(cython.longlong, visibility="readonly")
    units_begin = cython.declare(cython.Py_ssize_t, visibility="readonly")  # bytes
    units_end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    keys_begin = cython.declare(cython.Py_ssize_t, visibility="readonly")
    keys_end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    at = cython.declare(cython.Py_ssize_t, visibility="readonly")  # its begin in the caller's bytes
    sys_flag = cython.declare(
        cython.uint, visibility="readonly"
    )  # of the last record, with ENDS_WAIT, SEQUENCED and LIGHT of any


@cython.final
@cython.cclass
class RunKernel:
    """Makes one pass over a run of records: of an incoming batch (`stamp`) or of bytes on disk (`scan`).

    Both add the consume-queue units of the records to `units` and the hashes of their index keys to `hashes`, with
    `key_offsets` beside them; `units_end` (bytes) and `keys_end` (entries) grow from call to call until `clear`. Owned by
    one thread.
    """

    units = cython.declare(bytearray, visibility="readonly")
    hashes = cython.declare(object, visibility="readonly")  # memoryview of uint32
    key_offsets = cython.declare(object, visibility="readonly")  # memoryview of int64
    units_end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    keys_end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    # of the last scanned run
    topic = cython.declare(bytes, visibility="readonly")
    queue_id = cython.declare(cython.int, visibility="readonly")
    queue_offset = cython.declare(cython.longlong, visibility="readonly")
    count = cython.declare(cython.int, visibility="readonly")
    end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    status = cython.declare(cython.int, visibility="readonly")
    store_timestamp_ms = cython.declare(cython.longlong, visibility="readonly")
    sys_flag = cython.declare(cython.uint, visibility="readonly")
    # of all runs since `clear`, and of the last stamped one: whether a record names light queues
    has_lights = cython.declare(cython.bint, visibility="readonly")
    is_light = cython.declare(cython.bint, visibility="readonly")
    _light: cython.bint  # found by _scan_properties
    _units: cython.uchar[::1]
    _hashes: cython.uint[::1]
    _key_offsets: cython.longlong[::1]
    _units_capacity: cython.Py_ssize_t
    _keys_capacity: cython.Py_ssize_t
    _index_keys: cython.bint
    _index_tags: cython.bint
    _record_max: cython.Py_ssize_t
    _body_max: cython.Py_ssize_t
    _store_host: bytes
    _store_host_bits: cython.longlong
    _topic_hash: cython.uint  # of `topic` and "#"

    def __init__(
        self,
        *,
        store_host: bytes = bytes(8),
        record_max: int,
        body_max: int,
        index_keys: bool = True,
        index_tags: bool = False,
        capacity: int = 1024,
    ) -> None:
        """`store_host`: 8 or 20 bytes, written into each stamped record. `capacity`: initial room, in units.

        `index_tags`: index the tags as a key too, as the text `topic#T#tags`, behind the others (as RocketMQ 5.5 does).
        """
        self._store_host = store_host
        self._store_host_bits = int.from_bytes(store_host[:8], "big", signed=True)
        self._record_max = record_max
        self._body_max = body_max
        self._index_keys = index_keys
        self._index_tags = index_keys and index_tags
        self._units_capacity = 0
        self._keys_capacity = 0
        self.topic = b""
        self._topic_hash = hash_on(0, b"#", 0, 1)
        self.is_light = False
        self._light = False
        self._reserve_units(capacity * UNIT_BYTES)
        self._reserve_keys(capacity)
        self.clear()

    def clear(self) -> None:
        """Drops all units and keys."""
        self.units_end = 0
        self.keys_end = 0
        self.has_lights = False

    @cython.cfunc
    def _reserve_units(self, size: cython.Py_ssize_t):
        if size > self._units_capacity:
            grown = bytearray(max(size, 2 * self._units_capacity))
            if self._units_capacity:
                grown[: self._units_capacity] = self.units
            self.units = grown
            self._units = memoryview(grown)
            self._units_capacity = len(grown)

    @cython.cfunc
    def _reserve_keys(self, count: cython.Py_ssize_t):
        if count > self._keys_capacity:
            room: cython.Py_ssize_t = max(count, 2 * self._keys_capacity)
            hashes = memoryview(bytearray(4 * room)).cast("I")
            offsets = memoryview(bytearray(8 * room)).cast("q")
            if self._keys_capacity:
                hashes[: self._keys_capacity] = self.hashes
                offsets[: self._keys_capacity] = self.key_offsets
            self.hashes = hashes
            self.key_offsets = offsets
            self._hashes = hashes
            self._key_offsets = offsets
            self._keys_capacity = room

    def stamp(
        self,
        buffer: cython.uchar[::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        topic: bytes,
        topic_hash: cython.uint,
        count: cython.int,
        queue_id: cython.int,
        queue_offset: cython.longlong,
        physical_offset: cython.longlong,
        store_timestamp_ms: cython.longlong,
        own: cython.bint = False,
        light_ends: dict[str, int] | None = None,
        find_light: Callable[[str], int] | None = None,
    ) -> cython.int:
        """Checks a producer's batch in buffer[begin:end] and writes the broker's fields into it.

        Returns the number of records, or a BAD_ reason: then `units` and `hashes` are as before and the bytes of the batch
        must not be used. `topic_hash`: `index_topic_hash(topic)`. `queue_offset`, `physical_offset`: of the first record.
        `own`: the broker made or checked the records: they may have fields that a client may not set, and their bodies are
        not checked against their checksums. `light_ends`, `find_light`: as `write_light_offsets` takes them; without them,
        light queues that the records name do not count. If `find_light` raises, everything is as before, too.
        """
        at: cython.Py_ssize_t = begin
        size: cython.Py_ssize_t
        store: cython.Py_ssize_t
        inner: cython.Py_ssize_t
        tail: cython.Py_ssize_t
        i: cython.Py_ssize_t
        done: cython.int = 0
        units_before: cython.Py_ssize_t = self.units_end
        keys_before: cython.Py_ssize_t = self.keys_end
        sys_flag: cython.uint
        tags_code: cython.longlong
        topic_length: cython.Py_ssize_t = len(topic)
        view: cython.const[cython.uchar][::1] = buffer
        host: bytes = self._store_host
        host_flag: cython.uint = STORE_HOST_V6 if len(host) == HOST_V6_BYTES else 0
        host_bits: cython.longlong = self._store_host_bits
        reason: cython.int = 0
        if not 0 <= begin <= end <= len(buffer):
            return BAD_SIZE
        if physical_offset < 0 or physical_offset > OFFSET_MAX - (end - begin):
            return BAD_OFFSET
        self._reserve_units(units_before + (end - begin) // RECORD_OVERHEAD_BYTES * UNIT_BYTES + UNIT_BYTES)
        units: cython.uchar[::1] = self._units
        out: cython.Py_ssize_t = units_before
        self._light = False
        while at < end:
            size = check_lengths(view, at, end, self._record_max)
            if size < 0:
                reason = size
                break
            sys_flag = get32(view, at + SYS_FLAG_AT)
            if (sys_flag & ~CLIENT_SYS_FLAGS and not own) or (sys_flag & STORE_HOST_V6) != host_flag:
                reason = BAD_SYS_FLAG
                break
            store = at + STORE_TIMESTAMP_AT + (HOST_V6_MORE if sys_flag & BORN_HOST_V6 else 0)
            inner = store + 8 + len(host)  # reconsume times
            if get64(view, inner + PREPARED_OFFSET_ON) != 0 and not own:
                reason = BAD_TRANSACTION
                break
            if get32(view, inner + BODY_LENGTH_ON) > self._body_max:
                reason = BAD_BODY_SIZE
                break
            if not own and crc_in(view, inner + BODY_ON, get32(view, inner + BODY_LENGTH_ON)) != get32(
                view, at + BODY_CRC_AT
            ):
                reason = BAD_BODY_CRC
                break
            tail = find_topic(view, at)
            if topic_size(view, at, tail) != topic_length:
                reason = BAD_TOPIC
                break
            for i in range(topic_length):
                if view[tail + i] != topic[i]:
                    reason = BAD_TOPIC
                    break
            if reason:
                break
            tail += topic_length
            tags_code = _scan_properties(self, view, tail + 2, at + size, topic_hash, physical_offset)
            put32(buffer, at + QUEUE_ID_AT, queue_id)
            put64(buffer, at + QUEUE_OFFSET_AT, queue_offset)
            put64(buffer, at + PHYSICAL_OFFSET_AT, physical_offset)
            put64(buffer, store, store_timestamp_ms)
            if host_flag:
                copy_in(buffer, store + 8, host)
            else:
                put64(buffer, store + 8, host_bits)
            put64(units, out, physical_offset)
            put32(units, out + UNIT_SIZE_AT, size)
            put64(units, out + UNIT_TAGS_AT, tags_code)
            out += UNIT_BYTES
            queue_offset += 1
            physical_offset += size
            at += size
            done += 1
        if reason == 0 and done != count:
            reason = BAD_COUNT
        self.is_light = self._light and light_ends is not None
        if self.is_light and reason == 0:
            try:
                inner = _write_offsets(buffer, begin, end, light_ends, find_light)
            except BaseException:
                self.keys_end = keys_before
                raise
            reason = inner if inner < 0 else 0
            self.has_lights = True
        if reason:
            self.units_end = units_before
            self.keys_end = keys_before
            return reason
        self.units_end = out
        return done

    def stamp_batch(
        self,
        buffer: cython.uchar[::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        topic: bytes,
        count: cython.int,
        queue_id: cython.int,
        queue_offset: cython.longlong,
        physical_offset: cython.longlong,
        store_timestamp_ms: cython.longlong,
    ) -> cython.int:
        """Checks the one record in buffer[begin:end] that holds a producer's batch of `count` messages (`wrap_batch`), and
        writes the broker's fields into it, the queue offset of the first message among its properties too.

        Returns `count`, or a BAD_ reason: then `units` and `hashes` are as before and the bytes must not be used. Arguments as
        in `stamp`. A compressed body is not taken apart.
        """
        view: cython.const[cython.uchar][::1] = buffer
        store: cython.Py_ssize_t
        i: cython.Py_ssize_t
        rest: cython.longlong = queue_offset
        units_before: cython.Py_ssize_t = self.units_end
        keys_before: cython.Py_ssize_t = self.keys_end
        digits: cython.Py_ssize_t
        if not 0 <= begin < end <= len(buffer):
            return BAD_SIZE
        if physical_offset < 0 or physical_offset > OFFSET_MAX - (end - begin):
            return BAD_OFFSET
        digits = self._base_digits(view, begin, end, topic, count)
        if digits < 0:
            return cython.cast(cython.int, digits)
        store = begin + STORE_TIMESTAMP_AT + (HOST_V6_MORE if get32(view, begin + SYS_FLAG_AT) & BORN_HOST_V6 else 0)
        put32(buffer, begin + QUEUE_ID_AT, queue_id)
        put64(buffer, begin + QUEUE_OFFSET_AT, queue_offset)
        put64(buffer, begin + PHYSICAL_OFFSET_AT, physical_offset)
        put64(buffer, store, store_timestamp_ms)
        copy_in(buffer, store + 8, self._store_host)
        for i in range(INNER_BASE_DIGITS):
            buffer[digits + INNER_BASE_DIGITS - 1 - i] = 48 + rest % 10
            rest //= 10
        self._scan(view, begin, end, physical_offset, False, 1)
        if self.sys_flag & LIGHT_BIT:  # a batch goes into no light queue
            self.units_end = units_before
            self.keys_end = keys_before
            return BAD_BATCH_LIGHT
        return self.count

    @cython.cfunc
    def _base_digits(
        self,
        view: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        topic: bytes,
        count: cython.int,
    ) -> cython.Py_ssize_t:
        """Where the digits of INNER_BASE are in a producer's record with a batch of `count` messages, or a BAD_ reason."""
        host: bytes = self._store_host
        size: cython.Py_ssize_t = check_lengths(view, begin, end, self._record_max)
        body: cython.Py_ssize_t
        tail: cython.Py_ssize_t
        i: cython.Py_ssize_t
        sys_flag: cython.uint
        length: cython.Py_ssize_t
        if size < 0:
            return size
        if size != end - begin:
            return BAD_COUNT
        sys_flag = get32(view, begin + SYS_FLAG_AT)
        if (
            sys_flag & ~(CLIENT_SYS_FLAGS | BATCH_FLAGS)
            or sys_flag & BATCH_FLAGS != BATCH_FLAGS
            or (sys_flag & STORE_HOST_V6) != (STORE_HOST_V6 if len(host) == HOST_V6_BYTES else 0)
        ):
            return BAD_SYS_FLAG
        body = find_body(view, begin)
        length = get32(view, body - BODY_LENGTH_BACK)
        if get64(view, body - PREPARED_OFFSET_BACK) != 0:
            return BAD_TRANSACTION
        if length > self._body_max:
            return BAD_BODY_SIZE
        if crc_in(view, body, length) != get32(view, begin + BODY_CRC_AT):
            return BAD_BODY_CRC
        tail = find_topic(view, begin)
        if topic_size(view, begin, tail) != len(topic):
            return BAD_TOPIC
        for i in range(len(topic)):
            if view[tail + i] != topic[i]:
                return BAD_TOPIC
        tail += len(topic) + 2
        if count < 1 or end - tail < INNER_PREFIX_BYTES:
            return BAD_INNER_BATCH
        tail = base_digits(view, tail, count)
        if tail < 0 or (not sys_flag & COMPRESSED_BIT and count_inner(view, body, body + length) != count):
            return BAD_INNER_BATCH
        return tail

    def scan(
        self,
        buffer: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        physical_offset: cython.longlong,
        check_body_crc: cython.bint = False,
        count_max: cython.int = 0x7FFFFFFF,
    ) -> cython.int:
        """Reads the run of records that begins at `begin`, at `physical_offset` of the log: one topic, one queue, in order.

        All have one store time. Sets `topic`, `queue_id`, `queue_offset` (of the first), `count`, `end` (behind the last),
        `sys_flag` (of the last, with ENDS_WAIT if any of them ends the wait of another record, SEQUENCED if any counts
        in its producer's sequence, LIGHT if any names light queues), `store_timestamp_ms`, and `status`: why the run ended
        there. Returns the number of records, which is `count` but for a batch. A record counts only if its physical offset
        field is its position. Transaction records (half, rollback) end a run and are runs of their own, for the caller to
        judge; so is a record that holds a batch: `count` is then the number of its messages, and its unit is as that of a
        plain record. No run begins (BAD_SIZE, BAD_OFFSET) if [begin, end) is not within `buffer`, or ends behind the last
        position of a log.
        """
        return self._scan(buffer, begin, end, physical_offset, check_body_crc, count_max)

    def scan_runs(
        self,
        buffer: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        physical_offset: cython.longlong,
        targets: dict[tuple[bytes, int], Any],
        find: Callable[[int, int], Any],
        last_topic: bytes,
        runs: list[WrittenRun],
    ) -> cython.bint:
        """Reads runs, as `scan` does, until `end`, a run of `last_topic`, or a place where no record begins (then `count`
        is 0).

        Appends each to `runs`. Its target is that of (topic, queue id) in `targets`, else the result of `find(position,
        size)` for the last scanned run. The target's `next_offset` is moved behind the run. True if all are visible, and
        each follows the one before it in its queue.
        """
        at: cython.Py_ssize_t = begin
        units_begin: cython.Py_ssize_t = self.units_end
        keys_begin: cython.Py_ssize_t = self.keys_end
        position: cython.longlong
        plain: cython.bint = True
        while at < end:
            position = physical_offset + (at - begin)
            if self._scan(buffer, at, end, position, False, 0x7FFFFFFF) == 0:
                break
            key = (self.topic, self.queue_id)
            target = targets.get(key)
            if target is None:
                target = targets[key] = find(position, self.end - at)
            elif target.next_offset != self.queue_offset:
                plain = False
            target.next_offset = self.queue_offset + self.count
            if self.sys_flag & RUN_ALONE:
                plain = False
            runs.append(
                self.written(
                    target,
                    self.queue_offset,
                    self.count,
                    position,
                    self.end - at,
                    self.store_timestamp_ms,
                    units_begin,
                    keys_begin,
                    at,
                    self.sys_flag,
                )
            )
            at = self.end
            units_begin = self.units_end
            keys_begin = self.keys_end
            if self.topic == last_topic:
                break
        return plain

    @cython.ccall
    def written(
        self,
        target: object,
        queue_offset: cython.longlong,
        count: cython.int,
        begin: cython.longlong,
        size: cython.Py_ssize_t,
        store_timestamp_ms: cython.longlong,
        units_begin: cython.Py_ssize_t,
        keys_begin: cython.Py_ssize_t,
        at: cython.Py_ssize_t,
        sys_flag: cython.uint,
    ) -> WrittenRun:
        """The run of `size` bytes whose units and keys were made last, from `units_begin` and `keys_begin` on."""
        run: WrittenRun = WrittenRun.__new__(WrittenRun)
        run.target = target
        run.queue_offset = queue_offset
        run.count = count
        run.begin = begin
        run.end = begin + size
        run.store_timestamp_ms = store_timestamp_ms
        run.units_begin = units_begin
        run.units_end = self.units_end
        run.keys_begin = keys_begin
        run.keys_end = self.keys_end
        run.at = at
        run.sys_flag = sys_flag
        return run

    def units_by_target(self, runs: list[WrittenRun]) -> list[tuple[Any, int, memoryview]]:
        """(target, first queue offset, concatenated units) of each target in `runs`, which `scan_runs` made."""
        numbers: dict[Any, int] = {}
        firsts: list[int] = []
        ends: cython.longlong[::1] = memoryview(bytearray(8 * len(runs))).cast("q")  # by number: sizes, then positions
        units: cython.uchar[::1] = self._units
        number: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        size: cython.Py_ssize_t
        at: cython.Py_ssize_t
        i: cython.Py_ssize_t
        total: cython.Py_ssize_t = 0
        run: WrittenRun
        for run in runs:
            if run.target not in numbers:
                numbers[run.target] = len(firsts)
                firsts.append(run.queue_offset)
            number = numbers[run.target]
            ends[number] += run.units_end - run.units_begin
        for number in range(len(firsts)):
            size = ends[number]
            ends[number] = total
            total += size
        gathered = bytearray(total)
        view: cython.uchar[::1] = gathered
        for run in runs:
            number = numbers[run.target]
            begin = run.units_begin
            size = run.units_end - begin
            at = ends[number]
            for i in range(size):
                view[at + i] = units[begin + i]
            ends[number] = at + size
        whole = memoryview(gathered)
        begin = 0
        found: list[tuple[Any, int, memoryview]] = []
        for target, first in zip(numbers, firsts, strict=True):
            number = len(found)
            size = ends[number]
            found.append((target, first, whole[begin:size]))
            begin = size
        return found

    @cython.cfunc
    def _scan(
        self,
        buffer: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        physical_offset: cython.longlong,
        check_body_crc: cython.bint,
        count_max: cython.int,
    ) -> cython.int:
        at: cython.Py_ssize_t = begin
        size: cython.Py_ssize_t
        tail: cython.Py_ssize_t
        topic_length: cython.Py_ssize_t
        run_topic: cython.Py_ssize_t = -1
        run_topic_length: cython.Py_ssize_t = 0
        queue_id: cython.int = 0
        queue_offset: cython.longlong = 0
        done: cython.int = 0
        i: cython.Py_ssize_t
        same: cython.bint
        tags_code: cython.longlong
        topic_hash: cython.uint = 0
        out: cython.Py_ssize_t = self.units_end
        body: cython.Py_ssize_t
        known: bytes
        flags: cython.uint
        marks: cython.uint = 0
        self.status = RUN_MORE
        self._light = False
        if not 0 <= begin <= end <= len(buffer):
            self.status = BAD_SIZE
            count_max = 0
        elif physical_offset < 0 or physical_offset > OFFSET_MAX - (end - begin):
            self.status = BAD_OFFSET
            count_max = 0
        while done < count_max:
            if end - at < BLANK_BYTES:
                self.status = RUN_END
                break
            size = get32(buffer, at)
            if size == 0:
                self.status = RUN_END
                break
            if get32(buffer, at + MAGIC_AT) == MAGIC_BLANK_C:
                self.status = RUN_BLANK
                break
            size = check_lengths(buffer, at, end, self._record_max)
            if size < 0:
                self.status = size
                break
            if get64(buffer, at + PHYSICAL_OFFSET_AT) != physical_offset:
                self.status = BAD_OFFSET
                break
            body = find_body(buffer, at)
            if check_body_crc and crc_in(buffer, body, get32(buffer, body - BODY_LENGTH_BACK)) != get32(
                buffer, at + BODY_CRC_AT
            ):
                self.status = BAD_BODY_CRC
                break
            tail = find_topic(buffer, at)
            topic_length = topic_size(buffer, at, tail)
            flags = get32(buffer, at + SYS_FLAG_AT)
            if done > 0:
                if (
                    topic_length != run_topic_length
                    or get_s32(buffer, at + QUEUE_ID_AT) != queue_id
                    or get64(buffer, at + QUEUE_OFFSET_AT) != queue_offset
                    or flags & RUN_ALONE
                    or get64(buffer, at + STORE_TIMESTAMP_AT + (HOST_V6_MORE if flags & BORN_HOST_V6 else 0))
                    != self.store_timestamp_ms
                ):
                    break
                same = True
                for i in range(topic_length):
                    if buffer[tail + i] != buffer[run_topic + i]:
                        same = False
                        break
                if not same:
                    break
            else:
                run_topic = tail
                run_topic_length = topic_length
                queue_id = get_s32(buffer, at + QUEUE_ID_AT)
                queue_offset = get64(buffer, at + QUEUE_OFFSET_AT)
                self.queue_id = queue_id
                self.queue_offset = queue_offset
                known = self.topic
                same = len(known) == topic_length
                for i in range(topic_length if same else 0):
                    if known[i] != buffer[tail + i]:
                        same = False
                        break
                if (
                    not same
                ):  # runs of one topic follow one another: creating the bytes again would cost more than the run
                    self.topic = bytes(buffer[tail : tail + topic_length])
                    self._topic_hash = hash_on(hash_on(0, buffer, tail, tail + topic_length), b"#", 0, 1)
                topic_hash = self._topic_hash
            if out + UNIT_BYTES > self._units_capacity:
                self._reserve_units(out + UNIT_BYTES)
            tags_code = _scan_properties(self, buffer, tail + topic_length + 2, at + size, topic_hash, physical_offset)
            put64(self._units, out, physical_offset)
            put32(self._units, out + UNIT_SIZE_AT, size)
            put64(self._units, out + UNIT_TAGS_AT, tags_code)
            self.store_timestamp_ms = get64(
                buffer, at + STORE_TIMESTAMP_AT + (HOST_V6_MORE if flags & BORN_HOST_V6 else 0)
            )
            marks |= flags & SEQUENCED_BIT
            if buffer[body - PREPARED_OFFSET_BACK] & 0x80:  # prepared transaction offset is negative
                marks |= SIGN32
            if self._light:
                marks |= LIGHT_BIT
                self.has_lights = True
            self.sys_flag = (flags & STORED_BITS) | marks
            out += UNIT_BYTES
            at += size
            physical_offset += size
            queue_offset += 1
            done += 1
            if flags & RUN_ALONE:
                if flags & INNER_BATCH_BIT:
                    self.count = inner_count(buffer, at - size)
                    if self._index_keys and not flags & COMPRESSED_BIT:
                        _scan_inner(self, buffer, body, topic_hash, physical_offset - size)
                break
        self.units_end = out
        if done != 1 or not self.sys_flag & INNER_BATCH_BIT:
            self.count = done
        self.end = at
        return done


@cython.cfunc
def _scan_inner(
    run: RunKernel,
    buf: cython.const[cython.uchar][::1],
    body: cython.Py_ssize_t,
    topic_hash: cython.uint,
    physical_offset: cython.longlong,
):
    """Hashes the keys of a batch's messages, which name the batch's record. `body`: the begin of its plain body."""
    at: cython.Py_ssize_t = body
    end: cython.Py_ssize_t = body + get32(buf, body - BODY_LENGTH_BACK)
    size: cython.Py_ssize_t
    properties: cython.Py_ssize_t
    if count_inner(buf, at, end) < 0:
        return
    while at < end:
        size = get32(buf, at)
        properties = at + INNER_BODY_AT + get32(buf, at + INNER_BODY_LENGTH_AT) + 2
        _scan_properties(run, buf, properties, at + size, topic_hash, physical_offset)
        at += size


@cython.cfunc
def _scan_properties(
    run: RunKernel,
    buf: cython.const[cython.uchar][::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    topic_hash: cython.uint,
    physical_offset: cython.longlong,
) -> cython.longlong:
    """Hashes the keys of one record's properties into `hashes` (unique id first, tags last); returns its tags code."""
    at: cython.Py_ssize_t = begin
    stop: cython.Py_ssize_t
    word: cython.Py_ssize_t
    keys_begin: cython.Py_ssize_t = 0
    keys_stop: cython.Py_ssize_t = 0
    unique_begin: cython.Py_ssize_t = 0
    unique_stop: cython.Py_ssize_t = 0
    tags_begin: cython.Py_ssize_t = 0
    tags_stop: cython.Py_ssize_t = 0
    name: cython.uint
    h: cython.uint = 0
    tags: cython.bint = False
    count: cython.Py_ssize_t
    while end - at > SHORT_NAME_BYTES:  # the shortest entry of interest: TAGS, 0x01, one byte, 0x02
        name = get32(buf, at)
        if (
            name == NAME_UNIQ
            and end - at > LONG_NAME_BYTES
            and get32(buf, at + 4) == NAME_KEY
            and buf[at + 8] == NAME_END
        ):
            unique_begin = at + LONG_NAME_BYTES
            stop = unique_begin + 32
            if end <= stop or buf[stop] != VALUE_END:
                stop = find_byte(buf, unique_begin, end, VALUE_END)
            unique_stop = stop
        elif name == NAME_TAGS and buf[at + 4] == NAME_END:
            stop = find_byte(buf, at + SHORT_NAME_BYTES, end, VALUE_END)
            tags = stop > at + SHORT_NAME_BYTES
            tags_begin = at + SHORT_NAME_BYTES
            tags_stop = stop
            h = hash_on(0, buf, at + SHORT_NAME_BYTES, stop)
        elif name == NAME_KEYS and buf[at + 4] == NAME_END:
            stop = find_byte(buf, at + SHORT_NAME_BYTES, end, VALUE_END)
            keys_begin = at + SHORT_NAME_BYTES
            keys_stop = stop
        else:
            stop = find_byte(buf, at, end, VALUE_END)
            run._light = run._light or (name == NAME_INNE and names_lights(buf, at, end))
        at = stop + 1
    if run._index_keys:
        count = run.keys_end
        if count + 3 + (keys_stop - keys_begin) // 2 > run._keys_capacity:
            run._reserve_keys(count + 3 + (keys_stop - keys_begin) // 2)
        if unique_stop > unique_begin:
            run._hashes[count] = index_hash(hash_on(topic_hash, buf, unique_begin, unique_stop))
            run._key_offsets[count] = physical_offset
            count += 1
        while keys_begin < keys_stop:
            word = keys_begin
            while word < keys_stop and buf[word] != SPACE:
                word += 1
            if word > keys_begin:
                run._hashes[count] = index_hash(hash_on(topic_hash, buf, keys_begin, word))
                run._key_offsets[count] = physical_offset
                count += 1
            keys_begin = word + 1
        if run._index_tags and tags:
            topic_hash = ((topic_hash * 31 + 84) * 31 + 35) & MASK32  # continued with "T#"
            run._hashes[count] = index_hash(hash_on(topic_hash, buf, tags_begin, tags_stop))
            run._key_offsets[count] = physical_offset
            count += 1
        run.keys_end = count
    if not tags:
        return 0
    if cython.compiled:
        return cython.cast(cython.longlong, cython.cast(cython.int, h))
    return (h ^ 0x80000000) - 0x80000000


@cython.cfunc
def is_home_of(
    buf: cython.const[cython.uchar][::1],
    at: cython.longlong,
    size: cython.longlong,
    physical: cython.longlong,
    topic: bytes,
    queue_id: cython.int,
    queue_offset: cython.longlong,
) -> cython.bint:
    """Whether the record of `size` bytes at `at` belongs at this position of the log and this offset of the queue, its own
    or a light one."""
    i: cython.Py_ssize_t
    topic_at: cython.Py_ssize_t
    length: cython.Py_ssize_t = len(topic)
    name: cython.const[cython.uchar][::1] = topic
    if at < 0 or size < RECORD_OVERHEAD_BYTES or at + size > len(buf):
        return False
    if is_light(topic):
        return (
            queue_id == 0
            and get64(buf, at + PHYSICAL_OFFSET_AT) == physical
            and check_lengths(buf, at, at + size, size) == size
            and light_offset(buf, at, topic) == queue_offset
        )
    if (
        get64(buf, at + PHYSICAL_OFFSET_AT) != physical
        or get64(buf, at + QUEUE_OFFSET_AT) != queue_offset
        or get_s32(buf, at + QUEUE_ID_AT) != queue_id
    ):
        return False
    if check_lengths(buf, at, at + size, size) != size:
        return False
    topic_at = find_topic(buf, at)
    if topic_size(buf, at, topic_at) != length:
        return False
    for i in range(length):
        if buf[topic_at + i] != name[i]:
            return False
    return True


def is_record_of(
    record: cython.const[cython.uchar][::1], physical: int, topic: bytes, queue_id: int, queue_offset: int
) -> bool:
    """Whether `record`, whole, belongs at `physical` in the log as this message of this queue."""
    place: cython.longlong = physical
    slot: cython.longlong = queue_offset
    number: cython.int = queue_id
    return bool(is_home_of(record, 0, len(record), place, topic, number, slot))
