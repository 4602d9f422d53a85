"""A master's side of replication, for one term: sessions, what to send to whom, confirm offset, acknowledgements.

    log position moved | Ack | Credit | Opening | news of the node | tick  -->  MasterState  -->  effects

The confirm offset is the lowest position in the union (in_sync). It moves only while the minimum is in sync (R6).
Sends below it are acknowledged (R8), or with ack = master sends below the master's own position. A member's position is
what it has flushed under flush = sync, otherwise what it has written, from the opening and the acks of its present session
(R8, R14). Catching up and following the tail are one loop: each event sends each session at most one chunk, within its
credit and once it is large enough (`chunk_pacing`); `has_more` says that another turn is due at once.

The object is made at `Lead` and dropped at `StopLeading`; the caller handles news of other epochs. All times are monotonic
milliseconds. Loop thread; `on_turn` and `on_ack` cost a few microseconds, and only the number of members raises that. Pure.
"""

from __future__ import annotations

from typing import Final

from ...model.groups.group import AckMode, FlushMode, KnownGroup
from .chunk_pacing import ChunkPacing, CutAt, is_due
from .effects import (
    Acknowledge,
    CloseSession,
    ConfirmMoved,
    Effect,
    SendChunk,
    SendFrame,
    WritesAllowed,
)
from .epochs import truncation_point
from .following_member import FollowingMember
from .frames import Accepted, Ack, Chunk, Credit, Frame, Goodbye, Idle, Opening, RefusalReason, Refused
from .in_sync import InSyncSet
from .replica_log import ReplicaLog

SILENCE_MS: Final = 1500
"""A member that has not acknowledged anything for this long leaves the in-sync set."""
HANGS_MS: Final = 2000
"""Under flush = sync: a member whose disk has flushed nothing for this long leaves the set too; its disk hangs."""
IDLE_MS: Final = 250
CONFIRM_MS: Final = 20
"""The longest time until a slave that gets no chunks hears of a new confirm offset."""
OWN_PAUSE_MS: Final = 400
"""If ticks are further apart than this, the process was stopped, or its machine was."""


def refusal(opening: Opening, reason: RefusalReason, *, epoch: int, offset: int = 0) -> SendFrame:
    """The refusal of a session. A replica that is not master (yet) says OTHER_EPOCH and its promised epoch."""
    return SendFrame(opening.name, Refused(opening.group, epoch, opening.session, reason, offset))


