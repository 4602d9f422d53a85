# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""The kernels' primitives: big-endian integers, copies, checksums, hashes, and the places of a record's parts. Pure."""

from __future__ import annotations

import struct

import cython

from .codes import (
    BAD_LENGTHS,
    BAD_MAGIC,
    BAD_PROPERTIES_SIZE,
    BAD_SIZE,
    BODY_AT,
    BODY_LENGTH_AT,
    BODY_LENGTH_BACK,
    BORN_HOST_V6,
    CRC_BITS,
    HOST_V6_MORE,
    MAGIC_AT,
    PROPERTIES_MAX,
    RECORD_OVERHEAD_BYTES,
    STORE_HOST_V6,
    SYS_FLAG_AT,
)
from .crc32 import crc32, crc32_address
from .kernel_host import check_host

check_host(struct.calcsize("n"))


MAGIC_V1_C = cython.declare(cython.uint, 0xDAA320A7)
MAGIC_V2_C = cython.declare(cython.uint, 0xDAA320AB)
MAGIC_BLANK_C = cython.declare(cython.uint, 0xCBD43194)
NAME_UNIQ = cython.declare(cython.uint, 0x554E4951)  # property names as big-endian integers
NAME_KEY = cython.declare(cython.uint, 0x5F4B4559)
NAME_TAGS = cython.declare(cython.uint, 0x54414753)
NAME_KEYS = cython.declare(cython.uint, 0x4B455953)
NAME_PSEQ = cython.declare(cython.uint, 0x50534551)
NAME_INNE = cython.declare(cython.uint, 0x494E4E45)
MASK32 = cython.declare(cython.uint, 0xFFFFFFFF)  # C variables, because literals this large would be Python objects
SIGN32 = cython.declare(cython.uint, 0x80000000)
SEQUENCED_BIT = cython.declare(cython.uint, 0x40000000)
LIGHT_BIT = cython.declare(cython.uint, 0x20000000)
STORED_BITS = cython.declare(cython.uint, 0x5FFFFFFF)  # of a record's sysFlag; the others are marks of its run
OFFSET_MAX = cython.declare(cython.longlong, 0x7FFFFFFFFFFFFFFF)  # no position in a log is above it
_crc_at = cython.declare("unsigned int (*)(unsigned int, const unsigned char *, unsigned long long) noexcept nogil")


if cython.compiled:
    _crc_at = cython.cast(
        "unsigned int (*)(unsigned int, const unsigned char *, unsigned long long) noexcept nogil",
        cython.cast("void *", cython.cast(cython.size_t, crc32_address())),
    )


# Bits that a producer may set: compressed, multi tags, the two host families, the compression kind.
CLIENT_SYS_FLAGS = cython.declare(cython.uint, 0x1 | 0x2 | 0x10 | 0x20 | 0x700)


