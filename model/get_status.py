"""The result codes of a read of a queue, for stores and pull replies. Pure."""

from __future__ import annotations

import enum


class GetStatus(enum.IntEnum):
    """RocketMQ's GetMessageStatus, and one of ours; the comments give the next offset of each."""

    FOUND = 0  # past the last unit examined
    NO_MATCHED_MESSAGE = 1  # past the last unit examined
    MESSAGE_WAS_REMOVING = 2  # the first offset of the next queue file
    OFFSET_FOUND_NULL = 3  # the first offset of the next queue file
    OFFSET_OVERFLOW_BADLY = 4  # the minimum if that is 0, else the maximum
    OFFSET_OVERFLOW_ONE = 5  # the same
    OFFSET_TOO_SMALL = 6  # the minimum
    NO_MATCHED_LOGIC_QUEUE = 7  # 0
    NO_MESSAGE_IN_QUEUE = 8  # 0
    MESSAGES_LOST = 9000  # behind the lost messages; ours: their bytes are damaged, and no replica has them
