# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""The record kernel: the one place where code touches every record. Pure.

Plain loops over memoryviews, annotated for Cython's pure-Python mode: compiled at install where there is a C
compiler, run as it stands otherwise (`COMPILED` says which; every test runs both). Here and nowhere else records are
encoded, checked, stamped, scanned, filtered, hashed, indexed and decoded.

The layout (RocketMQ's commit-log record, big-endian; `docs/formats/record.md`), with two IPv4 hosts:

    byte  0 size 4 | 4 magic 4 | 8 body CRC 4 | 12 queue id 4 | 16 flag 4 | 20 queue offset 8 | 28 physical offset 8
         36 sysFlag 4 | 40 born timestamp 8 | 48 born host 8 | 56 store timestamp 8 | 64 store host 8
         72 reconsume times 4 | 76 prepared transaction offset 8 | 84 body length 4 | 88 body, topic length 1 or 2,
         topic, properties length 2, properties

An IPv6 host takes 20 bytes and shifts what follows by 12. Nothing here reads the clock, a file or a socket. Compiled
code does not check bounds: every function that takes bytes from outside first proves each inner length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

import cython

from ..model.clock import datetime_of_ms
from ..model.errors import CorruptRecordError, MessageIllegal, MessageTooLarge
from ..model.properties import decode_properties
from ..model.queue import MessageQueue
from .compression import decompress
from .crc32 import crc32, crc32_address
from .kernel_host import check_host

COMPILED = cython.compiled

check_host(struct.calcsize("n"))

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
MAGIC_BLANK = 0xCBD43194
RECORD_OVERHEAD_BYTES = 91  # v1, two IPv4 hosts, without body, topic and properties
TERMINATOR_BYTES = 8  # zero bytes behind the last record; a record must leave room for them
UNIT_BYTES = 20  # a consume-queue unit: physical offset 8, size 4, tags code 8
ENTRY_BYTES = 20  # an index entry: key hash 4, physical offset 8, time difference 4, previous entry 4
INDEX_HEADER_BYTES = 40

# Why a scan or a check stopped. Zero and below are no records; reasons for refusal are texts in REASONS.
RUN_MORE = 1  # another run begins here
RUN_END = 0  # zeros: nothing was ever written here
RUN_BLANK = -1  # the rest of the segment is filler
BAD_SIZE = -2
BAD_MAGIC = -3
BAD_LENGTHS = -4
BAD_TOPIC = -5
BAD_SYS_FLAG = -6
BAD_BODY_SIZE = -7
BAD_PROPERTIES_SIZE = -8
BAD_COUNT = -9
BAD_OFFSET = -10
BAD_BODY_CRC = -11
BAD_TRANSACTION = -12
BAD_SEQUENCE_ROOM = -13

REASONS = {
    BAD_SIZE: "record size is below the minimum, over the limit, or past the end of the batch",
    BAD_MAGIC: "record magic is neither v1 nor v2",
    BAD_LENGTHS: "inner lengths do not add up to the record size",
    BAD_TOPIC: "record topic is not the topic of the request",
    BAD_SYS_FLAG: "sysFlag has bits a client may not set, or a store host of the other address family",
    BAD_BODY_SIZE: "body is over the limit",
    BAD_PROPERTIES_SIZE: "properties are over 32767 bytes",
    BAD_COUNT: "the batch does not hold as many records as its header says",
    BAD_OFFSET: "physical offset is not the record's position",
    BAD_BODY_CRC: "body checksum does not match",
    BAD_TRANSACTION: "prepared transaction offset must be zero",
    BAD_SEQUENCE_ROOM: "record has no property PSEQ of the size that its producer's sequence takes",
}

_V1 = cython.declare(cython.uint, 0xDAA320A7)
_V2 = cython.declare(cython.uint, 0xDAA320AB)
_BLANK = cython.declare(cython.uint, 0xCBD43194)
_UNIQ = cython.declare(cython.uint, 0x554E4951)  # property names as big-endian integers
_KEY = cython.declare(cython.uint, 0x5F4B4559)
_TAGS = cython.declare(cython.uint, 0x54414753)
_KEYS = cython.declare(cython.uint, 0x4B455953)
_PSEQ = cython.declare(cython.uint, 0x50534551)
_MASK = cython.declare(cython.uint, 0xFFFFFFFF)  # as C variables: literals this large would be Python objects
_SIGN = cython.declare(cython.uint, 0x80000000)
_SEQUENCED = cython.declare(cython.uint, 0x40000000)
_NEEDS_MAX = cython.declare(cython.int, 64)  # of a condition that are tested before it is
_OFFSET_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)  # no position in a log lies behind
_is_making = cython.declare(cython.bint, False)  # while a batch is made by who fills it in
_crc_at = cython.declare("unsigned int (*)(unsigned int, const unsigned char *, unsigned long long) noexcept nogil")
if cython.compiled:
    _crc_at = cython.cast(
        "unsigned int (*)(unsigned int, const unsigned char *, unsigned long long) noexcept nogil",
        cython.cast("void *", cython.cast(cython.size_t, crc32_address())),
    )
# Bits a producer may set: compressed, multi tags, the two host families, how it is compressed.
_SYS_FLAG_ALLOWED = cython.declare(cython.uint, 0x1 | 0x2 | 0x10 | 0x20 | 0x700)


