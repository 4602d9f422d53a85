# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""Batches as RocketMQ's clients send them, made records in one pass each. Pure.

A batch is one message after the other (`docs/formats/batch_consume_queue.md`):

    byte 0 size 4 | 4 magic 4 (0) | 8 body CRC 4 (0) | 12 flag 4 | 16 body length 4 | 20 body | properties length 2 | properties
"""

from __future__ import annotations

import cython

from ..model.errors import MessageTooLarge
from .codes import (
    BODY_CRC_AT,
    BODY_LENGTH_ON,
    BODY_ON,
    BORN_HOST_AT,
    BORN_HOST_V6,
    BORN_TIMESTAMP_AT,
    FIXED_BYTES,
    FLAG_AT,
    HOST_V6_BYTES,
    INNER_BODY_AT,
    INNER_BODY_LENGTH_AT,
    INNER_FIXED_BYTES,
    INNER_FLAG_AT,
    INNER_MAX,
    MAGIC_AT,
    PROPERTIES_MAX,
    PROPERTIES_SENT_MAX,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    TOPIC_V1_MAX,
    VALUE_END,
)
from .inner_batches import inner_size
from .primitives import MAGIC_V1_C, MAGIC_V2_C, copy_in, crc_in, find_byte, get32, put32, put64

_ID_NAME: bytes = b"UNIQ_KEY\x01"


@cython.cfunc
@cython.inline
def _has_name(
    buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, name: bytes
) -> cython.bint:
    """Whether the property in buf[at:end] has this name, which ends with 0x01."""
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = len(name)
    if end - at < n:
        return False
    for i in range(n):
        if buf[at + i] != name[i]:
            return False
    return True


def plain_batch_count(body: bytes, telling: list[bytes]) -> int:
    """How many messages a batch holds if each is whole, has one id, and no property of a name in `telling` (each ends with
    0x01); else 0, for a message with such a property may be treated in another way."""
    buf: cython.const[cython.uchar][::1] = body
    end: cython.Py_ssize_t = len(body)
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    entry: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    ids: cython.int
    name: bytes
    while at < end:
        size = inner_size(buf, at, end)
        if size < 0 or count == INNER_MAX:
            return 0
        entry = at + INNER_FIXED_BYTES + get32(buf, at + INNER_BODY_LENGTH_AT)
        at += size
        if at - entry >= PROPERTIES_SENT_MAX:  # and the last separator, which clients leave out
            return 0
        ids = 0
        while entry < at:
            stop = find_byte(buf, entry, at, VALUE_END)
            if _has_name(buf, entry, stop, _ID_NAME):
                if stop - entry == len(_ID_NAME):
                    return 0
                ids += 1
            else:
                for name in telling:
                    if _has_name(buf, entry, stop, name):
                        return 0
            entry = stop + 1
        if ids != 1:
            return 0
        count += 1
    return count


def batch_records(
    body: bytes,
    count: int,
    *,
    topic: bytes,
    own_properties: bytes,
    sys_flag: int,
    born_timestamp_ms: int,
    born_host: bytes,
    store_host_bytes: int,
    reconsume_times: int,
) -> bytearray:
    """The records of a batch of which `plain_batch_count` said `count`, as `encode_record` makes each, without what the broker
    assigns. `own_properties`: encoded, in front of each message's own; `store_host_bytes`: 8 or 20. Raises MessageTooLarge."""
    buf: cython.const[cython.uchar][::1] = body
    end: cython.Py_ssize_t = len(body)
    at: cython.Py_ssize_t = 0
    to: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t
    length: cython.Py_ssize_t
    sent: cython.Py_ssize_t
    properties: cython.Py_ssize_t
    is_open: cython.bint
    i: cython.Py_ssize_t
    wide: cython.Py_ssize_t = 2 if len(topic) > TOPIC_V1_MAX else 1
    own_bytes: cython.Py_ssize_t = len(own_properties)
    fixed: cython.Py_ssize_t = FIXED_BYTES + len(born_host) + store_host_bytes + wide + len(topic) + 2 + own_bytes
    born_ms: cython.longlong = born_timestamp_ms
    flags: cython.uint = (
        (sys_flag & ~0x30)
        | (BORN_HOST_V6 if len(born_host) == HOST_V6_BYTES else 0)
        | (STORE_HOST_V6 if store_host_bytes == HOST_V6_BYTES else 0)
    )
    made = bytearray(end + count * (fixed + 1 - INNER_FIXED_BYTES))  # 1: a separator
    out: cython.uchar[::1] = made
    while at < end:
        length = get32(buf, at + INNER_BODY_LENGTH_AT)
        sent = get32(buf, at) - INNER_FIXED_BYTES - length
        is_open = sent > 0 and buf[at + INNER_FIXED_BYTES + length + sent - 1] != VALUE_END
        properties = own_bytes + sent + (1 if is_open else 0)
        if properties > PROPERTIES_MAX:
            raise MessageTooLarge("properties", properties, PROPERTIES_MAX)
        begin = to
        put32(out, begin, fixed + length + properties - own_bytes)
        put32(out, begin + MAGIC_AT, MAGIC_V1_C if wide == 1 else MAGIC_V2_C)
        put32(out, begin + BODY_CRC_AT, crc_in(buf, at + INNER_BODY_AT, length))
        put32(out, begin + FLAG_AT, get32(buf, at + INNER_FLAG_AT))
        put32(out, begin + SYS_FLAG_AT, flags)
        put64(out, begin + BORN_TIMESTAMP_AT, born_ms)
        to = copy_in(out, begin + BORN_HOST_AT, born_host) + 8 + store_host_bytes
        put32(out, to, reconsume_times)
        put32(out, to + BODY_LENGTH_ON, length)
        to += BODY_ON
        at += INNER_BODY_AT
        for i in range(length):
            out[to + i] = buf[at + i]
        to += length
        at += length + 2
        if wide == 2:
            out[to] = (len(topic) >> 8) & 0xFF
            to += 1
        out[to] = len(topic) & 0xFF
        to = copy_in(out, to + 1, topic)
        out[to] = (properties >> 8) & 0xFF
        out[to + 1] = properties & 0xFF
        to = copy_in(out, to + 2, own_properties)
        for i in range(sent):
            out[to + i] = buf[at + i]
        to += sent
        at += sent
        if is_open:
            out[to] = VALUE_END
            to += 1
    del made[to:]
    return made