class MasterState:
    """`confirm`, `acknowledged`: physical offsets; `serves_state`; `has_more`.

    `takes_writes`: enough replicas are in sync at the controller (R8), and no hand-over to another replica has begun.
    """

    def __init__(
        self,
        name: str,
        *,
        group_key: int,
        group: KnownGroup,
        log: ReplicaLog,
        segment_bytes: int,
        cut_at: CutAt,
        now_ms: int,
    ) -> None:
        """`group`: the news that led to `Lead`, or newer ones of the same epoch; `log.epochs` ends with the row of
        that epoch."""
        assert log.epochs.newest == group.node.epoch
        self.epoch = group.node.epoch
        self.start = log.epochs.rows[-1].begin
        self.acknowledged = 0
        self.has_more = False
        self.takes_writes = False
        self._hands_over = False
        self._name = name
        self._group_key = group_key
        self._log = log
        self._pacing = ChunkPacing(log, segment_bytes=segment_bytes, cut_at=cut_at)
        self._in_sync = InSyncSet(group)
        self._members: dict[str, FollowingMember] = {}
        self._sessions: tuple[FollowingMember, ...] = ()  # members with an open session
        self._others: tuple[FollowingMember, ...] = ()  # members of the union without this one
        self._is_sync = self._is_ack_all = False
        self._ticked_ms = now_ms
        self._adopt(now_ms)

    # ---- what the broker asks

    @property
    def serves_state(self) -> bool:
        """True if the whole union has the inherited log: then requests that read state derived from it may be answered (R3);
        not once a hand-over has begun."""
        return self._log.confirm >= self.start and not self._hands_over

    @property
    def is_confirmed(self) -> bool:
        """All of the log is confirmed, or cannot be for want of replicas: to wait longer changes nothing."""
        return self._log.confirm >= self._log.end or not self._in_sync.has_minimum

    def cut_off_ms(self, now_ms: int) -> int:
        """For how long fewer replicas than the minimum have acknowledged anything; 0 if this one is enough."""
        others = self._in_sync.group.node.settings.min_in_sync - 1
        acked_ms = sorted((member.acked_ms for member in self._members.values()), reverse=True)
        return now_ms - acked_ms[others - 1] if 0 < others <= len(acked_ms) else 0

    def members(self) -> tuple[FollowingMember, ...]:
        """All replicas but this one, for statistics."""
        return tuple(self._members.values())

    def hand_over(self, *, is_begun: bool) -> None:
        """While it has begun, nothing new is taken; what is in the log is confirmed and acknowledged as before."""
        self._hands_over = is_begun
        self.takes_writes = self._in_sync.has_minimum and not is_begun

    # ---- events: the log

    def on_turn(self, now_ms: int) -> list[Effect]:
        """The log was written or flushed (after `log.on_position`), or `has_more` was set."""
        effects: list[Effect] = []
        self.has_more = False
        log = self._log
        for member in self._sessions:
            end = log.sendable_end(member.sent) if log.damaged else log.end
            if is_due(member, end):
                self._send_chunk(member, end, now_ms, effects)
        self._progress(effects)
        return effects

    def on_log_begin(self) -> list[Effect]:
        """Retention has moved `log.begin`; sessions that still needed the deleted bytes end."""
        behind = [member for member in self._sessions if member.sent < self._log.begin]
        return [effect for member in behind for effect in self._end(member)]

    # ---- events: the network

    def on_frame(self, peer: str, frame: Frame, now_ms: int) -> list[Effect]:
        """A frame from the replica whose identity the port has checked as `peer`."""
        if frame.group != self._group_key:
            return []
        if isinstance(frame, Opening):
            return self._on_opening(peer, frame, now_ms)
        member = self._members.get(peer)
        if frame.epoch != self.epoch or member is None or not member.is_open or frame.session != member.session:
            return []  # of a closed session, or of another term
        if isinstance(frame, Ack):
            return self._on_ack(member, frame, now_ms)
        if isinstance(frame, Credit):
            member.credit = max(member.credit, frame.up_to)
            return self.on_turn(now_ms)
        if isinstance(frame, Goodbye):
            member.is_gone = True  # its session stays open: until the controller has written, its acks count (R7)
            return self._propose(now_ms)
        return []

    def on_unreachable(self, peer: str, session: int, now_ms: int) -> list[Effect]:
        """The socket of this session is closed (EHOSTUNREACH): the member leaves the in-sync set, if it is in it."""
        member = self._members.get(peer)
        if member is None or not member.is_open or member.session != session:
            return []
        closed = self._close(member)
        member.is_gone = True
        return [closed, *self._propose(now_ms)]

    def on_unsent(self, peer: str, session: int, begin: int) -> None:
        """The chunk of this session that begins there was not sent, because the log is damaged (`ReplicaLog.damaged`
        says where).

        The session waits with idle frames, and continues once the bytes are repaired.
        """
        member = self._members.get(peer)
        if member is not None and member.is_open and member.session == session:
            member.sent = begin
            member.epoch_end = 0  # it may be in an earlier epoch than the bytes behind it
        self._pacing.on_unsent(begin)

    def on_bad_frame(self, peer: str, session: int) -> list[Effect]:
        """A message of this session could not be decoded: the session ends, and the slave opens another."""
        member = self._members.get(peer)
        if member is None or not member.is_open or member.session != session:
            return []
        return self._end(member)

    # ---- events: the controller and the clock

    def on_group(self, group: KnownGroup, now_ms: int) -> list[Effect]:
        """The node was read. The role handles another epoch; a version that is not above the known one is ignored."""
        if group.node.epoch != self.epoch:
            return []
        had_minimum = self._in_sync.has_minimum
        if not self._in_sync.on_group(group):
            return []
        self._adopt(now_ms)
        has_minimum = self._in_sync.has_minimum
        effects: list[Effect] = [WritesAllowed(has_minimum)] if has_minimum != had_minimum else []
        self._progress(effects)
        return effects + self._propose(now_ms)

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Time has passed; a call every 20 to 50 ms is enough."""
        effects: list[Effect] = []
        self._forgive_own_pause(now_ms)
        for member in self._members.values():
            if member.is_open:
                member.observe_lag(self._log.end, self._is_sync, now_ms)
                since_ms = now_ms - member.sent_ms
                if since_ms >= IDLE_MS or (since_ms >= CONFIRM_MS and member.told_confirm < self._log.confirm):
                    effects.append(self._idle(member, now_ms))
        effects += self.on_turn(now_ms)
        return effects + self._propose(now_ms)

    def _forgive_own_pause(self, now_ms: int) -> None:
        """A master that was stopped could hear nobody meanwhile: that does not count as silence of the members."""
        pause_ms = now_ms - self._ticked_ms
        self._ticked_ms = now_ms
        if pause_ms >= OWN_PAUSE_MS:
            for member in self._members.values():
                member.heard_ms += pause_ms
                member.acked_ms += pause_ms
                member.flushing_ms += pause_ms
                member.caught_up_ms += pause_ms

    # ---- sessions

    def _on_opening(self, peer: str, frame: Opening, now_ms: int) -> list[Effect]:
        member = self._members.get(peer)
        if peer != frame.name:
            return []  # not the replica that the port has identified
        if member is None or member.incarnation is None:
            return [refusal(frame, RefusalReason.NOT_A_MEMBER, epoch=self.epoch)]
        if frame.epoch != self.epoch:
            return [refusal(frame, RefusalReason.OTHER_EPOCH, epoch=self.epoch)]
        if frame.incarnation.store_id != member.incarnation.store_id:
            # It is new and the node does not name it yet; or it belongs to a group of another cluster with the same
            # name, whose master
            # had our address before. Epochs do not tell the two apart.
            return [refusal(frame, RefusalReason.NOT_A_MEMBER, epoch=self.epoch)]
        if frame.session <= member.session:
            return [refusal(frame, RefusalReason.STALE_SESSION, epoch=self.epoch, offset=member.session)]
        effects: list[Effect] = [self._close(member)] if member.is_open else []
        log = self._log
        offset = truncation_point(log.epochs, log.end, frame.epochs, frame.end)
        member.session = frame.session
        if offset is None or offset < log.begin:
            return [*effects, self._refuse_behind_retention(frame, offset)]
        member.open(frame, offset, end=log.end, now_ms=now_ms)
        self._list_sessions()
        effects.append(SendFrame(peer, Accepted(self._group_key, self.epoch, frame.session, offset)))
        self._progress(effects)
        return effects

    def _refuse_behind_retention(self, opening: Opening, agreed: int | None) -> Effect:
        """The slave must begin anew where this log begins. `agreed`: None if the rows that could tell are gone; then
        it is below the first one."""
        stamp = (self._group_key, self.epoch, opening.session)
        begin = self._log.begin
        epochs = self._log.epochs.below(begin)
        offset = min(self._log.epochs.rows[0].begin, opening.end) if agreed is None else agreed
        return SendFrame(opening.name, Refused(*stamp, RefusalReason.BEHIND_RETENTION, offset, begin, epochs))

    def _end(self, member: FollowingMember) -> list[Effect]:
        """Closes a session whose slave may not know that; the refusal makes it open another at once."""
        stamp = (self._group_key, self.epoch, member.session)
        return [SendFrame(member.name, Refused(*stamp, RefusalReason.CLOSED)), self._close(member)]

    def _close(self, member: FollowingMember) -> Effect:
        """Drops the session; its number and its last position stay."""
        member.is_open = False
        self._list_sessions()
        return CloseSession(member.name, member.session)

    def _list_sessions(self) -> None:
        self._sessions = tuple(member for member in self._members.values() if member.is_open)

    def _on_ack(self, member: FollowingMember, ack: Ack, now_ms: int) -> list[Effect]:
        """An ack counts if last ack <= ack <= sent; any other ack closes the session (R14)."""
        if not (member.written <= ack.written <= member.sent and member.flushed <= ack.flushed):
            return self._end(member)
        member.acknowledge(ack.written, ack.flushed, now_ms)
        log = self._log
        end = log.end
        member.observe_lag(end, self._is_sync, now_ms)
        effects: list[Effect] = []
        if log.damaged:
            end = log.sendable_end(member.sent)
        if is_due(member, end):
            self._send_chunk(member, end, now_ms, effects)
        self._progress(effects)
        if not member.is_counted:
            effects += self._propose(now_ms)
        return effects

    # ---- what to send

    def _send_chunk(self, member: FollowingMember, end: int, now_ms: int, effects: list[Effect]) -> None:
        """The next range of the log for a session."""
        begin = member.sent
        limit = self._pacing.next_end(member, end)
        confirm = self._log.confirm
        chunk = Chunk(
            self._group_key, self.epoch, member.session, member.data_epoch, begin, limit, confirm, 0, member.wants_lz4
        )
        member.sent, member.sent_ms, member.told_confirm = limit, now_ms, confirm
        effects.append(SendChunk(member.name, chunk))
        if is_due(member, end):
            self.has_more = True

    def _idle(self, member: FollowingMember, now_ms: int) -> Effect:
        member.sent_ms, member.told_confirm = now_ms, self._log.confirm
        return SendFrame(member.name, Idle(self._group_key, self.epoch, member.session, member.sent, self._log.confirm))

    # ---- what counts

    def _progress(self, effects: list[Effect]) -> None:
        """Moves the confirm offset and the acknowledged offset as far as positions allow."""
        if not self._in_sync.has_minimum:
            return
        log = self._log
        is_sync = self._is_sync
        own = lowest = log.flushed if is_sync else log.end
        for member in self._others:
            position = member.flushed if is_sync else member.written
            if position < lowest:
                lowest = position
        if lowest > log.confirm:
            log.confirm = lowest
            effects.append(ConfirmMoved(lowest))
        acknowledged = lowest if self._is_ack_all else own
        if acknowledged > self.acknowledged:
            self.acknowledged = acknowledged
            effects.append(Acknowledge(acknowledged))

    def _adopt(self, now_ms: int) -> None:
        """Adopts the content of a new version of the node."""
        node = self._in_sync.group.node
        self._is_sync = node.settings.flush_mode is FlushMode.SYNC
        self._is_ack_all = node.settings.ack_mode is AckMode.ALL
        lives = {replica.name: replica.incarnation for replica in node.replicas}
        followers = {replica.name for replica in node.replicas if replica.is_follower}
        for name in sorted({*self._members, *lives, *node.in_sync} - {self._name}):
            member = self._members.setdefault(name, FollowingMember(name, now_ms))
            member.incarnation = lives.get(name)
            member.is_follower = name in followers
        self.takes_writes = self._in_sync.has_minimum and not self._hands_over
        self._list_union()

    def _list_union(self) -> None:
        union = self._in_sync.union
        for member in self._members.values():
            member.is_counted = member.name in union
        self._others = tuple(member for member in self._members.values() if member.is_counted)

    # ---- who should be in sync

    def _propose(self, now_ms: int) -> list[Effect]:
        """Proposes a change of the in-sync set that is due, or repeats an open proposal (R7)."""
        lag_ms_max = self._in_sync.group.node.settings.lag_ms_max
        known = self._in_sync.known
        bar = max(self._log.confirm, self.start)
        joining, leaving = set(), set()
        for member in self._members.values():
            is_late = now_ms - member.heard_ms >= SILENCE_MS or now_ms - member.caught_up_ms > lag_ms_max
            is_late |= self._is_sync and now_ms - member.flushing_ms >= HANGS_MS
            if member.name in known:
                if member.is_gone or is_late:
                    leaving.add(member.name)
            elif not (is_late or member.is_gone or member.is_follower) and member.may_join(bar, self._is_sync):
                joining.add(member.name)
        proposal = self._in_sync.propose(joining=frozenset(joining), leaving=frozenset(leaving), now_ms=now_ms)
        if proposal is None:
            return []
        self._list_union()
        return [proposal]
