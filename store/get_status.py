"""How a read of a queue ended, and where to read next.

The same numbers as the pull reply's on the wire (a test holds the two equal).
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field

from ..model.sql92.condition import Condition


class GetStatus(enum.IntEnum):
    """RocketMQ's GetMessageStatus; in the comment the next offset it implies."""

    FOUND = 0  # past the last unit examined
    NO_MATCHED_MESSAGE = 1  # past the last unit examined
    MESSAGE_WAS_REMOVING = 2  # the first offset of the next queue file
    OFFSET_FOUND_NULL = 3  # the first offset of the next queue file
    OFFSET_OVERFLOW_BADLY = 4  # the minimum where that is 0, else the maximum
    OFFSET_OVERFLOW_ONE = 5  # the same
    OFFSET_TOO_SMALL = 6  # the minimum
    NO_MATCHED_LOGIC_QUEUE = 7  # 0
    NO_MESSAGE_IN_QUEUE = 8  # 0


@dataclass(slots=True)
class GetResult:
    """`slices`: views of the commit log, whole records back to back, `count` together; valid while they are held.

    `is_cold`: they lie so far behind the tail that they may have to come from the disk. `unread`: what a search has to
    look at next and may have to come from there, up to physical offset `unread_end`: it goes on once the caller has read it.
    """

    status: int
    next_offset: int
    min_offset: int
    max_offset: int
    count: int = 0
    slices: list[memoryview] = field(default_factory=list)
    is_cold: bool = False
    unread: memoryview | None = None
    unread_end: int = 0


@dataclass(frozen=True, slots=True)
class Search:
    """Which messages are wanted by their properties, and how far to look in one go.

    `has_time` is asked every few messages; where it says no, the answer tells how far the search came. Of what may have to
    come from the disk, only records below `read_below` (a physical offset) are looked at: those the caller has read.
    """

    condition: Condition
    has_time: Callable[[], bool]
    read_below: int = 0
