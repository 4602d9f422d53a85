"""Every byte layout of the store as data: the code uses it, and tests compare it with `docs/formats`. Pure.

All numbers are big-endian. A field's size is a number of bytes, or the name of the field that contains it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from .sys_flag import BORN_HOST_IPV6


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its begin (None: behind the field before it, whose size varies), its size, and what it means."""

    name: str
    size: int | str
    meaning: str
    at: int | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """Fields in order. `size_bytes`: of all fields, None if it varies."""

    name: str
    title: str
    fields: tuple[Field, ...]
    size_bytes: int | None = None

    def struct_format(self) -> str:
        """The `struct` format of a layout whose fields are all 2, 4 or 8 bytes."""
        return ">" + "".join({2: "h", 4: "i", 8: "q"}[int(field.size)] for field in self.fields)


def _fixed(name: str, title: str, *fields: tuple[str, int, str]) -> Layout:
    placed, at = [], 0
    for field_name, size, meaning in fields:
        placed.append(Field(field_name, size, meaning, at))
        at += size
    return Layout(name, title, tuple(placed), at)


RECORD: Final = Layout(
    "record",
    "Commit log record",
    (
        Field("totalSize", 4, "bytes of the whole record, this field included", 0),
        Field("magic", 4, "0xDAA320A7 (v1) or 0xDAA320AB (v2: two bytes of topic length)", 4),
        Field("bodyCrc", 4, "CRC-32 of the body as stored, 31 bits", 8),
        Field("queueId", 4, "queue of the topic; set by the broker", 12),
        Field("flag", 4, "the sender's own", 16),
        Field("queueOffset", 8, "n-th message of the queue; set by the broker", 20),
        Field("physicalOffset", 8, "its position in the commit log; set by the broker", 28),
        Field("sysFlag", 4, "bits of record.sys_flag", 36),
        Field("bornTimestamp", 8, "when the producer made it, ms since the epoch", 40),
        Field("bornHost", "8, or 20 where sysFlag has 0x10", "address of the producer: ip 4 or 16, port 4", 48),
        Field("storeTimestamp", 8, "when the broker took it, ms since the epoch"),
        Field("storeHost", "8, or 20 where sysFlag has 0x20", "address of the broker: ip 4 or 16, port 4"),
        Field("reconsumeTimes", 4, "how often it was handed out again"),
        Field(
            "preparedTransactionOffset",
            8,
            "of a transaction's end: the half message; of a record by which another has waited long enough (delayed): -1 -"
            " its physical offset; else 0",
        ),
        Field("bodyLength", 4, "bytes of the body"),
        Field("body", "bodyLength", "as sent: compressed where sysFlag says so"),
        Field("topicLength", "1 (v1) or 2 (v2)", "bytes of the topic"),
        Field("topic", "topicLength", "UTF-8"),
        Field("propertiesLength", 2, "bytes of the properties, at most 32767"),
        Field("properties", "propertiesLength", "name 0x01 value 0x02 ..., UTF-8"),
    ),
)

BLANK_LAYOUT: Final = _fixed(
    "blank",
    "Blank record: ends a commit log file into which the next record does not fit",
    ("remaining", 4, "bytes from here to the end of the file"),
    ("magic", 4, "0xCBD43194"),
)


UNIT_LAYOUT: Final = _fixed(
    "consume_queue",
    "Consume queue unit",
    ("physicalOffset", 8, "where the record is in the commit log"),
    ("size", 4, "bytes of the record; 0x7FFFFFFF in filler"),
    ("tagsCode", 8, "Java hash of the tags, 0 without; in SCHEDULE_TOPIC_XXXX the time to deliver, ms since the epoch"),
)

BATCH_UNIT_LAYOUT: Final = _fixed(
    "batch_consume_queue",
    "Batch consume queue unit",
    ("physicalOffset", 8, "where the batch's record is in the commit log"),
    ("size", 4, "bytes of the record; 0x7FFFFFFF in filler"),
    ("tagsCode", 8, "Java hash of the record's tags, 0 without"),
    ("storeTime", 8, "when the broker took it, ms since the epoch"),
    ("msgBaseOffset", 8, "queue offset of the first message"),
    ("batchSize", 2, "number of messages, 1 to 32767"),
    ("compactedOffset", 4, "-1"),
    ("reserved", 4, "0"),
)

