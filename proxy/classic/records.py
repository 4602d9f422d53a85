"""Messages of the classic protocol: batches that clients send, and records as they can read them. Pure.

A batch is one message after the other:

    size 4 | magic 4 (0) | body CRC 4 (0) | flag 4 | body length 4 | body | properties length 2 | properties

A record goes out as it is in the log, but for its store host, which clients use as an address: there is the proxy's. Where a
client cannot read how a body is packed, or a record of the second version (topics longer than 127 bytes), it is written anew.
"""

from __future__ import annotations

import re
import struct
from contextlib import suppress
from typing import Final

from ...client.sending.target import PRIORITY_MAX
from ...model.errors import CorruptRecordError, MessageIllegal, RemoteProtocolError
from ...model.ids import HostAddress
from ...model.plain_dataclass import dataclass
from ...model.properties import (
    DELAY_LEVEL,
    ENTRY_SEPARATOR,
    HALF_OFFSET,
    HALF_SENDER,
    NAME_SEPARATOR,
    POP_LEASE,
    PRIORITY,
    PRODUCER_GROUP,
    RETRY_TOPIC,
    SEQUENCE,
    SHARDING_KEY,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    decode_properties,
)
from ...record.codes import BORN_HOST_V6, INNER_FIXED_BYTES, MAGIC_V2, STORE_HOST_V6, SYS_FLAG_AT, TOPIC_V1_MAX
from ...record.compression import decompress
from ...record.kernel import StoredMessage, decode_batch, encode_record
from ...record.sys_flag import COMPRESSED, COMPRESSION_LZ4, COMPRESSION_MASK, COMPRESSION_ZSTD
from .codes import READS_LONG_TOPICS, READS_LZ4

BATCH_MAX: Final = 4096
ANSWER_BYTES_MAX: Final = 12 * 1024 * 1024
"""Of the records of one answer, but for the first: a frame has to hold them, and unpacked bodies may be large."""
BODY_BYTES_MAX: Final = 15 * 1024 * 1024
"""A body is unpacked to so much at most: with it a frame is full."""
_INNER: Final = struct.Struct(">iiiii")
_SHORT: Final = struct.Struct(">H")
_CRC_AT: Final = 8
_CRC_BYTES: Final = 4
_HOST_AT: Final = 64
_MORE_V6: Final = 12
_V4_BYTES: Final = 8
_SEPARATOR: Final = ENTRY_SEPARATOR.encode()
_TIMES: Final = frozenset((TIMER_DELIVER_MS, TIMER_DELAY_MS, TIMER_DELAY_SECONDS))
_NOTED: Final = tuple(f"{name}{NAME_SEPARATOR}".encode() for name in (SEQUENCE, HALF_SENDER, HALF_OFFSET, POP_LEASE))
_ANY_NOTED: Final = re.compile(b"|".join(map(re.escape, _NOTED)))
_TELLING: Final = (UNIQUE_KEY, PRODUCER_GROUP, TRANSACTION_PREPARED, DELAY_LEVEL, *sorted(_TIMES))
_TELLING_ENTRY: Final = re.compile(
    b"(?:^|%s)(%s)%s([^%s]+)"
    % (
        _SEPARATOR,
        b"|".join(map(str.encode, _TELLING)),
        NAME_SEPARATOR.encode(),
        _SEPARATOR,
    )
)
TELLING_NAMES: Final = [*(f"{name}{NAME_SEPARATOR}".encode() for name in _TELLING if name != UNIQUE_KEY), *_NOTED]
"""A message with none of these properties, and with an id, is a plain one as it was sent. Each with its separator."""
_PRIORITY_DIGITS: Final = 9
_HOST_BITS: Final = BORN_HOST_V6 | STORE_HOST_V6


@dataclass(frozen=True, slots=True)
class BatchedMessage:
    """One message of a batch. `properties`: encoded."""

    flag: int
    body: bytes
    properties: bytes


