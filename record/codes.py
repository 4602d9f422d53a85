"""The names of the numbers in records, units and index entries: offsets, sizes, magics, statuses. Pure.

The record is RocketMQ's, big-endian (`docs/formats/record.md`). An IPv6 host takes 20 bytes instead of 8, so what follows
it is 12 bytes further. In the compiled kernel each of these names is replaced by its number (kernel_join).
"""

from __future__ import annotations

from typing import Final

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
RECORD_OVERHEAD_BYTES: Final = 91  # v1, two IPv4 hosts, without body, topic and properties
TERMINATOR_BYTES: Final = 8  # zero bytes behind the last record, for which a record must leave room
UNIT_BYTES: Final = 20  # a consume-queue unit: physical offset 8, size 4, tags code 8
ENTRY_BYTES: Final = 20  # an index entry: key hash 4, physical offset 8, time difference 4, previous entry 4
INDEX_HEADER_BYTES: Final = 40
# The record, with two IPv4 hosts: the begin of each field.
MAGIC_AT: Final = 4  # behind the size
BODY_CRC_AT: Final = 8
QUEUE_ID_AT: Final = 12
FLAG_AT: Final = 16
QUEUE_OFFSET_AT: Final = 20
PHYSICAL_OFFSET_AT: Final = 28
SYS_FLAG_AT: Final = 36
BORN_TIMESTAMP_AT: Final = 40
BORN_HOST_AT: Final = 48
STORE_TIMESTAMP_AT: Final = 56
BODY_LENGTH_AT: Final = 84
BODY_AT: Final = 88
# The same fields for any hosts: bytes before the body.
RECONSUME_TIMES_BACK: Final = 16
PREPARED_OFFSET_BACK: Final = 12
BODY_LENGTH_BACK: Final = 4
# And bytes behind the store host.
PREPARED_OFFSET_ON: Final = 4
BODY_LENGTH_ON: Final = 12
BODY_ON: Final = 16
HOST_V4_BYTES: Final = 8  # address 4, port 4
HOST_V6_BYTES: Final = 20
HOST_V6_MORE: Final = 12  # additional bytes of an IPv6 host
BORN_HOST_V6: Final = 0x10  # bits of sysFlag
STORE_HOST_V6: Final = 0x20
HALF_OR_ROLLBACK: Final = 0xC
HOST_BITS: Final = 0x30
INNER_BATCH_BIT: Final = 0x80
BATCH_FLAGS: Final = 0xC0  # one record that holds a batch, and that its reader takes apart
RUN_ALONE: Final = 0x8C  # a record with one of these is a run of its own
COMPRESSED_BIT: Final = 0x1
COMPRESSED_LZ4: Final = 0x101
FIXED_BYTES: Final = 72  # of a record without hosts, body, topic and properties
PROPERTIES_MAX: Final = 32767
PROPERTIES_SENT_MAX: Final = 31743  # the rest is for the properties that a delay, a retry and a dead letter add
TOPIC_V1_MAX: Final = 127
TOPIC_MAX: Final = 65535
CRC_BITS: Final = 0x7FFFFFFF  # the bits of a body's CRC-32 that a record has
NAME_END: Final = 1  # 0x01 ends a property's name, 0x02 its value
VALUE_END: Final = 2
SHORT_NAME_BYTES: Final = 5  # a name of four letters (TAGS, KEYS, PSEQ) and its end
LONG_NAME_BYTES: Final = 9  # UNIQ_KEY and its end
BLANK_BYTES: Final = 8  # the written part of a blank record: size and magic; no other record is that short
SPACE: Final = 32  # between keys
# An inner message of a batch.
INNER_MAX: Final = 32767  # messages of a batch: its number has two bytes in the unit, signed
INNER_FLAG_AT: Final = 12
INNER_BODY_LENGTH_AT: Final = 16
INNER_BODY_AT: Final = 20
INNER_FIXED_BYTES: Final = 22
INNER_BASE_DIGITS: Final = 19
INNER_BASE_BYTES: Final = 31  # INNER_BASE, 0x01, the digits, 0x02
INNER_NUM_DIGITS: Final = 5
INNER_NUM_NAME_BYTES: Final = 10  # INNER_NUM and its end
INNER_PREFIX_BYTES: Final = 47  # both properties
# A unit.
UNIT_SIZE_AT: Final = 8
UNIT_TAGS_AT: Final = 12
FILLER_SIZE: Final = 0x7FFFFFFF  # the size in a unit that belongs to no record
# An index file.
SLOT_BYTES: Final = 4
ENTRY_OFFSET_AT: Final = 4
ENTRY_TIME_AT: Final = 12
ENTRY_PREVIOUS_AT: Final = 16
# PSEQ: a producer's id, ":", its sequence in hex.
SEQUENCE_DIGITS: Final = 16
SEQUENCE_BYTES: Final = 17
COLON: Final = 58
# Light queues.
COMMA: Final = 44  # between their names, and between the offsets
LIGHT_DIGITS: Final = 19  # of each offset
LIGHT_NAMES_MAX: Final = 64  # in one record
LIGHT_LENGTH_MAX: Final = 255
LIGHT_PREFIX_BYTES: Final = 5  # %LMQ%
# The result of comparing a property with a constant, as bits.
LESS: Final = 1
EQUAL: Final = 2
GREATER: Final = 4
ANY_OUTCOME: Final = 7
# Why a scan or a check stopped. Zero and negative: no record. REASONS has the texts of refusals.
RUN_MORE: Final = 1  # another run begins here
RUN_END: Final = 0  # zeros: nothing was written here
RUN_BLANK: Final = -1  # the rest of the segment is filler
BAD_SIZE: Final = -2
BAD_MAGIC: Final = -3
BAD_LENGTHS: Final = -4
BAD_TOPIC: Final = -5
BAD_SYS_FLAG: Final = -6
BAD_BODY_SIZE: Final = -7
BAD_PROPERTIES_SIZE: Final = -8
BAD_COUNT: Final = -9
BAD_OFFSET: Final = -10
BAD_BODY_CRC: Final = -11
BAD_TRANSACTION: Final = -12
BAD_SEQUENCE_ROOM: Final = -13
BAD_LIGHT_NAMES: Final = -14
BAD_LIGHT_ROOM: Final = -15
BAD_INNER_BATCH: Final = -16
BAD_BATCH_LIGHT: Final = -17
WHY_BAD_SIZE: Final = "record size is below the minimum, over the limit, or past the end of the batch"
WHY_BAD_LENGTHS: Final = "inner lengths do not add up to the record size"
REASONS: Final = {
    BAD_SIZE: WHY_BAD_SIZE,
    BAD_MAGIC: "record magic is neither v1 nor v2",
    BAD_LENGTHS: WHY_BAD_LENGTHS,
    BAD_TOPIC: "record topic is not the topic of the request",
    BAD_SYS_FLAG: "sysFlag has bits a client may not set, or a store host of the other address family",
    BAD_BODY_SIZE: "body is over the limit",
    BAD_PROPERTIES_SIZE: "properties are over 32767 bytes",
    BAD_COUNT: "the batch does not hold as many records as its header says",
    BAD_OFFSET: "physical offset is not the record's position",
    BAD_BODY_CRC: "body checksum does not match",
    BAD_TRANSACTION: "prepared transaction offset must be zero",
    BAD_INNER_BATCH: (
        "the record does not hold the batch that its header says: INNER_BASE, INNER_NUM, and as many messages, at most 32767"
    ),
    BAD_BATCH_LIGHT: "its topic takes batches (queue.type=BatchCQ): no message of one goes into a lite topic or a light queue",
    BAD_SEQUENCE_ROOM: "record has no property PSEQ of the size that its producer's sequence takes",
    BAD_LIGHT_NAMES: (
        "property INNER_MULTI_DISPATCH must name 1 to 64 different light queues: each %LMQ% and letters, digits, _ - % | $,"
        " at most 255 in all; joined by commas"
    ),
    BAD_LIGHT_ROOM: (
        "record names light queues, so it needs a property INNER_MULTI_QUEUE_OFFSET with 19 digits for each, joined by"
        " commas, into which the broker writes the offsets"
    ),
}

# Why `ColumnFiller.fill` stopped.
ALL_TAKEN: Final = 0
NO_ROOM: Final = 1
BEHIND_END: Final = 2
FILL_BAD_BODY_CRC: Final = 3
FILL_BAD_PACKING: Final = 4
FILL_REASONS: Final = {
    FILL_BAD_BODY_CRC: "body checksum does not match",
    FILL_BAD_PACKING: "compressed body cannot be unpacked",
}
PROPERTIES_ROOM_BYTES: Final = 131_072


"""The room that a text of any kind needs for one row: 32767 bytes of properties, three for each byte that is not UTF-8."""


ENTRIES_ROOM: Final = 10_923


"""The most properties in 32767 bytes: each has at least a separator, a value and an end."""
