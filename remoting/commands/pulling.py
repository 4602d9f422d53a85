"""Pulling messages. Pure."""

from __future__ import annotations

from typing import Final

from ...model.plain_dataclass import dataclass
from ...model.security.rights import Action, on_group, on_topic
from .base import Lane, Reply, RequestFor, ServedBy, request


@dataclass(frozen=True, slots=True)
class PullReply(Reply):
    """The messages from the requested offset on. Payload: `count` contiguous whole records, in queue order.

    Records contain their own queue offsets. `suggested_broker_id`: the broker to read from next. OFFSET_OVERFLOW_ONE with
    `next_offset` below `max_offset`: the messages there are damaged, and a replica that does not answer may have them
    whole. `lost_from`, `lost_begin`, `lost_end`: with MESSAGES_LOST, messages [lost_from, next_offset) were in bytes
    [lost_begin, lost_end) of the log, which are damaged. `is_compacted`: it was read from a compacted topic's files: between
    its messages, and up to `next_offset`, are none, since newer ones with their keys have replaced them.
    """

    status: int  # GetStatus (model/get_status)
    next_offset: int
    min_offset: int
    max_offset: int
    count: int
    suggested_broker_id: int = 0
    lost_from: int = 0
    lost_begin: int = 0
    lost_end: int = 0
    is_compacted: bool = False


@request(
    11, Lane.PULL, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.SUB), on_group(Action.SUB, is_optional=True))
)
@dataclass(frozen=True, slots=True)
class PullMessages(RequestFor[PullReply]):
    """PULL_MESSAGE. If there is nothing and `suspend_ms` > 0, the reply waits for a message at most that long.

    `group` "": a viewer, which is of no group; such a pull needs no right on one.
    `tag_codes`: wanted hashes, sorted; empty = all. `max_messages`, `max_bytes`: limits (the broker has its own too).
    `sql`: an SQL92 condition on the messages' properties; "" = none. `incarnation`: of the topic, 0 = any; TopicMadeAnew if
    it has another one. `is_doubted`: an answer from this offset on could not be decoded: the broker checks the messages
    before it answers, and sends those that are whole.
    """

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_messages: int
    max_bytes: int
    suspend_ms: int = 0
    tag_codes: tuple[int, ...] = ()
    sql: str = ""
    incarnation: int = 0
    is_doubted: bool = False


WATCHED_MAX: Final = 4096
"""The most queues in one AwaitArrivals, or its answer."""


@dataclass(frozen=True, slots=True)
class ArrivalsReply(Reply):
    """`queues`: (place in `topics`, queue id), of those in which there is something; they are no longer watched. `is_known`:
    False if the broker does not know the watch as it was before this request: then nothing was done."""

    is_known: bool
    topics: tuple[str, ...]
    queues: tuple[tuple[int, int], ...]


@request(9160, Lane.PULL, served_by=ServedBy.ANY_REPLICA, needs=(on_topic(Action.SUB, "topics"),))
@dataclass(frozen=True, slots=True)
class AwaitArrivals(RequestFor[ArrivalsReply]):
    """Watches more queues for a consumer, and waits, `wait_ms` at most, until there is something in any that it watches. That
    is pulled then; what a pull would refuse counts as something.

    `watch`: a name that the consumer drew. `number`: of this request in the watch; 1 begins a new watch. One of a watch waits
    at a time: the next one's coming answers it. `queues`: (place in `topics`, queue id, the offset that is next, or -1: it is
    to be watched no more), at most 4096.
    """

    watch: str
    number: int
    topics: tuple[str, ...] = ()
    queues: tuple[tuple[int, int, int], ...] = ()
    wait_ms: int = 0