@dataclass(frozen=True, slots=True)
class ReadableRecords:
    """What a client can read. `is_lz4`: LZ4 and Zstandard; `is_long`: topics longer than 127 bytes."""

    is_lz4: bool
    is_long: bool


def readable(language: str, version: int) -> ReadableRecords:
    """What a client of that language and release can read."""
    is_java = language == "JAVA"
    return ReadableRecords(is_java and version >= READS_LZ4, is_java and version >= READS_LONG_TOPICS)


def read_batch(body: bytes) -> list[BatchedMessage]:
    """The messages of a batch. Raises MessageIllegal."""
    messages: list[BatchedMessage] = []
    at, end = 0, len(body)
    while at < end:
        if end - at < INNER_FIXED_BYTES:
            raise MessageIllegal(f"a batch ends within the message at byte {at}")
        size, _, _, flag, length = _INNER.unpack_from(body, at)
        if not INNER_FIXED_BYTES <= size <= end - at or not 0 <= length <= size - INNER_FIXED_BYTES:
            raise MessageIllegal(f"a batch's message at byte {at} has the size {size} and a body of {length} bytes")
        text_at = at + _INNER.size + length
        (text_bytes,) = _SHORT.unpack_from(body, text_at)
        if size != INNER_FIXED_BYTES + length + text_bytes:
            raise MessageIllegal(f"a batch's message at byte {at} has {text_bytes} bytes of properties in {size}")
        if len(messages) == BATCH_MAX:
            raise MessageIllegal(f"a batch of more than {BATCH_MAX} messages")
        properties = body[text_at + _SHORT.size : at + size]
        messages.append(BatchedMessage(flag, body[at + _INNER.size : text_at], properties))
        at += size
    if not messages:
        raise MessageIllegal("a batch without messages")
    return messages


def whole_properties(encoded: bytes) -> bytes:
    """Properties as records have them: clients leave the last separator out."""
    return encoded if not encoded or encoded.endswith(_SEPARATOR) else encoded + _SEPARATOR


def sent_properties(encoded: bytes) -> bytes:
    """Those of a message that a client sends. Clients send messages that they received as they are, to another topic or once
    more to their group; what brokers of ours and their producers noted in these stays behind."""
    encoded = whole_properties(encoded)
    if not _ANY_NOTED.search(encoded):
        return encoded
    entries = encoded.removesuffix(_SEPARATOR).split(_SEPARATOR)
    return b"".join(entry + _SEPARATOR for entry in entries if not entry.startswith(_NOTED))


def telling_properties(encoded: bytes) -> dict[str, str]:
    """Those by which a message is told apart and its kind is told, as `decode_properties` has them, in a third of the time."""
    return {name.decode(): value.decode("utf-8", "replace") for name, value in _TELLING_ENTRY.findall(encoded)}


def is_delayed(properties: dict[str, str]) -> bool:
    """Whether a message is to be delivered later."""
    level = properties.get(DELAY_LEVEL, "0")
    return not _TIMES.isdisjoint(properties) or (level.isascii() and level.isdecimal() and bool(level.strip("0")))


def priority_of(encoded: bytes) -> int | None:
    """The priority that a message's properties say, which says in which queue it is; None where they say another order or time,
    or nothing."""
    if PRIORITY.encode() not in encoded:
        return None
    properties = decode_properties(encoded)
    text = properties.get(PRIORITY, "")
    is_other = is_half(properties) or is_delayed(properties) or SHARDING_KEY in properties
    if is_other or not (text.isascii() and text.isdecimal() and len(text) <= _PRIORITY_DIGITS):
        return None
    return min(int(text), PRIORITY_MAX)


def is_half(properties: dict[str, str]) -> bool:
    """Whether a message is the first half of a transaction."""
    return properties.get(TRANSACTION_PREPARED, "").lower() == "true"


