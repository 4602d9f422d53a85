# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""Encodes records: one at a time, or many into a producer's buffer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cython

from ..model.errors import MessageIllegal, MessageTooLarge
from .codes import (
    BODY_CRC_AT,
    BODY_LENGTH_ON,
    BODY_ON,
    BORN_HOST_AT,
    BORN_HOST_V6,
    BORN_TIMESTAMP_AT,
    FIXED_BYTES,
    FLAG_AT,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    HOST_V6_MORE,
    MAGIC_AT,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    PREPARED_OFFSET_ON,
    PROPERTIES_MAX,
    PROPERTIES_SENT_MAX,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    SPACE,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    TOPIC_MAX,
    TOPIC_V1_MAX,
    VALUE_END,
)
from .primitives import MAGIC_V1_C, MAGIC_V2_C, MASK32, copy_in, crc_of, get32, hex_digit, put32, put64


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
    """Encodes a whole record. v2 only if the topic is longer than 127 bytes; the host bits of sysFlag are set from the
    hosts.
    """
    wide: int = 2 if len(topic) > TOPIC_V1_MAX else 1
    if len(properties) > PROPERTIES_MAX:
        raise MessageTooLarge("properties", len(properties), PROPERTIES_MAX)
    if (
        len(topic) > TOPIC_MAX
        or len(born_host) not in (HOST_V4_BYTES, HOST_V6_BYTES)
        or len(store_host) not in (HOST_V4_BYTES, HOST_V6_BYTES)
    ):
        raise MessageIllegal("topic or host length")
    sys_flag = (
        (sys_flag & ~0x30)
        | (BORN_HOST_V6 if len(born_host) == HOST_V6_BYTES else 0)
        | (STORE_HOST_V6 if len(store_host) == HOST_V6_BYTES else 0)
    )
    size: int = FIXED_BYTES + len(born_host) + len(store_host) + len(body) + wide + len(topic) + 2 + len(properties)
    out = bytearray(size)
    buf: cython.uchar[::1] = memoryview(out)
    at: cython.Py_ssize_t
    put32(buf, 0, size)
    put32(buf, MAGIC_AT, MAGIC_V2 if wide == 2 else MAGIC_V1)
    put32(buf, BODY_CRC_AT, crc_of(body))
    put32(buf, QUEUE_ID_AT, queue_id & 0xFFFFFFFF)
    put32(buf, FLAG_AT, flag & 0xFFFFFFFF)
    put64(buf, QUEUE_OFFSET_AT, queue_offset)
    put64(buf, PHYSICAL_OFFSET_AT, physical_offset)
    put32(buf, SYS_FLAG_AT, sys_flag)
    put64(buf, BORN_TIMESTAMP_AT, born_timestamp_ms)
    at = copy_in(buf, BORN_HOST_AT, born_host)
    put64(buf, at, store_timestamp_ms)
    at = copy_in(buf, at + 8, store_host)
    put32(buf, at, reconsume_times & 0xFFFFFFFF)
    put64(buf, at + PREPARED_OFFSET_ON, prepared_transaction_offset)
    put32(buf, at + BODY_LENGTH_ON, len(body))
    at = copy_in(buf, at + BODY_ON, body)
    if wide == 2:
        buf[at] = len(topic) >> 8
        at += 1
    buf[at] = len(topic) & 0xFF
    at = copy_in(buf, at + 1, topic)
    buf[at] = len(properties) >> 8
    buf[at + 1] = len(properties) & 0xFF
    copy_in(buf, at + 2, properties)
    return bytes(out)


def encode_blank(remaining: int) -> bytes:
    """The filler of a segment with `remaining` bytes left: the remaining size and the blank magic."""
    return remaining.to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")


@cython.cfunc
def _plain(value: bytes, blank: cython.uchar) -> cython.bint:
    """True if no byte is a property separator (0x01, 0x02) or `blank`."""
    i: cython.Py_ssize_t
    c: cython.uchar
    for i in range(len(value)):
        c = value[i]
        if c == 1 or c == 2 or c == blank:
            return False
    return True