INNER_MESSAGE: Final = Layout(
    "inner_message",
    "Inner message of a batch",
    (
        Field("totalSize", 4, "bytes of the whole message, this field included", 0),
        Field("magic", 4, "0", 4),
        Field("bodyCrc", 4, "0", 8),
        Field("flag", 4, "the sender's own", 12),
        Field("bodyLength", 4, "bytes of the body", 16),
        Field("body", "bodyLength", "as sent", 20),
        Field("propertiesLength", 2, "bytes of the properties, at most 32767"),
        Field("properties", "propertiesLength", "as in a record"),
    ),
)

INDEX_HEADER_LAYOUT: Final = _fixed(
    "index_header",
    "Index file header",
    ("beginTimestamp", 8, "store time of the first message, ms; before the first entry: the end of the file before"),
    ("endTimestamp", 8, "store time of the last message, ms"),
    ("beginPhysicalOffset", 8, "record of the first entry"),
    ("endPhysicalOffset", 8, "record of the last entry"),
    ("slotsUsed", 4, "how often an entry found its slot empty"),
    ("indexCount", 4, "number of the next entry; entry 0 is never used"),
)

INDEX_SLOT_LAYOUT: Final = _fixed("index_slot", "Index file slot", ("entry", 4, "newest entry of the slot, 0 = none"))

INDEX_ENTRY_LAYOUT: Final = _fixed(
    "index_entry",
    "Index file entry",
    ("keyHash", 4, "abs of the Java hash of topic#key (unique id, each of KEYS) or topic#T#tags"),
    ("physicalOffset", 8, "where the record is in the commit log"),
    ("timeDifference", 4, "whole seconds since beginTimestamp (of the first entry: since the file before ended)"),
    ("previous", 4, "the entry before it in the same slot, 0 = none"),
)

CHECKPOINT_LAYOUT: Final = _fixed(
    "checkpoint",
    "Checkpoint (the first bytes of a 4096-byte file)",
    ("physicMsgTimestamp", 8, "store time up to which the commit log is flushed, ms"),
    ("logicsMsgTimestamp", 8, "the same for consume queues"),
    ("indexMsgTimestamp", 8, "the same for index files"),
    ("masterFlushedOffset", 8, "of replication"),
    ("confirmPhyOffset", 8, "how far the log was confirmed: on all replicas that count; 0 without replicas"),
)

CHECKSUM_LAYOUT: Final = _fixed(
    "checksum_entry",
    "Checksum log entry (ours: one append to the commit log)",
    ("physicalOffset", 8, "where the append begins"),
    ("length", 4, "bytes of the append"),
    ("crc", 4, "CRC-32 of these bytes as they were written"),
)

LAYOUTS: Final = (
    RECORD,
    BLANK_LAYOUT,
    UNIT_LAYOUT,
    BATCH_UNIT_LAYOUT,
    INNER_MESSAGE,
    INDEX_HEADER_LAYOUT,
    INDEX_SLOT_LAYOUT,
    INDEX_ENTRY_LAYOUT,
    CHECKPOINT_LAYOUT,
    CHECKSUM_LAYOUT,
)

UNIT: Final = struct.Struct(UNIT_LAYOUT.struct_format())
BATCH_UNIT: Final = struct.Struct(BATCH_UNIT_LAYOUT.struct_format())
INDEX_HEADER: Final = struct.Struct(INDEX_HEADER_LAYOUT.struct_format())
INDEX_ENTRY: Final = struct.Struct(INDEX_ENTRY_LAYOUT.struct_format())

_IPV6_BYTES: Final = 12  # how much longer than an IPv4 host


def physical_offset_of(record: memoryview | bytes) -> int:
    """The physical offset in a record's header."""
    return int.from_bytes(record[28:36], "big")


def store_timestamp_of(record: memoryview | bytes) -> int:
    """The store time of a record, ms since the epoch."""
    at = 56 + (_IPV6_BYTES if record[39] & BORN_HOST_IPV6 else 0)
    return int.from_bytes(record[at : at + 8], "big")