def readable_records(payload: bytes, host: HostAddress, can: ReadableRecords) -> tuple[bytes, int]:
    """The records of a pull, as a client can read them, with `host` as their store host: as many as one answer holds, one at
    least. And the queue offset of the first that is left out; -1 = none is. Raises RemoteProtocolError, CorruptRecordError."""
    batch = decode_batch(payload)
    data = batch.data
    address = host.encode()
    patched = bytearray(data)
    parts: list[bytes | bytearray] = []
    begin = end = size_bytes = 0
    left_out = -1
    for at, message in zip(batch.positions, batch, strict=True):
        flags = int.from_bytes(data[at + SYS_FLAG_AT : at + SYS_FLAG_AT + 4], "big")
        is_kept = _is_plain(message, flags, can) and bool(flags & STORE_HOST_V6) == (len(address) != _V4_BYTES)
        anew = b"" if is_kept else rewritten(message, address, can)
        size_bytes += message.size_bytes if is_kept else len(anew)
        if end and size_bytes > ANSWER_BYTES_MAX:
            left_out = message.queue_offset
            break
        end = at + message.size_bytes
        if is_kept:
            host_at = at + _HOST_AT + (_MORE_V6 if flags & BORN_HOST_V6 else 0)
            patched[host_at : host_at + len(address)] = address
        else:
            parts += [patched[begin:at], anew]
            begin = end
    if not parts:
        return bytes(patched if end == len(patched) else patched[:end]), left_out
    parts.append(patched[begin:end])
    return b"".join(parts), left_out


def rewritten(message: StoredMessage, host: bytes, can: ReadableRecords, *, more_properties: bytes = b"") -> bytes:
    """A record written anew. `host`: 8 or 20 bytes. `more_properties`: encoded. A body that cannot be unpacked, or not to what
    a frame holds, stays as it is stored: as at RocketMQ, its consumer says what becomes of it. Raises RemoteProtocolError,
    CorruptRecordError."""
    flags = message.sys_flag & 0xFFFFFFFF
    body = stored = message.body_as_stored
    if not _reads_body(flags, can):
        if not message.body_crc_matches:
            raise CorruptRecordError(message.physical_offset, message.size_bytes, "body checksum")
        with suppress(RemoteProtocolError):
            body = decompress(body, flags, BODY_BYTES_MAX)
            flags &= ~(COMPRESSED | COMPRESSION_MASK)
    topic = message.queue.topic
    if len(topic.encode()) > TOPIC_V1_MAX and not can.is_long:
        topic = message.properties.get(RETRY_TOPIC, "")
        if not topic or len(topic.encode()) > TOPIC_V1_MAX:
            raise RemoteProtocolError(f"this client reads no topics longer than {TOPIC_V1_MAX} bytes")
    record = encode_record(
        topic=topic.encode(),
        body=body,
        properties=message.properties_as_stored + more_properties,
        queue_id=message.queue_id,
        flag=message.flag,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        sys_flag=flags & ~_HOST_BITS,
        born_timestamp_ms=message.born_at_ms,
        born_host=message.born_host,
        store_timestamp_ms=message.stored_at_ms,
        store_host=host,
        reconsume_times=message.reconsume_times,
        prepared_transaction_offset=message.prepared_transaction_offset,
    )
    if body is stored and not message.body_crc_matches:  # its client sees that it is damaged, as in the record itself
        return record[:_CRC_AT] + message.body_crc.to_bytes(_CRC_BYTES, "big") + record[_CRC_AT + _CRC_BYTES :]
    return record


def _is_plain(message: StoredMessage, flags: int, can: ReadableRecords) -> bool:
    """Whether the client can read the record as it is."""
    return _reads_body(flags, can) and (can.is_long or message.magic != MAGIC_V2)


def _reads_body(flags: int, can: ReadableRecords) -> bool:
    if not flags & COMPRESSED or can.is_lz4:
        return True
    return flags & COMPRESSION_MASK not in (COMPRESSION_LZ4, COMPRESSION_ZSTD)
