"""Messages that are to be delivered later: the request to the broker, and its answer. Pure.

They travel in batches of their own, as SendDelayed; a message among them without a delay goes to its queue at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from ...model.errors import InvalidParameter, RemoteProtocolError
from ...model.handles.recall_handle import RecallHandle
from ...model.ids import offset_message_id
from ...model.message import Message, SendReceipt
from ...model.properties import DELAY_LEVEL, TIMER_DELAY_MS, TIMER_DELIVER_MS
from ...model.queue import MessageQueue, PhysicalOffset, QueueOffset
from ...remoting.commands import DelayedReply, Reply, SendDelayed, SendMessages, SendReply
from ...remoting.delayed_places import NOWHERE, Place, decode_places

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class DelayedParts(tuple[bytes, str | None, Sequence[str] | None, bytes, int, int]):
    """`outgoing.Parts` of a message that is to be delivered later."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class DelayedAnswer:
    """The places of the messages of a delayed batch. `store_host`: 8 or 20 bytes."""

    store_host: bytes
    places: list[Place]

    def receipt(self, message_id: str, queue: MessageQueue, index: int) -> SendReceipt:
        """The receipt of the batch's message `index`."""
        place = self.places[index]
        position = PhysicalOffset(place.physical_offset)
        handle = None
        if place.deliver_at_ms != NOWHERE:
            handle = RecallHandle(queue.topic, queue.broker_name, place.deliver_at_ms, message_id).encode()
        return SendReceipt(
            message_id,
            offset_message_id(self.store_host, position),
            queue,
            QueueOffset(place.queue_offset),
            position,
            recall_handle=handle,
        )


Answer = SendReply | DelayedAnswer


def is_delayed(message: Message) -> bool:
    """Whether its sender wants it delivered later."""
    return message.delay is not None or message.deliver_at is not None or bool(message.delay_level)


def delay_properties(message: Message) -> dict[str, str]:
    """The properties that set the delivery time.

    Raises InvalidParameter: several ways at once, a negative delay, a time without a zone.
    """
    said = [
        name
        for name, is_said in (
            ("delay", message.delay is not None),
            ("deliver_at", message.deliver_at is not None),
            ("delay_level", bool(message.delay_level)),
        )
        if is_said
    ]
    if len(said) > 1:
        raise InvalidParameter(said[1], getattr(message, said[1]), f"nothing beside {said[0]}: one of them says when")
    if message.delay is not None:
        if message.delay < timedelta(0):
            raise InvalidParameter("delay", message.delay, "not negative")
        return {TIMER_DELAY_MS: str(message.delay // _MILLISECOND)}
    if message.deliver_at is not None:
        if message.deliver_at.tzinfo is None:
            raise InvalidParameter("deliver_at", message.deliver_at, "a datetime with a time zone")
        return {TIMER_DELIVER_MS: str(max(0, (message.deliver_at - _EPOCH) // _MILLISECOND))}
    if message.delay_level < 0:
        raise InvalidParameter("delay_level", message.delay_level, "1 to 18, or 0 for none")
    return {DELAY_LEVEL: str(message.delay_level)}


def send_request(queue: MessageQueue, count: int, group: str, *, delayed: bool) -> SendMessages | SendDelayed:
    """The request to store a batch of `count` records. `delayed`: some of them wait."""
    request = SendDelayed if delayed else SendMessages
    return request(queue.topic, queue.queue_id, count, group)


def answer_of(reply: Reply | None, payload: bytes, count: int) -> Answer:
    """The outcome of the batch. Raises RemoteProtocolError if the reply is not an answer to a send."""
    if isinstance(reply, SendReply):
        return reply
    if isinstance(reply, DelayedReply):
        return DelayedAnswer(reply.store_host, decode_places(payload, count))
    raise RemoteProtocolError(f"a send was answered with {type(reply).__name__}")
