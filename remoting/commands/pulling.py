"""Pulling messages."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .base import Lane, Reply, Request, request


class GetStatus(enum.IntEnum):
    """How a pull ended (RocketMQ's GetMessageStatus) and, in the comment, the next offset it implies."""

    FOUND = 0  # past the last unit examined
    NO_MATCHED_MESSAGE = 1  # past the last unit examined
    MESSAGE_WAS_REMOVING = 2  # the first offset of the next queue file
    OFFSET_FOUND_NULL = 3  # the first offset of the next queue file
    OFFSET_OVERFLOW_BADLY = 4  # the minimum where that is 0, else the maximum
    OFFSET_OVERFLOW_ONE = 5  # the same
    OFFSET_TOO_SMALL = 6  # the minimum
    NO_MATCHED_LOGIC_QUEUE = 7  # 0
    NO_MESSAGE_IN_QUEUE = 8  # 0


@dataclass(frozen=True, slots=True)
class PullReply(Reply):
    """What was found from the asked offset on. Payload: `count` whole records, back to back, in queue order.

    The record that has queue offset q is not told beside it: records carry their own. `suggested_broker_id`: read
    from there next.
    """

    status: int  # GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    count: int
    suggested_broker_id: int = 0


@request(11, Lane.PULL, PullReply)
@dataclass(frozen=True, slots=True)
class PullMessages(Request):
    """PULL_MESSAGE. Nothing there and `suspend_ms` > 0: the reply waits for a message at most that long.

    `tag_codes`: hashes wanted, sorted; empty = all. `max_messages`, `max_bytes`: bounds (the broker's own hold too).
    `sql`: an SQL92 condition on the messages' properties; "" = none.
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
