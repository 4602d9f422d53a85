"""A message on its way into a record: checked, its properties encoded, its body compressed where that pays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..model.compression import compress_lz4
from ..model.errors import InvalidParameter, MessageIllegal
from ..model.message import Message
from ..model.names import check_topic, is_system_topic
from ..model.properties import RESERVED, SHARDING_KEY, encode_properties
from ..model.sys_flag import COMPRESSED, COMPRESSION_LZ4

COMPRESS_OVER_BYTES: Final = 4096
LZ4_FLAGS: Final = COMPRESSED | COMPRESSION_LZ4


def check_send_topic(topic: str) -> str:
    """Returns the topic; raises InvalidName, or InvalidParameter for one the system keeps for itself."""
    if is_system_topic(check_topic(topic)):
        raise InvalidParameter("topic", topic, "a topic of your own; the system keeps this one for itself")
    return topic


def refuse_unsupported(message: Message) -> None:
    """Raises InvalidParameter for what this version cannot do, rather than sending the message as if it were not there."""
    if message.delay is not None:
        raise InvalidParameter("delay", message.delay, "None: delayed messages are not part of this version")
    if message.deliver_at is not None:
        raise InvalidParameter("deliver_at", message.deliver_at, "None: delayed messages are not part of this version")
    if message.delay_level:
        raise InvalidParameter("delay_level", message.delay_level, "0: delayed messages are not part of this version")


def encode_user_properties(properties: Mapping[str, str], sharding_key: str | None = None) -> bytes:
    """The sender's own properties as the record holds them. Raises MessageIllegal for a reserved name."""
    for name in properties:
        if name in RESERVED:
            raise MessageIllegal(f"property name {name!r} is reserved")
    if sharding_key is not None:
        return encode_properties({**properties, SHARDING_KEY: sharding_key})
    return encode_properties(properties)


def compress_body(body: bytes, over_bytes: int) -> tuple[bytes, int]:
    """(body, sysFlag bits): as an lz4 frame where the body is over `over_bytes` and gets smaller by it."""
    if len(body) > over_bytes:
        packed = compress_lz4(body)
        if len(packed) < len(body):
            return packed, LZ4_FLAGS
    return body, 0
