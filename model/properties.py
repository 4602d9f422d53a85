"""Message properties as RocketMQ writes them: `name 0x01 value 0x02 name 0x01 value 0x02 ...`, UTF-8. Pure.

At most 32,767 bytes (a signed short in the record). Names and values hold neither 0x01 nor 0x02. As in RocketMQ,
decoding drops an entry shorter than three characters or with an empty value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .errors import MessageIllegal, MessageTooLarge

PROPERTIES_BYTES_MAX: Final = 32767
NAME_SEPARATOR: Final = "\x01"
ENTRY_SEPARATOR: Final = "\x02"

KEYS: Final = "KEYS"
TAGS: Final = "TAGS"
UNIQUE_KEY: Final = "UNIQ_KEY"
WAIT: Final = "WAIT"
DELAY_LEVEL: Final = "DELAY"
TIMER_DELIVER_MS: Final = "TIMER_DELIVER_MS"
TIMER_DELAY_MS: Final = "TIMER_DELAY_MS"
TIMER_DELAY_SECONDS: Final = "TIMER_DELAY_SEC"
TIMER_OUT_MS: Final = "TIMER_OUT_MS"
TIMER_DELETES: Final = "TIMER_DEL_UNIQKEY"
REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
RETRY_TOPIC: Final = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID: Final = "ORIGIN_MESSAGE_ID"
DEAD_LETTER_TOPIC: Final = "DLQ_ORIGIN_TOPIC"
DEAD_LETTER_MESSAGE_ID: Final = "DLQ_ORIGIN_MESSAGE_ID"
DEAD_LETTER_REASON: Final = "DLQ_REASON"  # ours
SHARDING_KEY: Final = "__SHARDINGKEY"
TRANSACTION_PREPARED: Final = "TRAN_MSG"
PRODUCER_GROUP: Final = "PGROUP"
TRANSACTION_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_SECONDS: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
HALF_SENDER: Final = "HALF_SENDER"  # ours: "client id/number" of a half message's send
HALF_OFFSET: Final = "HALF_OFFSET"  # ours: see broker/transaction/half_records
FIRST_POP_TIME: Final = "1ST_POP_TIME"
POP_LEASE: Final = "POP_LEASE"  # ours: see broker/pop/dead_letters
PRIORITY: Final = "_SYS_MSG_PRIORITY_"
CORRELATION_ID: Final = "CORRELATION_ID"
REPLY_TO_CLIENT: Final = "REPLY_TO_CLIENT"
TIME_TO_LIVE: Final = "TTL"  # ms that the requester waits
MESSAGE_TYPE: Final = "MSG_TYPE"
SEQUENCE: Final = "PSEQ"  # ours: see model.sequence
REPLY: Final = "reply"  # a value of MESSAGE_TYPE

RESERVED: Final = frozenset(
    """KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
    ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
    EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME TRAN_PREPARED_QUEUE_OFFSET TRANSACTION_CHECK_TIMES
    CHECK_IMMUNITY_TIME_IN_SECONDS INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER
    MSG_TYPE POP_CK POP_CK_OFFSET 1ST_POP_TIME __SHARDINGKEY FORWARD_QUEUE_ID REDIRECT INNER_MULTI_DISPATCH
    INNER_MULTI_QUEUE_OFFSET INNER_NUM INNER_BASE TRACE_CONTEXT DUP_INFO __BORNHOST BORN_TIMESTAMP DLQ_ORIGIN_TOPIC
    DLQ_ORIGIN_MESSAGE_ID DLQ_REASON __transactionId__ __CRC32# TIMER_DELAY_SEC TIMER_DELAY_MS TIMER_DELIVER_MS TIMER_OUT_MS
    TIMER_ENQUEUE_MS TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_DEL_UNIQKEY PSEQ HALF_OFFSET HALF_SENDER POP_LEASE
    _SYS_MSG_PRIORITY_ __LITE_TOPIC""".split()
)


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """The bytes of the record's properties field. Raises MessageIllegal or MessageTooLarge."""
    parts = []
    for name, value in properties.items():
        entry = f"{name}{NAME_SEPARATOR}{value}{ENTRY_SEPARATOR}"
        if not name or not value or entry.count(NAME_SEPARATOR) != 1 or entry.count(ENTRY_SEPARATOR) != 1:
            raise MessageIllegal(f"property {name!r}: name and value must not be empty nor hold 0x01 or 0x02")
        parts.append(entry)
    try:
        encoded = "".join(parts).encode()
    except UnicodeEncodeError as error:
        wrong = error.object[error.start : error.end]
        raise MessageIllegal(f"properties hold {wrong!r}: expected text that UTF-8 can carry") from error
    if len(encoded) > PROPERTIES_BYTES_MAX:
        raise MessageTooLarge("properties", len(encoded), PROPERTIES_BYTES_MAX)
    return encoded


def decode_properties(encoded: bytes) -> dict[str, str]:
    """The properties of a record; bytes that are not UTF-8 are replaced, without an error (a consumer must go on)."""
    properties: dict[str, str] = {}
    for entry in encoded.decode("utf-8", "replace").split(ENTRY_SEPARATOR):
        name, separator, value = entry.partition(NAME_SEPARATOR)
        if separator and value and len(entry) >= 3:
            properties[name] = value
    return properties
