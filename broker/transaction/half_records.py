"""The records of a transaction, each made from the one before: the same message, another topic and other properties. Pure.

    sender      the message, plain
    half        the same in RMQ_SYS_TRANS_HALF_TOPIC, with REAL_TOPIC, REAL_QID, TRAN_MSG, PGROUP
    asked       the half message again, TRANSACTION_CHECK_TIMES higher by one; it ends the wait of the one before
    carried     the half message again, unchanged: its segment is about to expire
    parked      the half message in TRANS_CHECK_MAX_TIME_TOPIC, after the last check
    committed   the message in its real queue, with the commit bits in its sysFlag
    op          in RMQ_SYS_TRANS_OP_HALF_TOPIC, tag "d", body "12,13,": queue offsets of decided half messages

A record that follows another names it as its cause: prepared transaction offset = -1 - the physical offset of the other. So
it ends that one's wait by itself: there is no pair of records of which a crash could lose one. Records after the half have
the property HALF_OFFSET: the begin of the half message's first record, which names the transaction. An op record of ours
either ends the half that it names, or names none: then it only tells RocketMQ of other ends. Ours have HALF_OFFSET too;
RocketMQ's do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from ...model.errors import MessageIllegal, MessageTooLarge
from ...model.names import HALF_OP_TOPIC, HALF_TOPIC, UNDECIDED_TOPIC
from ...model.properties import (
    HALF_OFFSET,
    HALF_SENDER,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    SEQUENCE,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED,
    encode_properties,
)
from ...record.codes import PROPERTIES_MAX
from ...record.kernel import StoredMessage
from ...record.new_record import NewRecord
from ...record.sys_flag import NOT_COPIED, TRANSACTION_COMMIT, TRANSACTION_MASK
from ..delay.timing import SAID_BY_SENDER
from ..waiting.copies import changed, copied_record

OP_TAG: Final = "d"
_NONE: Final = "-"
OP_BODY_BYTES_MAX: Final = 4096  # RocketMQ's transactionOpMsgMaxSize
_OFFSET_LENGTH_MAX: Final = 18
_CHECKS_LENGTH_MAX: Final = 9
_NOTED: Final = {HALF_OFFSET: "9" * _OFFSET_LENGTH_MAX, TRANSACTION_CHECK_TIMES: "9" * _CHECKS_LENGTH_MAX}
_PROPERTIES_MAX: Final = PROPERTIES_MAX - len(encode_properties(_NOTED))

_OWN: Final = frozenset(
    name.encode()
    for name in (
        REAL_TOPIC,
        REAL_QUEUE_ID,
        TRANSACTION_PREPARED,
        PRODUCER_GROUP,
        TRANSACTION_CHECK_TIMES,
        HALF_OFFSET,
    )
)
_NOT_IN_HALVES: Final = _OWN | {name.encode() for name in SAID_BY_SENDER}
_NOT_COMMITTED: Final = (_OWN | {SEQUENCE.encode(), HALF_SENDER.encode()}) - {PRODUCER_GROUP.encode()}
_NOT_AGAIN: Final = frozenset(name.encode() for name in (TRANSACTION_CHECK_TIMES, HALF_OFFSET, SEQUENCE))


def half_record(message: StoredMessage, topic: str, queue_id: int, group: str, host_bytes: int) -> bytes:
    """What a sender's message is until it is decided. It keeps its sequence. Raises MessageIllegal (a delay), MessageTooLarge
    (properties: there must be room for what is noted in them once it is asked about)."""
    said = message.properties
    delay = next((name for name in SAID_BY_SENDER if name in said), None)
    if delay is not None and said[delay] != "0":
        raise MessageIllegal(f"a transactional message cannot be delayed as well: property {delay}")
    own = {REAL_TOPIC: topic, REAL_QUEUE_ID: str(queue_id), TRANSACTION_PREPARED: "true", PRODUCER_GROUP: group}
    properties = changed(message.properties_as_stored, _NOT_IN_HALVES, own)
    if len(properties) > _PROPERTIES_MAX:
        raise MessageTooLarge("properties", len(properties), _PROPERTIES_MAX)
    return copied_record(
        message,
        HALF_TOPIC,
        0,
        properties,
        cause=0,
        sys_flag=message.sys_flag & ~TRANSACTION_MASK,
        host_bytes=host_bytes,
    )


def asked_record(message: StoredMessage, checks: int, host_bytes: int) -> bytes:
    """The half message once it is asked about for the `checks`-th time. Raises MessageTooLarge."""
    return _again(message, HALF_TOPIC, checks, host_bytes)


def carried_record(message: StoredMessage, host_bytes: int) -> bytes:
    """The half message, or the parked one, at the end of the log. Raises MessageTooLarge."""
    return _again(message, message.topic, check_times(message.properties), host_bytes)


def parked_record(message: StoredMessage, host_bytes: int) -> bytes:
    """The half message that only an operator decides any more. Raises MessageTooLarge."""
    return _again(message, UNDECIDED_TOPIC, check_times(message.properties), host_bytes)


def _again(message: StoredMessage, topic: str, checks: int, host_bytes: int) -> bytes:
    added = {HALF_OFFSET: str(first_offset(message, message.properties))}
    if checks:
        added[TRANSACTION_CHECK_TIMES] = str(checks)
    properties = changed(message.properties_as_stored, _NOT_AGAIN, added)
    return _copy(message, topic, 0, properties, host_bytes)


def committed_record(message: StoredMessage, topic: str, queue_id: int, host_bytes: int) -> bytes:
    """The message in its real queue."""
    properties = changed(message.properties_as_stored, _NOT_COMMITTED, {})
    return _copy(message, topic, queue_id, properties, host_bytes, bits=TRANSACTION_COMMIT)


def shown_record(message: StoredMessage, topic: str, queue_id: int) -> bytes:
    """The message as its producer is asked about it. It is sent, not stored."""
    return committed_record(message, topic, queue_id, len(message.store_host))


def rollback_record(half_offset: int, queue_offset: int | None) -> NewRecord:
    """That the half message whose record is at the physical offset `half_offset` is rolled back. `queue_offset`: in the half
    topic; None where it is not known, or it lies in another one."""
    body = b"" if queue_offset is None else f"{queue_offset},".encode()
    return _op_record(body, str(half_offset), -1 - half_offset)


def ended_note(queue_offsets: Iterable[int]) -> NewRecord:
    """For RocketMQ: that the half messages at these queue offsets were committed, or written again."""
    return _op_record("".join(f"{offset}," for offset in queue_offsets).encode(), _NONE, 0)


def _op_record(body: bytes, half: str, cause: int) -> NewRecord:
    return NewRecord(
        topic=HALF_OP_TOPIC,
        queue_id=0,
        body=body,
        properties={TAGS: OP_TAG, HALF_OFFSET: half},
        prepared_transaction_offset=cause,
    )


def is_own_op(properties: Mapping[str, str]) -> bool:
    """Whether we wrote this op record, or RocketMQ did."""
    return HALF_OFFSET in properties


def numbers_in(text: str) -> list[int]:
    """Of a list with commas; what is no number in it is passed over."""
    return [int(word) for word in text.split(",") if _is_number(word, _OFFSET_LENGTH_MAX)]


def check_times(properties: Mapping[str, str]) -> int:
    """How often it was asked about."""
    text = properties.get(TRANSACTION_CHECK_TIMES, "")
    return int(text) if _is_number(text, _CHECKS_LENGTH_MAX) else 0


def first_offset(message: StoredMessage, properties: Mapping[str, str]) -> int:
    """Where the half message's first record began: by that its transaction is named."""
    text = properties.get(HALF_OFFSET, "")
    return int(text) if _is_number(text, _OFFSET_LENGTH_MAX) else message.physical_offset


def _is_number(text: str, length_max: int) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= length_max


def _copy(
    message: StoredMessage, topic: str, queue_id: int, properties: bytes, host_bytes: int, *, bits: int = 0
) -> bytes:
    return copied_record(
        message,
        topic,
        queue_id,
        properties,
        cause=-1 - message.physical_offset,
        sys_flag=message.sys_flag & ~NOT_COPIED | bits,
        host_bytes=host_bytes,
    )
