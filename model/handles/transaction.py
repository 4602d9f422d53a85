"""Transactions: a producer's decision, the state of one, and the text that names it. Pure.

    base64url( "t1 broker-name topic half-offset message-id" )

`half-offset`: where the half message's first record began in the broker's log. A half message may be written again later (it
was asked about, or its segment expired); its transaction keeps its name. The message id is in it so that an offset that means
another message by now, in a store that was begun anew, ends nothing.
"""

from __future__ import annotations

import base64
import binascii
import enum
from dataclasses import dataclass
from typing import Final

from ..errors import InvalidName, InvalidParameter
from ..names import check_topic

_VERSION: Final = "t1"
_LENGTH_MAX: Final = 1024
MESSAGE_ID_BYTES_MAX: Final = 255
"""Of one in a transaction's name: so there is room for the rest."""

_OFFSET_MAX: Final = 1 << 62
_EXPECTED: Final = "the transaction_id of a receipt, or one that `zenit transaction list` shows"


class Resolution(enum.Enum):
    """What becomes of a transactional message. The values are RocketMQ's."""

    COMMIT = 8
    """Consumers get it."""
    ROLLBACK = 12
    """Nobody gets it."""
    UNKNOWN = 0
    """Not decided yet: the broker asks later."""


class TransactionState(enum.Enum):
    """What became of a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    PARKED = "parked"
    """Nobody decided in time: an operator does (`zenit transaction`)."""


@dataclass(frozen=True, slots=True)
class TransactionId:
    """Which transaction. `half_offset`: physical, of its half message's first record; `message_id`: its unique id, "" where
    another sender gave it none."""

    broker_name: str
    topic: str
    half_offset: int
    message_id: str

    def encode(self) -> str:
        """The text that travels."""
        words = (_VERSION, self.broker_name, self.topic, str(self.half_offset), self.message_id)
        return base64.urlsafe_b64encode(" ".join(words).encode()).decode()

    @staticmethod
    def parse(text: str) -> TransactionId:
        """The reverse. Raises InvalidParameter."""
        try:
            if len(text) > _LENGTH_MAX:
                raise ValueError("too long")
            words = base64.b64decode(text.encode(), altchars=b"-_", validate=True).decode().split(" ", 4)
            version, broker_name, topic, offset, message_id = words
            if version != _VERSION or not (offset.isascii() and offset.isdecimal()) or int(offset) >= _OFFSET_MAX:
                raise ValueError("another version, or no offset")
            check_topic(broker_name)
            check_topic(topic)
        except (ValueError, binascii.Error, InvalidName) as error:
            raise InvalidParameter("transaction_id", text[:64], _EXPECTED) from error
        return TransactionId(broker_name, topic, int(offset), message_id)


def client_of(sender: str) -> str:
    """The client in a HALF_SENDER property, "client id/number"; "" where there is none."""
    return sender.rpartition("/")[0]
