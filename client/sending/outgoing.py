"""Prepares a message for its record: checks it, encodes its properties, compresses its body if that pays. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ...model.errors import InvalidParameter, MessageIllegal, MessageTooLarge
from ...model.message import BODY_BYTES_MAX, Message
from ...model.names import check_topic, is_system_topic
from ...model.properties import PRIORITY, RESERVED, SHARDING_KEY, encode_properties
from ...model.topics.light_queues import light_entries
from ...record.compression import compress_lz4
from ...record.kernel import Accumulator, check_texts, plain_columns
from ...record.sys_flag import COMPRESSED, COMPRESSION_LZ4
from .delayed_send import DelayedParts, delay_properties, is_delayed
from .target import GivenQueue, LiteTarget, Priority, Target, target_of, target_of_all

Fill = Callable[[Accumulator], bool]
"""Appends all messages of a batch; False if they do not fit."""

Parts = tuple[bytes, str | None, Sequence[str] | None, bytes, int, int]
"""The arguments of `Accumulator.append`."""

COMPRESS_OVER_BYTES: Final = 4096
LZ4_FLAGS: Final = COMPRESSED | COMPRESSION_LZ4


def check_send_topic(topic: str) -> str:
    """Returns the topic; raises InvalidName, or InvalidParameter for a topic reserved by the system."""
    if is_system_topic(check_topic(topic)):
        raise InvalidParameter("topic", topic, "a topic of your own; the system keeps this one for itself")
    return topic


def encode_user_properties(properties: Mapping[str, str], target: Target | None = None) -> bytes:
    """Encodes the sender's own properties, and its target, for the record. Raises MessageIllegal for a reserved name."""
    for name in properties:
        if name in RESERVED:
            raise MessageIllegal(f"property name {name!r} is reserved")
    if isinstance(target, Priority):
        return encode_properties({**properties, PRIORITY: str(target.value)})
    if target is not None and not isinstance(target, LiteTarget | GivenQueue):
        check_sharding_key(target)
        return encode_properties({**properties, SHARDING_KEY: target})
    return encode_properties(properties)


def compress_body(body: bytes, over_bytes: int) -> tuple[bytes, int]:
    """(body, sysFlag bits): an lz4 frame if the body is larger than `over_bytes` and shrinks by it.

    The size limit is for the uncompressed body, which a consumer must hold. Raises MessageTooLarge.
    """
    if len(body) > over_bytes:
        if len(body) > BODY_BYTES_MAX:
            raise MessageTooLarge("message body", len(body), BODY_BYTES_MAX)
        packed = compress_lz4(body)
        if len(packed) < len(body):
            return packed, LZ4_FLAGS
    return body, 0


def message_parts(message: Message, compress_over: int, sharding_key: str | None = None) -> Parts:
    """The accumulator's arguments for a message; DelayedParts if it is to be delivered later.

    Raises InvalidParameter, MessageIllegal, MessageTooLarge.
    """
    # Most messages have only a body, and perhaps tags and keys: for them this is the shortest way.
    if (
        type(message) is Message
        and not (message.properties or message.flag or message.delay_level)
        and message.delay is None
        and message.deliver_at is None
        and sharding_key is None
        and message.priority is None
        and message.lite_topic is None
        and not message.light_queues
        and type(message.body) is bytes
        and len(message.body) <= compress_over
    ):
        tags, keys = message.tags, message.keys
        if tags or keys:
            check_texts(tags, keys)
        return message.body, tags or None, keys or None, b"", 0, 0
    check_message_types(message)
    body, flags = compress_body(plain_body(message.body), compress_over)
    properties = encode_user_properties(message.properties, target_of(message, sharding_key))
    if message.lite_topic is not None or message.light_queues:
        properties += light_entries(message.topic, message.lite_topic, message.light_queues)
    if is_delayed(message):
        properties += encode_properties(delay_properties(message))
        return DelayedParts((body, message.tags or None, message.keys or None, properties, message.flag, flags))
    return body, message.tags or None, message.keys or None, properties, message.flag, flags


def posted_parts(
    body: bytes,
    tags: str | None,
    keys: str | Sequence[str] | None,
    compress_over: int,
    *,
    properties: Mapping[str, str] | None = None,
    sharding_key: str | None = None,
) -> Parts:
    """The accumulator's arguments for a call of `post`. Raises MessageIllegal, MessageTooLarge, InvalidParameter."""
    check_texts(tags, keys)
    packed, flags = compress_body(plain_body(body), compress_over)
    encoded = b""
    if properties or sharding_key is not None:
        check_properties(properties or {})
        encoded = encode_user_properties(properties or {}, sharding_key)
    return packed, tags, keys, encoded, 0, flags


class OutgoingBatch(NamedTuple):
    """Messages that go together. `is_delayed`: some of them are to be delivered later."""

    fill: Fill
    target: Target | None
    is_delayed: bool


