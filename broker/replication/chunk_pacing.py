"""Decides which chunk a master sends to a slave next, and when it is large enough to be sent. Pure.

While few bytes are in flight to a slave, it gets the log of each turn at once. From `HELD_BYTES` in flight on, new bytes wait
until as many wait as are in flight, or until they fill a chunk. So the fixed cost of a chunk at both ends is paid once for
several turns. The acks of a slave that keeps up limit the wait to one round trip.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .following_member import FollowingMember
from .frames import CHUNK_BYTES
from .replica_log import ReplicaLog

HELD_BYTES: Final = CHUNK_BYTES // 4
"""With so many bytes in flight to a slave, the next ones wait until they are worth a chunk."""
CHUNK_ENDS_MAX: Final = 32
"""The number of remembered chunk ends: by so many chunks, within one slave's credit, another may be behind."""

CutAt = Callable[[int, int], int]
"""(begin, limit) -> the end of the last whole record in [begin, limit); if the first record is longer, its end."""


def is_due(member: FollowingMember, end: int) -> bool:
    """True if a session should get its next chunk now. `end`: of what may be sent."""
    waiting, on_its_way = min(end, member.credit) - member.sent, member.sent - member.written
    if waiting <= 0:
        return False
    return on_its_way < HELD_BYTES or waiting >= min(on_its_way, CHUNK_BYTES)


class ChunkPacing:
    """Finds the end of each chunk; one object for each master."""

    def __init__(self, log: ReplicaLog, *, segment_bytes: int, cut_at: CutAt) -> None:
        """`segment_bytes`: of the log's files; a chunk is within one file."""
        self._log = log
        self._segment_bytes = segment_bytes
        self._cut_at = cut_at
        self._ends: dict[int, int] = {}  # recently sent chunks, by begin

    def next_end(self, member: FollowingMember, end: int) -> int:
        """The end of the chunk that begins at `member.sent`: of one epoch, in one segment, at most CHUNK_BYTES, whole records.
        If another slave got a large chunk from there, the same one: it is then read, checksummed and copied once for several.
        """
        begin = member.sent
        if begin >= member.epoch_end:
            self._enter_epoch(member, begin)
        known = self._ends.get(begin)
        if known is not None and known <= member.credit and known <= end:
            return known
        segment_end = begin - begin % self._segment_bytes + self._segment_bytes
        limit = min(end, member.epoch_end, segment_end)
        allowed = min(begin + CHUNK_BYTES, member.credit)
        if allowed < limit:
            limit = self._cut_at(begin, allowed)
        if limit - begin >= HELD_BYTES:
            while len(self._ends) >= CHUNK_ENDS_MAX:
                del self._ends[next(iter(self._ends))]
            self._ends[begin] = limit
        return limit

    def on_unsent(self, begin: int) -> None:
        """The chunk that begins there was not sent: record ends before damage are unknown."""
        self._ends.pop(begin, None)

    def _enter_epoch(self, member: FollowingMember, begin: int) -> None:
        epochs = self._log.epochs
        row = epochs.covering(begin)
        assert row is not None, "every kept byte has its row"
        after = epochs.begin_after(begin)
        member.data_epoch = row.number
        member.epoch_end = 1 << 63 if after is None else after
