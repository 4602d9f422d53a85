"""Transactions: a producer's decision, a transaction's state, and its id. Pure.

    base64url( "t1 broker-name topic half-offset message-id" )

`half-offset`: the begin of the half message's first record in the broker's log. A half message may be appended again later
(it was asked about, or its segment expired); its transaction keeps its id. With the message id in it, an id from an earlier
store of the broker cannot end another message's transaction at the same offset.
"""

from __future__ import annotations

import base64
import binascii
import enum
from typing import Final

from ..errors import InvalidName, InvalidParameter
from ..names import check_topic
from ..plain_dataclass import dataclass

_VERSION: Final = "t1"
_LENGTH_MAX: Final = 1024
MESSAGE_ID_BYTES_MAX: Final = 255
"""In a transaction's id, so that there is room for the rest."""

_OFFSET_MAX: Final = 1 << 62
_EXPECTED: Final = "the transaction_id of a receipt, or one that `zenit transaction list` shows"


class Resolution(enum.Enum):
    """The decision about a transactional message. The values are RocketMQ's."""

    COMMIT = 8
    """Consumers get it."""
    ROLLBACK = 12
    """Nobody gets it."""
    UNKNOWN = 0
    """Not decided yet: the broker asks later."""


class TransactionState(enum.Enum):
    """The outcome of a transaction."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"
    PARKED = "parked"
    """Nobody decided in time: an operator must (`zenit transaction`)."""


@dataclass(frozen=True, slots=True)
class TransactionId:
    """The id of a transaction.

    `half_offset`: physical, of its half message's first record; `message_id`: its unique id, "" if its sender, not a Python
    client, gave it none.
    """

    broker_name: str
    topic: str
    half_offset: int
    message_id: str

    def encode(self) -> str:
        """Encodes the id."""
        words = (_VERSION, self.broker_name, self.topic, str(self.half_offset), self.message_id)
        return base64.urlsafe_b64encode(" ".join(words).encode()).decode()

    @staticmethod
    def parse(text: str) -> TransactionId:
        """Decodes an id. Raises InvalidParameter."""
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
    """The client in a HALF_SENDER property, "client id/number"; "" if there is none."""
    return sender.rpartition("/")[0]
