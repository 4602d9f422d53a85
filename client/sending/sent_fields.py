"""What a caller gives to be sent, held to its types: a clear error instead of one from deep inside. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from ...model.errors import InvalidParameter, MessageIllegal
from ...model.message import Message
from ...record.kernel import check_texts


def plain_body(body: object) -> bytes:
    """The body as bytes, copied from any other buffer (bytearray, memoryview, array). Raises MessageIllegal."""
    if type(body) is bytes:  # what is derived from it is copied too: the kernel takes no other type
        return body
    if isinstance(body, str):
        raise MessageIllegal("body is str: expected bytes, as of text.encode()")
    try:
        return bytes(memoryview(body))  # type: ignore[arg-type]  # what is no buffer raises
    except TypeError as error:
        raise MessageIllegal(f"body is {type(body).__name__}: expected bytes, or a buffer") from error


def check_sharding_key(sharding_key: object) -> None:
    """Raises InvalidParameter."""
    if sharding_key is not None and not isinstance(sharding_key, str):
        raise InvalidParameter("sharding_key", sharding_key, "str, as of str(order_id)")


def check_properties(properties: object) -> None:
    """Raises MessageIllegal where properties are no mapping of texts to texts."""
    if not isinstance(properties, Mapping):
        raise MessageIllegal(f"properties is {type(properties).__name__}: expected a mapping of str to str")
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise MessageIllegal(f"property {name!r} is {type(value).__name__}: expected str, as of str(value)")


def check_message_types(message: object) -> None:
    """Raises MessageIllegal or InvalidParameter for what no Message can hold, or what is none."""
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
