# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""A producer's batch as one record (topics with `queue.type=BatchCQ`): wraps it, checks it, and takes it apart again; and the
batches that RocketMQ's clients send, in the same form, made records in one pass. Pure.

The body is RocketMQ's batch wire form (`docs/formats/batch_consume_queue.md`), message after message:

    byte 0 size 4 | 4 magic 4 (0) | 8 body CRC 4 (0) | 12 flag 4 | 16 body length 4 | 20 body | properties length 2 | properties

The record's properties begin with INNER_BASE (the queue offset of the first message, 19 digits that the broker writes) and
INNER_NUM (how many messages there are). RocketMQ writes both without leading zeros, and in any order.
"""

from __future__ import annotations

from collections.abc import Callable

import cython

from ..model.errors import CorruptRecordError, MessageTooLarge, RemoteProtocolError
from .codes import (
    BAD_INNER_BATCH,
    BATCH_FLAGS,
    BODY_CRC_AT,
    BODY_LENGTH_BACK,
    BODY_LENGTH_ON,
    BODY_ON,
    BORN_HOST_AT,
    BORN_HOST_V6,
    BORN_TIMESTAMP_AT,
    COMPRESSED_BIT,
    COMPRESSED_LZ4,
    FIXED_BYTES,
    FLAG_AT,
    HOST_BITS,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    INNER_BASE_BYTES,
    INNER_BASE_DIGITS,
    INNER_BODY_AT,
    INNER_BODY_LENGTH_AT,
    INNER_FIXED_BYTES,
    INNER_FLAG_AT,
    INNER_MAX,
    INNER_NUM_DIGITS,
    INNER_NUM_NAME_BYTES,
    MAGIC_AT,
    NAME_END,
    PROPERTIES_MAX,
    PROPERTIES_SENT_MAX,
    QUEUE_OFFSET_AT,
    SHORT_NAME_BYTES,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    TOPIC_V1_MAX,
    VALUE_END,
    WHY_BAD_SIZE,
)
from .compression import compress_lz4, decompress
from .encoding import encode_record
from .primitives import (
    MAGIC_V1_C,
    MAGIC_V2_C,
    NAME_TAGS,
    check_lengths,
    copy_in,
    crc_in,
    find_body,
    find_byte,
    find_topic,
    get32,
    get64,
    put32,
    put64,
    topic_size,
)

_BASE_NAME: bytes = b"INNER_BASE\x01"
_NUM_NAME: bytes = b"INNER_NUM\x01"
_UNIQUE_NAME: bytes = b"UNIQ_KEY\x01"
_LIGHT_NAME: bytes = b"INNER_MULTI_DISPATCH\x01"


@cython.cfunc
def _begins_with(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, name: bytes) -> cython.bint:
    i: cython.Py_ssize_t
    for i in range(len(name)):
        if buf[at + i] != name[i]:
            return False
    return True


@cython.cfunc
def inner_count(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.int:
    """INNER_NUM of the proven record at `at`; 1 if it has none, or one that is no number of messages."""
    entry: cython.Py_ssize_t = find_topic(buf, at)
    entry += topic_size(buf, at, entry) + 2
    end: cython.Py_ssize_t = at + get32(buf, at)
    stop: cython.Py_ssize_t
    value: cython.int
    while end - entry > INNER_NUM_NAME_BYTES:
        stop = find_byte(buf, entry, end, VALUE_END)
        if stop - entry > INNER_NUM_NAME_BYTES and _begins_with(buf, entry, _NUM_NAME):
            value = 0
            entry += INNER_NUM_NAME_BYTES
            if stop - entry > INNER_NUM_DIGITS:
                return 1
            while entry < stop:
                if not 48 <= buf[entry] <= 57:
                    return 1
                value = 10 * value + (buf[entry] - 48)
                entry += 1
            return value if 1 <= value <= INNER_MAX else 1
        entry = stop + 1
    return 1


@cython.cfunc
def count_inner(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """How many messages a batch's plain body in buf[begin:end] holds; BAD_INNER_BATCH if their lengths do not add up."""
    at: cython.Py_ssize_t = begin
    size: cython.Py_ssize_t
    count: cython.Py_ssize_t = 0
    while at < end:
        size = inner_size(buf, at, end)
        if size < 0:
            return size
        count += 1
        at += size
    return count


