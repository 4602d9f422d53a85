# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False
# cython: binding=True, nonecheck=False
"""Records as messages: a lazy view of each, decoded when its attributes are read. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import cython

from ..model.clock import datetime_of_ms
from ..model.errors import CorruptRecordError
from ..model.properties import decode_properties
from ..model.queue import MessageQueue
from .codes import (
    BODY_CRC_AT,
    BODY_LENGTH_BACK,
    BORN_HOST_AT,
    BORN_HOST_V6,
    BORN_TIMESTAMP_AT,
    COMPRESSED_BIT,
    FLAG_AT,
    HOST_V4_BYTES,
    HOST_V6_BYTES,
    INNER_BATCH_BIT,
    MAGIC_AT,
    PHYSICAL_OFFSET_AT,
    PREPARED_OFFSET_BACK,
    QUEUE_ID_AT,
    QUEUE_OFFSET_AT,
    REASONS,
    RECONSUME_TIMES_BACK,
    RECORD_OVERHEAD_BYTES,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    WHY_BAD_LENGTHS,
    WHY_BAD_SIZE,
)
from .compression import decompress
from .inner_batches import unwrap_batches
from .lights import light_offset
from .primitives import check_lengths, crc_in, crc_of, find_body, find_topic, get32, get64, get_s32, topic_size

_is_making = cython.declare(cython.bint, False)  # while our own code creates a batch and fills it in


@cython.final
@cython.cclass
class MessageBatch:
    """A run of records as a sequence of StoredMessage; slices share the buffer.

    `queue_offsets` are not assumed to be contiguous: a filter may have left gaps. `light_queue`: the one that the messages were
    read from; None if they were read from their own queue.
    """

    broker_name = cython.declare(object, visibility="readonly")
    light_queue = cython.declare(object, visibility="readonly")
    _light: bytes
    _data: bytes
    _view: cython.const[cython.uchar][::1]
    _at: cython.const[cython.uint][::1]
    _begin: cython.Py_ssize_t
    _end: cython.Py_ssize_t
    _is_whole: cython.bint

    def __cinit__(self) -> None:
        if not _is_making:  # compiled, the attributes of an unfilled batch would read invalid memory
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
        part.light_queue = self.light_queue
        part._light = self._light
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
        return last + get32(self._view, last) - self._at[self._begin]

    @property
    def data(self) -> bytes:
        """The bytes that hold the records."""
        return self._data

    @property
    def positions(self) -> memoryview:
        """The begin of each record in `data`; all lengths are proven."""
        return memoryview(self._at[self._begin : self._end])

    def first_damaged(self) -> int:
        """The index of the first message whose stored body does not match its checksum; -1 if there is none.

        If there is none, `body` does not check these messages again.
        """
        buf: cython.const[cython.uchar][::1] = self._view
        i: cython.Py_ssize_t
        at: cython.Py_ssize_t
        body: cython.Py_ssize_t
        for i in range(self._begin, self._end):
            at = self._at[i]
            body = find_body(buf, at)
            if crc_in(buf, body, get32(buf, body - BODY_LENGTH_BACK)) != get32(buf, at + BODY_CRC_AT):
                return i - self._begin
        self._is_whole = True
        return -1

    def next_offset(self) -> int:
        """The queue offset behind the last message. Raises IndexError for an empty batch."""
        if self._begin == self._end:
            raise IndexError("an empty batch")
        return _queue_offset(self, self._at[self._end - 1]) + 1


@cython.final
@cython.nonecheck(
    True
)  # Python's own `__new__` makes one without a batch; a __cinit__ would cost more for each message
@cython.cclass
class StoredMessage:
    """A stored message: a view of its record, decoded when its attributes are read.

    Messages of one poll share one buffer. `body` is plain (decompressed if the sender compressed it) and is checked against
    its checksum at each read; a mismatch raises CorruptRecordError.
    """

    _batch: MessageBatch
    _at: cython.Py_ssize_t
    _delivery: (
        tuple[str | None, int, object] | None
    )  # of a message that is not as its record says: see tried_again, leased

    def __init__(self) -> None:
        raise TypeError("a StoredMessage comes from decode_batch and decode_record only")

    def tried_again(self, topic: str | None, tries: cython.Py_ssize_t) -> StoredMessage:
        """The same message as its consumer sees it at another try.

        `topic`: its original topic (None = the record's own); `tries`: how many more deliveries than its record says.
        """
        again: StoredMessage = _message(self._batch, self._at)
        again._delivery = (topic, tries, None)
        return again

    def leased(self, tries: cython.Py_ssize_t, lease: object) -> StoredMessage:
        """The same message as a pop hands it out: `tries` times more than its record says, and with what its consumer needs
        to acknowledge it."""
        leased: StoredMessage = _message(self._batch, self._at)
        leased._delivery = (None, tries, lease)
        return leased

    @property
    def lease(self) -> object:
        """What `leased` was told; None for a message that was not popped."""
        return None if self._delivery is None else self._delivery[2]

    @property
    def broker_name(self) -> str:
        """The replica group it was read from."""
        return self._batch.broker_name

    @property
    def body(self) -> bytes:
        """The plain body. Raises CorruptRecordError, RemoteProtocolError (it cannot be unpacked)."""
        batch: MessageBatch = self._batch
        data: bytes = batch._data
        body: cython.Py_ssize_t = find_body(batch._view, self._at)
        plain: bytes = data[body : body + get32(batch._view, body - BODY_LENGTH_BACK)]
        if not batch._is_whole and crc_of(plain) != get32(batch._view, self._at + BODY_CRC_AT):
            raise CorruptRecordError(self.physical_offset, self.size_bytes, "body checksum")
        flags: cython.uint = get32(batch._view, self._at + SYS_FLAG_AT)
        if flags & COMPRESSED_BIT:
            return decompress(plain, flags)
        return plain

    @property
    def body_as_stored(self) -> bytes:
        """The body's bytes in the record, compressed or not, unchecked."""
        body: cython.Py_ssize_t = find_body(self._batch._view, self._at)
        return self._batch._data[body : body + get32(self._batch._view, body - BODY_LENGTH_BACK)]

    @property
    def body_crc_matches(self) -> bool:
        """Whether the stored body matches its checksum."""
        return bool(crc_of(self.body_as_stored) == get32(self._batch._view, self._at + BODY_CRC_AT))

    @property
    def topic(self) -> str:
        """The topic it was sent to: the record's, or the original one if it came back for another try."""
        first: str | None = None if self._delivery is None else self._delivery[0]
        return _stored_topic(self) if first is None else first

    @property
    def properties_as_stored(self) -> bytes:
        """The properties field's bytes."""
        tail: cython.Py_ssize_t = find_topic(self._batch._view, self._at)
        begin: cython.Py_ssize_t = tail + topic_size(self._batch._view, self._at, tail) + 2
        return self._batch._data[begin : self._at + get32(self._batch._view, self._at)]

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
        """The unique id from its producer; the offset message id if it has none."""
        unique = self.properties.get("UNIQ_KEY")
        return unique if unique is not None else self.offset_message_id

    @property
    def offset_message_id(self) -> str:
        """Store host and physical offset in hex."""
        return (
            (self.store_host + self._batch._data[self._at + PHYSICAL_OFFSET_AT : self._at + SYS_FLAG_AT]).hex().upper()
        )

    @property
    def queue(self) -> MessageQueue:
        """The queue that it was read from: its own, or a light queue."""
        light = self._batch.light_queue
        return MessageQueue(_stored_topic(self) if light is None else light, self.broker_name, self.queue_id)

    @property
    def queue_id(self) -> int:
        """The id of its queue; 0 in a light queue."""
        if self._batch.light_queue is not None:
            return 0
        return get_s32(self._batch._view, self._at + QUEUE_ID_AT)

    @property
    def queue_offset(self) -> int:
        """Its number in its queue, or in the light queue that it was read from."""
        return _queue_offset(self._batch, self._at)

    @property
    def lite_topic(self) -> str | None:
        """The lite topic of its topic that it was sent to."""
        return self.properties.get("__LITE_TOPIC")

    @property
    def physical_offset(self) -> int:
        """Its byte position in its broker's commit log."""
        return get64(self._batch._view, self._at + PHYSICAL_OFFSET_AT)

    @property
    def size_bytes(self) -> int:
        """The size of the whole record."""
        return get32(self._batch._view, self._at)

    @property
    def magic(self) -> int:
        """MAGIC_V1 or MAGIC_V2."""
        return get32(self._batch._view, self._at + MAGIC_AT)

    @property
    def body_crc(self) -> int:
        """CRC-32 of the stored body, 31 bits."""
        return get32(self._batch._view, self._at + BODY_CRC_AT)

    @property
    def flag(self) -> int:
        """32 bits for the sender's own use."""
        return get_s32(self._batch._view, self._at + FLAG_AT)

    @property
    def sys_flag(self) -> int:
        """Bits of `record.sys_flag`."""
        return get32(self._batch._view, self._at + SYS_FLAG_AT)

    @property
    def born_at_ms(self) -> int:
        """When the producer made it, ms since the epoch."""
        return get64(self._batch._view, self._at + BORN_TIMESTAMP_AT)

    @property
    def born_at(self) -> datetime:
        """The same as an aware datetime. Raises CorruptRecordError if it is out of range."""
        return _moment(self, self.born_at_ms)

    @property
    def born_host(self) -> bytes:
        """The producer's address: ip and port, 8 or 20 bytes."""
        return self._batch._data[self._at + BORN_HOST_AT : self._at + (68 if self.sys_flag & BORN_HOST_V6 else 56)]

    @property
    def stored_at_ms(self) -> int:
        """When the broker stored it, ms since the epoch."""
        return get64(self._batch._view, self._at + (68 if self.sys_flag & BORN_HOST_V6 else 56))

    @property
    def stored_at(self) -> datetime:
        """The same as an aware datetime. Raises CorruptRecordError if it is out of range."""
        return _moment(self, self.stored_at_ms)

    @property
    def store_host(self) -> bytes:
        """The address of the broker that stored it: ip and port, 8 or 20 bytes."""
        begin: cython.Py_ssize_t = self._at + (76 if self.sys_flag & BORN_HOST_V6 else 64)
        return self._batch._data[begin : begin + (HOST_V6_BYTES if self.sys_flag & STORE_HOST_V6 else HOST_V4_BYTES)]

    @property
    def reconsume_times(self) -> int:
        """How often it was delivered again."""
        more: cython.Py_ssize_t = 0 if self._delivery is None else self._delivery[1]
        return get32(self._batch._view, find_body(self._batch._view, self._at) - RECONSUME_TIMES_BACK) + more

    @property
    def prepared_transaction_offset(self) -> int:
        """Of a transaction's record; 0 otherwise."""
        return get64(self._batch._view, find_body(self._batch._view, self._at) - PREPARED_OFFSET_BACK)

    @property
    def record(self) -> bytes:
        """The whole record's bytes."""
        return self._batch._data[self._at : self._at + get32(self._batch._view, self._at)]

    def __reduce__(self) -> tuple[Callable[..., StoredMessage], tuple[object, ...]]:
        """A pickled message is its record alone, without the others of its poll."""
        first, tries, _ = (None, 0, None) if self._delivery is None else self._delivery
        return _unpickled, (self.record, self.broker_name, first, tries, self._batch.light_queue)

    def __repr__(self) -> str:
        return f"<StoredMessage {self.message_id} {self.topic}:{self.queue_id}@{self.queue_offset}>"


@cython.cfunc
def _new_batch() -> MessageBatch:
    """An empty batch for its creator to fill in."""
    global _is_making
    _is_making = True
    batch: MessageBatch = MessageBatch.__new__(MessageBatch)
    _is_making = False
    return batch


def _unpickled(
    record: bytes, broker_name: str, first_topic: str | None, tries: int, light_queue: str | None = None
) -> StoredMessage:
    message: StoredMessage = decode_batch(record, broker_name, light_queue=light_queue)[0]
    return message.tried_again(first_topic, tries)


@cython.cfunc
@cython.inline
def _queue_offset(batch: MessageBatch, at: cython.Py_ssize_t) -> cython.longlong:
    if batch.light_queue is not None:
        return light_offset(batch._view, at, batch._light)
    return get64(batch._view, at + QUEUE_OFFSET_AT)


def _moment(message: StoredMessage, at_ms: int) -> datetime:
    try:
        return datetime_of_ms(at_ms)
    except (ValueError, OverflowError) as error:
        raise CorruptRecordError(message.physical_offset, message.size_bytes, f"a time of {at_ms} ms") from error


@cython.cfunc
@cython.nonecheck(True)
def _stored_topic(message: StoredMessage) -> str:
    batch: MessageBatch = message._batch
    begin: cython.Py_ssize_t = find_topic(batch._view, message._at)
    return batch._data[begin : begin + topic_size(batch._view, message._at, begin)].decode("utf-8", "replace")


@cython.cfunc
@cython.inline
def _message(batch: MessageBatch, at: cython.Py_ssize_t) -> StoredMessage:
    message: StoredMessage = StoredMessage.__new__(StoredMessage)
    message._batch = batch
    message._at = at
    if not cython.compiled:  # compiled, it begins so
        message._delivery = None
    return message


def decode_batch(
    data: bytes, broker_name: str = "", record_max: int = 0x7FFFFFFF, light_queue: str | None = None
) -> MessageBatch:
    """The messages in `data`, contiguous records, with all lengths proven. `light_queue`: as of a MessageBatch.

    A record that holds a batch gives its messages (`unwrap_batches`). Raises CorruptRecordError with the position in `data`.
    """
    return _decoded(data, broker_name, record_max, light_queue, False)


@cython.cfunc
def _decoded(
    data: bytes, broker_name: str, record_max: cython.Py_ssize_t, light_queue: str | None, as_records: cython.bint
) -> MessageBatch:
    """`as_records`: a record that holds a batch stays one message."""
    at: cython.Py_ssize_t = 0
    end: cython.Py_ssize_t = len(data)
    count: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    wraps: cython.uint = 0
    room: cython.Py_ssize_t = end // RECORD_OVERHEAD_BYTES + 1
    if end > 0xFFFFFFFF:  # positions have 32 bits
        raise CorruptRecordError(0, end, WHY_BAD_SIZE)
    positions = memoryview(bytearray(4 * room)).cast("I")
    view: cython.uint[::1] = positions
    buf: cython.const[cython.uchar][::1] = data
    while at < end:
        size = check_lengths(buf, at, end, record_max)
        if size < 0:
            raise CorruptRecordError(at, end - at, REASONS[size])
        view[count] = at
        count += 1
        wraps |= buf[at + SYS_FLAG_AT + 3]
        at += size
    if wraps & INNER_BATCH_BIT and not as_records:
        return _decoded(unwrap_batches(data), broker_name, 0x7FFFFFFF, light_queue, True)
    batch: MessageBatch = _new_batch()
    batch.broker_name = broker_name
    batch.light_queue = light_queue
    batch._light = b"" if light_queue is None else light_queue.encode()
    batch._data = data
    batch._view = buf
    batch._at = positions
    batch._begin = 0
    batch._end = count
    batch._is_whole = False
    return batch


def decode_record(data: bytes, broker_name: str = "") -> StoredMessage:
    """The single record in `data`, as one message even if it holds a batch. Raises CorruptRecordError."""
    batch: MessageBatch = _decoded(data, broker_name, 0x7FFFFFFF, None, True)
    if len(batch) != 1:
        raise CorruptRecordError(0, len(data), WHY_BAD_LENGTHS)
    return _message(batch, 0)
