"""A producer's knowledge of a transaction, and how to read it from a broker's answer. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ....model.errors import RemoteProtocolError, ZenitError, error_from_wire
from ....model.handles.transaction import TransactionId, TransactionState
from ....model.queue import MessageQueue
from ....remoting.commands import EndReply


@dataclass(frozen=True, slots=True)
class TransactionReceipt:
    """The outcome of a transaction.

    `state`: None if the broker has not confirmed it and asks `check` later: nothing was decided, or the answer was lost.
    `transaction_id`: with it any producer of the group, or an operator, may decide the transaction. `queue`: where the
    message is, or would be. `queue_offset`, `physical_offset`: of the committed message, else -1.
    """

    transaction_id: str
    message_id: str
    queue: MessageQueue
    state: TransactionState | None = None
    queue_offset: int = -1
    physical_offset: int = -1


def receipts_of(reply: EndReply, ended: Sequence[tuple[TransactionId, str]]) -> list[TransactionReceipt | ZenitError]:
    """The outcome of each of the ended transactions: (which, its text). Raises RemoteProtocolError."""
    if len(reply.rows) != len(ended):
        raise RemoteProtocolError(f"{len(reply.rows)} answers for {len(ended)} transactions")
    return [_receipt_of(*end, row) for end, row in zip(ended, reply.rows, strict=True)]


def _receipt_of(
    which: TransactionId, name: str, row: tuple[int, str, int, int, int]
) -> TransactionReceipt | ZenitError:
    code, text, queue_id, queue_offset, physical_offset = row
    try:
        if code:
            facts = json.loads(text)
            return error_from_wire(code, list(facts), text)
        state = TransactionState(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise RemoteProtocolError("what became of a transaction cannot be read") from error
    queue = MessageQueue(which.topic, which.broker_name, max(0, queue_id))
    return TransactionReceipt(name, which.message_id, queue, state, queue_offset, physical_offset)