def outgoing_batch(messages: Sequence[Message], compress_over: int, sharding_key: str | None = None) -> OutgoingBatch:
    """Prepares messages of one topic and priority. Raises MessageIllegal if they have several, InvalidParameter."""
    if not isinstance(messages[0], Message):
        check_message_types(messages[0])
    topic, priority = messages[0].topic, messages[0].priority
    columns = None if sharding_key is not None else plain_columns(messages, Message, topic, compress_over)
    if columns is not None:  # most are such, and this is the shortest way
        bodies, tags, keys = columns
        return OutgoingBatch(
            lambda accumulator: accumulator.append_many(bodies, 0, tags, keys) == len(bodies), None, False
        )
    batch = []
    for message in messages:
        if not isinstance(message, Message):
            check_message_types(message)
        if message.topic != topic:
            raise MessageIllegal(f"a batch is of one topic: found {topic!r} and {message.topic!r}")
        if message.priority != priority:
            raise MessageIllegal(f"a batch is of one priority: found {priority!r} and {message.priority!r}")
        batch.append(message_parts(message, compress_over, sharding_key))

    def fill(accumulator: Accumulator) -> bool:
        append = accumulator.append
        return all(append(*parts) for parts in batch)

    return OutgoingBatch(fill, target_of_all(messages, sharding_key), any(map(is_delayed, messages)))


def fill_bodies(
    bodies: Sequence[bytes],
    compress_over: int,
    tags: str | Sequence[str] | None = None,
    keys: Sequence[str | Sequence[str]] | None = None,
) -> Fill:
    """Appends bodies with parallel lists of tags and keys. Raises InvalidParameter if the lengths differ."""
    if isinstance(bodies, (bytes, bytearray, str)):
        raise InvalidParameter("bodies", type(bodies).__name__, "a sequence of bodies; send(Message(...)) sends one")
    listed = bodies if isinstance(bodies, list) else list(bodies)
    if not listed:
        raise InvalidParameter("bodies", "[]", "at least one body")
    if set(map(type, listed)) != {bytes}:
        listed = list(map(plain_body, listed))
    for name, column in (("tags", tags), ("keys", keys)):
        if column is not None and not isinstance(column, str) and len(column) != len(listed):
            raise InvalidParameter(name, f"{len(column)} values", f"as many as bodies: {len(listed)}")
    if max(map(len, listed)) <= compress_over:
        tag_column = tags if tags is None or isinstance(tags, str) else list(tags)
        key_column = None if keys is None else list(keys)

        def fill_at_once(accumulator: Accumulator) -> bool:
            try:
                return accumulator.append_many(listed, 0, tag_column, key_column) == len(listed)
            except (AttributeError, TypeError):  # not checked before: it would cost each batch
                for index in range(len(listed)):
                    tag = tag_column[index] if isinstance(tag_column, list) else tag_column
                    check_texts(tag, None if key_column is None else key_column[index])
                raise

        return fill_at_once

    def fill(accumulator: Accumulator) -> bool:
        for index, body in enumerate(listed):
            packed, flags = compress_body(body, compress_over)
            tag = tags if tags is None or isinstance(tags, str) else tags[index]
            if not accumulator.append(packed, tag, None if keys is None else keys[index], b"", 0, flags):
                return False
        return True

    return fill


# ---- checks of the caller's types: a clear error instead of one from deep inside


def plain_body(body: object) -> bytes:
    """The body as bytes, copied from any other buffer (bytearray, memoryview, array). Raises MessageIllegal."""
    if type(body) is bytes:  # a subclass is copied too: the kernel takes no other type
        return body
    if isinstance(body, str):
        raise MessageIllegal("body is str: expected bytes, as of text.encode()")
    try:
        return bytes(memoryview(body))  # type: ignore[arg-type]  # raises for anything but a buffer
    except TypeError as error:
        raise MessageIllegal(f"body is {type(body).__name__}: expected bytes, or a buffer") from error


def check_sharding_key(sharding_key: object) -> None:
    """Raises InvalidParameter."""
    if sharding_key is not None and not isinstance(sharding_key, str):
        raise InvalidParameter("sharding_key", sharding_key, "str, as of str(order_id)")


def check_properties(properties: object) -> None:
    """Raises MessageIllegal if properties are not a mapping of texts to texts."""
    if not isinstance(properties, Mapping):
        raise MessageIllegal(f"properties is {type(properties).__name__}: expected a mapping of str to str")
    for name, value in properties.items():
        if not isinstance(name, str):
            raise MessageIllegal(f"property name {name!r} is {type(name).__name__}: expected str, as of str(name)")
        if not isinstance(value, str):
            raise MessageIllegal(f"property {name!r} is {type(value).__name__}: expected str, as of str(value)")


def check_message_types(message: object) -> None:
    """Raises MessageIllegal or InvalidParameter if this is not a Message, or has values of wrong types."""
    if not isinstance(message, Message):
        raise MessageIllegal(f"expected a Message, found {type(message).__name__}; send(Message(topic, body))")
    check_texts(message.tags, message.keys)
    check_properties(message.properties)
    if not isinstance(message.flag, int):
        raise MessageIllegal(f"flag is {type(message.flag).__name__}: expected int")
    if message.delay is not None and not isinstance(message.delay, timedelta):
        raise InvalidParameter("delay", message.delay, "a timedelta, as timedelta(seconds=5)")
    if message.deliver_at is not None and not isinstance(message.deliver_at, datetime):
        raise InvalidParameter("deliver_at", message.deliver_at, "a datetime with a time zone")
    if not isinstance(message.delay_level, int):
        raise InvalidParameter("delay_level", message.delay_level, "1 to 18, or 0 for none")
