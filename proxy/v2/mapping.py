"""Messages of the protocol, and records: what each field becomes, both ways. Pure.

A message keeps what its client gave it: id, born time, born host. Bodies are stored plain, and sent plain with their MD5: some
clients unpack only gzip, others gzip and zlib.
"""

from __future__ import annotations

import ipaddress
import struct
import zlib
from collections.abc import Mapping
from functools import lru_cache
from hashlib import md5, sha1
from typing import Any, Final

from ...client.sending.target import PRIORITY_MAX, LiteTarget, Priority, Target
from ...model.errors import InvalidName
from ...model.message import BODY_BYTES_MAX
from ...model.names import GROUP_LENGTH_MAX
from ...model.properties import (
    CHECK_IMMUNITY_SECONDS,
    DEAD_LETTER_MESSAGE_ID,
    DEAD_LETTER_TOPIC,
    DELAY_LEVEL,
    HALF_SENDER,
    KEYS,
    PRIORITY,
    RESERVED,
    SHARDING_KEY,
    TAGS,
    TIMER_DELAY_MS,
    TIMER_DELAY_SECONDS,
    TIMER_DELIVER_MS,
    TIMER_OUT_MS,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
    encode_properties,
)
from ...model.topics.light_queues import LITE_TOPIC, light_entries
from ...record.kernel import StoredMessage
from ...record.sys_flag import TRANSACTION_MASK
from ..back.ready_message import ReadyMessage, SendKind
from ..schema import enum_value
from .authorization import Caller
from .limits import (
    MESSAGE_ID_BYTES_MAX,
    RECOVERY_S_MAX,
    check_body,
    check_delivery,
    check_message_group,
    check_properties,
    check_properties_size,
    check_text,
    duration_ms,
    fill_duration,
)
from .resources import fill_resource, topic_of
from .status import CallRefused, Code

BORN_HOST: Final = "__BORNHOST"
TRACE_CONTEXT: Final = "TRACE_CONTEXT"
BORN_HOST_LENGTH_MAX: Final = 255
TIME_MS_MAX: Final = 1 << 53
"""Times beyond are none: a record has room for 63 bits."""

NORMAL, FIFO, DELAY, TRANSACTION, LITE, PRIORITY_TYPE = (
    enum_value("MessageType", name) for name in ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "LITE", "PRIORITY")
)
TYPES_OF_TOPIC: Final[Mapping[str, tuple[int, ...]]] = {
    "NORMAL": (NORMAL,),
    "FIFO": (FIFO,),
    "DELAY": (DELAY,),
    "TRANSACTION": (TRANSACTION,),
    "LITE": (LITE,),
    "PRIORITY": (PRIORITY_TYPE,),
    "MIXED": (NORMAL, FIFO, DELAY, TRANSACTION),
    "UNSPECIFIED": (NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY_TYPE),
}
"""Which types of messages a topic takes, by its `message.type`."""

_IDENTITY, _GZIP = enum_value("Encoding", "IDENTITY"), enum_value("Encoding", "GZIP")
_CRC32, _MD5, _SHA1 = (enum_value("DigestType", name) for name in ("CRC32", "MD5", "SHA1"))
_DELAYS: Final = (DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELAY_SECONDS, TIMER_DELIVER_MS, TIMER_OUT_MS)
_PORT: Final = struct.Struct(">i")
_GZIP_WINDOW: Final = 32 + zlib.MAX_WBITS  # gzip or zlib, as the first bytes say


def producer_group_of(topic: str) -> str:
    """The group of the producers of a topic's transactions: the protocol has none."""
    return topic[:GROUP_LENGTH_MAX]


# ---- what a client sends


def ready_message(message: Any, caller: Caller, now_ms: int) -> tuple[ReadyMessage, Target | None]:
    """What is to be stored, and where it must go. Raises CallRefused."""
    topic = topic_of(message.topic)
    system = message.system_properties
    body = _plain_body(message.body, system)
    check_body(body)
    check_properties(message.user_properties)
    message_id = check_text("message id", system.message_id, Code.ILLEGAL_MESSAGE_ID)
    if len(message_id.encode()) > MESSAGE_ID_BYTES_MAX:
        raise CallRefused(Code.ILLEGAL_MESSAGE_ID, f"a message id has at most {MESSAGE_ID_BYTES_MAX} bytes")
    properties = dict(message.user_properties)
    if system.HasField("tag") and system.tag:
        properties[TAGS] = check_text("tag", system.tag, Code.ILLEGAL_MESSAGE_TAG, also="|")
    if system.keys:
        keys = [check_text("key", key, Code.ILLEGAL_MESSAGE_KEY, also=" ") for key in system.keys]
        properties[KEYS] = " ".join(keys)
    said = encode_properties(properties)
    check_properties_size(said)
    kind, target, own, light = _way(system, topic, caller, now_ms)
    if system.HasField("trace_context") and system.trace_context:
        own[TRACE_CONTEXT] = check_text("trace context", system.trace_context, Code.BAD_REQUEST)
    if system.born_host:
        own[BORN_HOST] = check_text("born host", system.born_host[:BORN_HOST_LENGTH_MAX], Code.BAD_REQUEST)
    own[UNIQUE_KEY] = message_id
    encoded = said + encode_properties(own) + light
    born_ms = moment_ms(system.born_timestamp)
    ready = ReadyMessage(
        topic,
        body,
        encoded,
        message_id,
        born_ms if 0 < born_ms < TIME_MS_MAX else now_ms,
        _host_bytes(caller.address, caller.port),
        kind,
        producer_group=producer_group_of(topic) if kind is SendKind.HALF else "",
    )
    return ready, target