@cython.cfunc
@cython.inline
def _get32(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.uint:
    if not cython.compiled:  # a cast is a call there, dearer than all the rest
        return (buf[at] << 24) | (buf[at + 1] << 16) | (buf[at + 2] << 8) | buf[at + 3]
    return (
        (cython.cast(cython.uint, buf[at]) << 24)
        | (cython.cast(cython.uint, buf[at + 1]) << 16)
        | (cython.cast(cython.uint, buf[at + 2]) << 8)
        | cython.cast(cython.uint, buf[at + 3])
    )


@cython.cfunc
@cython.inline
def _get64(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    if not cython.compiled:
        return (((_get32(buf, at) << 32) | _get32(buf, at + 4)) ^ (1 << 63)) - (1 << 63)
    value: cython.ulonglong = (cython.cast(cython.ulonglong, _get32(buf, at)) << 32) | _get32(buf, at + 4)
    return cython.cast(cython.longlong, value)


@cython.cfunc
@cython.inline
def _get_s32(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.int:
    value: cython.uint = _get32(buf, at)
    return cython.cast(cython.int, value) if cython.compiled else (value ^ (1 << 31)) - (1 << 31)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put32(buf: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.uint) -> cython.void:
    buf[at] = (value >> 24) & 0xFF
    buf[at + 1] = (value >> 16) & 0xFF
    buf[at + 2] = (value >> 8) & 0xFF
    buf[at + 3] = value & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put64(buf: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
    bits: cython.ulonglong = cython.cast(cython.ulonglong, value) if cython.compiled else value & 0xFFFFFFFFFFFFFFFF
    buf[at] = (bits >> 56) & 0xFF
    buf[at + 1] = (bits >> 48) & 0xFF
    buf[at + 2] = (bits >> 40) & 0xFF
    buf[at + 3] = (bits >> 32) & 0xFF
    buf[at + 4] = (bits >> 24) & 0xFF
    buf[at + 5] = (bits >> 16) & 0xFF
    buf[at + 6] = (bits >> 8) & 0xFF
    buf[at + 7] = bits & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _copy(buf: cython.uchar[::1], at: cython.Py_ssize_t, data: bytes) -> cython.Py_ssize_t:
    """Copies all of `data` to `at`; returns the position behind it."""
    i: cython.Py_ssize_t
    n: cython.Py_ssize_t = len(data)
    if cython.compiled:
        for i in range(n):
            buf[at + i] = data[i]
    else:
        buf[at : at + n] = data
    return at + n


@cython.cfunc
@cython.inline
def _crc_in(buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.uint:
    """The CRC-32 of buf[begin : begin + size], the 31 bits of it that a record has."""
    if cython.compiled and _crc_at:
        return _crc_at(0, cython.address(buf[begin]), size) & 0x7FFFFFFF
    return crc32(buf[begin : begin + size]) & 0x7FFFFFFF


@cython.cfunc
@cython.inline
def _crc_of(body: bytes) -> cython.uint:
    """The same of a whole body."""
    if cython.compiled and _crc_at:
        return _crc_at(0, cython.cast("const unsigned char *", body), len(body)) & 0x7FFFFFFF
    return crc32(body) & 0x7FFFFFFF


@cython.cfunc
@cython.inline
def _find(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t, byte: cython.uchar
) -> cython.Py_ssize_t:
    """Where `byte` first stands in [begin, end); `end` where it does not."""
    at: cython.Py_ssize_t = begin
    while at < end and buf[at] != byte:
        at += 1
    return at


@cython.cfunc
@cython.inline
def _hash_on(
    h: cython.uint, buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.uint:
    """Java's String.hashCode of UTF-8 text [begin, end), going on from `h`. 31^2 = 961, 31^3 = 29791, 31^4 = 923521."""
    at: cython.Py_ssize_t = begin
    c: cython.uint
    code: cython.uint
    while at + 4 <= end and (buf[at] | buf[at + 1] | buf[at + 2] | buf[at + 3]) < 0x80:
        h = (h * 923521 + buf[at] * 29791 + buf[at + 1] * 961 + buf[at + 2] * 31 + buf[at + 3]) & _MASK
        at += 4
    while at < end:
        c = buf[at]
        if c < 0x80:
            h = (h * 31 + c) & _MASK
            at += 1
        elif c < 0xE0 and at + 1 < end:
            h = (h * 31 + (((c & 0x1F) << 6) | (buf[at + 1] & 0x3F))) & _MASK
            at += 2
        elif c < 0xF0 and at + 2 < end:
            h = (h * 31 + (((c & 0x0F) << 12) | ((buf[at + 1] & 0x3F) << 6) | (buf[at + 2] & 0x3F))) & _MASK
            at += 3
        elif at + 3 < end:
            code = (
                ((c & 0x07) << 18) | ((buf[at + 1] & 0x3F) << 12) | ((buf[at + 2] & 0x3F) << 6) | (buf[at + 3] & 0x3F)
            )
            code = (code - 0x10000) & 0xFFFFF
            h = (h * 31 + (0xD800 | (code >> 10))) & _MASK
            h = (h * 31 + (0xDC00 | (code & 0x3FF))) & _MASK
            at += 4
        else:
            h = (h * 31 + 0xFFFD) & _MASK  # cut-off UTF-8, as Java's decoder replaces it
            at = end
    return h


@cython.cfunc
@cython.inline
def _index_hash(h: cython.uint) -> cython.uint:
    """RocketMQ's key hash for the index: abs(hashCode), and abs(MIN_VALUE), still negative there, becomes 0."""
    if h & _SIGN:
        h = ((h ^ _MASK) + 1) & _MASK
        if h == _SIGN:
            return 0
    return h


def hash_text(text: bytes) -> int:
    """Java's String.hashCode of UTF-8 `text`, signed 32 bits."""
    h: cython.uint = _hash_on(0, text, 0, len(text))
    return int(h) - (1 << 32) if h & _SIGN else int(h)


def index_topic_hash(topic: bytes) -> int:
    """Where the hash of each index key of a topic starts: of the text `topic#`, not yet made positive."""
    text = topic + b"#"
    return int(_hash_on(0, text, 0, len(text)))


def index_key_hash(topic: bytes, key: bytes) -> int:
    """The hash under which the index files hold a key: of the text `topic#key`."""
    text = topic + b"#" + key
    return int(_index_hash(_hash_on(0, text, 0, len(text))))


@cython.cfunc
@cython.inline
def _check_lengths(
    buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, record_max: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Proves size, magic and all inner lengths of the record at `at`; returns its size, or a BAD_ reason."""
    size: cython.Py_ssize_t
    magic: cython.uint
    sys_flag: cython.uint
    inner: cython.Py_ssize_t
    length: cython.Py_ssize_t
    if end - at < 91:
        return -2
    size = _get32(buf, at)
    if size < 91 or size > end - at or size > record_max:
        return -2
    magic = _get32(buf, at + 4)
    if magic != _V1 and magic != _V2:
        return -3
    sys_flag = _get32(buf, at + 36)
    inner = 84
    if sys_flag & 0x10:
        inner += 12
    if sys_flag & 0x20:
        inner += 12
    if inner + 7 > size:
        return -4
    length = _get32(buf, at + inner)  # body
    if length > size:
        return -4
    inner += 4 + length
    if magic == _V1:
        if inner + 3 > size:
            return -4
        length = buf[at + inner]
        inner += 1 + length
    else:
        if inner + 4 > size:
            return -4
        length = (buf[at + inner] << 8) | buf[at + inner + 1]
        inner += 2 + length
    if inner + 2 > size:
        return -4
    length = (buf[at + inner] << 8) | buf[at + inner + 1]
    if length > 32767:
        return -8
    if inner + 2 + length != size:
        return -4
    return size


@cython.cfunc
@cython.inline
def _body_at(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where the body of a proven record begins."""
    sys_flag: cython.uint = _get32(buf, at + 36)
    return at + 88 + (12 if sys_flag & 0x10 else 0) + (12 if sys_flag & 0x20 else 0)


@cython.cfunc
@cython.inline
def _topic_at(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where the topic (behind its length) of a proven record begins."""
    body: cython.Py_ssize_t = _body_at(buf, at)
    return body + _get32(buf, body - 4) + (1 if _get32(buf, at + 4) == _V1 else 2)


@cython.cfunc
@cython.inline
def _topic_length(
    buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, topic_at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    if _get32(buf, at + 4) == _V1:
        return buf[topic_at - 1]
    return (buf[topic_at - 2] << 8) | buf[topic_at - 1]


# ---------------------------------------------------------------------------------------------------- encoding


def encode_record(
    *,
    topic: bytes,
    body: bytes,
    properties: bytes = b"",
    queue_id: int = 0,
    flag: int = 0,
    queue_offset: int = 0,
    physical_offset: int = 0,
    sys_flag: int = 0,
    born_timestamp_ms: int = 0,
    born_host: bytes = bytes(8),
    store_timestamp_ms: int = 0,
    store_host: bytes = bytes(8),
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
) -> bytes:
    """One whole record. v2 exactly where the topic is longer than 127 bytes; host bits of sysFlag follow the hosts."""
    wide: int = 2 if len(topic) > 127 else 1
    if len(properties) > 32767:
        raise MessageTooLarge("properties", len(properties), 32767)
    if len(topic) > 65535 or len(born_host) not in (8, 20) or len(store_host) not in (8, 20):
        raise MessageIllegal("topic or host length")
    sys_flag = (sys_flag & ~0x30) | (0x10 if len(born_host) == 20 else 0) | (0x20 if len(store_host) == 20 else 0)
    size: int = 72 + len(born_host) + len(store_host) + len(body) + wide + len(topic) + 2 + len(properties)
    out = bytearray(size)
    buf: cython.uchar[::1] = memoryview(out)
    at: cython.Py_ssize_t
    _put32(buf, 0, size)
    _put32(buf, 4, MAGIC_V2 if wide == 2 else MAGIC_V1)
    _put32(buf, 8, _crc_of(body))
    _put32(buf, 12, queue_id)
    _put32(buf, 16, flag & 0xFFFFFFFF)
    _put64(buf, 20, queue_offset)
    _put64(buf, 28, physical_offset)
    _put32(buf, 36, sys_flag)
    _put64(buf, 40, born_timestamp_ms)
    at = _copy(buf, 48, born_host)
    _put64(buf, at, store_timestamp_ms)
    at = _copy(buf, at + 8, store_host)
    _put32(buf, at, reconsume_times)
    _put64(buf, at + 4, prepared_transaction_offset)
    _put32(buf, at + 12, len(body))
    at = _copy(buf, at + 16, body)
    if wide == 2:
        buf[at] = len(topic) >> 8
        at += 1
    buf[at] = len(topic) & 0xFF
    at = _copy(buf, at + 1, topic)
    buf[at] = len(properties) >> 8
    buf[at + 1] = len(properties) & 0xFF
    _copy(buf, at + 2, properties)
    return bytes(out)


def encode_blank(remaining: int) -> bytes:
    """The filler that ends a segment with `remaining` bytes left: the remaining size and the blank magic."""
    return remaining.to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")


@cython.cfunc
def _plain(value: bytes, blank: cython.uchar) -> cython.bint:
    """True where no byte is a property separator (0x01, 0x02) nor `blank`."""
    i: cython.Py_ssize_t
    c: cython.uchar
    for i in range(len(value)):
        c = value[i]
        if c == 1 or c == 2 or c == blank:
            return False
    return True


@cython.cfunc
@cython.inline
def _hex(nibble: cython.uint) -> cython.uchar:
    return nibble + (48 if nibble < 10 else 55)


@cython.final
@cython.cclass
class Accumulator:
    """Encodes messages of one topic into one buffer, back to back: complete records, broker-assigned fields zero.

    Owned by whoever holds the producer's lock. A batch begins with `begin`, takes messages by the appending methods
    until one returns False (it does not fit: swap and append again) and ends with `swap`. Each method is one call
    into compiled code, so that no other thread can come in between.
    """

    count = cython.declare(cython.int, visibility="readonly")
    used = cython.declare(cython.Py_ssize_t, visibility="readonly")
    capacity = cython.declare(cython.Py_ssize_t, visibility="readonly")
    topic = cython.declare(bytes, visibility="readonly")
    id_prefix = cython.declare(bytes, visibility="readonly")
    born_ms = cython.declare(cython.longlong, visibility="readonly")
    month_ms = cython.declare(cython.uint, visibility="readonly")
    counter = cython.declare(cython.uint, visibility="readonly")
    first_counter = cython.declare(cython.uint, visibility="readonly")
    _body_max: cython.Py_ssize_t
    _store: bytearray
    _buf: cython.uchar[::1]
    _born_host: bytes
    _sys_flag: cython.uint
    _store_host_bytes: cython.Py_ssize_t
    _id_head: bytes
    _own_properties: bytes
    _own_bytes: cython.Py_ssize_t
    _tags_text: object
    _tags_bytes: bytes

    def __init__(
        self,
        topic: bytes,
        capacity: int,
        *,
        id_prefix: bytes,
        born_host: bytes = bytes(8),
        store_host_bytes: int = 8,
        body_max: int = 4 * 1024 * 1024,
        own_properties: bytes = b"",
    ) -> None:
        """`id_prefix`: the 10 bytes of `model.ids.unique_id_prefix`; its salt must be this accumulator's alone.

        `own_properties`: encoded, for every record.
        """
        if len(id_prefix) != 10 or len(born_host) not in (8, 20) or store_host_bytes not in (8, 20):
            raise ValueError("id prefix or host length")
        self.topic = topic
        self.capacity = capacity
        self.id_prefix = id_prefix
        self._body_max = body_max
        self._born_host = born_host
        self._store_host_bytes = store_host_bytes
        self._sys_flag = (0x10 if len(born_host) == 20 else 0) | (0x20 if store_host_bytes == 20 else 0)
        self._own_properties = own_properties
        self._own_bytes = len(own_properties) + 42  # and UNIQ_KEY, 0x01, 32 digits, 0x02
        self.counter = 0
        self._tags_text = None
        self._tags_bytes = b""
        self._id_head = b""
        self._adopt(bytearray(capacity))
        self.begin(0, 0)

    @cython.cfunc
    def _adopt(self, buffer: bytearray):
        self._store = buffer
        self._buf = memoryview(buffer)
        self.used = 0
        self.count = 0
        self.first_counter = self.counter

    def begin(self, born_ms: int, month_ms: int) -> None:
        """Sets the born time of the batch and of its ids: ms since the epoch, and since the first of the month (UTC)."""
        self.born_ms = born_ms
        self.month_ms = month_ms & 0xFFFFFFFF
        self._id_head = (
            self._own_properties
            + b"UNIQ_KEY\x01"
            + (self.id_prefix + (month_ms & 0xFFFFFFFF).to_bytes(4, "big")).hex().upper().encode()
        )

    def append(
        self,
        body: bytes,
        tags: str | None = None,
        keys: str | Sequence[str] | None = None,
        properties: bytes = b"",
        flag: int = 0,
        sys_flag: int = 0,
    ) -> bool:
        """Encodes one message; False where it does not fit (nothing changed).

        `keys`: None, one text, or a sequence of texts. `properties`: encoded, without KEYS, TAGS and UNIQ_KEY.
        `sys_flag`: compression bits of a body that is compressed already. Raises MessageIllegal, MessageTooLarge.
        """
        key_bytes: bytes = b""
        tag_bytes: bytes = b""
        if tags is not None:
            if tags is not self._tags_text:
                encoded: bytes = tags.encode()
                if not encoded or not _plain(encoded, 0):
                    raise MessageIllegal(f"tags {tags!r}: must not be empty nor hold 0x00, 0x01 or 0x02")
                self._tags_text = tags
                self._tags_bytes = encoded
            tag_bytes = self._tags_bytes
        if keys is not None:
            key_bytes = _encode_keys(keys)
        return self._append(body, tag_bytes, key_bytes, properties, flag & _MASK, sys_flag)

    def append_many(
        self, bodies: list[bytes], begin: int, tags: str | list[str] | None = None, keys: list[Any] | None = None
    ) -> int:
        """Encodes bodies[begin:] while they fit; returns the index of the first that did not.

        `tags`: None, one text for all, or a list of texts; `keys`: None or a list (of texts or sequences), both as
        long as `bodies`.
        """
        i: cython.Py_ssize_t = begin
        n: cython.Py_ssize_t = len(bodies)
        if tags is None and keys is None:
            while i < n:
                if not self._append(bodies[i], b"", b"", b"", 0, 0):
                    break
                i += 1
            return i
        while i < n:
            tag: str | None = tags[i] if isinstance(tags, list) else tags
            if not self.append(bodies[i], tag, None if keys is None else keys[i]):
                break
            i += 1
        return i

    @cython.cfunc
    def _append(
        self,
        body: bytes,
        tags: bytes,
        keys: bytes,
        properties: bytes,
        flag: cython.uint,
        sys_flag: cython.uint,
    ) -> cython.bint:
        if body is None or not isinstance(body, bytes):
            raise MessageIllegal(f"body is {type(body).__name__}: expected bytes")
        n: cython.Py_ssize_t = len(body)
        if n > self._body_max:
            raise MessageTooLarge("message body", n, self._body_max)
        crc: cython.uint = _crc_of(body)  # first: `crc32` lets other threads run over a long body
        topic: bytes = self.topic
        born_host: bytes = self._born_host
        topic_length: cython.Py_ssize_t = len(topic)
        wide: cython.Py_ssize_t = 2 if topic_length > 127 else 1
        properties_length: cython.Py_ssize_t = len(properties) + self._own_bytes
        if len(tags) > 0:
            properties_length += 6 + len(tags)
        if len(keys) > 0:
            properties_length += 6 + len(keys)
        if properties_length > 31743:  # the rest of 32767 is for what a delay, a retry and a dead letter add
            raise MessageTooLarge("properties", properties_length, 31743)
        size: cython.Py_ssize_t = (
            72 + len(born_host) + self._store_host_bytes + n + wide + topic_length + 2 + properties_length
        )
        at: cython.Py_ssize_t = self.used
        if at + size > self.capacity:
            if self.count > 0:
                return False
            self.capacity = size  # one message larger than the buffer gets a buffer of its own
            self._adopt(bytearray(size))
            at = 0
        buf: cython.uchar[::1] = self._buf
        _put32(buf, at, size)
        _put32(buf, at + 4, _V1 if wide == 1 else _V2)
        _put32(buf, at + 8, crc)
        _put32(buf, at + 12, 0)
        _put32(buf, at + 16, flag)
        _put64(buf, at + 20, 0)
        _put64(buf, at + 28, 0)
        _put32(buf, at + 36, self._sys_flag | sys_flag)
        _put64(buf, at + 40, self.born_ms)
        at = _copy(buf, at + 48, born_host)
        _put64(buf, at, 0)
        _put64(buf, at + 8, 0)
        if self._store_host_bytes == 20:
            _put64(buf, at + 16, 0)
            _put32(buf, at + 24, 0)
            at += 12
        _put32(buf, at + 16, 0)
        _put64(buf, at + 20, 0)
        _put32(buf, at + 28, n)
        at = _copy(buf, at + 32, body)
        if wide == 2:
            buf[at] = topic_length >> 8
            at += 1
        buf[at] = topic_length & 0xFF
        at = _copy(buf, at + 1, topic)
        buf[at] = properties_length >> 8
        buf[at + 1] = properties_length & 0xFF
        at = _copy(buf, at + 2, properties)
        if len(keys) > 0:
            at = _copy(buf, at, b"KEYS\x01")
            at = _copy(buf, at, keys)
            buf[at] = 2
            at += 1
        if len(tags) > 0:
            at = _copy(buf, at, b"TAGS\x01")
            at = _copy(buf, at, tags)
            buf[at] = 2
            at += 1
        at = _copy(buf, at, self._id_head)
        counter: cython.uint = self.counter
        buf[at] = _hex((counter >> 12) & 15)
        buf[at + 1] = _hex((counter >> 8) & 15)
        buf[at + 2] = _hex((counter >> 4) & 15)
        buf[at + 3] = _hex(counter & 15)
        buf[at + 4] = 2
        self.counter = (counter + 1) & 0xFFFF
        self.count += 1
        self.used = at + 5
        return True

    def swap(self, free: bytearray) -> tuple[bytearray, int, int, int, int, int]:
        """Ends the batch and goes on in `free`: (buffer, bytes used, count, born ms, month ms, first id counter)."""
        ended = (self._store, self.used, self.count, self.born_ms, self.month_ms, self.first_counter)
        self.capacity = len(free)
        self._adopt(free)
        return ended


def check_texts(tags: object, keys: object) -> None:
    """Raises MessageIllegal where tags are no text, or keys neither a text nor a sequence of texts."""
    if tags is not None and not isinstance(tags, str):
        raise MessageIllegal(f"tags is {type(tags).__name__}: expected str or None")
    if keys is None or isinstance(keys, str):
        return
    if isinstance(keys, (list, tuple, Sequence)):  # the first two cost no look-up
        for key in keys:
            if not isinstance(key, str):
                break
        else:
            return
    raise MessageIllegal(f"keys is {type(keys).__name__}: expected str, or a sequence of str")


@cython.cfunc
def _encode_keys(keys: str | Sequence[str]) -> bytes:
    encoded: bytes
    if isinstance(keys, str):
        encoded = keys.encode()
        if not encoded or not _plain(encoded, 32):
            raise MessageIllegal(f"key {keys!r}: must not be empty nor hold a blank, 0x01 or 0x02")
        return encoded
    return b" ".join([_encode_keys(key) for key in keys])


def ended_waits(records: cython.const[cython.uchar][::1]) -> list[tuple[int, int]]:
    """Of each record among these (proven, back to back) that ends a wait: (position behind it, physical offset of the record
    that waited)."""
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(records)
    cause: cython.longlong
    found: list[tuple[int, int]] = []
    while at < end:
        cause = _get64(records, _body_at(records, at) - 12)
        at += _get32(records, at)
        if cause < 0:
            found.append((at, -1 - cause))
    return found


@cython.cfunc
@cython.inline
def _sequence_at(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Where the value of property PSEQ begins among the properties [begin, end); -1: there is none."""
    at: cython.Py_ssize_t = begin
    while end - at > 5:
        if _get32(buf, at) == _PSEQ and buf[at + 4] == 1:
            return at + 5
        at = _find(buf, at, end, 2) + 1
    return -1


def write_sequences(
    buffer: cython.uchar[::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    record_max: cython.Py_ssize_t,
    producer_id: bytes,
    first: cython.longlong,
) -> int:
    """Fills in who sent the records in buffer[begin:end] as which of its sequences: `first`, and so on. Proves what it reads.

    Returns how many there are, or a BAD_ reason: the bytes are not to be used then. What a client may not set is refused,
    and so is a body that has not its checksum, since the broker stages them as its own from then on.
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
    room: cython.Py_ssize_t = len(producer_id) + 17  # ":" and 16 digits
    done: cython.int = 0
    if not 0 <= begin <= end <= len(buffer):
        return BAD_SIZE
    while at < end:
        size = _check_lengths(view, at, end, record_max)
        if size < 0:
            return int(size)
        sys_flag = _get32(view, at + 36)
        if sys_flag & ~_SYS_FLAG_ALLOWED:
            return BAD_SYS_FLAG
        value = _body_at(view, at)
        if _get64(view, value - 12) != 0:
            return BAD_TRANSACTION
        if _crc_in(view, value, _get32(view, value - 4)) != _get32(view, at + 8):
            return BAD_BODY_CRC
        value = _topic_at(view, at)
        value = _sequence_at(view, value + _topic_length(view, at, value) + 2, at + size)
        if value < 0:
            return BAD_SEQUENCE_ROOM
        stop = _find(view, value, at + size, 2)
        if stop - value != room or stop == at + size:
            return BAD_SEQUENCE_ROOM
        value = _copy(buffer, value, producer_id)
        buffer[value] = 58  # ":"
        for i in range(16):
            shift = 4 * (15 - i)
            buffer[value + 1 + i] = _hex((sequence >> shift) & 15)
        _put32(buffer, at + 36, sys_flag | _SEQUENCED)
        sequence += 1
        at += size
        done += 1
    return int(done)


def why_refused(
    reason: int, batch: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> str:
    """What a sender is told of its batch in batch[begin:end], for which `stamp` or `write_sequences` returned `reason`."""
    at: cython.Py_ssize_t = begin
    body: cython.Py_ssize_t
    index: cython.Py_ssize_t = 0
    text: str = REASONS.get(reason, REASONS[BAD_SIZE])
    if reason != BAD_BODY_CRC:
        return text
    while _check_lengths(batch, at, end, end - begin) > 0:
        body = _body_at(batch, at)
        if _crc_in(batch, body, _get32(batch, body - 4)) != _get32(batch, at + 8):
            break
        at += _get32(batch, at)
        index += 1
    return f"{text}: message {index} (from 0) of the batch, at byte {at - begin}; encode it again and send it again"


def sequenced_stretches(records: cython.const[cython.uchar][::1]) -> list[tuple[str, int, int, int, int, int]]:
    """Who sent these records (proven, back to back) as what: (producer id, first and last sequence, index of the first record,
    where it begins, where the last one ends) of each stretch of one producer's consecutive sequences.

    Records without SEQUENCED, and such whose PSEQ is not what the broker writes, are in no stretch.
    """
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(records)
    size: cython.Py_ssize_t
    value: cython.Py_ssize_t
    colon: cython.Py_ssize_t
    i: cython.Py_ssize_t
    c: cython.uint
    index: cython.Py_ssize_t = 0
    known: cython.Py_ssize_t = -1  # where the stretch's id stands
    known_length: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t = 0
    begin_index: cython.Py_ssize_t = 0
    first: cython.ulonglong = 0
    sequence: cython.ulonglong = 0
    next_sequence: cython.ulonglong = 0
    same: cython.bint
    found: list[tuple[str, int, int, int, int, int]] = []
    while at < end:
        size = _get32(records, at)
        value = -1
        colon = 0
        if _get32(records, at + 36) & _SEQUENCED:
            value = _topic_at(records, at)
            value = _sequence_at(records, value + _topic_length(records, at, value) + 2, at + size)
            if value >= 0:
                colon = _find(records, value, at + size, 2) - 17
                if colon <= value or records[colon] != 58:
                    value = -1
        if value >= 0:
            sequence = 0
            for i in range(16):
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


def batch_sizes(buffer: bytearray, used: int) -> list[int]:
    """The sizes of the records in a batch we encoded, in order (for the physical offset of each)."""
    view: cython.const[cython.uchar][::1] = memoryview(buffer)
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = used
    sizes: list[int] = []
    while at < end:
        sizes.append(_get32(view, at))
        at += _get32(view, at)
    return sizes


def whole_records(segment: cython.const[cython.uchar][::1], begin: int, stop: int, full: int) -> tuple[int, int]:
    """(position behind the last whole record, what it is followed by) of the records from `begin` on.

    They end before `stop`, and before `full` unless the first goes beyond it alone. Followed by: RUN_MORE = a record that
    has no room any more, or `stop`; RUN_BLANK = the blank record that fills the segment; BAD_SIZE = what is no record.
    """
    at: cython.Py_ssize_t = begin
    first: cython.Py_ssize_t = begin
    end: cython.Py_ssize_t = stop
    room_end: cython.Py_ssize_t = full
    size: cython.Py_ssize_t
    if begin < 0 or end > len(segment):
        raise ValueError("outside the segment")
    while at < end:
        if end - at < 8:
            return at, BAD_SIZE
        size = _get32(segment, at)
        if _get32(segment, at + 4) == _BLANK:
            return at, RUN_BLANK if at + size == len(segment) else BAD_SIZE
        if size < RECORD_OVERHEAD_BYTES or size > end - at:
            return at, BAD_SIZE
        if at > first and at + size > room_end:
            break
        at += size
    return at, RUN_MORE


# ---------------------------------------------------------------------------- checking, stamping, scanning


@cython.final
@cython.cclass
class RunKernel:
    """One pass over a run of records: of a batch that comes in (`stamp`) or of bytes on disk (`scan`).

    Either leaves, for the records of the run, their consume-queue units in `units` and the hashes of their index keys
    in `hashes`, with `key_offsets` beside them; `units_end` (bytes) and `keys_end` (entries) grow from call to call
    until `clear`. Owned by one thread.
    """

    units = cython.declare(bytearray, visibility="readonly")
    hashes = cython.declare(object, visibility="readonly")  # memoryview of uint32
    key_offsets = cython.declare(object, visibility="readonly")  # memoryview of int64
    units_end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    keys_end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    # of the run scanned last
    topic = cython.declare(bytes, visibility="readonly")
    queue_id = cython.declare(cython.int, visibility="readonly")
    queue_offset = cython.declare(cython.longlong, visibility="readonly")
    count = cython.declare(cython.int, visibility="readonly")
    end = cython.declare(cython.Py_ssize_t, visibility="readonly")
    status = cython.declare(cython.int, visibility="readonly")
    store_timestamp_ms = cython.declare(cython.longlong, visibility="readonly")
    sys_flag = cython.declare(cython.uint, visibility="readonly")
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
        """`store_host`: 8 or 20 bytes, written into each stamped record. `capacity`: units to make room for at first.

        `index_tags`: the tags are a key too, of the text `topic#T#tags`, behind the others (RocketMQ 5.5 does so).
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
        self._topic_hash = _hash_on(0, b"#", 0, 1)
        self._reserve_units(capacity * 20)
        self._reserve_keys(capacity)
        self.clear()

    def clear(self) -> None:
        """Forgets all units and keys."""
        self.units_end = 0
        self.keys_end = 0

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
    ) -> cython.int:
        """Checks a producer's batch in buffer[begin:end] and writes the broker's fields into it.

        Returns the number of records, or a BAD_ reason: then `units` and `hashes` are as before and the bytes of the
        batch are not to be used. `topic_hash`: `index_topic_hash(topic)`. `queue_offset`, `physical_offset`: of the
        first record. `own`: the broker made the records, which may hold what a client may not set, or has checked them:
        their bodies are not held to their checksums.
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
        host_flag: cython.uint = 0x20 if len(host) == 20 else 0
        host_bits: cython.longlong = self._store_host_bits
        reason: cython.int = 0
        if not 0 <= begin <= end <= len(buffer):
            return -2
        if physical_offset < 0 or physical_offset > _OFFSET_MAX - (end - begin):
            return -10
        self._reserve_units(units_before + (end - begin) // 91 * 20 + 20)
        units: cython.uchar[::1] = self._units
        out: cython.Py_ssize_t = units_before
        while at < end:
            size = _check_lengths(view, at, end, self._record_max)
            if size < 0:
                reason = size
                break
            sys_flag = _get32(view, at + 36)
            if (sys_flag & ~_SYS_FLAG_ALLOWED and not own) or (sys_flag & 0x20) != host_flag:
                reason = -6
                break
            store = at + 56 + (12 if sys_flag & 0x10 else 0)
            inner = store + 8 + len(host)  # reconsume times
            if _get64(view, inner + 4) != 0 and not own:
                reason = -12
                break
            if _get32(view, inner + 12) > self._body_max:
                reason = -7
                break
            if not own and _crc_in(view, inner + 16, _get32(view, inner + 12)) != _get32(view, at + 8):
                reason = -11
                break
            tail = _topic_at(view, at)
            if _topic_length(view, at, tail) != topic_length:
                reason = -5
                break
            for i in range(topic_length):
                if view[tail + i] != topic[i]:
                    reason = -5
                    break
            if reason:
                break
            tail += topic_length
            tags_code = _scan_properties(self, view, tail + 2, at + size, topic_hash, physical_offset)
            _put32(buffer, at + 12, queue_id)
            _put64(buffer, at + 20, queue_offset)
            _put64(buffer, at + 28, physical_offset)
            _put64(buffer, store, store_timestamp_ms)
            if host_flag:
                _copy(buffer, store + 8, host)
            else:
                _put64(buffer, store + 8, host_bits)
            _put64(units, out, physical_offset)
            _put32(units, out + 8, size)
            _put64(units, out + 12, tags_code)
            out += 20
            queue_offset += 1
            physical_offset += size
            at += size
            done += 1
        if reason == 0 and done != count:
            reason = -9
        if reason:
            self.units_end = units_before
            self.keys_end = keys_before
            return reason
        self.units_end = out
        return done

    def scan(
        self,
        buffer: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        physical_offset: cython.longlong,
        check_body_crc: cython.bint = False,
        count_max: cython.int = 0x7FFFFFFF,
    ) -> cython.int:
        """Reads the run of records that begins at `begin`, where `physical_offset` is: one topic, one queue, in order.

        All have one store time. Sets `topic`, `queue_id`, `queue_offset` (of the first), `count`, `end` (behind the
        last), `sys_flag` (of the last, with ENDS_WAIT where any of them ends the wait of another record, and SEQUENCED
        where any counts in its producer's sequence), `store_timestamp_ms`, and `status`: why the run ended there.
        Returns `count`. A record counts only where its physical offset field is its position. Transaction records
        (half, rollback) end a run and stand alone, for the caller to judge. No run begins (BAD_SIZE, BAD_OFFSET) where
        [begin, end) is not within `buffer`, or ends behind the last position that a log can have.
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
        runs: list[tuple[Any, ...]],
    ) -> cython.bint:
        """Reads run after run as `scan` does, until `end`, behind a run of `last_topic`, or where no record begins (`count` is
        0 then). Appends to `runs` for each:

            target, queue offset, count, begin, end (physical), store time, units begin, units end, keys begin, keys end,
            begin in `buffer`, sysFlag

        The target is that of (topic, queue id) in `targets`, else the one that `find(position, size)` makes of the run scanned
        last. Its `next_offset` is moved behind the run. True where all are visible, and each follows the one before it in
        its queue.
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
            if self.sys_flag & 0xC:
                plain = False
            runs.append(
                (target, self.queue_offset, self.count, position, position + (self.end - at), self.store_timestamp_ms,
                 units_begin, self.units_end, keys_begin, self.keys_end, at, self.sys_flag)
            )  # fmt: skip
            at = self.end
            units_begin = self.units_end
            keys_begin = self.keys_end
            if self.topic == last_topic:
                break
        return plain

    def units_by_target(self, runs: list[tuple[Any, ...]]) -> list[tuple[Any, int, memoryview]]:
        """(target, first queue offset, units behind one another) of each target in `runs`, those of `scan_runs`."""
        numbers: dict[Any, int] = {}
        firsts: list[int] = []
        ends: cython.longlong[::1] = memoryview(bytearray(8 * len(runs))).cast("q")  # by number; bytes, then positions
        units: cython.uchar[::1] = self._units
        number: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        size: cython.Py_ssize_t
        at: cython.Py_ssize_t
        i: cython.Py_ssize_t
        total: cython.Py_ssize_t = 0
        for run in runs:
            if run[0] not in numbers:
                numbers[run[0]] = len(firsts)
                firsts.append(run[1])
            number = numbers[run[0]]
            begin = run[6]
            size = run[7]
            ends[number] += size - begin
        for number in range(len(firsts)):
            size = ends[number]
            ends[number] = total
            total += size
        gathered = bytearray(total)
        view: cython.uchar[::1] = gathered
        for run in runs:
            number = numbers[run[0]]
            begin = run[6]
            size = run[7]
            size -= begin
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
        self.status = 1
        if not 0 <= begin <= end <= len(buffer):
            self.status = -2
            count_max = 0
        elif physical_offset < 0 or physical_offset > _OFFSET_MAX - (end - begin):
            self.status = -10
            count_max = 0
        while done < count_max:
            if end - at < 8:
                self.status = 0
                break
            size = _get32(buffer, at)
            if size == 0:
                self.status = 0
                break
            if _get32(buffer, at + 4) == _BLANK:
                self.status = -1
                break
            size = _check_lengths(buffer, at, end, self._record_max)
            if size < 0:
                self.status = size
                break
            if _get64(buffer, at + 28) != physical_offset:
                self.status = -10
                break
            body = _body_at(buffer, at)
            if check_body_crc and _crc_in(buffer, body, _get32(buffer, body - 4)) != _get32(buffer, at + 8):
                self.status = -11
                break
            tail = _topic_at(buffer, at)
            topic_length = _topic_length(buffer, at, tail)
            flags = _get32(buffer, at + 36)
            if done > 0:
                if (
                    topic_length != run_topic_length
                    or _get_s32(buffer, at + 12) != queue_id
                    or _get64(buffer, at + 20) != queue_offset
                    or flags & 0xC
                    or _get64(buffer, at + 56 + (12 if flags & 0x10 else 0)) != self.store_timestamp_ms
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
                queue_id = _get_s32(buffer, at + 12)
                queue_offset = _get64(buffer, at + 20)
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
                ):  # runs of one topic follow one another: to make the bytes anew would cost more than the run
                    self.topic = bytes(buffer[tail : tail + topic_length])
                    self._topic_hash = _hash_on(_hash_on(0, buffer, tail, tail + topic_length), b"#", 0, 1)
                topic_hash = self._topic_hash
            if out + 20 > self._units_capacity:
                self._reserve_units(out + 20)
            tags_code = _scan_properties(self, buffer, tail + topic_length + 2, at + size, topic_hash, physical_offset)
            _put64(self._units, out, physical_offset)
            _put32(self._units, out + 8, size)
            _put64(self._units, out + 12, tags_code)
            self.store_timestamp_ms = _get64(buffer, at + 56 + (12 if flags & 0x10 else 0))
            marks |= flags & _SEQUENCED
            if buffer[body - 12] & 0x80:  # prepared transaction offset is below zero
                marks |= _SIGN
            self.sys_flag = (flags & 0x7FFFFFFF) | marks
            out += 20
            at += size
            physical_offset += size
            queue_offset += 1
            done += 1
            if flags & 0xC:
                break
        self.units_end = out
        self.count = done
        self.end = at
        return done


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
    value: cython.Py_ssize_t
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
    while end - at > 5:  # the shortest entry of interest: TAGS, 0x01, one byte, 0x02
        name = _get32(buf, at)
        if name == _UNIQ and end - at > 9 and _get32(buf, at + 4) == _KEY and buf[at + 8] == 1:
            value = at + 9
            stop = value + 32 if end - value > 32 and buf[value + 32] == 2 else _find(buf, value, end, 2)
            unique_begin = value
            unique_stop = stop
        elif name == _TAGS and buf[at + 4] == 1:
            stop = _find(buf, at + 5, end, 2)
            tags = stop > at + 5
            tags_begin = at + 5
            tags_stop = stop
            h = _hash_on(0, buf, at + 5, stop)
        elif name == _KEYS and buf[at + 4] == 1:
            stop = _find(buf, at + 5, end, 2)
            keys_begin = at + 5
            keys_stop = stop
        else:
            stop = _find(buf, at, end, 2)
        at = stop + 1
    if run._index_keys:
        count = run.keys_end
        if count + 3 + (keys_stop - keys_begin) // 2 > run._keys_capacity:
            run._reserve_keys(count + 3 + (keys_stop - keys_begin) // 2)
        if unique_stop > unique_begin:
            run._hashes[count] = _index_hash(_hash_on(topic_hash, buf, unique_begin, unique_stop))
            run._key_offsets[count] = physical_offset
            count += 1
        while keys_begin < keys_stop:
            word = keys_begin
            while word < keys_stop and buf[word] != 32:
                word += 1
            if word > keys_begin:
                run._hashes[count] = _index_hash(_hash_on(topic_hash, buf, keys_begin, word))
                run._key_offsets[count] = physical_offset
                count += 1
            keys_begin = word + 1
        if run._index_tags and tags:
            topic_hash = ((topic_hash * 31 + 84) * 31 + 35) & _MASK  # goes on with "T#"
            run._hashes[count] = _index_hash(_hash_on(topic_hash, buf, tags_begin, tags_stop))
            run._key_offsets[count] = physical_offset
            count += 1
        run.keys_end = count
    if not tags:
        return 0
    if cython.compiled:
        return cython.cast(cython.longlong, cython.cast(cython.int, h))
    return (h ^ 0x80000000) - 0x80000000


# ------------------------------------------------------------------------------------------ selecting, indexing


@cython.cfunc
def _is_record_of(
    buf: cython.const[cython.uchar][::1],
    at: cython.longlong,
    size: cython.longlong,
    physical: cython.longlong,
    topic: bytes,
    queue_id: cython.int,
    queue_offset: cython.longlong,
) -> cython.bint:
    """Whether the record of `size` bytes at `at` is at home at this place of the log, and of the queue."""
    i: cython.Py_ssize_t
    topic_at: cython.Py_ssize_t
    length: cython.Py_ssize_t = len(topic)
    name: cython.const[cython.uchar][::1] = topic
    if at < 0 or size < RECORD_OVERHEAD_BYTES or at + size > len(buf):
        return False
    if _get64(buf, at + 28) != physical or _get64(buf, at + 20) != queue_offset or _get_s32(buf, at + 12) != queue_id:
        return False
    if _check_lengths(buf, at, at + size, size) != size:
        return False
    topic_at = _topic_at(buf, at)
    if _topic_length(buf, at, topic_at) != length:
        return False
    for i in range(length):
        if buf[topic_at + i] != name[i]:
            return False
    return True


def is_record_of(
    record: cython.const[cython.uchar][::1], physical: int, topic: bytes, queue_id: int, queue_offset: int
) -> bool:
    """Whether `record`, whole, is what lies at `physical` in the log as a message of this queue."""
    place: cython.longlong = physical
    slot: cython.longlong = queue_offset
    number: cython.int = queue_id
    return bool(_is_record_of(record, 0, len(record), place, topic, number, slot))


@cython.final
@cython.cclass
class UnitSelector:
    """Walks consume-queue units for one pull: tests tag codes, bounds the answer, joins neighbouring records.

    After `select`: `examined` units were looked at, `matched` of them are taken, `size_bytes` together, as the
    physical ranges runs[2 i], runs[2 i + 1] for i < `run_count`. Then `stranger` tells whether their records are those that
    the units are for; `checked` runs are.
    """

    runs = cython.declare(object, visibility="readonly")  # memoryview of int64
    run_count = cython.declare(cython.int, visibility="readonly")
    checked = cython.declare(cython.int, visibility="readonly")
    examined = cython.declare(cython.int, visibility="readonly")
    matched = cython.declare(cython.int, visibility="readonly")
    size_bytes = cython.declare(cython.longlong, visibility="readonly")
    _runs: cython.longlong[::1]
    _marks: cython.longlong[::1]  # of each run: index and size of its first unit, index and size of its last
    _capacity: cython.int
    _codes: cython.longlong[::1]
    _values: cython.longlong[::1]  # where the value of each name begins and ends in the records; -1: there is none
    _need_count: cython.int
    _need_places: cython.longlong[::1]
    _need_outcomes: cython.longlong[::1]
    _need_numbers: cython.double[::1]
    _need_texts: list[bytes | None]  # None: compares by number

    def __init__(self, runs_max: int = 4096) -> None:
        self.runs = memoryview(bytearray(16 * runs_max)).cast("q")
        self._runs = self.runs
        self._marks = memoryview(bytearray(32 * runs_max)).cast("q")
        self._capacity = runs_max
        self._codes = memoryview(bytearray(8 * 16)).cast("q")
        self._values = memoryview(bytearray(16 * 16)).cast("q")
        self._need_places = memoryview(bytearray(8 * _NEEDS_MAX)).cast("q")
        self._need_outcomes = memoryview(bytearray(8 * _NEEDS_MAX)).cast("q")
        self._need_numbers = memoryview(bytearray(8 * _NEEDS_MAX)).cast("d")

    @cython.cfunc
    def _want(self, codes: tuple[int, ...]):
        """Puts several codes in order, to be searched."""
        i: cython.Py_ssize_t
        ordered: list[int] = sorted(codes)
        if len(ordered) > len(self._codes):
            self._codes = memoryview(bytearray(8 * len(ordered))).cast("q")
        for i in range(len(ordered)):
            self._codes[i] = ordered[i]

    @cython.cfunc
    @cython.inline
    def _is_wanted(self, code: cython.longlong, count: cython.Py_ssize_t) -> cython.bint:
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = count
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) // 2
            if self._codes[middle] < code:
                low = middle + 1
            else:
                high = middle
        return low < count and self._codes[low] == code

    def select(
        self,
        units: cython.const[cython.uchar][::1],
        begin: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        codes: tuple[int, ...],
        messages_max: cython.int,
        bytes_max: cython.longlong,
        offset_limit: cython.longlong,
    ) -> cython.int:
        """Takes units from units[begin:end] (bytes, whole units) whose tags code is in `codes` (empty: all).

        A code below all hashes is the address of a unit in RocketMQ's extension, which is not read here: it may match.
        Filler at a queue's beginning is passed over. Stops before filler of a gap, before a damaged unit whose offset is below
        zero, before a record that ends past `offset_limit` (the confirm offset), at `messages_max`, or before
        `bytes_max` would be passed (the first record is always taken). Returns `matched`. Raises ValueError for bytes
        that `units` does not have.
        """
        at: cython.Py_ssize_t = begin
        offset: cython.longlong
        size: cython.longlong
        code: cython.longlong
        total: cython.longlong = 0
        matched: cython.int = 0
        examined: cython.int = 0
        count: cython.int = 0
        last_end: cython.longlong = -1
        code_count: cython.Py_ssize_t = len(codes)
        first: cython.longlong = codes[0] if code_count else 0
        runs: cython.longlong[::1] = self._runs
        marks: cython.longlong[::1] = self._marks
        if not 0 <= begin <= end <= len(units):
            raise ValueError("outside the units")
        if offset_limit < 0:  # nothing is below it; and less a size it stays a number of 64 bits
            offset_limit = 0
        if code_count > 1:
            self._want(codes)
        while at + 20 <= end and matched < messages_max:
            offset = _get64(units, at)
            size = _get32(units, at + 8)
            if size == 0x7FFFFFFF and offset == 0:  # pre-filled: this queue began at a higher offset
                examined += 1
                at += 20
                continue
            if size == 0x7FFFFFFF or offset < 0 or offset > offset_limit - size:
                break
            if code_count:
                code = _get64(units, at + 12)
                if code != first and (code_count == 1 or not self._is_wanted(code, code_count)) and code >= -0x80000000:
                    examined += 1
                    at += 20
                    continue
            if matched and total + size > bytes_max:
                break
            if offset == last_end:
                runs[2 * count - 1] = offset + size
            else:
                if count == self._capacity:
                    break
                runs[2 * count] = offset
                runs[2 * count + 1] = offset + size
                marks[4 * count] = examined
                marks[4 * count + 1] = size
                count += 1
            marks[4 * count - 2] = examined
            marks[4 * count - 1] = size
            last_end = offset + size
            total += size
            matched += 1
            examined += 1
            at += 20
        self.run_count = count
        self.checked = 0
        self.examined = examined
        self.matched = matched
        self.size_bytes = total
        return matched

    def select_where(
        self,
        units: cython.const[cython.uchar][::1],
        records: Any,
        base: cython.longlong,
        names: tuple[bytes, ...],
        needs: tuple[tuple[int, int, Any], ...],
        test: Any,
        messages_max: cython.int,
        bytes_max: cython.longlong,
        has_time: Any,
    ) -> cython.int:
        """Takes units whose records have properties that pass: test([value of each name, or None]) is True.

        `needs` (model/sql92/needs): what a record's values must be for that; one that lacks any is passed over without
        asking. `records`: the log's bytes from physical offset `base` on. Stops where a record is not whole within them, at
        `messages_max`, before `bytes_max` would be passed (the first record is always taken), and where `has_time()`,
        asked every few records, says no. A record that cannot be read is taken: its reader is to be told. Filler and damaged
        units are as in `select`. Returns `matched`. Raises ValueError where `base` is no position of as many bytes, or a
        need is of none of the `names`.
        """
        buf: cython.const[cython.uchar][::1] = records
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = len(units)
        length: cython.Py_ssize_t = len(buf)
        offset: cython.longlong
        size: cython.longlong
        total: cython.longlong = 0
        matched: cython.int = 0
        examined: cython.int = 0
        tested: cython.int = 0
        count: cython.int = 0
        last_end: cython.longlong = -1
        runs: cython.longlong[::1] = self._runs
        marks: cython.longlong[::1] = self._marks
        name_count: cython.Py_ssize_t = len(names)
        if base < 0 or base > _OFFSET_MAX - length:
            raise ValueError("no position of a log")
        self._ask(name_count, needs)
        while at + 20 <= end and matched < messages_max:
            offset = _get64(units, at)
            size = _get32(units, at + 8)
            if size == 0x7FFFFFFF and offset == 0:
                examined += 1
                at += 20
                continue
            if size == 0x7FFFFFFF or offset < base or offset > base + length - size:
                break
            if tested == 16:
                if not has_time():
                    break
                tested = 0
            tested += 1
            if _check_lengths(buf, offset - base, offset - base + size, size) == size:
                self._find_values(buf, offset - base, names)
                if self._lacks(buf) or test(self._texts(records, name_count)) is not True:
                    examined += 1
                    at += 20
                    continue
            if matched and total + size > bytes_max:
                break
            if offset == last_end:
                runs[2 * count - 1] = offset + size
            else:
                if count == self._capacity:
                    break
                runs[2 * count] = offset
                runs[2 * count + 1] = offset + size
                marks[4 * count] = examined
                marks[4 * count + 1] = size
                count += 1
            marks[4 * count - 2] = examined
            marks[4 * count - 1] = size
            last_end = offset + size
            total += size
            matched += 1
            examined += 1
            at += 20
        self.run_count = count
        self.checked = 0
        self.examined = examined
        self.matched = matched
        self.size_bytes = total
        return matched

    def first_unit(self, run: cython.int) -> cython.int:
        """Which of the units selected is the first of a run. Raises ValueError where there is no such run."""
        if not 0 <= run < self.run_count:
            raise ValueError("no such run")
        return cython.cast(cython.int, self._marks[4 * run])

    def stranger(
        self,
        records: cython.const[cython.uchar][::1],
        base: cython.longlong,
        topic: bytes,
        queue_id: cython.int,
        queue_offset: cython.longlong,
    ) -> cython.int:
        """Which unit of those selected names a record that is not its own; -1: none as far as `records` go, the log's bytes
        from `base` on. Goes on at run `checked`, and leaves there the first run that is not within them. `queue_offset`: of the
        first unit that was looked at.

        Only the first and the last record of a run are looked at: a run goes on where a unit names the very place at which
        the record before it ends, so that one damaged unit inside ends it.
        """
        at: cython.Py_ssize_t
        begin: cython.longlong
        end: cython.longlong
        size: cython.longlong
        while self.checked < self.run_count:
            begin = self._runs[2 * self.checked] - base
            end = self._runs[2 * self.checked + 1] - base
            if begin < 0 or end > len(records):
                break
            at = 4 * self.checked
            size = self._marks[at + 1]
            if not _is_record_of(records, begin, size, begin + base, topic, queue_id, queue_offset + self._marks[at]):
                return cython.cast(cython.int, self._marks[at])
            size = self._marks[at + 3]
            if not _is_record_of(
                records, end - size, size, end - size + base, topic, queue_id, queue_offset + self._marks[at + 2]
            ):
                return cython.cast(cython.int, self._marks[at + 2])
            self.checked += 1
        return -1

    @cython.cfunc
    def _ask(self, name_count: cython.Py_ssize_t, needs: tuple[tuple[int, int, Any], ...]):
        """Makes room for as many values, and notes what is needed of them, or the first _NEEDS_MAX of it."""
        i: cython.Py_ssize_t
        if 2 * name_count > len(self._values):
            self._values = memoryview(bytearray(16 * name_count)).cast("q")
        self._need_count = min(len(needs), _NEEDS_MAX)
        self._need_texts = [None] * self._need_count
        for i in range(self._need_count):
            place, outcomes, operand = needs[i]
            if not 0 <= place < name_count:
                raise ValueError("a need of no name")
            self._need_places[i] = place
            self._need_outcomes[i] = outcomes
            if isinstance(operand, bytes):
                self._need_texts[i] = operand
            else:
                self._need_numbers[i] = operand

    @cython.cfunc
    def _find_values(self, buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, names: tuple[bytes, ...]):
        """Finds the values of these properties of the proven record at `at`.

        As `decode_properties` has it: an entry without a value counts for nothing, of several the last one counts.
        """
        entry: cython.Py_ssize_t = _topic_at(buf, at)
        entry += _topic_length(buf, at, entry) + 2
        end: cython.Py_ssize_t = at + _get32(buf, at)
        stop: cython.Py_ssize_t
        separator: cython.Py_ssize_t
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        count: cython.Py_ssize_t = len(names)
        name: bytes
        values: cython.longlong[::1] = self._values
        for i in range(count):
            values[2 * i] = -1
        while entry < end:
            stop = _find(buf, entry, end, 2)
            separator = _find(buf, entry, stop, 1)
            if separator + 1 < stop:
                for i in range(count):
                    name = names[i]
                    if len(name) != separator - entry:
                        continue
                    k = 0
                    while entry + k < separator and name[k] == buf[entry + k]:
                        k += 1
                    if entry + k == separator:
                        values[2 * i] = separator + 1
                        values[2 * i + 1] = stop
                        break
            entry = stop + 1

    @cython.cfunc
    def _texts(self, records: Any, count: cython.Py_ssize_t) -> list[bytes | None]:
        """The values that were found."""
        i: cython.Py_ssize_t
        texts: list[bytes | None] = [None] * count
        for i in range(count):
            if self._values[2 * i] >= 0:
                texts[i] = bytes(records[self._values[2 * i] : self._values[2 * i + 1]])
        return texts

    @cython.cfunc
    def _lacks(self, buf: cython.const[cython.uchar][::1]) -> cython.bint:
        """Whether the values that were found leave a need unmet."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        end: cython.Py_ssize_t
        outcome: cython.longlong
        text: bytes
        for i in range(self._need_count):
            begin = self._values[2 * self._need_places[i]]
            if begin < 0:
                return True
            end = self._values[2 * self._need_places[i] + 1]
            if self._need_texts[i] is None:
                outcome = _compared_with_number(buf, begin, end, self._need_numbers[i])
            else:
                text = self._need_texts[i]
                outcome = 5  # another text is as good as less and greater
                if len(text) == end - begin:
                    k = 0
                    while begin + k < end and text[k] == buf[begin + k]:
                        k += 1
                    if begin + k == end:
                        outcome = 2
            if not outcome & self._need_outcomes[i]:
                return True
        return False


@cython.cfunc
@cython.inline
def _compared_with_number(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t, number: cython.double
) -> cython.longlong:
    """How the text buf[begin:end] compares by number: 1 = less, 2 = equal, 4 = greater. All three where it is no small whole
    number: others tell."""
    at: cython.Py_ssize_t = begin
    value: cython.longlong = 0
    exact: cython.double
    if buf[at] == 43 or buf[at] == 45:
        at += 1
    if at == end or end - at > 15:
        return 7
    while at < end:
        if buf[at] < 48 or buf[at] > 57:
            return 7
        value = 10 * value + (buf[at] - 48)
        at += 1
    exact = -value if buf[begin] == 45 else value
    if exact < number:
        return 1
    return 2 if exact == number else 4


def index_insert(
    file: cython.uchar[::1],
    slot_count: cython.Py_ssize_t,
    first_entry: cython.Py_ssize_t,
    hashes: cython.const[cython.uint][::1],
    offsets: cython.const[cython.longlong][::1],
    begin: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    time_difference_s: cython.int,
) -> cython.int:
    """Puts keys [begin, end) into an index file's map as entries first_entry, first_entry + 1, ...; the caller sees to room.

    Returns how many slots were empty before. The header is the caller's. Raises ValueError where there is no such room, or
    are no such keys.
    """
    i: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    entry: cython.Py_ssize_t = first_entry
    at: cython.Py_ssize_t
    previous: cython.uint
    opened: cython.int = 0
    entries: cython.Py_ssize_t = 40 + 4 * slot_count
    view: cython.const[cython.uchar][::1] = file
    if not 0 <= begin <= end <= len(hashes) or end > len(offsets):
        raise ValueError("there are no such keys")
    if not 0 < slot_count <= len(file) or not 0 < first_entry <= len(file):
        raise ValueError("the index file has no room for these keys")
    if entries + 20 * (first_entry + end - begin) > len(file):
        raise ValueError("the index file has no room for these keys")
    for i in range(begin, end):
        slot = 40 + 4 * (hashes[i] % slot_count)
        previous = _get32(view, slot)
        if previous == 0 or previous >= entry:
            previous = 0
            opened += 1
        at = entries + 20 * entry
        _put32(file, at, hashes[i])
        _put64(file, at + 4, offsets[i])
        _put32(file, at + 12, time_difference_s)
        _put32(file, at + 16, previous)
        _put32(file, slot, entry)
        entry += 1
    return opened


def index_search(
    file: cython.const[cython.uchar][::1],
    slot_count: cython.Py_ssize_t,
    entry_count: cython.Py_ssize_t,
    key_hash: cython.uint,
    begin_difference_s: cython.longlong,
    end_difference_s: cython.longlong,
    found_max: cython.int,
) -> list[int]:
    """Physical offsets under a key hash, newest first, whose time difference is within [begin, end] seconds.

    Raises ValueError where `file` does not hold as many slots and entries.
    """
    found: list[int] = []
    entries: cython.Py_ssize_t = 40 + 4 * slot_count
    entry: cython.Py_ssize_t
    previous: cython.Py_ssize_t
    at: cython.Py_ssize_t
    difference: cython.longlong
    if not 0 < slot_count <= len(file) or entry_count > len(file) or entries + 20 * entry_count > len(file):
        raise ValueError("the index file is shorter than its header says")
    entry = _get32(file, 40 + 4 * (key_hash % slot_count))
    while 0 < entry < entry_count and len(found) < found_max:
        at = entries + 20 * entry
        difference = _get_s32(file, at + 12)
        if difference < 0:
            break
        if _get32(file, at) == key_hash and begin_difference_s <= difference <= end_difference_s:
            found.append(_get64(file, at + 4))
        previous = _get32(file, at + 16)
        if previous >= entry:  # chains lead to older entries only
            break
        entry = previous
    return found


# -------------------------------------------------------------------------------------------------- decoding


@cython.final
@cython.cclass
class MessageBatch:
    """A run of records as a sequence of StoredMessage; slices share the buffer.

    `queue_offsets` are not assumed to be contiguous: a filter may have left gaps.
    """

    broker_name = cython.declare(object, visibility="readonly")
    _data: bytes
    _view: cython.const[cython.uchar][::1]
    _at: cython.const[cython.uint][::1]
    _begin: cython.Py_ssize_t
    _end: cython.Py_ssize_t
    _is_whole: cython.bint

    def __cinit__(self) -> None:
        if not _is_making:  # nobody fills it in: compiled, its attributes would read memory that is not there
            raise TypeError("a MessageBatch comes from decode_batch and decode_record only")

    def __init__(self) -> None:
        raise TypeError("a MessageBatch comes from decode_batch and decode_record only")

    def __len__(self) -> int:
        return self._end - self._begin

    def __getitem__(self, index: object) -> Any:
        if isinstance(index, slice):
            begin, end, step = index.indices(self._end - self._begin)
            if step != 1:
                raise ValueError("a batch is sliced in steps of one")
            return self.slice(begin, end)
        i: cython.Py_ssize_t = index
        if i < 0:
            i += self._end - self._begin
        if not 0 <= i < self._end - self._begin:
            raise IndexError(index)
        return _message(self, self._at[self._begin + i])

    def __iter__(self) -> Iterator[StoredMessage]:
        i: cython.Py_ssize_t
        for i in range(self._begin, self._end):
            yield _message(self, self._at[i])

    def slice(self, begin: cython.Py_ssize_t, end: cython.Py_ssize_t) -> MessageBatch:
        """Messages [begin, end) of this batch."""
        if not 0 <= begin <= end <= self._end - self._begin:
            raise IndexError((begin, end))
        part: MessageBatch = _new_batch()
        part.broker_name = self.broker_name
        part._data = self._data
        part._view = self._view
        part._at = self._at
        part._begin = self._begin + begin
        part._end = self._begin + end
        part._is_whole = self._is_whole
        return part

    @property
    def size_bytes(self) -> int:
        """Bytes of the records in this batch."""
        if self._begin == self._end:
            return 0
        last: cython.Py_ssize_t = self._at[self._end - 1]
        return last + _get32(self._view, last) - self._at[self._begin]

    @property
    def data(self) -> bytes:
        """What the records lie in."""
        return self._data

    @property
    def positions(self) -> memoryview:
        """Where in `data` each record begins; all their lengths are proven."""
        return memoryview(self._at[self._begin : self._end])

    def first_damaged(self) -> int:
        """The index of the first message whose stored body has not its checksum; -1 where there is none: then `body` checks
        none of these again."""
        buf: cython.const[cython.uchar][::1] = self._view
        i: cython.Py_ssize_t
        at: cython.Py_ssize_t
        body: cython.Py_ssize_t
        for i in range(self._begin, self._end):
            at = self._at[i]
            body = _body_at(buf, at)
            if _crc_in(buf, body, _get32(buf, body - 4)) != _get32(buf, at + 8):
                return i - self._begin
        self._is_whole = True
        return -1

    def next_offset(self) -> int:
        """The queue offset behind the last message. Raises IndexError for an empty batch."""
        if self._begin == self._end:
            raise IndexError("an empty batch")
        return _get64(self._view, self._at[self._end - 1] + 20) + 1


@cython.final
@cython.nonecheck(True)  # one that Python's own `__new__` made has no batch; a __cinit__ would cost each message more
@cython.cclass
class StoredMessage:
    """A message as it is stored: a view of its record, decoded as its attributes are read.

    Messages of one poll share one buffer. `body` is plain (decompressed where the sender compressed it) and checked
    against its checksum at each read: CorruptRecordError where it does not match.
    """

    _batch: MessageBatch
    _at: cython.Py_ssize_t
    _first_topic: str | None
    _tries: cython.Py_ssize_t

    def __init__(self) -> None:
        raise TypeError("a StoredMessage comes from decode_batch and decode_record only")

    def tried_again(self, topic: str | None, tries: cython.Py_ssize_t) -> StoredMessage:
        """The same message as its consumer is to see it at another try: under the topic it first had (None = the record's
        own), and handed out `tries` times more than its record says."""
        again: StoredMessage = _message(self._batch, self._at)
        again._first_topic = topic
        again._tries = tries
        return again

    @property
    def broker_name(self) -> str:
        """The replica group it was read from."""
        return self._batch.broker_name

    @property
    def body(self) -> bytes:
        """The plain body. Raises CorruptRecordError, RemoteProtocolError (it cannot be unpacked)."""
        batch: MessageBatch = self._batch
        data: bytes = batch._data
        body: cython.Py_ssize_t = _body_at(batch._view, self._at)
        plain: bytes = data[body : body + _get32(batch._view, body - 4)]
        if not batch._is_whole and _crc_of(plain) != _get32(batch._view, self._at + 8):
            raise CorruptRecordError(self.physical_offset, self.size_bytes, "body checksum")
        flags: cython.uint = _get32(batch._view, self._at + 36)
        if flags & 1:
            return decompress(plain, flags)
        return plain

    @property
    def body_as_stored(self) -> bytes:
        """The body's bytes in the record, compressed or not, unchecked."""
        body: cython.Py_ssize_t = _body_at(self._batch._view, self._at)
        return self._batch._data[body : body + _get32(self._batch._view, body - 4)]

    @property
    def body_crc_matches(self) -> bool:
        """Whether the stored body has its checksum."""
        return bool(_crc_of(self.body_as_stored) == _get32(self._batch._view, self._at + 8))

    @property
    def topic(self) -> str:
        """The topic it was sent to: the record's, or the one it first had where it came back for another try."""
        return _stored_topic(self) if self._first_topic is None else self._first_topic

    @property
    def properties_as_stored(self) -> bytes:
        """The properties field's bytes."""
        tail: cython.Py_ssize_t = _topic_at(self._batch._view, self._at)
        begin: cython.Py_ssize_t = tail + _topic_length(self._batch._view, self._at, tail) + 2
        return self._batch._data[begin : self._at + _get32(self._batch._view, self._at)]

    @property
    def properties(self) -> dict[str, str]:
        """All properties, the reserved ones (KEYS, TAGS, UNIQ_KEY ...) too; a new dict at each read."""
        return decode_properties(self.properties_as_stored)

    @property
    def tags(self) -> str | None:
        """The message's tag."""
        return self.properties.get("TAGS")

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys under which the message can be queried."""
        return tuple(self.properties.get("KEYS", "").split())

    @property
    def message_id(self) -> str:
        """The unique id its producer gave it; the offset message id where it gave none."""
        unique = self.properties.get("UNIQ_KEY")
        return unique if unique is not None else self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """Store host and physical offset in hex."""
        return (self.store_host + self._batch._data[self._at + 28 : self._at + 36]).hex().upper()

    @property
    def queue(self) -> MessageQueue:
        """The queue it lies in."""
        return MessageQueue(_stored_topic(self), self.broker_name, self.queue_id)

    @property
    def queue_id(self) -> int:
        """The queue's number."""
        return _get_s32(self._batch._view, self._at + 12)

    @property
    def queue_offset(self) -> int:
        """n-th message of its queue."""
        return _get64(self._batch._view, self._at + 20)

    @property
    def physical_offset(self) -> int:
        """Byte in its broker's commit log."""
        return _get64(self._batch._view, self._at + 28)

    @property
    def size_bytes(self) -> int:
        """Of the whole record."""
        return _get32(self._batch._view, self._at)

    @property
    def magic(self) -> int:
        """MAGIC_V1 or MAGIC_V2."""
        return _get32(self._batch._view, self._at + 4)

    @property
    def body_crc(self) -> int:
        """CRC-32 of the stored body, 31 bits."""
        return _get32(self._batch._view, self._at + 8)

    @property
    def flag(self) -> int:
        """The sender's own 32 bits."""
        return _get_s32(self._batch._view, self._at + 16)

    @property
    def sys_flag(self) -> int:
        """Bits of `model.sys_flag`."""
        return _get32(self._batch._view, self._at + 36)

    @property
    def born_at_ms(self) -> int:
        """When the producer made it, ms since the epoch."""
        return _get64(self._batch._view, self._at + 40)

    @property
    def born_at(self) -> datetime:
        """The same as an aware datetime. Raises CorruptRecordError where no calendar has it."""
        return _moment(self, self.born_at_ms)

    @property
    def born_host(self) -> bytes:
        """The producer's address: ip and port, 8 or 20 bytes."""
        return self._batch._data[self._at + 48 : self._at + (68 if self.sys_flag & 0x10 else 56)]

    @property
    def stored_at_ms(self) -> int:
        """When the broker stored it, ms since the epoch."""
        return _get64(self._batch._view, self._at + (68 if self.sys_flag & 0x10 else 56))

    @property
    def stored_at(self) -> datetime:
        """The same as an aware datetime. Raises CorruptRecordError where no calendar has it."""
        return _moment(self, self.stored_at_ms)

    @property
    def store_host(self) -> bytes:
        """The address of the broker that took it: ip and port, 8 or 20 bytes."""
        begin: cython.Py_ssize_t = self._at + (76 if self.sys_flag & 0x10 else 64)
        return self._batch._data[begin : begin + (20 if self.sys_flag & 0x20 else 8)]

    @property
    def reconsume_times(self) -> int:
        """How often it was handed out again."""
        return _get32(self._batch._view, _body_at(self._batch._view, self._at) - 16) + self._tries

    @property
    def prepared_transaction_offset(self) -> int:
        """Of a transaction's record; 0 otherwise."""
        return _get64(self._batch._view, _body_at(self._batch._view, self._at) - 12)

    @property
    def record(self) -> bytes:
        """The whole record's bytes."""
        return self._batch._data[self._at : self._at + _get32(self._batch._view, self._at)]

    def __reduce__(self) -> tuple[Callable[..., StoredMessage], tuple[object, ...]]:
        """Pickled it is its record alone, without the others of its poll."""
        return _unpickled, (self.record, self.broker_name, self._first_topic, self._tries)

    def __repr__(self) -> str:
        return f"<StoredMessage {self.message_id} {self.topic}:{self.queue_id}@{self.queue_offset}>"


@cython.cfunc
def _new_batch() -> MessageBatch:
    """An empty shell, for its maker to fill in."""
    global _is_making
    _is_making = True
    batch: MessageBatch = MessageBatch.__new__(MessageBatch)
    _is_making = False
    return batch


def _unpickled(record: bytes, broker_name: str, first_topic: str | None, tries: int) -> StoredMessage:
    return decode_record(record, broker_name).tried_again(first_topic, tries)


def _moment(message: StoredMessage, at_ms: int) -> datetime:
    try:
        return datetime_of_ms(at_ms)
    except (ValueError, OverflowError) as error:
        raise CorruptRecordError(message.physical_offset, message.size_bytes, f"a time of {at_ms} ms") from error


@cython.cfunc
@cython.nonecheck(True)
def _stored_topic(message: StoredMessage) -> str:
    batch: MessageBatch = message._batch
    begin: cython.Py_ssize_t = _topic_at(batch._view, message._at)
    return batch._data[begin : begin + _topic_length(batch._view, message._at, begin)].decode("utf-8", "replace")


@cython.cfunc
@cython.inline
def _message(batch: MessageBatch, at: cython.Py_ssize_t) -> StoredMessage:
    message: StoredMessage = StoredMessage.__new__(StoredMessage)
    message._batch = batch
    message._at = at
    message._first_topic = None
    message._tries = 0
    return message


def decode_batch(data: bytes, broker_name: str = "", record_max: int = 0x7FFFFFFF) -> MessageBatch:
    """The records that lie back to back in `data`, all lengths proven.

    Raises CorruptRecordError with the position in `data`.
    """
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(data)
    limit: cython.Py_ssize_t = record_max
    count: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    room: cython.Py_ssize_t = end // 91 + 1
    if end > 0xFFFFFFFF:  # positions have 32 bits
        raise CorruptRecordError(0, end, REASONS[BAD_SIZE])
    positions = memoryview(bytearray(4 * room)).cast("I")
    view: cython.uint[::1] = positions
    buf: cython.const[cython.uchar][::1] = data
    while at < end:
        size = _check_lengths(buf, at, end, limit)
        if size < 0:
            raise CorruptRecordError(at, end - at, REASONS[size])
        view[count] = at
        count += 1
        at += size
    batch: MessageBatch = _new_batch()
    batch.broker_name = broker_name
    batch._data = data
    batch._view = buf
    batch._at = positions
    batch._begin = 0
    batch._end = count
    batch._is_whole = False
    return batch


def decode_record(data: bytes, broker_name: str = "") -> StoredMessage:
    """The one record that `data` is. Raises CorruptRecordError."""
    batch: MessageBatch = decode_batch(data, broker_name)
    if len(batch) != 1:
        raise CorruptRecordError(0, len(data), REASONS[BAD_LENGTHS])
    return _message(batch, 0)
