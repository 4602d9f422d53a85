"""The result of reading a queue, and the condition of a search. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..model.sql92.condition import Condition


@dataclass(slots=True)
class GetResult:
    """`slices`: views of the commit log, contiguous whole records, `count` together; valid while they are held.

    `is_cold`: the records are so far behind the tail that they may have to be read from the disk. `untouched`: their places, if
    this process has not had them in memory yet (KnownPages). Both kinds of pages must be requested before they are touched.
    `unread`: what a search must read next, perhaps from the disk, up to physical offset `unread_end`; it continues after the
    caller has read that. `misplaced`: a queue offset from which on nothing could be read because its unit names something
    else; None if there is none. For cold or untouched records that is known only once the slices are in memory:
    `find_misplaced` checks then, in any thread.
    `is_compacted`: read from compacted files, so that messages may be missing in between.
    With MESSAGES_LOST: the messages [`lost_from`, `next_offset`) are lost, with the damaged bytes `lost` of the log.
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
    is_compacted: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    """A search by properties, and its limit for one go.

    `has_time` is called every few messages; if it says no, the result says how far the search came. Of cold or
    untouched records only those below `read_below` (a physical offset) are examined: the caller has read them.
    """

    condition: Condition
    has_time: Callable[[], bool]
    read_below: int = 0