def _way(system: Any, topic: str, caller: Caller, now_ms: int) -> tuple[SendKind, Target | None, dict[str, str], bytes]:
    """How a message travels: (kind, target, properties that say so, encoded entries of a lite topic). Raises CallRefused."""
    own: dict[str, str] = {}
    has = {name for name in ("message_group", "delivery_timestamp", "lite_topic") if system.HasField(name)}
    if system.HasField("priority") and system.priority >= 0:
        has.add("priority")
    said = system.message_type
    is_half = said == TRANSACTION
    if len(has) + is_half > 1:
        words = ", ".join(sorted(has) + (["a transaction"] if is_half else []))
        raise CallRefused(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"a message has one of these, not several: {words}")
    if is_half:
        own[HALF_SENDER] = f"{caller.client_id}/0"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = duration_ms(system.orphaned_transaction_recovery_duration) // 1000
            if not 0 <= seconds <= RECOVERY_S_MAX:
                raise CallRefused(
                    Code.BAD_REQUEST, f"orphaned_transaction_recovery_duration: at most {RECOVERY_S_MAX} s"
                )
            if seconds:
                own[CHECK_IMMUNITY_SECONDS] = str(seconds)
        return SendKind.HALF, None, own, b""
    if "delivery_timestamp" in has:
        own[TIMER_DELIVER_MS] = str(check_delivery(moment_ms(system.delivery_timestamp), now_ms))
        return SendKind.DELAYED, None, own, b""
    if "message_group" in has:
        own[SHARDING_KEY] = check_message_group(system.message_group)
        return SendKind.PLAIN, system.message_group, own, b""
    if "lite_topic" in has:
        try:
            return SendKind.PLAIN, LiteTarget((system.lite_topic,)), own, light_entries(topic, system.lite_topic, ())
        except InvalidName as error:
            raise CallRefused(Code.ILLEGAL_LITE_TOPIC, str(error)) from None
    if "priority" in has and (said == PRIORITY_TYPE or system.priority):
        priority = min(system.priority, PRIORITY_MAX)
        own[PRIORITY] = str(priority)
        return SendKind.PLAIN, Priority(priority), own, b""
    return SendKind.PLAIN, None, own, b""


def type_of(ready: ReadyMessage, target: Target | None) -> int:
    """The type of a message that is to be sent."""
    if ready.kind is SendKind.HALF:
        return TRANSACTION
    if ready.kind is SendKind.DELAYED:
        return DELAY
    if isinstance(target, str):
        return FIFO
    return PRIORITY_TYPE if isinstance(target, Priority) else LITE if isinstance(target, LiteTarget) else NORMAL


def check_type(ready: ReadyMessage, target: Target | None, topic_type: str) -> None:
    """Whether the topic takes such messages. Raises CallRefused."""
    if type_of(ready, target) not in TYPES_OF_TOPIC.get(topic_type, TYPES_OF_TOPIC["UNSPECIFIED"]):
        raise CallRefused(
            Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"topic {ready.topic} takes messages of type {topic_type} only"
        )


def _plain_body(body: bytes, system: Any) -> bytes:
    """Raises CallRefused."""
    if system.HasField("body_digest") and system.body_digest.checksum:
        _check_digest(body, system.body_digest)
    if system.body_encoding != _GZIP:
        return body
    unpacker = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = unpacker.decompress(body, BODY_BYTES_MAX + 1)
    except zlib.error as error:
        raise CallRefused(Code.MESSAGE_CORRUPTED, f"the body is no gzip: {error}") from None
    if len(plain) > BODY_BYTES_MAX:
        raise CallRefused(Code.MESSAGE_BODY_TOO_LARGE, f"a body that unpacks to more than {BODY_BYTES_MAX} bytes")
    if not unpacker.eof:
        raise CallRefused(Code.MESSAGE_CORRUPTED, "the body is a gzip that is cut short")
    return plain


