"""A master's knowledge of one other replica: its session, its positions, when it was last heard. Owned by the master.

Positions are of the present session. They are kept when it closes, because the slave's log stays; the
next opening replaces them with what that session confirms. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...model.groups.group import Incarnation
from .frames import Opening


@dataclass(slots=True)
class FollowingMember:
    """Offsets are physical, times monotonic milliseconds. `session`: the highest number seen, open or not (R14).

    `incarnation`: the one that the node names, None if it names none; `session_incarnation`: the one that opened the session.
    `is_counted`: in the union. `is_follower`: it never is. `acked_ms`: time of the last ack; an opening
    only proves that we hear it, not that it hears us.
    `flushing_ms`: when it last had flushed more than before, or everything.
    `is_gone`: its socket is known to be closed, or it has said goodbye; a new session ends that.
    `caught_up_ms`: when it last had everything.
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
    is_follower: bool = False
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
        """A new session whose log equals the master's up to `offset`. Unflushed bytes do not count."""
        self.session, self.session_incarnation = opening.session, opening.incarnation
        self.is_open, self.is_gone, self.wants_lz4 = True, False, opening.wants_lz4
        self.written, self.flushed = offset, min(offset, opening.flushed)
        self.sent, self.credit, self.epoch_end, self.told_confirm = offset, 0, 0, 0
        self.heard_ms = self.sent_ms = self.flushing_ms = self._mark_ms = now_ms
        self._mark = end

    def acknowledge(self, written: int, flushed: int, now_ms: int) -> None:
        """It has reported its positions."""
        if flushed > self.flushed or flushed >= written:
            self.flushing_ms = now_ms
        self.written, self.flushed = written, flushed
        self.heard_ms = self.acked_ms = now_ms

    def observe_lag(self, end: int, is_sync: bool, now_ms: int) -> None:
        """At the mark, the log ended where this member is now, so it was caught up then; the mark moves to now."""
        position = self.flushed if is_sync else self.written
        if position >= end:
            self.caught_up_ms = now_ms
        elif position >= self._mark:
            self.caught_up_ms = max(self.caught_up_ms, self._mark_ms)
        else:
            return
        self._mark, self._mark_ms = end, now_ms

    def may_join(self, bar: int, is_sync: bool) -> bool:
        """Caught up in a session of the incarnation that the node names (R7)."""
        position = self.flushed if is_sync else self.written
        return self.is_open and self.session_incarnation == self.incarnation and position >= bar