@cython.final
@cython.cclass
class Accumulator:
    """Encodes messages of one topic into one buffer: contiguous complete records, broker-assigned fields zero.

    Owned by the holder of the producer's lock. A batch starts with `begin`, takes messages by the append methods until one
    does not fit (then swap and append again), and ends with `swap`. Each method is one call into compiled code, so no other
    thread can run in between.
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
        """`id_prefix`: the 10 bytes of `model.ids.unique_id_prefix`; no other accumulator may have the same salt in it.

        `own_properties`: encoded, added to every record.
        """
        if (
            len(id_prefix) != 10
            or len(born_host) not in (HOST_V4_BYTES, HOST_V6_BYTES)
            or store_host_bytes not in (HOST_V4_BYTES, HOST_V6_BYTES)
        ):
            raise ValueError("id prefix or host length")
        self.topic = topic
        self.capacity = capacity
        self.id_prefix = id_prefix
        self._body_max = body_max
        self._born_host = born_host
        self._store_host_bytes = store_host_bytes
        self._sys_flag = (BORN_HOST_V6 if len(born_host) == HOST_V6_BYTES else 0) | (
            STORE_HOST_V6 if store_host_bytes == HOST_V6_BYTES else 0
        )
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
        if self._id_head and self.month_ms == month_ms & 0xFFFFFFFF:
            return  # a batch of the same millisecond
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
        """Encodes one message; False if it does not fit (nothing changed).

        `keys`: None, one text, or a sequence of texts. `properties`: encoded, without KEYS, TAGS and UNIQ_KEY. `sys_flag`:
        compression bits of a body that is already compressed. Raises MessageIllegal, MessageTooLarge.
        """
        key_bytes: bytes = b""
        tag_bytes: bytes = b""
        if tags is not None:
            if tags is not self._tags_text:
                encoded: bytes = _utf8("tags", tags)
                if not encoded or not _plain(encoded, 0):
                    raise MessageIllegal(f"tags {tags!r}: must not be empty nor hold 0x00, 0x01 or 0x02")
                self._tags_text = tags
                self._tags_bytes = encoded
            tag_bytes = self._tags_bytes
        if keys is not None:
            key_bytes = _encode_keys(keys)
        return self._append(body, tag_bytes, key_bytes, properties, flag & MASK32, sys_flag)

    def append_many(
        self, bodies: list[bytes], begin: int, tags: str | list[str] | None = None, keys: list[Any] | None = None
    ) -> int:
        """Encodes bodies[begin:] while they fit; returns the index of the first one that did not.

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
        crc: cython.uint = crc_of(body)  # first, because `crc32` lets other threads run during a long body
        topic: bytes = self.topic
        born_host: bytes = self._born_host
        topic_length: cython.Py_ssize_t = len(topic)
        wide: cython.Py_ssize_t = 2 if topic_length > TOPIC_V1_MAX else 1
        properties_length: cython.Py_ssize_t = len(properties) + self._own_bytes
        if len(tags) > 0:
            properties_length += 6 + len(tags)
        if len(keys) > 0:
            properties_length += 6 + len(keys)
        if properties_length > PROPERTIES_SENT_MAX:
            raise MessageTooLarge("properties", properties_length, PROPERTIES_SENT_MAX)
        size: cython.Py_ssize_t = (
            FIXED_BYTES + len(born_host) + self._store_host_bytes + n + wide + topic_length + 2 + properties_length
        )
        at: cython.Py_ssize_t = self.used
        if at + size > self.capacity:
            if self.count > 0:
                return False
            self.capacity = size  # a message larger than the buffer gets a buffer of its own
            self._adopt(bytearray(size))
            at = 0
        buf: cython.uchar[::1] = self._buf
        put32(buf, at, size)
        put32(buf, at + MAGIC_AT, MAGIC_V1_C if wide == 1 else MAGIC_V2_C)
        put32(buf, at + BODY_CRC_AT, crc)
        put32(buf, at + QUEUE_ID_AT, 0)
        put32(buf, at + FLAG_AT, flag)
        put64(buf, at + QUEUE_OFFSET_AT, 0)
        put64(buf, at + PHYSICAL_OFFSET_AT, 0)
        put32(buf, at + SYS_FLAG_AT, self._sys_flag | sys_flag)
        put64(buf, at + BORN_TIMESTAMP_AT, self.born_ms)
        at = copy_in(buf, at + BORN_HOST_AT, born_host)
        put64(buf, at, 0)
        put64(buf, at + 8, 0)
        if self._store_host_bytes == HOST_V6_BYTES:
            put64(buf, at + 16, 0)
            put32(buf, at + 24, 0)
            at += HOST_V6_MORE
        put32(buf, at + 16, 0)
        put64(buf, at + 20, 0)
        put32(buf, at + 28, n)
        at = copy_in(buf, at + 32, body)
        if wide == 2:
            buf[at] = topic_length >> 8
            at += 1
        buf[at] = topic_length & 0xFF
        at = copy_in(buf, at + 1, topic)
        buf[at] = properties_length >> 8
        buf[at + 1] = properties_length & 0xFF
        at = copy_in(buf, at + 2, properties)
        if len(keys) > 0:
            at = copy_in(buf, at, b"KEYS\x01")
            at = copy_in(buf, at, keys)
            buf[at] = VALUE_END
            at += 1
        if len(tags) > 0:
            at = copy_in(buf, at, b"TAGS\x01")
            at = copy_in(buf, at, tags)
            buf[at] = VALUE_END
            at += 1
        at = copy_in(buf, at, self._id_head)
        counter: cython.uint = self.counter
        buf[at] = hex_digit((counter >> 12) & 15)
        buf[at + 1] = hex_digit((counter >> 8) & 15)
        buf[at + 2] = hex_digit((counter >> 4) & 15)
        buf[at + 3] = hex_digit(counter & 15)
        buf[at + 4] = VALUE_END
        self.counter = (counter + 1) & 0xFFFF
        self.count += 1
        self.used = at + 5
        return True

    def swap(self, free: bytearray) -> tuple[bytearray, int, int, int, int, int]:
        """Ends the batch and continues in `free`: (buffer, bytes used, count, born ms, month ms, first id counter)."""
        ended = (self._store, self.used, self.count, self.born_ms, self.month_ms, self.first_counter)
        self.capacity = len(free)
        self._adopt(free)
        return ended


