"""Requests that carry replies: from the responder to the request's broker, and from there to the requester. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from .base import Done, Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class ReplyStored(Reply):
    """Where a reply was stored. is_delivered: it was passed to the requester's connection; if not, the requester did not
    connect in time, and the reply is in the log nevertheless. store_host: 8 or 20 bytes.
    """

    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    store_host: bytes
    is_delivered: bool


@request(324, Lane.SEND, served_by=ServedBy.MASTER_IN_SYNC, needs=())
@dataclass(frozen=True, slots=True)
class SendReplyMessage(RequestFor[ReplyStored]):
    """SEND_REPLY_MESSAGE.

    Payload: one commit-log record of topic `{cluster}_REPLY_TOPIC`, broker-assigned fields zero, with the properties
    CORRELATION_ID and REPLY_TO_CLIENT of the request. Answered when it is as durable as a send and was passed on, or when
    the requester did not connect within a heartbeat.
    """

    topic: str
    producer_group: str = ""


@request(326, Lane.SEND, served_by=ServedBy.CLIENT, needs=())
@dataclass(frozen=True, slots=True)
class PushReply(RequestFor[Done]):
    """PUSH_REPLY_MESSAGE_TO_CLIENT, one way, from a broker to the requester. Payload: the record of the reply."""

    client_id: str
    correlation_id: str
    broker_name: str
