"""Sending messages. Pure."""

from __future__ import annotations

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_topic
from .base import Lane, Reply, RequestFor, ServedBy, request


@dataclass(slots=True)
class SendReply(Reply):
    """Where a batch was stored. Record i is at queue offset `queue_offset + i`. Like SendMessages not frozen: one is
    created for every send, and freezing doubles the cost of that.

    `physical_offset`: of the first record; the records are contiguous unless `pieces` ((count, physical offset), ...) says
    that the batch was larger than a segment and had to be split. `store_host`: 8 or 20 bytes.
    """

    queue_id: int
    queue_offset: int
    physical_offset: int
    store_timestamp_ms: int
    store_host: bytes
    pieces: tuple[tuple[int, int], ...] = ()


@request(320, Lane.SEND, served_by=ServedBy.MASTER_IN_SYNC, needs=(on_topic(Action.PUB),))
@dataclass(slots=True)
class SendMessages(RequestFor[SendReply]):
    """SEND_BATCH_MESSAGE. Payload: `count` complete commit-log records of one topic, broker-assigned fields zero.

    The broker's loop uses one instance many times (header.py): nobody may change it.
    """

    topic: str
    queue_id: int
    count: int
    producer_group: str = ""


@dataclass(frozen=True, slots=True)
class DelayedReply(Reply):
    """Payload: the place of each message (remoting/delayed_places). `store_host`: 8 or 20 bytes."""

    queue_id: int
    store_host: bytes


@request(9020, Lane.SEND, served_by=ServedBy.MASTER_IN_SYNC, needs=(on_topic(Action.PUB),))
@dataclass(frozen=True, slots=True)
class SendDelayed(RequestFor[DelayedReply]):
    """A batch with delayed messages.

    Payload as in SendMessages; a record's DELAY (level), TIMER_DELAY_MS, TIMER_DELAY_SEC or TIMER_DELIVER_MS property gives
    its delay; a record without one goes to its queue at once. All are stored, or none.
    """

    topic: str
    queue_id: int
    count: int
    producer_group: str = ""


@dataclass(frozen=True, slots=True)
class RecallReply(Reply):
    """The unique id of the recalled message."""

    message_id: str


@request(370, Lane.QUERY, served_by=ServedBy.MASTER_CONFIRMED, needs=(on_topic(Action.PUB),))
@dataclass(frozen=True, slots=True)
class RecallMessage(RequestFor[RecallReply]):
    """RECALL_MESSAGE: recalls a delayed message; MessageNotFound if it was delivered or recalled before.

    `handle`: see model.handles.recall_handle.
    """

    topic: str
    handle: str
    producer_group: str = ""


@dataclass(slots=True)
class SequencedReply(SendReply):
    """`is_duplicate`: all of it was stored by an earlier try, at this place; `store_timestamp_ms` is then that of the
    producer's newest message in the queue, and `last_sequence` its sequence. Offsets are -1 if they are not known any
    more.
    """

    is_duplicate: bool = False
    last_sequence: int = -1


@request(9130, Lane.SEND, served_by=ServedBy.MASTER_IN_SYNC, needs=(on_topic(Action.PUB),))
@dataclass(frozen=True, slots=True)
class SendSequenced(RequestFor[SequencedReply]):
    """As SendMessages, for records with a blank PSEQ property (model.sequence): they get the sequences `first_sequence` and
    so on of this producer in the queue, and none of them is stored twice.

    `has_gaps`: the sequence need not follow the one before, only be higher. Refused with OutOfOrderSequence, and with
    SequenceKnownInPart.
    """

    topic: str
    queue_id: int
    count: int
    producer_group: str
    producer_id: str
    first_sequence: int
    has_gaps: bool = False


@request(9131, Lane.SEND, served_by=ServedBy.MASTER_IN_SYNC, needs=(on_topic(Action.PUB),))
@dataclass(frozen=True, slots=True)
class SendDelayedSequenced(RequestFor[DelayedReply]):
    """The same for messages of which some are delayed, as in SendDelayed."""

    topic: str
    queue_id: int
    count: int
    producer_group: str
    producer_id: str
    first_sequence: int