@cython.cfunc
@cython.inline
def get32(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.uint:
    if not cython.compiled:  # interpreted, a cast is a call, more expensive than all the rest
        return (buf[at] << 24) | (buf[at + 1] << 16) | (buf[at + 2] << 8) | buf[at + 3]
    return (
        (cython.cast(cython.uint, buf[at]) << 24)
        | (cython.cast(cython.uint, buf[at + 1]) << 16)
        | (cython.cast(cython.uint, buf[at + 2]) << 8)
        | cython.cast(cython.uint, buf[at + 3])
    )


@cython.cfunc
@cython.inline
def get64(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.longlong:
    if not cython.compiled:
        return (((get32(buf, at) << 32) | get32(buf, at + 4)) ^ (1 << 63)) - (1 << 63)
    value: cython.ulonglong = (cython.cast(cython.ulonglong, get32(buf, at)) << 32) | get32(buf, at + 4)
    return cython.cast(cython.longlong, value)


@cython.cfunc
@cython.inline
def get_s32(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.int:
    value: cython.uint = get32(buf, at)
    return cython.cast(cython.int, value) if cython.compiled else (value ^ (1 << 31)) - (1 << 31)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put32(buf: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.uint) -> cython.void:
    buf[at] = (value >> 24) & 0xFF
    buf[at + 1] = (value >> 16) & 0xFF
    buf[at + 2] = (value >> 8) & 0xFF
    buf[at + 3] = value & 0xFF


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def put64(buf: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.longlong) -> cython.void:
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
def copy_in(buf: cython.uchar[::1], at: cython.Py_ssize_t, data: bytes) -> cython.Py_ssize_t:
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
def crc_in(buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.uint:
    """The 31 bits of the CRC-32 of buf[begin : begin + size] that a record has."""
    if cython.compiled and _crc_at:
        return _crc_at(0, cython.address(buf[begin]), size) & CRC_BITS
    return crc32(buf[begin : begin + size]) & CRC_BITS


@cython.cfunc
@cython.inline
def crc_of(body: bytes) -> cython.uint:
    """The same for a whole body."""
    if cython.compiled and _crc_at:
        return _crc_at(0, cython.cast("const unsigned char *", body), len(body)) & CRC_BITS
    return crc32(body) & CRC_BITS


@cython.cfunc
@cython.inline
def find_byte(
    buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t, byte: cython.uchar
) -> cython.Py_ssize_t:
    """The first position of `byte` in [begin, end); `end` if there is none."""
    at: cython.Py_ssize_t = begin
    while at < end and buf[at] != byte:
        at += 1
    return at


@cython.cfunc
@cython.inline
def hash_on(
    h: cython.uint, buf: cython.const[cython.uchar][::1], begin: cython.Py_ssize_t, end: cython.Py_ssize_t
) -> cython.uint:
    """Java's String.hashCode of UTF-8 text [begin, end), continued from `h`. 31^2 = 961, 31^3 = 29791, 31^4 = 923521."""
    at: cython.Py_ssize_t = begin
    c: cython.uint
    code: cython.uint
    while at + 4 <= end and (buf[at] | buf[at + 1] | buf[at + 2] | buf[at + 3]) < 0x80:
        h = (h * 923521 + buf[at] * 29791 + buf[at + 1] * 961 + buf[at + 2] * 31 + buf[at + 3]) & MASK32
        at += 4
    while at < end:
        c = buf[at]
        if c < 0x80:
            h = (h * 31 + c) & MASK32
            at += 1
        elif c < 0xE0 and at + 1 < end:
            h = (h * 31 + (((c & 0x1F) << 6) | (buf[at + 1] & 0x3F))) & MASK32
            at += 2
        elif c < 0xF0 and at + 2 < end:
            h = (h * 31 + (((c & 0x0F) << 12) | ((buf[at + 1] & 0x3F) << 6) | (buf[at + 2] & 0x3F))) & MASK32
            at += 3
        elif at + 3 < end:
            code = (
                ((c & 0x07) << 18) | ((buf[at + 1] & 0x3F) << 12) | ((buf[at + 2] & 0x3F) << 6) | (buf[at + 3] & 0x3F)
            )
            code = (code - 0x10000) & 0xFFFFF
            h = (h * 31 + (0xD800 | (code >> 10))) & MASK32
            h = (h * 31 + (0xDC00 | (code & 0x3FF))) & MASK32
            at += 4
        else:
            h = (h * 31 + 0xFFFD) & MASK32  # truncated UTF-8, replaced as Java's decoder does
            at = end
    return h


@cython.cfunc
@cython.inline
def check_lengths(
    buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, end: cython.Py_ssize_t, record_max: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Proves size, magic and all inner lengths of the record at `at`; returns its size, or a BAD_ reason."""
    size: cython.Py_ssize_t
    magic: cython.uint
    sys_flag: cython.uint
    inner: cython.Py_ssize_t
    length: cython.Py_ssize_t
    if end - at < RECORD_OVERHEAD_BYTES:
        return BAD_SIZE
    size = get32(buf, at)
    if size < RECORD_OVERHEAD_BYTES or size > end - at or size > record_max:
        return BAD_SIZE
    magic = get32(buf, at + MAGIC_AT)
    if magic != MAGIC_V1_C and magic != MAGIC_V2_C:
        return BAD_MAGIC
    sys_flag = get32(buf, at + SYS_FLAG_AT)
    inner = BODY_LENGTH_AT
    if sys_flag & BORN_HOST_V6:
        inner += HOST_V6_MORE
    if sys_flag & STORE_HOST_V6:
        inner += HOST_V6_MORE
    if inner + 7 > size:
        return BAD_LENGTHS
    length = get32(buf, at + inner)  # body
    if length > size:
        return BAD_LENGTHS
    inner += 4 + length
    if magic == MAGIC_V1_C:
        if inner + 3 > size:
            return BAD_LENGTHS
        length = buf[at + inner]
        inner += 1 + length
    else:
        if inner + 4 > size:
            return BAD_LENGTHS
        length = (buf[at + inner] << 8) | buf[at + inner + 1]
        inner += 2 + length
    if inner + 2 > size:
        return BAD_LENGTHS
    length = (buf[at + inner] << 8) | buf[at + inner + 1]
    if length > PROPERTIES_MAX:
        return BAD_PROPERTIES_SIZE
    if inner + 2 + length != size:
        return BAD_LENGTHS
    return size


@cython.cfunc
@cython.inline
def find_body(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The begin of a proven record's body."""
    sys_flag: cython.uint = get32(buf, at + SYS_FLAG_AT)
    return (
        at
        + BODY_AT
        + (HOST_V6_MORE if sys_flag & BORN_HOST_V6 else 0)
        + (HOST_V6_MORE if sys_flag & STORE_HOST_V6 else 0)
    )


@cython.cfunc
@cython.inline
def find_topic(buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """The begin of a proven record's topic, behind its length."""
    body: cython.Py_ssize_t = find_body(buf, at)
    return body + get32(buf, body - BODY_LENGTH_BACK) + (1 if get32(buf, at + MAGIC_AT) == MAGIC_V1_C else 2)


@cython.cfunc
@cython.inline
def topic_size(
    buf: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, topic_at: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    if get32(buf, at + MAGIC_AT) == MAGIC_V1_C:
        return buf[topic_at - 1]
    return (buf[topic_at - 2] << 8) | buf[topic_at - 1]


@cython.cfunc
@cython.inline
def hex_digit(nibble: cython.uint) -> cython.uchar:
    return nibble + (48 if nibble < 10 else 55)
