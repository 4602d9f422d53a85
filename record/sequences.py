# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""The property PSEQ of idempotent producers: a record's producer and its number in the producer's sequence. Pure."""

from __future__ import annotations

import cython

from .codes import (
    BAD_BODY_CRC,
    BAD_SEQUENCE_ROOM,
    BAD_SIZE,
    BAD_SYS_FLAG,
    BAD_TRANSACTION,
    BODY_CRC_AT,
    BODY_LENGTH_BACK,
    COLON,
    NAME_END,
    PREPARED_OFFSET_BACK,
    SEQUENCE_BYTES,
    SEQUENCE_DIGITS,
    SHORT_NAME_BYTES,
    SYS_FLAG_AT,
    VALUE_END,
)
from .primitives import (
    CLIENT_SYS_FLAGS,
    NAME_PSEQ,
    SEQUENCED_BIT,
    check_lengths,
    copy_in,
    crc_in,
    find_body,
    find_byte,
    find_topic,
    get32,
    get64,
    hex_digit,
    put32,
    topic_size,
)


@cython.cfunc
@cython.inline
def find_sequence(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """The begin of PSEQ's value among the properties [begin, end); -1 if there is none."""
    at: cython.Py_ssize_t = begin
    while end - at > SHORT_NAME_BYTES:
        if get32(buf, at) == NAME_PSEQ and buf[at + 4] == NAME_END:
            return at + SHORT_NAME_BYTES
        at = find_byte(buf, at, end, VALUE_END) + 1
    return -1


def write_sequences(
    buffer: cython.uchar[::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_max: cython.Py_ssize_t,
    producer_id: bytes,
    first: cython.longlong,
) -> int:
    """Writes producer and sequence numbers `first`, `first` + 1, ... into the records in buffer[begin:end]; proves their
    lengths.

    Returns the number of records, or a BAD_ reason: then the bytes must not be used. Refuses fields that a client may not
    set, and a body that does not match its checksum, because the broker then stages the records as its own.
    """
    view: cython.const[cython.uchar][::1] = buffer
    at: cython.Py_ssize_t = begin
    size: cython.Py_ssize_t
    value: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    i: cython.Py_ssize_t
    shift: cython.int
    sys_flag: cython.uint
    sequence: cython.ulonglong = first
    room: cython.Py_ssize_t = len(producer_id) + SEQUENCE_BYTES  # ":" and 16 digits
    done: cython.int = 0
    if not 0 <= begin <= end <= len(buffer):
        return BAD_SIZE
    while at < end:
        size = check_lengths(view, at, end, record_max)
        if size < 0:
            return int(size)
        sys_flag = get32(view, at + SYS_FLAG_AT)
        if sys_flag & ~CLIENT_SYS_FLAGS:
            return BAD_SYS_FLAG
        value = find_body(view, at)
        if get64(view, value - PREPARED_OFFSET_BACK) != 0:
            return BAD_TRANSACTION
        if crc_in(view, value, get32(view, value - BODY_LENGTH_BACK)) != get32(view, at + BODY_CRC_AT):
            return BAD_BODY_CRC
        value = find_topic(view, at)
        value = find_sequence(view, value + topic_size(view, at, value) + 2, at + size)
        if value < 0:
            return BAD_SEQUENCE_ROOM
        stop = find_byte(view, value, at + size, VALUE_END)
        if stop - value != room or stop == at + size:
            return BAD_SEQUENCE_ROOM
        value = copy_in(buffer, value, producer_id)
        buffer[value] = COLON
        for i in range(SEQUENCE_DIGITS):
            shift = 4 * (15 - i)
            buffer[value + 1 + i] = hex_digit((sequence >> shift) & 15)
        put32(buffer, at + SYS_FLAG_AT, sys_flag | SEQUENCED_BIT)
        sequence += 1
        at += size
        done += 1
    return int(done)


def sequenced_stretches(records: cython.const[cython.uchar][::1]) -> list[tuple[str, int, int, int, int, int]]:
    """(producer id, first and last sequence, index of the first record, its begin, the last one's end) of each stretch.

    A stretch is one producer's consecutive sequences in these records (proven, contiguous). Records without SEQUENCED, or
    with a PSEQ that is not as the broker writes it, are in no stretch.
    """
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(records)
    size: cython.Py_ssize_t
    value: cython.Py_ssize_t
    colon: cython.Py_ssize_t
    i: cython.Py_ssize_t
    c: cython.uint
    index: cython.Py_ssize_t = 0
    known: cython.Py_ssize_t = -1  # the begin of the stretch's id
    known_length: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t = 0
    begin_index: cython.Py_ssize_t = 0
    first: cython.ulonglong = 0
    sequence: cython.ulonglong = 0
    next_sequence: cython.ulonglong = 0
    same: cython.bint
    found: list[tuple[str, int, int, int, int, int]] = []
    while at < end:
        size = get32(records, at)
        value = -1
        colon = 0
        if get32(records, at + SYS_FLAG_AT) & SEQUENCED_BIT:
            value = find_topic(records, at)
            value = find_sequence(records, value + topic_size(records, at, value) + 2, at + size)
            if value >= 0:
                colon = find_byte(records, value, at + size, VALUE_END) - SEQUENCE_BYTES
                if colon <= value or records[colon] != COLON:
                    value = -1
        if value >= 0:
            sequence = 0
            for i in range(SEQUENCE_DIGITS):
                c = records[colon + 1 + i]
                c = c - 48 if 48 <= c < 58 else c - 55 if 65 <= c < 71 else 255
                if c > 15 or (i == 0 and c > 7):
                    value = -1
                    break
                sequence = (sequence << 4) | c
        same = value >= 0 and known >= 0 and sequence == next_sequence and colon - value == known_length
        if same:
            for i in range(known_length):
                if records[value + i] != records[known + i]:
                    same = False
                    break
        if not same:
            if known >= 0:
                found.append(
                    (bytes(records[known : known + known_length]).decode("ascii", "replace"), int(first),
                     int(next_sequence) - 1, begin_index, begin, at)
                )  # fmt: skip
            known = value
            known_length = colon - value
            first = sequence
            begin = at
            begin_index = index
        next_sequence = sequence + 1
        index += 1
        at += size
    if known >= 0:
        found.append(
            (bytes(records[known : known + known_length]).decode("ascii", "replace"), int(first),
             int(next_sequence) - 1, begin_index, begin, at)
        )  # fmt: skip
    return found
