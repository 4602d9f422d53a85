"""RocketMQ's recall handle: with it a delayed message is recalled before it is delivered. Pure.

base64url( "v1 topic broker-name timestamp message-id" )      timestamp: its delivery time in ms, plus one

Of the words only the message id, which its sender chooses, may have spaces.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from ..errors import InvalidName, InvalidParameter
from ..names import check_topic
from ..plain_dataclass import dataclass

_VERSION: Final = "v1"
_LENGTH_MAX: Final = 1024
_TIME_MAX: Final = 1 << 62
_EXPECTED: Final = "the recall handle of a delayed message's receipt"


@dataclass(frozen=True, slots=True)
class RecallHandle:
    """`message_id`: the message's unique id, `deliver_at_ms`: its delivery time (ms since the epoch)."""

    topic: str
    broker_name: str
    deliver_at_ms: int
    message_id: str

    def encode(self) -> str:
        """Encodes the handle."""
        words = (_VERSION, self.topic, self.broker_name, str(self.deliver_at_ms + 1), self.message_id)
        return base64.urlsafe_b64encode(" ".join(words).encode()).decode()

    @staticmethod
    def parse(text: str) -> RecallHandle:
        """Decodes a handle. Raises InvalidParameter."""
        try:
            if len(text) > _LENGTH_MAX:
                raise ValueError("too long")
            words = base64.b64decode(text.encode(), altchars=b"-_", validate=True).decode().split(" ", 4)
            version, topic, broker_name, timestamp, message_id = words
            if version != _VERSION or not timestamp.isdecimal() or not 0 < int(timestamp) < _TIME_MAX:
                raise ValueError("another version, or no time")
            check_topic(topic)
            check_topic(broker_name)
            if not message_id:
                raise ValueError("no message id")
        except (ValueError, binascii.Error, InvalidName) as error:
            raise InvalidParameter("recall handle", text[:64], _EXPECTED) from error
        return RecallHandle(topic, broker_name, int(timestamp) - 1, message_id)
