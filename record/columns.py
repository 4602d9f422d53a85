# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""Records as columns: code that reads millions of messages creates no object for each. Pure.

`decode_batch` has proven the lengths of every record that comes here. One pass over a run of records fills buffers that the
caller provides: numbers of fixed width; text and bytes as increasing ends (int32, one more than there are rows) and one
data area; properties as a map of two such; a bitmap, lowest bit first, of the rows that are not null. This is Arrow's
layout, but this module does not use Arrow.

A record is added whole or not at all: `fill` stops before the first one for which there is no room, or which is behind the
range, or damaged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cython

from ..model.errors import RemoteProtocolError
from ..model.properties import decode_properties
from .codes import (
    ALL_TAKEN,
    BEHIND_END,
    BODY_AT,
    BODY_CRC_AT,
    BODY_LENGTH_BACK,
    BORN_HOST_V6,
    BORN_TIMESTAMP_AT,
    ENTRIES_ROOM,
    FILL_BAD_BODY_CRC,
    FILL_BAD_PACKING,
    FLAG_AT,
    HOST_V6_MORE,
    MAGIC_AT,
    NO_ROOM,
    PHYSICAL_OFFSET_AT,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    STORE_HOST_V6,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
)
from .compression import decompress
from .lights import light_offset
from .primitives import MAGIC_V1_C, crc_in, get32, get64, get_s32, hex_digit

_COMPARED_MAX = cython.declare(
    cython.Py_ssize_t, 16
)  # up to so many properties are compared pairwise, to find a repeated name
_ID_ROOM = cython.declare(cython.Py_ssize_t, 64)  # an offset message id has at most 56 characters
_ROOM_MAX = cython.declare(cython.Py_ssize_t, 0x7FFFFFFF)  # ends of rows have 31 bits
_MS_MAX = cython.declare(cython.longlong, 9_223_372_036_854_775)  # the largest value whose microseconds fit in 64 bits


