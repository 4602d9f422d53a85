"""Requests that carry replies: from the responder to the request's broker, and from there to the requester. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from .base import Done, Lane, Reply, RequestFor, ServedBy, request
from .rights import Action, on_topic


@dataclass(frozen=True, slots=True)
class ReplyStored(Reply):
    """Where a reply landed. is_delivered: it was handed to the connection of the one who asked; if not, that one did not
    show up in time, and the reply is in the log all the same. store_host: 8 or 20 bytes."""

    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    store_host: bytes
    is_delivered: bool


@request(324, Lane.SEND, served_by=ServedBy.MASTER_IN_SYNC, needs=(on_topic(Action.SEND),))
@dataclass(frozen=True, slots=True)
class SendReplyMessage(RequestFor[ReplyStored]):
    """SEND_REPLY_MESSAGE. Payload: one commit-log record of topic `{cluster}_REPLY_TOPIC`, broker-assigned fields zero,
    with the properties CORRELATION_ID and REPLY_TO_CLIENT of the request. Answered once it is as durable as a send and
    was handed on, or nobody came for it within a heartbeat."""

    topic: str
    producer_group: str = ""


@request(326, Lane.SEND, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class PushReply(RequestFor[Done]):
    """PUSH_REPLY_MESSAGE_TO_CLIENT, one way, from a broker to the client that asked. Payload: the record of the reply."""

    client_id: str
    correlation_id: str
    broker_name: str
