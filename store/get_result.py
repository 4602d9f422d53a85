"""What a read of a queue found, and where to read next; which messages a search wants. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..model.sql92.condition import Condition


@dataclass(slots=True)
class GetResult:
    """`slices`: views of the commit log, whole records back to back, `count` together; valid while they are held.

    `is_cold`: they lie so far behind the tail that they may have to come from the disk. `untouched`: where they lie, if this
    process has not had them in memory yet (KnownPages). Of both the pages are asked for before they are touched. `unread`:
    what a search has to look at next and may have to come from there, up to physical offset `unread_end`: it goes on once
    the caller has read it. `misplaced`: a queue offset, what follows could not be read because its unit names something
    else; None: nothing such. Of what is cold or untouched that is known only once the slices are in memory:
    `find_misplaced` looks then, in any thread.
    With MESSAGES_LOST: messages [`lost_from`, `next_offset`) are, with bytes `lost` of the log, which are damaged.
    """

    status: int  # GetStatus
    next_offset: int
    min_offset: int
    max_offset: int
    count: int = 0
    slices: list[memoryview] = field(default_factory=list)
    is_cold: bool = False
    misplaced: int | None = None
    find_misplaced: Callable[[], int | None] | None = None
    untouched: tuple[tuple[int, int], ...] = ()
    unread: memoryview | None = None
    unread_end: int = 0
    lost_from: int = 0
    lost: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Search:
    """Which messages are wanted by their properties, and how far to look in one go.

    `has_time` is asked every few messages; where it says no, the answer tells how far the search came. Of what is cold or
    untouched, only records below `read_below` (a physical offset) are looked at: those the caller has read.
    """

    condition: Condition
    has_time: Callable[[], bool]
    read_below: int = 0
