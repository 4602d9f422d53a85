"""A message as a foreign client sent it, ready to be a record: its own id, born time and host stay as they are. Pure."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar, Final

from ...model.errors import MessageIllegal, MessageTooLarge
from ...model.handles.recall_handle import RecallHandle
from ...model.handles.transaction import TransactionId
from ...model.ids import offset_message_id
from ...model.message import BODY_BYTES_MAX
from ...model.plain_dataclass import dataclass
from ...model.properties import (
    DELAY_LEVEL,
    SEQUENCE,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    decode_properties,
)
from ...model.queue import MessageQueue, PhysicalOffset
from ...record.codes import PROPERTIES_SENT_MAX
from ...record.kernel import batch_records, encode_record
from ...remoting.delayed_places import NOWHERE

_SEQUENCE_ENTRY: Final = f"{SEQUENCE}\x01".encode()
_BEHIND_ANOTHER: Final = b"\x02"
_DELAYS: Final = (DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELAY_SECONDS, TIMER_DELIVER_MS)
"""The first that is set counts."""
_DELAY_DIGITS_MAX: Final = 18
_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = (1 << 63) - 1


ABOUT_BYTES: Final = 100
"""Of a record, beside its body, its properties and its topic."""


class SendKind(enum.Enum):
    """How a broker takes a message."""

    PLAIN = "plain"
    DELAYED = "delayed"
    """One of its properties says until when."""
    HALF = "half"
    """Nobody sees it until its transaction is committed."""


@dataclass(frozen=True, slots=True)
class ReadyMessage:
    """`properties`: encoded, with KEYS, TAGS and UNIQ_KEY, whose value is `message_id`. `sys_flag`: how the body is compressed.
    `born_host`: 8 or 20 bytes, address and port. `producer_group`: of half messages.
    """

    topic: str
    body: bytes
    properties: bytes
    message_id: str
    born_at_ms: int
    born_host: bytes
    kind: SendKind = SendKind.PLAIN
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    producer_group: str = ""

    @property
    def size_bytes(self) -> int:
        """About what it takes in a request."""
        return len(self.body) + len(self.properties) + len(self.topic) + ABOUT_BYTES

    def check(self) -> None:
        """Raises MessageTooLarge, MessageIllegal: what a broker would refuse, with all that travel with it."""
        properties = self.properties
        if len(self.body) > BODY_BYTES_MAX:
            raise MessageTooLarge("message body", len(self.body), BODY_BYTES_MAX)
        if len(properties) > PROPERTIES_SENT_MAX:
            raise MessageTooLarge("properties", len(properties), PROPERTIES_SENT_MAX)
        if _SEQUENCE_ENTRY in properties and (
            properties.startswith(_SEQUENCE_ENTRY) or _BEHIND_ANOTHER + _SEQUENCE_ENTRY in properties
        ):
            raise MessageIllegal(f"property name {SEQUENCE!r} is reserved")
        _check_numbers(self.flag, self.sys_flag, self.born_at_ms, self.reconsume_times)
        if self.kind is SendKind.DELAYED:
            check_delay(properties)

    def record(self, own_properties: bytes, store_host_bytes: int) -> bytes:
        """The record without what the broker assigns. `own_properties`: encoded, in front of the sender's. `store_host_bytes`:
        8, or 20 for a broker with an IPv6 address. Raises MessageTooLarge, MessageIllegal."""
        return encode_record(
            topic=self.topic.encode(),
            body=self.body,
            properties=own_properties + self.properties,
            flag=self.flag,
            sys_flag=self.sys_flag,
            born_timestamp_ms=self.born_at_ms,
            born_host=self.born_host,
            store_host=bytes(store_host_bytes),
            reconsume_times=self.reconsume_times,
        )


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A client's batch in its wire form: `count` plain messages, each with an id (`plain_batch_count`). The other fields are
    those of a ReadyMessage, the same for all."""

    topic: str
    body: bytes
    count: int
    born_at_ms: int
    born_host: bytes
    sys_flag: int = 0
    reconsume_times: int = 0
    kind: ClassVar[SendKind] = SendKind.PLAIN
    producer_group: ClassVar[str] = ""

    def __len__(self) -> int:
        return self.count

    @property
    def size_bytes(self) -> int:
        """About what it takes in a request."""
        return len(self.body) + self.count * (len(self.topic) + ABOUT_BYTES)

    def check(self) -> None:
        """Raises MessageIllegal."""
        _check_numbers(0, self.sys_flag, self.born_at_ms, self.reconsume_times)

    def records(self, own_properties: bytes, store_host_bytes: int) -> bytearray:
        """See ReadyMessage.record. Raises MessageTooLarge."""
        return batch_records(
            self.body,
            self.count,
            topic=self.topic.encode(),
            own_properties=own_properties,
            sys_flag=self.sys_flag,
            born_timestamp_ms=self.born_at_ms,
            born_host=self.born_host,
            store_host_bytes=store_host_bytes,
            reconsume_times=self.reconsume_times,
        )


def _check_numbers(flag: int, sys_flag: int, born_at_ms: int, reconsume_times: int) -> None:
    """Raises MessageIllegal."""
    if not (
        -_INT_MAX - 1 <= flag <= _INT_MAX
        and 0 <= sys_flag <= _INT_MAX
        and 0 <= born_at_ms <= _LONG_MAX
        and 0 <= reconsume_times <= _INT_MAX
    ):
        numbers = f"flag {flag}, sysFlag {sys_flag}, reconsumeTimes {reconsume_times}"
        raise MessageIllegal(f"{numbers}, born time {born_at_ms}: 32 bits, the time 64; none but flag negative")


def check_delay(properties: bytes) -> None:
    """Of a message that is to be delivered later. Raises MessageIllegal for what no broker reads; how far a delay may be, each
    broker says."""
    said = decode_properties(properties)
    name = next((name for name in _DELAYS if name in said), DELAY_LEVEL)
    text = said.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= _DELAY_DIGITS_MAX):
        raise MessageIllegal(f"{name} {text[:64]!r}: a number of at most {_DELAY_DIGITS_MAX} digits, not negative")


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a message is. `queue_offset`: -1 while it waits, as a delayed or half message. `store_host`: 8 or 20 bytes.
    `stored_at_ms`: 0 where the broker does not say. `deliver_at_ms`: of a delayed message, else -1."""

    message_id: str
    queue: MessageQueue
    queue_offset: int
    physical_offset: int
    store_host: bytes
    stored_at_ms: int = 0
    deliver_at_ms: int = NOWHERE
    is_half: bool = False

    @property
    def offset_message_id(self) -> str:
        """RocketMQ's other id: the broker's address and the offset in its log."""
        return offset_message_id(self.store_host, PhysicalOffset(self.physical_offset))

    @property
    def recall_handle(self) -> str:
        """With it a delayed message is recalled; "" for another one."""
        if self.deliver_at_ms == NOWHERE:
            return ""
        return RecallHandle(self.queue.topic, self.queue.broker_name, self.deliver_at_ms, self.message_id).encode()

    @property
    def transaction_id(self) -> str:
        """The name of a half message's transaction, which any proxy understands."""
        return TransactionId(self.queue.broker_name, self.queue.topic, self.physical_offset, self.message_id).encode()


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Where the messages of a SentBatch are: side by side in a queue, from `queue_offset` on. `physical_offsets`: of each."""

    queue: MessageQueue
    queue_offset: int
    physical_offsets: Sequence[int]