@cython.cfunc
@cython.inline
def inner_size(
    buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Proves the lengths of the inner message at `at`; returns its size, or BAD_INNER_BATCH."""
    size: cython.Py_ssize_t
    length: cython.Py_ssize_t
    properties: cython.Py_ssize_t
    if end - at < INNER_FIXED_BYTES:
        return BAD_INNER_BATCH
    size = get32(buf, at)
    length = get32(buf, at + INNER_BODY_LENGTH_AT)
    if size < INNER_FIXED_BYTES or size > end - at or length > size - INNER_FIXED_BYTES:
        return BAD_INNER_BATCH
    properties = (buf[at + INNER_BODY_AT + length] << 8) | buf[at + INNER_BODY_AT + length + 1]
    if properties > PROPERTIES_MAX or size != INNER_FIXED_BYTES + length + properties:
        return BAD_INNER_BATCH
    return size


@cython.cfunc
def base_digits(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, count: cython.int) -> cython.Py_ssize_t:
    """Where the 19 digits of INNER_BASE are in the properties that begin at `at`; -1 if these do not begin with INNER_BASE
    and INNER_NUM as `wrap_batch` writes them, or INNER_NUM is not `count`.

    There must be INNER_PREFIX_BYTES of properties.
    """
    i: cython.Py_ssize_t
    number: cython.Py_ssize_t = at + INNER_BASE_BYTES
    value: cython.int = 0
    if not _begins_with(buf, at, _BASE_NAME) or not _begins_with(buf, number, _NUM_NAME):
        return -1
    number += INNER_NUM_NAME_BYTES
    for i in range(INNER_NUM_DIGITS):
        if not 48 <= buf[number + i] <= 57:
            return -1
        value = 10 * value + (buf[number + i] - 48)
    if buf[number + INNER_NUM_DIGITS] != VALUE_END or buf[number - 1] != NAME_END or value != count:
        return -1
    at += INNER_BASE_BYTES - INNER_BASE_DIGITS - 1
    return at if buf[at + INNER_BASE_DIGITS] == VALUE_END else -1


def wrap_batch(records: cython.const[cython.uchar][::1], used: int, compress_over: int) -> bytes:
    """One record that holds the batch of records in records[:used], which one producer encoded.

    A body of more than `compress_over` bytes is compressed as a whole, if that makes it smaller. The record has the tag of
    the messages if they all have the same one, and names light queues if one of them does: the broker refuses it by that,
    for a batch goes into none. Raises MessageTooLarge if it is more than 32767 messages.
    """
    end: cython.Py_ssize_t = used
    at: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = 0
    tag: bytes | None = None
    is_light: cython.bint = False
    while at < end:
        if check_lengths(records, at, end, end) < 0:
            raise CorruptRecordError(at, end - at, WHY_BAD_SIZE)
        is_light = is_light or _names_light_queues(records, at)
        own: bytes = _tag(records, at)
        if count == 0:
            tag = own
        elif tag is not None and tag != own:
            tag = None
        count += 1
        at += get32(records, at)
    if count > INNER_MAX:
        raise MessageTooLarge("number of messages of a batch", count, INNER_MAX)
    body: bytes = _inner_messages(records, end)
    flags: cython.uint = BATCH_FLAGS
    properties: bytes = _BASE_NAME + b"0" * INNER_BASE_DIGITS + b"\x02" + _NUM_NAME + b"%05d\x02" % count
    if len(body) > compress_over:
        packed: bytes = compress_lz4(body)
        if len(packed) < len(body):
            body = packed
            flags |= COMPRESSED_LZ4
            properties += _unique_id(records)
    if tag:
        properties += b"TAGS\x01" + tag + b"\x02"
    if is_light:
        properties += _LIGHT_NAME + b"\x02"
    topic: cython.Py_ssize_t = find_topic(records, 0)
    sent: cython.uint = get32(records, SYS_FLAG_AT)
    host: cython.Py_ssize_t = HOST_V6_BYTES if sent & BORN_HOST_V6 else HOST_V4_BYTES
    return encode_record(
        topic=bytes(records[topic : topic + topic_size(records, 0, topic)]),
        body=body,
        properties=properties,
        sys_flag=flags,
        born_timestamp_ms=get64(records, BORN_TIMESTAMP_AT),
        born_host=bytes(records[BORN_HOST_AT : BORN_HOST_AT + host]),
        store_host=bytes(HOST_V6_BYTES if sent & STORE_HOST_V6 else HOST_V4_BYTES),
    )


@cython.cfunc
def _inner_messages(records: cython.const[cython.uchar][::1], end: cython.Py_ssize_t) -> bytes:
    """The messages of the proven records in records[:end] in the batch wire form."""
    at: cython.Py_ssize_t = 0
    out: cython.Py_ssize_t = 0
    body: cython.Py_ssize_t
    length: cython.Py_ssize_t
    tail: cython.Py_ssize_t
    rest: cython.Py_ssize_t
    i: cython.Py_ssize_t
    plain: bytes
    inner = bytearray(end)  # a record is longer than its message, unless it was compressed
    buf: cython.uchar[::1] = inner
    while at < end:
        body = find_body(records, at)
        length = get32(records, body - BODY_LENGTH_BACK)
        tail = find_topic(records, at)
        tail += topic_size(records, at, tail)
        rest = at + get32(records, at) - tail  # properties and their length
        if get32(records, at + SYS_FLAG_AT) & COMPRESSED_BIT:
            plain = decompress(bytes(records[body : body + length]), get32(records, at + SYS_FLAG_AT))
            length = len(plain)
            if out + INNER_BODY_AT + length + rest + (end - at) > len(inner):
                grown = bytearray(out + INNER_BODY_AT + length + rest + (end - at))
                grown[:out] = inner[:out]
                inner = grown
                buf = inner
            copy_in(buf, out + INNER_BODY_AT, plain)
        else:
            for i in range(length):
                buf[out + INNER_BODY_AT + i] = records[body + i]
        put32(buf, out, INNER_BODY_AT + length + rest)
        put32(buf, out + INNER_FLAG_AT, get32(records, at + FLAG_AT))
        put32(buf, out + INNER_BODY_LENGTH_AT, length)
        out += INNER_BODY_AT + length
        for i in range(rest):
            buf[out + i] = records[tail + i]
        out += rest
        at += get32(records, at)
    return bytes(memoryview(inner)[:out])


@cython.cfunc
def _tag(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> bytes:
    """The tag of the proven record at `at`; empty if it has none."""
    entry: cython.Py_ssize_t = find_topic(buf, at)
    entry += topic_size(buf, at, entry) + 2
    end: cython.Py_ssize_t = at + get32(buf, at)
    stop: cython.Py_ssize_t
    while end - entry > SHORT_NAME_BYTES:
        stop = find_byte(buf, entry, end, VALUE_END)
        if get32(buf, entry) == NAME_TAGS and buf[entry + 4] == NAME_END:
            return bytes(buf[entry + SHORT_NAME_BYTES : stop])
        entry = stop + 1
    return b""


@cython.cfunc
def _names_light_queues(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.bint:
    """Whether the proven record at `at` names light queues, a lite topic's among them."""
    entry: cython.Py_ssize_t = find_topic(buf, at)
    entry += topic_size(buf, at, entry) + 2
    end: cython.Py_ssize_t = at + get32(buf, at)
    while end - entry > len(_LIGHT_NAME):
        if _begins_with(buf, entry, _LIGHT_NAME):
            return True
        entry = find_byte(buf, entry, end, VALUE_END) + 1
    return False


@cython.cfunc
def _unique_id(buf: cython.const[cython.uchar][::1]) -> bytes:
    """The property UNIQ_KEY of the first record, with its name; empty if it has none."""
    entry: cython.Py_ssize_t = find_topic(buf, 0)
    entry += topic_size(buf, 0, entry) + 2
    end: cython.Py_ssize_t = get32(buf, 0)
    stop: cython.Py_ssize_t
    while end - entry > len(_UNIQUE_NAME):
        stop = find_byte(buf, entry, end, VALUE_END)
        if _begins_with(buf, entry, _UNIQUE_NAME):
            return bytes(buf[entry:stop]) + b"\x02"
        entry = stop + 1
    return b""


def unwrap_batches(data: bytes) -> bytes:
    """The proven, contiguous records in `data`, with each record that holds a batch replaced by a record for each message.

    These have the batch's place in the log and its times and hosts, the queue offsets from the batch's on, and the flags,
    properties and bodies of their own. A batch that cannot be taken apart becomes one record whose body does not match its
    checksum, so its reader gets an error. A record whose sysFlag lacks NEED_UNWRAP stays as it is.
    """
    buf: cython.const[cython.uchar][::1] = data
    end: cython.Py_ssize_t = len(data)
    at: cython.Py_ssize_t = 0
    kept: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    parts: list[bytes] = []
    while at < end:
        size = get32(buf, at)
        if get32(buf, at + SYS_FLAG_AT) & BATCH_FLAGS == BATCH_FLAGS:
            if kept < at:
                parts.append(data[kept:at])
            parts.append(_unwrapped(data, buf, at))
            kept = at + size
        at += size
    if kept < end:
        parts.append(data[kept:])
    return b"".join(parts)


@cython.cfunc
def _unwrapped(data: bytes, buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> bytes:
    """The records of the messages in the batch at `at`."""
    body: cython.Py_ssize_t = find_body(buf, at)
    length: cython.Py_ssize_t = get32(buf, body - BODY_LENGTH_BACK)
    flags: cython.uint = get32(buf, at + SYS_FLAG_AT)
    count: cython.Py_ssize_t = inner_count(buf, at)
    plain: bytes = data[body : body + length]
    if crc_in(buf, body, length) != get32(buf, at + BODY_CRC_AT):
        return _broken(data, at)
    if flags & COMPRESSED_BIT:
        try:
            plain = decompress(plain, flags)
        except RemoteProtocolError:
            return _broken(data, at)
    inner: cython.const[cython.uchar][::1] = plain
    end: cython.Py_ssize_t = len(plain)
    if count_inner(inner, 0, end) != count:
        return _broken(data, at)
    tail: cython.Py_ssize_t = body + length  # the topic and its length
    topic_end: cython.Py_ssize_t = find_topic(buf, at)
    topic_end += topic_size(buf, at, topic_end)
    head: cython.Py_ssize_t = body - at
    topic_bytes: cython.Py_ssize_t = topic_end - tail
    result = bytearray(end + count * (head + topic_bytes + 2 - INNER_FIXED_BYTES))
    out: cython.uchar[::1] = result
    to: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t = 0
    own: cython.Py_ssize_t
    properties: cython.Py_ssize_t
    i: cython.Py_ssize_t
    queue_offset: cython.longlong = get64(buf, at + QUEUE_OFFSET_AT)
    while begin < end:
        own = get32(inner, begin + INNER_BODY_LENGTH_AT)
        properties = get32(inner, begin) - INNER_BODY_AT - own  # with their length
        for i in range(head):
            out[to + i] = buf[at + i]
        put32(out, to, head + own + topic_bytes + properties)
        put32(out, to + BODY_CRC_AT, crc_in(inner, begin + INNER_BODY_AT, own))
        put32(out, to + FLAG_AT, get32(inner, begin + INNER_FLAG_AT))
        put64(out, to + QUEUE_OFFSET_AT, queue_offset)
        put32(out, to + SYS_FLAG_AT, flags & HOST_BITS)
        put32(out, to + head - BODY_LENGTH_BACK, own)
        to += head
        for i in range(own):
            out[to + i] = inner[begin + INNER_BODY_AT + i]
        to += own
        for i in range(topic_bytes):
            out[to + i] = buf[tail + i]
        to += topic_bytes
        for i in range(properties):
            out[to + i] = inner[begin + INNER_BODY_AT + own + i]
        to += properties
        begin += INNER_BODY_AT + own + properties
        queue_offset += 1
    return bytes(result)


@cython.cfunc
def _broken(data: bytes, at: cython.Py_ssize_t) -> bytes:
    """The record of a batch that cannot be taken apart, as one plain message with a wrong checksum."""
    buf: cython.const[cython.uchar][::1] = data
    size: cython.Py_ssize_t = get32(buf, at)
    copy = bytearray(data[at : at + size])
    out: cython.uchar[::1] = copy
    body: cython.Py_ssize_t = find_body(buf, at)
    right: cython.uint = crc_in(buf, body, get32(buf, body - BODY_LENGTH_BACK))
    put32(out, BODY_CRC_AT, right ^ 1)
    put32(out, SYS_FLAG_AT, get32(buf, at + SYS_FLAG_AT) & HOST_BITS)
    return bytes(copy)


def accepted_messages(record: bytes, accepts: Callable[[bytes], bool]) -> list[bytes]:
    """The messages of a proven record that `accepts` takes, newest first, each as a record: of a plain one it is itself."""
    if get32(record, SYS_FLAG_AT) & BATCH_FLAGS != BATCH_FLAGS:
        return [record] if accepts(record) else []
    messages: bytes = unwrap_batches(record)
    begin: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    found: list[bytes] = []
    while begin < len(messages):
        size = get32(messages, begin)
        one: bytes = messages[begin : begin + size]
        if accepts(one):
            found.append(one)
        begin += size
    return found[::-1]


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
            if _has_name(buf, entry, stop, _UNIQUE_NAME):
                if stop - entry == len(_UNIQUE_NAME):
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


@cython.cfunc
@cython.inline
def _is_open(buf: cython.const[cython.uchar][::1], end: cython.Py_ssize_t) -> cython.bint:
    """Whether the last separator is left out of the properties of the message that ends there; each has properties."""
    return buf[end - 1] != VALUE_END


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
    more: cython.Py_ssize_t = 0  # separators that clients left out
    while at < end:
        at += get32(buf, at)
        more += _is_open(buf, at)
    at = 0
    made = bytearray(end + count * (fixed - INNER_FIXED_BYTES) + more)
    out: cython.uchar[::1] = made
    while at < end:
        length = get32(buf, at + INNER_BODY_LENGTH_AT)
        sent = get32(buf, at) - INNER_FIXED_BYTES - length
        is_open = _is_open(buf, at + get32(buf, at))
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
    return made
