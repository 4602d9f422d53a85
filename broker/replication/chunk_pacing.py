"""What a master sends to a slave next, and when: chunks of the log, each once it is worth one. Pure.

While little is on its way to a slave it gets each turn of the log at once. Behind `HELD_BYTES` and more what comes is held
back until as much waits as is on its way, or a whole chunk: what a chunk costs both ends beside its bytes is then paid once
for several turns, and by the acks of a slave that keeps up it is never held for longer than a round trip.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .following_member import FollowingMember
from .frames import CHUNK_BYTES
from .replica_log import ReplicaLog

HELD_BYTES: Final = CHUNK_BYTES // 4
"""While so much is on its way to a slave, what comes next waits until it is worth a chunk."""
CHUNK_ENDS_MAX: Final = 32
"""Chunks whose ends are remembered: as many as one slave's credit has that another may be behind."""

CutAt = Callable[[int, int], int]
"""(begin, limit) -> the end of the last whole record in [begin, limit); where the first is longer alone, its end."""


def is_due(member: FollowingMember, end: int) -> bool:
    """Whether a session should get its next chunk now. `end`: of what may be sent."""
    waiting, on_its_way = min(end, member.credit) - member.sent, member.sent - member.written
    if waiting <= 0:
        return False
    return on_its_way < HELD_BYTES or waiting >= min(on_its_way, CHUNK_BYTES)


class ChunkPacing:
    """Of one master: where each chunk ends."""

    def __init__(self, log: ReplicaLog, *, segment_bytes: int, cut_at: CutAt) -> None:
        """`segment_bytes`: of the log's files; a chunk lies in one."""
        self._log = log
        self._segment_bytes = segment_bytes
        self._cut_at = cut_at
        self._ends: dict[int, int] = {}  # of chunks that were sent lately, by where they begin

    def next_end(self, member: FollowingMember, end: int) -> int:
        """Where the chunk ends that begins at `member.sent`: of one epoch, in one segment, at most CHUNK_BYTES, whole records;
        what another was sent from there on, if it was much: one range for several is read, summed up and copied once.
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
        """The chunk that begins there was not sent: before damage no record's end is known."""
        self._ends.pop(begin, None)

    def _enter_epoch(self, member: FollowingMember, begin: int) -> None:
        epochs = self._log.epochs
        row = epochs.covering(begin)
        assert row is not None, "every kept byte has its row"
        after = epochs.begin_after(begin)
        member.data_epoch = row.number
        member.epoch_end = 1 << 63 if after is None else after