@cython.cfunc
@cython.inline
def _microseconds(ms: cython.longlong) -> cython.longlong:
    """Milliseconds in microseconds; if they exceed 64 bits, the nearest value."""
    if ms > _MS_MAX:
        ms = _MS_MAX
    if ms < -_MS_MAX:
        ms = -_MS_MAX
    return ms * 1000


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy_span(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    data: cython.const[cython.uchar][::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.void:
    """Copies data [begin, end) to `at`."""
    i: cython.Py_ssize_t
    if cython.compiled:
        for i in range(end - begin):
            out[at + i] = data[begin + i]
    else:
        out[at : at + end - begin] = data[begin:end]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _mark(valid: cython.uchar[::1], row: cython.Py_ssize_t, is_there: cython.bint) -> cython.void:
    """Sets or clears the bit of a row; rows come in order."""
    if row & 7 == 0:
        valid[row >> 3] = 0
    if is_there:
        valid[row >> 3] = valid[row >> 3] | (1 << (row & 7))


@cython.cfunc
@cython.inline
def _is(
    text: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t, name: bytes
) -> cython.bint:
    """Whether text [begin, end) is `name`."""
    i: cython.Py_ssize_t
    if end - begin != len(name):
        return False
    for i in range(end - begin):
        if text[begin + i] != name[i]:
            return False
    return True


@cython.final
@cython.cclass
class BytesColumn:
    """A column of bytes or text. `ends`: int32, a 0, then one per row. `valid`: one bit per row; empty = never null."""

    used_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    null_count = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _room: cython.Py_ssize_t
    _rows_max: cython.Py_ssize_t
    _has_nulls: cython.bint
    _ends: cython.int[::1]
    _data: cython.uchar[::1]
    _valid: cython.uchar[::1]

    def __init__(self, ends: memoryview, data: memoryview, valid: memoryview) -> None:
        """Raises ValueError if `ends` has no place for the first 0."""
        if not len(ends):
            raise ValueError("a column of bytes has one end more than rows")
        self._ends = ends
        self._data = data
        self._valid = valid
        self._room = min(len(data), _ROOM_MAX)
        self._has_nulls = len(valid) > 0
        self._rows_max = len(ends) - 1
        if self._has_nulls:
            self._rows_max = min(self._rows_max, 8 * len(valid))
        self._ends[0] = 0
        self.used_bytes = 0
        self.null_count = 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put(
    column: BytesColumn,
    row: cython.Py_ssize_t,
    text: cython.const[cython.uchar][::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
) -> cython.void:
    """Puts text [begin, end) as the row's value; `begin` below 0: null."""
    used: cython.Py_ssize_t = column.used_bytes
    if begin >= 0:
        _copy_span(column._data, used, text, begin, end)
        used += end - begin
        column.used_bytes = used
    else:
        column.null_count += 1
    column._ends[row + 1] = used
    if column._has_nulls:
        _mark(column._valid, row, begin >= 0)


@cython.cfunc
@cython.exceptval(check=False)
def _put_offset_id(
    column: BytesColumn,
    row: cython.Py_ssize_t,
    buf: cython.const[cython.uchar][::1],
    host: cython.Py_ssize_t,
    host_bytes: cython.Py_ssize_t,
    offset_at: cython.Py_ssize_t,
) -> cython.void:
    """Puts store host and physical offset in hex."""
    used: cython.Py_ssize_t = column.used_bytes
    data: cython.uchar[::1] = column._data
    i: cython.Py_ssize_t
    c: cython.uchar
    for i in range(host_bytes + 8):
        c = buf[host + i] if i < host_bytes else buf[offset_at + i - host_bytes]
        data[used] = hex_digit(c >> 4)
        data[used + 1] = hex_digit(c & 15)
        used += 2
    column.used_bytes = used
    column._ends[row + 1] = used
    if column._has_nulls:
        _mark(column._valid, row, True)


@cython.cfunc
def _rows_in(column: Any) -> cython.Py_ssize_t:
    """How many rows a column has room for, of any kind that a ColumnFiller fills."""
    texts: BytesColumn
    if isinstance(column, BytesColumn):
        texts = column
        return texts._rows_max
    if not isinstance(column, tuple):
        return len(column)
    return min(len(column[0]), 8 * len(column[1])) if len(column) == 2 else len(column[0]) - 1


@cython.final
@cython.cclass
class ColumnFiller:
    """The columns of one batch. Any thread, one at a time.

    Columns have the names that Spark users see; columns that are not given are not filled. Values by name: an int64
    memoryview for queueOffset, bornTimestamp, storeTimestamp (microseconds), bodyCrc; int32 for queueId, reconsumeTimes,
    flag, sysFlag; a BytesColumn for messageId, keys, tags, messageGroup, traceparent, body; (int64, bits) for
    deliverTimestamp; (int32 ends of rows, BytesColumn of names, BytesColumn of values) for properties.
    """

    rows = cython.declare(cython.Py_ssize_t, visibility="readonly")
    status = cython.declare(cython.int, visibility="readonly")
    needed_bytes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    undelayed = cython.declare(cython.Py_ssize_t, visibility="readonly")
    entries = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _rows_max: cython.Py_ssize_t
    _entries_max: cython.Py_ssize_t
    _begin: cython.longlong
    _end: cython.longlong
    _tags_wanted: Any
    _checks_crc: cython.bint
    _reads_properties: cython.bint
    _has_queue_ids: cython.bint
    _has_queue_offsets: cython.bint
    _has_born: cython.bint
    _has_stored: cython.bint
    _has_crcs: cython.bint
    _has_tries: cython.bint
    _has_flags: cython.bint
    _has_sys_flags: cython.bint
    _has_due: cython.bint
    _has_map: cython.bint
    _queue_ids: cython.int[::1]
    _tries: cython.int[::1]
    _flags: cython.int[::1]
    _sys_flags: cython.int[::1]
    _queue_offsets: cython.longlong[::1]
    _born: cython.longlong[::1]
    _stored: cython.longlong[::1]
    _crcs: cython.longlong[::1]
    _due: cython.longlong[::1]
    _due_valid: cython.uchar[::1]
    _ids: BytesColumn
    _keys: BytesColumn
    _tags: BytesColumn
    _groups: BytesColumn
    _traces: BytesColumn
    _bodies: BytesColumn
    _map_ends: cython.int[::1]
    _map_names: BytesColumn
    _map_values: BytesColumn
    # Found in the properties of the current record: the begin and end of values (begin below 0 = absent), and for each
    # property the begin of its name, its separator and its end.
    _id_begin: cython.Py_ssize_t
    _id_end: cython.Py_ssize_t
    _keys_begin: cython.Py_ssize_t
    _keys_end: cython.Py_ssize_t
    _tags_begin: cython.Py_ssize_t
    _tags_end: cython.Py_ssize_t
    _group_begin: cython.Py_ssize_t
    _group_end: cython.Py_ssize_t
    _trace_begin: cython.Py_ssize_t
    _trace_end: cython.Py_ssize_t
    _due_begin: cython.Py_ssize_t
    _due_end: cython.Py_ssize_t
    _found: cython.Py_ssize_t
    _marks: cython.int[::1]
    _light: object  # the light queue that the batch was read from, or None
    _queue_offset: cython.longlong  # of the current record

    def __init__(
        self,
        rows_max: int,
        columns: Mapping[str, Any],
        *,
        tags: tuple[bytes, ...] | None = None,
        check_crc: bool = True,
    ) -> None:
        """`tags`: take only messages with one of these; None = all. `check_crc`: check bodies, if wanted, against their
        checksums.

        Raises ValueError if a column has no room for `rows_max` rows.
        """
        for name, column in columns.items():
            if _rows_in(column) < rows_max:
                raise ValueError(f"column {name} has no room for {rows_max} rows")
        self.rows = self.needed_bytes = self.undelayed = self.entries = 0
        self.status = ALL_TAKEN
        self._rows_max = rows_max
        self._tags_wanted = tags
        get: Any = columns.get
        self._bodies = get("body")
        self._checks_crc = check_crc and self._bodies is not None
        self._queue_ids, self._tries, self._flags = get("queueId"), get("reconsumeTimes"), get("flag")
        self._sys_flags = get("sysFlag")
        self._queue_offsets, self._crcs = get("queueOffset"), get("bodyCrc")
        self._born, self._stored = get("bornTimestamp"), get("storeTimestamp")
        self._has_queue_ids = "queueId" in columns
        self._has_queue_offsets = "queueOffset" in columns
        self._has_born = "bornTimestamp" in columns
        self._has_stored = "storeTimestamp" in columns
        self._has_crcs = "bodyCrc" in columns
        self._has_tries = "reconsumeTimes" in columns
        self._has_flags = "flag" in columns
        self._has_sys_flags = "sysFlag" in columns
        self._has_due = "deliverTimestamp" in columns
        if self._has_due:
            self._due, self._due_valid = columns["deliverTimestamp"]
        self._ids, self._keys, self._tags = get("messageId"), get("keys"), get("tags")
        self._groups, self._traces = get("messageGroup"), get("traceparent")
        self._has_map = "properties" in columns
        self._entries_max = 0
        if self._has_map:
            self._map_ends, self._map_names, self._map_values = columns["properties"]
            self._map_ends[0] = 0
            self._entries_max = min(self._map_names._rows_max, self._map_values._rows_max)
        texts = (self._ids, self._keys, self._tags, self._groups, self._traces)
        self._reads_properties = self._has_map or self._has_due or tags is not None or texts.count(None) < len(texts)
        self._marks = memoryview(bytearray(12 * ENTRIES_ROOM)).cast("i")

    def fill(self, batch: Any, first: cython.Py_ssize_t, begin: cython.longlong, end: cython.longlong) -> int:
        """Takes messages of a MessageBatch from index `first` on; returns the index of the first one not taken.

        Those with queue offsets [begin, end) are wanted; others are skipped. `status` says why it stopped. NO_ROOM: the
        columns are full (if they are empty, the body needs `needed_bytes`). BEHIND_END: nothing that follows is wanted.
        BAD_...: that message is damaged, and nothing of it was taken. Raises ValueError for a `first` below zero.
        """
        data: bytes = batch.data
        at: cython.const[cython.uint][::1] = batch.positions
        buf: cython.const[cython.uchar][::1] = data
        index: cython.Py_ssize_t = first
        count: cython.Py_ssize_t = len(at)
        if first < 0:
            raise ValueError("no message has a number below zero")
        self._begin, self._end = begin, end
        self._light = None if batch.light_queue is None else batch.light_queue.encode()
        while index < count:
            self.status = self._take(data, buf, at[index])
            if self.status != ALL_TAKEN:
                return index
            index += 1
        self.status = ALL_TAKEN
        return index

    @cython.cfunc
    def _take(self, data: bytes, buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.int:
        sys_flag: cython.uint = get32(buf, at + SYS_FLAG_AT)
        queue_offset: cython.longlong = (
            get64(buf, at + QUEUE_OFFSET_AT) if self._light is None else light_offset(buf, at, self._light)
        )
        body: cython.Py_ssize_t = (
            at
            + BODY_AT
            + (HOST_V6_MORE if sys_flag & BORN_HOST_V6 else 0)
            + (HOST_V6_MORE if sys_flag & STORE_HOST_V6 else 0)
        )
        body_end: cython.Py_ssize_t = body + get32(buf, body - BODY_LENGTH_BACK)
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t = at + get32(buf, at)
        is_packed: cython.bint
        if queue_offset >= self._end:
            return BEHIND_END
        if queue_offset < self._begin:
            return ALL_TAKEN
        if self.rows == self._rows_max:
            return NO_ROOM
        self._queue_offset = queue_offset
        if get32(buf, at + MAGIC_AT) == MAGIC_V1_C:
            begin = body_end + 3 + buf[body_end]
        else:
            begin = body_end + 4 + ((buf[body_end] << 8) | buf[body_end + 1])
        is_packed = self._bodies is not None and sys_flag & 1 != 0
        if self._checks_crc and crc_in(buf, body, body_end - body) != get32(buf, at + BODY_CRC_AT):
            return FILL_BAD_BODY_CRC
        if self._reads_properties and not self._read_properties(data, buf, begin, end):
            return self._take_odd(data, buf, at, begin, end, body, body_end, is_packed, _cleaned(data[begin:end]))
        if is_packed:
            return self._take_odd(data, buf, at, begin, end, body, body_end, is_packed, None)
        return self._add(buf, at, sys_flag, buf, end - begin, buf, body, body_end)

    @cython.cfunc
    def _take_odd(
        self,
        data: bytes,
        buf: cython.const[cython.uchar][::1],
        at: cython.Py_ssize_t,
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        body: cython.Py_ssize_t,
        body_end: cython.Py_ssize_t,
        is_packed: cython.bint,
        cleaned: Any,
    ) -> cython.int:
        """Takes a record whose body or properties cannot be copied as they are: converted ones take their place."""
        plain: bytes = data
        text: cython.const[cython.uchar][::1] = buf
        bodies: cython.const[cython.uchar][::1]
        text_bytes: cython.Py_ssize_t = end - begin
        if is_packed:
            try:
                plain = decompress(data[body:body_end], get32(buf, at + SYS_FLAG_AT))
            except RemoteProtocolError:
                return FILL_BAD_PACKING
            body, body_end = 0, len(plain)
        bodies = plain
        if cleaned is not None:
            text = cleaned
            text_bytes = len(cleaned)
            self._scan(text, 0, text_bytes)
        return self._add(buf, at, get32(buf, at + SYS_FLAG_AT), text, text_bytes, bodies, body, body_end)

    @cython.cfunc
    @cython.inline
    def _read_properties(
        self, data: bytes, text: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.bint:
        """Finds the wanted properties; False if they must be cleaned first."""
        if self._scan(text, begin, end) >= 0x80:
            try:
                data[begin:end].decode()
            except UnicodeDecodeError:
                return False
        return not (self._has_nameless() or (self._has_map and self._is_any_named_twice(text)))

    @cython.cfunc
    def _scan(
        self, text: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.uint:
        """Notes the places of all properties, and of those with a column of their own; returns all bytes combined by OR."""
        entry: cython.Py_ssize_t = begin
        stop: cython.Py_ssize_t = begin
        separator: cython.Py_ssize_t
        size: cython.Py_ssize_t
        found: cython.Py_ssize_t = 0
        c: cython.uint
        seen: cython.uint = 0
        marks: cython.int[::1] = self._marks
        self._id_begin = self._id_end = self._keys_begin = self._keys_end = self._tags_begin = self._tags_end = -1
        self._group_begin = self._group_end = self._trace_begin = self._trace_end = self._due_begin = self._due_end = -1
        while entry < end:
            separator = -1
            stop = entry
            while stop < end:
                c = text[stop]
                if c <= 2:
                    if c == 2:
                        break
                    if c == 1 and separator < 0:
                        separator = stop
                seen |= c
                stop += 1
            if separator >= 0 and separator + 1 < stop:
                marks[3 * found] = entry
                marks[3 * found + 1] = separator
                marks[3 * found + 2] = stop
                found += 1
                size = separator - entry
                if size == 4:
                    if _is(text, entry, separator, b"TAGS"):
                        self._tags_begin, self._tags_end = separator + 1, stop
                    elif _is(text, entry, separator, b"KEYS"):
                        self._keys_begin, self._keys_end = separator + 1, stop
                elif size == 8:
                    if _is(text, entry, separator, b"UNIQ_KEY"):
                        self._id_begin, self._id_end = separator + 1, stop
                elif size == 11:
                    if _is(text, entry, separator, b"traceparent"):
                        self._trace_begin, self._trace_end = separator + 1, stop
                elif size == 12:
                    if _is(text, entry, separator, b"TIMER_OUT_MS"):
                        self._due_begin, self._due_end = separator + 1, stop
                elif size == 13 and _is(text, entry, separator, b"__SHARDINGKEY"):
                    self._group_begin, self._group_end = separator + 1, stop
            entry = stop + 1
        self._found = found
        return seen

    @cython.cfunc
    def _has_nameless(self) -> cython.bint:
        """Whether a property has no name: then whether it counts depends on the characters of its value."""
        i: cython.Py_ssize_t
        for i in range(self._found):
            if self._marks[3 * i] == self._marks[3 * i + 1]:
                return True
        return False

    @cython.cfunc
    def _is_any_named_twice(self, text: cython.const[cython.uchar][::1]) -> cython.bint:
        """Whether a name is repeated, or there are too many to compare them all: a map has each name once."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t
        size: cython.Py_ssize_t
        marks: cython.int[::1] = self._marks
        if self._found > _COMPARED_MAX:
            return True
        for i in range(1, self._found):
            size = marks[3 * i + 1] - marks[3 * i]
            for k in range(i):
                if marks[3 * k + 1] - marks[3 * k] != size:
                    continue
                n = 0
                while n < size and text[marks[3 * i] + n] == text[marks[3 * k] + n]:
                    n += 1
                if n == size:
                    return True
        return False

    @cython.cfunc
    @cython.inline
    def _is_full(self, text_bytes: cython.Py_ssize_t, body_bytes: cython.Py_ssize_t) -> cython.bint:
        """Whether a row may not fit. Each text may need as much room as all properties."""
        room: cython.Py_ssize_t = text_bytes + _ID_ROOM
        if self._bodies is not None and self._bodies.used_bytes + body_bytes > self._bodies._room:
            self.needed_bytes = body_bytes
            return True
        if self._ids is not None and self._ids.used_bytes + room > self._ids._room:
            return True
        if self._keys is not None and self._keys.used_bytes + room > self._keys._room:
            return True
        if self._tags is not None and self._tags.used_bytes + room > self._tags._room:
            return True
        if self._groups is not None and self._groups.used_bytes + room > self._groups._room:
            return True
        if self._traces is not None and self._traces.used_bytes + room > self._traces._room:
            return True
        return self._has_map and (
            self.entries + self._found > self._entries_max
            or self._map_names.used_bytes + room > self._map_names._room
            or self._map_values.used_bytes + room > self._map_values._room
        )

    @cython.cfunc
    @cython.inline
    def _add(
        self,
        buf: cython.const[cython.uchar][::1],
        at: cython.Py_ssize_t,
        sys_flag: cython.uint,
        text: cython.const[cython.uchar][::1],
        text_bytes: cython.Py_ssize_t,
        bodies: cython.const[cython.uchar][::1],
        body: cython.Py_ssize_t,
        body_end: cython.Py_ssize_t,
    ) -> cython.int:
        """Adds the record at `at` as the next row, with the properties found in `text` and the body in `bodies`."""
        row: cython.Py_ssize_t = self.rows
        stored: cython.Py_ssize_t = at + STORE_TIMESTAMP_AT + (HOST_V6_MORE if sys_flag & BORN_HOST_V6 else 0)
        tries: cython.Py_ssize_t = stored + 16 + (HOST_V6_MORE if sys_flag & STORE_HOST_V6 else 0)
        if self._tags_wanted is not None and not self._is_wanted(text):
            return ALL_TAKEN
        if self._is_full(text_bytes, body_end - body):
            return NO_ROOM
        if self._has_queue_ids:
            self._queue_ids[row] = get_s32(buf, at + QUEUE_ID_AT) if self._light is None else 0
        if self._has_flags:
            self._flags[row] = get_s32(buf, at + FLAG_AT)
        if self._has_sys_flags:
            self._sys_flags[row] = get_s32(buf, at + SYS_FLAG_AT)
        if self._has_queue_offsets:
            self._queue_offsets[row] = self._queue_offset
        if self._has_crcs:
            self._crcs[row] = get32(buf, at + BODY_CRC_AT)
        if self._has_born:
            self._born[row] = _microseconds(get64(buf, at + BORN_TIMESTAMP_AT))
        if self._has_stored:
            self._stored[row] = _microseconds(get64(buf, stored))
        if self._has_tries:
            self._tries[row] = get_s32(buf, tries)
        if self._bodies is not None:
            _put(self._bodies, row, bodies, body, body_end)
        if self._ids is not None:
            if self._id_begin >= 0:
                _put(self._ids, row, text, self._id_begin, self._id_end)
            else:
                _put_offset_id(self._ids, row, buf, stored + 8, tries - stored - 8, at + PHYSICAL_OFFSET_AT)
        if self._keys is not None:
            _put(self._keys, row, text, self._keys_begin, self._keys_end)
        if self._tags is not None:
            _put(self._tags, row, text, self._tags_begin, self._tags_end)
        if self._groups is not None:
            _put(self._groups, row, text, self._group_begin, self._group_end)
        if self._traces is not None:
            _put(self._traces, row, text, self._trace_begin, self._trace_end)
        if self._has_due:
            self._add_due(row, text)
        if self._has_map:
            self._add_properties(row, text)
        self.rows = row + 1
        return ALL_TAKEN

    @cython.cfunc
    def _is_wanted(self, text: cython.const[cython.uchar][::1]) -> cython.bint:
        """Whether the tag is a wanted one, compared as text: the broker compares only hashes."""
        tag: bytes
        if self._tags_begin >= 0:
            for tag in self._tags_wanted:
                if _is(text, self._tags_begin, self._tags_end, tag):
                    return True
        return False

    @cython.cfunc
    @cython.exceptval(check=False)
    def _add_due(self, row: cython.Py_ssize_t, text: cython.const[cython.uchar][::1]) -> cython.void:
        """Adds the due time of a delayed message; null if it has none, or one that is not a number."""
        ms: cython.longlong = 0
        i: cython.Py_ssize_t = self._due_begin
        is_there: cython.bint = i >= 0 and self._due_end - i <= 15
        while is_there and i < self._due_end:
            is_there = 48 <= text[i] <= 57
            ms = ms * 10 + text[i] - 48
            i += 1
        self._due[row] = ms * 1000 if is_there else 0
        _mark(self._due_valid, row, is_there)
        if not is_there:
            self.undelayed += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _add_properties(self, row: cython.Py_ssize_t, text: cython.const[cython.uchar][::1]) -> cython.void:
        i: cython.Py_ssize_t
        marks: cython.int[::1] = self._marks
        entry: cython.Py_ssize_t = self.entries
        for i in range(self._found):
            _put(self._map_names, entry, text, marks[3 * i], marks[3 * i + 1])
            _put(self._map_values, entry, text, marks[3 * i + 1] + 1, marks[3 * i + 2])
            entry += 1
        self.entries = entry
        self._map_ends[row + 1] = entry


def _cleaned(properties: bytes) -> bytes:
    """The properties as every consumer sees them: valid UTF-8, each name once."""
    return "".join([f"{name}\x01{value}\x02" for name, value in decode_properties(properties).items()]).encode()