def check_texts(tags: object, keys: object) -> None:
    """Raises MessageIllegal if tags are not a text, or keys neither a text nor a sequence of texts."""
    if tags is not None and not isinstance(tags, str):
        raise MessageIllegal(f"tags is {type(tags).__name__}: expected str or None")
    if keys is None or isinstance(keys, str):
        return
    if isinstance(keys, (list, tuple, Sequence)):  # the first two need no look-up
        for key in keys:
            if not isinstance(key, str):
                raise MessageIllegal(f"key {key!r} is {type(key).__name__}: expected str, as of str(key)")
        return
    raise MessageIllegal(f"keys is {type(keys).__name__}: expected str, or a sequence of str")


def plain_columns(
    messages: Sequence[Any], kind: Any, topic: str, body_max: int
) -> tuple[list[bytes], list[Any] | None, list[Any] | None] | None:
    """The bodies, tags and keys of messages, as `Accumulator.append_many` takes them: None for tags or keys that none has.

    None if there is more to one of them: it is of another class than `kind` (`model.message.Message`), of another topic,
    has a longer body than `body_max` or one that is not bytes, or anything else that a message may have. Raises as
    `check_texts` does.
    """
    bodies: list[bytes] = []
    has_tags: cython.bint = False
    has_keys: cython.bint = False
    for message in messages:
        if (
            type(message) is not kind
            or message.topic != topic
            or message.properties
            or message.flag
            or message.delay_level
            or message.delay is not None
            or message.deliver_at is not None
            or message.priority is not None
            or message.lite_topic is not None
            or message.light_queues
        ):
            return None
        body = message.body
        if type(body) is not bytes or len(body) > body_max:
            return None
        bodies.append(body)
        tags = message.tags
        keys = message.keys
        if tags or keys:
            check_texts(tags, keys)
            has_tags = has_tags or bool(tags)
            has_keys = has_keys or bool(keys)
    return (
        bodies,
        [message.tags or None for message in messages] if has_tags else None,
        [message.keys or None for message in messages] if has_keys else None,
    )


@cython.cfunc
def _encode_keys(keys: str | Sequence[str]) -> bytes:
    encoded: bytes
    if isinstance(keys, str):
        encoded = _utf8("key", keys)
        if not encoded or not _plain(encoded, SPACE):
            raise MessageIllegal(f"key {keys!r}: must not be empty nor hold a blank, 0x01 or 0x02")
        return encoded
    return b" ".join([_encode_keys(key) for key in keys])


@cython.cfunc
def _utf8(what: str, text: str) -> bytes:
    """Raises MessageIllegal for half of a surrogate pair, as undecodable bytes of a command line become."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise MessageIllegal(f"{what} {text!r}: expected text that UTF-8 can carry") from error


def batch_sizes(buffer: bytearray, used: int) -> list[int]:
    """The sizes of the records in a batch that we encoded, in order (they give the physical offset of each)."""
    view: cython.const[cython.uchar][::1] = memoryview(buffer)
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = used
    sizes: list[int] = []
    while at < end:
        sizes.append(get32(view, at))
        at += get32(view, at)
    return sizes
