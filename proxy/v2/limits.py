"""What a request may be, before anything is asked of the cluster. Pure.

The limits are those of RocketMQ's proxy. What a client sends beyond them is refused with the limit.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ...model.message import BODY_BYTES_MAX
from ...model.properties import RESERVED
from .status import CallRefused, Code

PROPERTIES_MAX: Final = 128
PROPERTIES_BYTES_MAX: Final = 16 * 1024
MESSAGE_GROUP_LENGTH_MAX: Final = 64
MESSAGES_MAX: Final = 1024
"""Messages of one send, and entries of one acknowledgement."""
DELAY_MS_MAX: Final = 30 * 86_400_000
RECOVERY_S_MAX: Final = 3_600
POP_MAX: Final = 32
WAIT_MS_MAX: Final = 30_000
WAIT_MARGIN_MS: Final = 500
"""So much earlier than the client gives up it is told that there is nothing."""
INVISIBLE_MS_MIN: Final = 1_000
INVISIBLE_MS_MAX: Final = 12 * 3_600_000
RENEWED_MS: Final = 60_000
"""For so long a message is invisible that its broker renews."""
MESSAGE_ID_BYTES_MAX: Final = 255

_CONTROL: Final = re.compile("[\x00-\x1f]")


def check_body(body: bytes) -> None:
    """Raises CallRefused."""
    if not body:
        raise CallRefused(Code.MESSAGE_BODY_EMPTY, "a message needs a body of at least one byte")
    if len(body) > BODY_BYTES_MAX:
        raise CallRefused(Code.MESSAGE_BODY_TOO_LARGE, f"a body of {len(body)} bytes: at most {BODY_BYTES_MAX}")


def check_text(what: str, text: str, code: Code, *, also: str = "") -> str:
    """A value of a property: neither empty nor with a control character; `also`: characters that it may not have either.
    Raises CallRefused."""
    if not text or text.isspace() or _CONTROL.search(text) or (also and any(char in text for char in also)):
        raise CallRefused(
            code, f"{what} {text[:64]!r}: neither blank nor with control characters{' or ' + also if also else ''}"
        )
    return text


def check_properties(properties: Any) -> None:
    """A client's own. Raises CallRefused."""
    if not properties:
        return
    if len(properties) > PROPERTIES_MAX:
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, f"{len(properties)} properties: at most {PROPERTIES_MAX}")
    for name, value in properties.items():
        if name in RESERVED:
            raise CallRefused(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name!r} is reserved: choose another name")
        check_text("property name", name, Code.ILLEGAL_MESSAGE_PROPERTY_KEY)
        if not value or "\x01" in value or "\x02" in value:
            raise CallRefused(
                Code.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name!r}: its value is empty, or has 0x01 or 0x02 in it"
            )


def check_properties_size(encoded: bytes) -> None:
    """Of all of a message's. Raises CallRefused."""
    if len(encoded) > PROPERTIES_BYTES_MAX:
        text = f"properties, tag and keys of {len(encoded)} bytes: at most {PROPERTIES_BYTES_MAX}"
        raise CallRefused(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)


def check_message_group(group: str) -> str:
    """Raises CallRefused."""
    if len(group) > MESSAGE_GROUP_LENGTH_MAX:
        raise CallRefused(
            Code.ILLEGAL_MESSAGE_GROUP,
            f"a message group of {len(group)} characters: at most {MESSAGE_GROUP_LENGTH_MAX}",
        )
    return check_text("message group", group, Code.ILLEGAL_MESSAGE_GROUP)


def check_delivery(deliver_at_ms: int, now_ms: int) -> int:
    """Raises CallRefused."""
    if deliver_at_ms <= 0 or deliver_at_ms > now_ms + DELAY_MS_MAX:
        raise CallRefused(
            Code.ILLEGAL_DELIVERY_TIME, f"a delivery time: at most {DELAY_MS_MAX // 86_400_000} days from now"
        )
    return deliver_at_ms


def check_batch(size: int) -> int:
    """How many messages a receive wants. Raises CallRefused."""
    if size < 1:
        raise CallRefused(Code.BAD_REQUEST, f"batch_size {size}: 1 to {POP_MAX}")
    return min(size, POP_MAX)


def check_count(what: str, count: int) -> None:
    """Raises CallRefused."""
    if not 1 <= count <= MESSAGES_MAX:
        raise CallRefused(Code.BAD_REQUEST, f"{count} {what}: 1 to {MESSAGES_MAX}")


def check_invisible(duration_ms: int) -> int:
    """Raises CallRefused."""
    if not INVISIBLE_MS_MIN <= duration_ms <= INVISIBLE_MS_MAX:
        text = f"invisible duration of {duration_ms} ms: {INVISIBLE_MS_MIN} to {INVISIBLE_MS_MAX}"
        raise CallRefused(Code.ILLEGAL_INVISIBLE_TIME, text)
    return duration_ms


def check_delay(delay_ms: int) -> None:
    """Of a lite topic that is suspended. Raises CallRefused."""
    if not 0 <= delay_ms <= INVISIBLE_MS_MAX:
        raise CallRefused(Code.ILLEGAL_INVISIBLE_TIME, f"suspended for {delay_ms} ms: 0 to {INVISIBLE_MS_MAX}")


def wait_ms(wanted_ms: int, left_ms: int | None) -> int:
    """How long a receive waits for messages. `left_ms`: until the client gives up; None = it does not. Raises CallRefused."""
    if wanted_ms < 0:
        raise CallRefused(Code.ILLEGAL_POLLING_TIME, f"long polling timeout of {wanted_ms} ms: at least 0")
    wanted_ms = min(wanted_ms, WAIT_MS_MAX)
    if left_ms is None:
        return wanted_ms
    if left_ms <= WAIT_MARGIN_MS < wanted_ms:
        text = f"the call ends in {left_ms} ms, before its long poll of {wanted_ms} ms: give it a later deadline"
        raise CallRefused(Code.ILLEGAL_POLLING_TIME, text)
    return max(0, min(wanted_ms, left_ms - WAIT_MARGIN_MS))


def duration_ms(duration: Any) -> int:
    """Of a google.protobuf.Duration."""
    return int(duration.seconds) * 1000 + int(duration.nanos) // 1_000_000


def fill_duration(duration: Any, ms: int) -> None:
    """The reverse."""
    duration.seconds, rest_ms = divmod(ms, 1000)
    duration.nanos = rest_ms * 1_000_000
