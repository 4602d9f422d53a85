"""What a master knows of one other replica: its session, how far it is, when it was last heard. Owned by the master.

Positions are of the present session and are kept when it closes: the log they tell of does not go away with it, and
the next opening puts what that session can vouch for in their place. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...model.groups.group import Incarnation
from .frames import Opening


@dataclass(slots=True)
class FollowingMember:
    """Offsets are physical, times monotonic milliseconds. `session`: the highest number seen, open or not (R14).

    `incarnation`: the one the node names, None where it names none; `session_incarnation`: the one that opened.
    `is_counted`: in the union. `acked_ms`: when an ack came last: an opening alone says that it is heard, not that it hears.
    `flushing_ms`: when it had flushed more than before, or all it had.
    `is_gone`: its socket is known to be gone. `caught_up_ms`: when it last held all that there was.
    """

    name: str
    heard_ms: int
    caught_up_ms: int = 0
    acked_ms: int = 0
    flushing_ms: int = 0
    incarnation: Incarnation | None = None
    session: int = 0
    session_incarnation: Incarnation | None = None
    is_open: bool = False
    is_counted: bool = False
    is_gone: bool = False
    wants_lz4: bool = False
    written: int = 0
    flushed: int = 0
    sent: int = 0
    credit: int = 0
    data_epoch: int = 0
    epoch_end: int = 0
    sent_ms: int = 0
    told_confirm: int = 0
    _mark: int = 0
    _mark_ms: int = 0

    def __post_init__(self) -> None:
        self.caught_up_ms = self.acked_ms = self.flushing_ms = self._mark_ms = self.heard_ms

    def open(self, opening: Opening, offset: int, *, end: int, now_ms: int) -> None:
        """A new session that agrees with the master's log up to `offset`. What was not flushed counts for nothing."""
        self.session, self.session_incarnation = opening.session, opening.incarnation
        self.is_open, self.is_gone, self.wants_lz4 = True, False, opening.wants_lz4
        self.written, self.flushed = offset, min(offset, opening.flushed)
        self.sent, self.credit, self.epoch_end, self.told_confirm = offset, 0, 0, 0
        self.heard_ms = self.sent_ms = self.flushing_ms = self._mark_ms = now_ms
        self._mark = end

    def acknowledge(self, written: int, flushed: int, now_ms: int) -> None:
        """It says how far it is."""
        if flushed > self.flushed or flushed >= written:
            self.flushing_ms = now_ms
        self.written, self.flushed = written, flushed
        self.heard_ms = self.acked_ms = now_ms

    def observe_lag(self, end: int, is_sync: bool, now_ms: int) -> None:
        """It was caught up when the log ended where this member is now: at the mark, which then moves to now."""
        position = self.flushed if is_sync else self.written
        if position >= end:
            self.caught_up_ms = now_ms
        elif position >= self._mark:
            self.caught_up_ms = max(self.caught_up_ms, self._mark_ms)
        else:
            return
        self._mark, self._mark_ms = end, now_ms

    def may_join(self, bar: int, is_sync: bool) -> bool:
        """Caught up in a session of the life that the node names (R7)."""
        position = self.flushed if is_sync else self.written
        return self.is_open and self.session_incarnation == self.incarnation and position >= bar