def _check_digest(body: bytes, digest: Any) -> None:
    """CRC-32 comes padded or not, in hexadecimal digits or decimal ones. Raises CallRefused."""
    said = digest.checksum.upper()
    if digest.type == _CRC32:
        value = zlib.crc32(body)
        is_right = said.lstrip("0") in (f"{value:X}".lstrip("0"), str(value).lstrip("0"))
    elif digest.type == _MD5:
        is_right = said == md5(body, usedforsecurity=False).hexdigest().upper()
    elif digest.type == _SHA1:
        is_right = said == sha1(body, usedforsecurity=False).hexdigest().upper()
    else:
        raise CallRefused(Code.BAD_REQUEST, "body_digest: CRC32, MD5 or SHA1")
    if not is_right:
        raise CallRefused(Code.MESSAGE_CORRUPTED, "the body is not what its digest says: send it again")


# ---- what a client gets


def fill_message(
    message: Any, stored: StoredMessage, namespace: str, *, handle: str = "", invisible_ms: int = 0
) -> None:
    """A record as a Message. Raises CorruptRecordError."""
    body = stored.body
    properties = stored.properties
    fill_resource(message.topic, stored.topic, namespace)
    message.body = body
    for name, value in properties.items():
        if name not in RESERVED:
            message.user_properties[name] = value
    system = message.system_properties
    system.message_id = stored.message_id
    system.body_encoding = _IDENTITY
    system.body_digest.type = _MD5
    system.body_digest.checksum = md5(body, usedforsecurity=False).hexdigest().upper()
    system.message_type = _type_of_stored(stored, properties)
    if TAGS in properties:
        system.tag = properties[TAGS]
    system.keys.extend(stored.keys)
    fill_moment(system.born_timestamp, stored.born_at_ms)
    system.born_host = properties.get(BORN_HOST) or _host_text(stored.born_host)
    fill_moment(system.store_timestamp, stored.stored_at_ms)
    system.store_host = _host_text(stored.store_host)
    system.queue_id, system.queue_offset = stored.queue_id, stored.queue_offset
    _fill_ways(system, properties, namespace)
    if handle:
        system.receipt_handle = handle
        system.delivery_attempt = stored.reconsume_times + 1
        fill_duration(system.invisible_duration, invisible_ms)


def _fill_ways(system: Any, properties: Mapping[str, str], namespace: str) -> None:
    if SHARDING_KEY in properties:
        system.message_group = properties[SHARDING_KEY]
    deliver_at = properties.get(TIMER_DELIVER_MS) or properties.get(TIMER_OUT_MS) or ""
    if deliver_at.isdecimal() and len(deliver_at) < 16:
        fill_moment(system.delivery_timestamp, int(deliver_at))
    priority = properties.get(PRIORITY, "")
    if priority.isdecimal() and len(priority) < 3:
        system.priority = int(priority)
    if LITE_TOPIC in properties:
        system.lite_topic = properties[LITE_TOPIC]
    if TRACE_CONTEXT in properties:
        system.trace_context = properties[TRACE_CONTEXT]
    if DEAD_LETTER_TOPIC in properties:
        origin = properties[DEAD_LETTER_TOPIC]
        system.dead_letter_queue.topic = origin.removeprefix(f"{namespace}%") if namespace else origin
        system.dead_letter_queue.message_id = properties.get(DEAD_LETTER_MESSAGE_ID, "")


def _type_of_stored(stored: StoredMessage, properties: Mapping[str, str]) -> int:
    """As RocketMQ reads it: the first that applies."""
    if TRANSACTION_PREPARED in properties or stored.sys_flag & TRANSACTION_MASK:
        return TRANSACTION
    if any(name in properties for name in _DELAYS):
        return DELAY
    if SHARDING_KEY in properties:
        return FIFO
    if PRIORITY in properties:
        return PRIORITY_TYPE
    return LITE if LITE_TOPIC in properties else NORMAL


# ---- small parts


def fill_moment(timestamp: Any, ms: int) -> None:
    """A google.protobuf.Timestamp of ms since the epoch."""
    timestamp.seconds, rest_ms = divmod(ms, 1000)
    timestamp.nanos = rest_ms * 1_000_000


def moment_ms(timestamp: Any) -> int:
    """The reverse: any number."""
    return int(timestamp.seconds) * 1000 + int(timestamp.nanos) // 1_000_000


@lru_cache(4096)
def _host_bytes(address: str, port: int) -> bytes:
    try:
        return ipaddress.ip_address(address).packed + _PORT.pack(port)
    except ValueError:
        return bytes(8)


@lru_cache(4096)
def _host_text(host: bytes) -> str:
    address = ipaddress.ip_address(host[:-4])
    port = int.from_bytes(host[-4:], "big")
    return f"{address}:{port}" if address.version == 4 else f"[{address}]:{port}"
