"""A broker's part in its replica group: carries out the effects of the cores, and passes events to them.

    controller --node--> RoleState --Lead/Follow--> MasterState | SlaveState --effects--> port, disk, broker

All on the loop's thread. Effects are carried out in the order in which they were returned. An effect on the disk is
handed back to the core that returned it once it is durable, before the next one begins. Effects on the
broker go to its `ReplicaHost`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ...model.clock import Clock
from ...model.errors import CorruptRecordError, OffsetOutOfRange, RemoteProtocolError, StoreNotWriteable
from ...model.events.table import REPLICATION_HALTED, WRITES_REFUSED, WRITES_TAKEN
from ...model.events.telling import tell
from ...model.groups.group import Incarnation, KnownGroup
from ...model.repeated_news import RepeatedNews
from ...store.opening.small_file import NO_ROOM_RETRY_MS
from . import effects as fx
from .chunk_pacing import CutAt
from .chunk_payload import ChunkEncoder
from .effects import DiskEffect, Effect
from .frames import Ack, Frame, Opening, RefusalReason, group_key
from .master import MasterState, refusal
from .port import ReplicationPort
from .replica_log import ReplicaLog
from .role import Role, RoleState
from .slave import Phase, SlaveState

log = logging.getLogger(__name__)

TICK_MS: Final = 25
UNHEARD_MS: Final = 10_000
"""If nothing is heard of the master for this long, the log names it."""
SESSION_SHIFT: Final = 32
"""A process begins its session numbers at its shifted start counter: above those of all earlier incarnations (R14)."""


class ReplicaDisk(Protocol):
    """Carries out disk effects: on the store, and on the replica's own files."""

    def perform(self, effect: DiskEffect, on_done: Callable[[], None]) -> None:
        """Carries out an effect and calls `on_done` on the loop's thread: before it returns, or later.

        Raises StoreNotWriteable if the disk has no room: nothing has changed, and `on_done` is not called.
        """

    def withdraw(self, effect: DiskEffect) -> bool:
        """Cancels a pending effect that has changed nothing yet: True, and `on_done` will not be called. Otherwise False, and
        the effect goes on."""

    def position(self) -> tuple[int, int]:
        """(end, flushed) of the log."""

    def read(self, begin: int, end: int) -> memoryview:
        """Bytes of the log. Raises OffsetOutOfRange if retention was faster, CorruptRecordError if the log is damaged there,
        RemoteProtocolError if no record begins at `begin`."""

    def cut_at(self, begin: int, limit: int) -> int:
        """The end of the last whole record in [begin, limit); if the first record is longer, its end."""


class ReplicaController(Protocol):
    """Messages of the replica to the leading controller; no method waits."""

    @property
    def is_linked(self) -> bool:
        """It answers."""

    @property
    def elects(self) -> bool:
        """It may elect another master; False of a static master's group."""

    def beat(self) -> None:
        """Sends a heartbeat now."""

    def propose_in_sync(self, version: int, names: tuple[str, ...]) -> None:
        """Proposes another in-sync set, on condition of the node's version."""

    def report_master_gone(self, master: str, epoch: int) -> None:
        """Reports that the master's end closed our session."""

    def ask(self) -> None:
        """Reads the node."""


class ReplicaHost(Protocol):
    """The broker, as the replica sees it."""

    def on_role(self, role: Role, epoch: int) -> None:
        """The role that we have from now on."""

    def on_confirmed(self, offset: int) -> None:
        """Everything below may be read."""

    def on_acknowledged(self) -> None:
        """`GroupReplica.acknowledged` has grown."""


@dataclass(frozen=True, slots=True)
class ReplicaIdentity:
    """This replica's name in the group, its present incarnation, and the group's key on the wire."""

    name: str
    incarnation: Incarnation
    group: int

    @classmethod
    def of(cls, cluster: str, broker_name: str, name: str, incarnation: Incarnation) -> ReplicaIdentity:
        """The identity of a replica in a group of a cluster."""
        return cls(name, incarnation, group_key(cluster, broker_name))


class GroupReplica:
    """One replica. Give it its port, its controller and its host before `start`. Loop thread."""

    port: ReplicationPort
    controller: ReplicaController
    host: ReplicaHost

    def __init__(
        self,
        identity: ReplicaIdentity,
        disk: ReplicaDisk,
        clock: Clock,
        *,
        replica_log: ReplicaLog,
        promised: int,
        segment_bytes: int,
        wants_lz4: bool,
    ) -> None:
        """`replica_log`: with the recovered epochs, and begin, end and flushed of the store. `segment_bytes`: of its existing
        files, whatever size new ones would get."""
        self.log = replica_log
        self.master: MasterState | None = None
        self.halted: str | None = None  # why it takes no part in the present term, and what an operator can do
        self._identity = identity
        self._disk = disk
        self._clock = clock
        self._segment_bytes = segment_bytes
        self._role = RoleState(identity.name, identity.incarnation, replica_log, promised=promised)
        self._slave = SlaveState(
            identity.name,
            group=identity.group,
            incarnation=identity.incarnation,
            log=replica_log,
            session=identity.incarnation.starts << SESSION_SHIFT,
            segment_bytes=segment_bytes,
            wants_lz4=wants_lz4,
        )
        self._waiting: deque[tuple[Effect, object]] = deque()  # effects, each with the core that returned it
        self._on_disk: tuple[DiskEffect, object] | None = None
        self._lacks_room = False  # on the disk, and the log says so
        self._retry_ms: int | None = None  # when a disk effect that had no room is tried again
        self._is_performing = False
        self._chunk_encoder = ChunkEncoder(disk.read, lambda data: self.port.shared(data))
        self._news = RepeatedNews()
        self._ack: Ack | None = None  # sent after all frames received together are handled
        self._carriers: dict[type[Effect], Callable[[Any, object], None]] = {
            fx.SendFrame: self._send_frame,
            fx.SendChunk: self._send_chunk,
            fx.OpenSession: self._open_session,
            fx.CloseSession: self._close_session,
            fx.ProposeInSync: self._propose,
            fx.TellMasterGone: self._report,
            fx.AskController: self._ask,
            fx.ConfirmMoved: self._confirm,
            fx.Acknowledge: self._acknowledge,
            fx.WritesAllowed: self._allow_writes,
            fx.Halt: self._halt,
            fx.Lead: self._lead,
            fx.StopLeading: self._stop_leading,
            fx.Follow: self._follow,
            fx.StopFollowing: self._stop_following,
            fx.Stopped: self._stopped,
        }

    # ---- what the broker asks

    @property
    def role(self) -> Role:
        """Candidate, slave or master."""
        return self._role.role

    @property
    def epoch(self) -> int:
        """The newest promised epoch."""
        return self._role.promised

    @property
    def takes_writes(self) -> bool:
        """We are master, and as many replicas are in sync as the group requires."""
        return self.master is not None and self.master.takes_writes

    @property
    def acknowledged(self) -> int:
        """Sends that end at or below this offset may be answered."""
        return -1 if self.master is None else self.master.acknowledged

    @property
    def follows(self) -> bool:
        """Its session with its master is open, and the log is the master's as far as it goes."""
        return self._slave.phase is Phase.STREAMING

    @property
    def cut_off_ms(self) -> int:
        """For how long nothing was heard of our master or, if we are master, of too few slaves for the minimum."""
        return (self._slave if self.master is None else self.master).cut_off_ms(self._now())

    @property
    def known(self) -> KnownGroup | None:
        """The newest adopted news of the group."""
        return self._role.known

    # ---- events

    def start(self, intent: fx.PersistIntent | None) -> None:
        """The process has started; `intent`: a cut that was in progress when the former process ended."""
        self._perform(self._role.on_start(intent), self._role)

    def on_group(self, known: KnownGroup) -> None:
        """The node was read."""
        self._perform(self._role.on_group(known), self._role)
        if self.master is not None:
            self._perform(self.master.on_group(known, self._now()), self.master)

    def on_written(self) -> None:
        """The master's log has grown: slaves get the new part, and positions may move."""
        self.log.on_position(*self._disk.position())
        if self.master is not None:
            self._perform(self.master.on_turn(self._now()), self.master)

    def on_flushed(self) -> None:
        """More of the log is on the disk."""
        _, flushed = self._disk.position()
        self.log.on_flushed(flushed)
        if self.master is not None:
            self._perform(self.master.on_turn(self._now()), self.master)
        else:
            self._perform(self._slave.on_flushed(), self._slave)
            self._send_ack()

    def on_tick(self) -> None:
        """Called about every TICK_MS."""
        if self._retry_ms is not None and self._now() >= self._retry_ms:
            self._perform_again()
        if self.master is not None:
            self._perform(self.master.on_tick(self._now()), self.master)
        self._perform(self._slave.on_tick(self._now()), self._slave)
        self._send_ack()
        self._chunk_encoder.forget()
        if self.master is None:
            self._tell_unheard()

    def _tell_unheard(self) -> None:
        """Logs a silent master: another process may have its address, or it does not know us as its slave, and so does
        not answer."""
        for_ms, master = self._slave.cut_off_ms(self._now()), self._slave.master
        if for_ms < UNHEARD_MS or master is None or not self._news.count_to_tell(master, "unheard", self._now()):
            return
        log.warning(
            "nothing is heard of the master: is its replication port reached from here, and are `cluster` and `name` the same"
            " there? master=%s epoch=%s for_ms=%s",
            *(master, self._slave.epoch, for_ms),
        )

    def on_log_begin(self, begin: int) -> None:
        """Retention has moved the log's begin."""
        self.log.begin = begin
        if self.master is not None:
            self._perform(self.master.on_log_begin(), self.master)

    def on_damaged(self, ranges: tuple[tuple[int, int], ...]) -> None:
        """Exactly these ranges of the log cannot be sent to slaves now."""
        self.log.damaged = ranges
        self._chunk_encoder.forget()

    def leave(self) -> None:
        """The process is about to end: it says so to its master, which takes it out of the in-sync set."""
        self._perform(self._slave.on_goodbye(), self._slave)

    # ---- from the port

    def on_slave_frame(self, peer: str, frame: Frame) -> None:
        """A frame from a slave."""
        if isinstance(frame, Opening) and frame.group != self._identity.group:
            if self._news.count_to_tell(peer, "another group", self._now()):
                log.warning(
                    "a replica asks to follow a master of another group: its settings `cluster` and `name` are not ours, or"
                    " our address was another's; it is not answered replica=%s",
                    peer[:64],
                )
        elif self.master is not None:
            self._perform(self.master.on_frame(peer, frame, self._now()), self.master)
        elif isinstance(frame, Opening):
            refused = refusal(frame, RefusalReason.OTHER_EPOCH, epoch=self._role.promised)
            self.port.send_to_slave(refused.peer, refused.frame)

    def on_bad_slave_frame(self, peer: str, session: int) -> None:
        """Invalid bytes from a slave."""
        if self.master is not None:
            self._perform(self.master.on_bad_frame(peer, session), self.master)

    def on_master_frame(self, frame: Frame, data: bytes | memoryview) -> None:
        """A frame from our master."""
        self._perform(self._slave.on_frame(frame, self._now(), data), self._slave)

    def on_master_drained(self) -> None:
        """All received frames were passed on: one ack answers them."""
        self._send_ack()

    def on_bad_master_frame(self, session: int) -> None:
        """Invalid bytes from the master."""
        self._perform(self._slave.on_bad_frame(session, self._now()), self._slave)

    def on_master_lost(self, session: int) -> None:
        """The connection has ended."""
        self._perform(self._slave.on_socket_closed(session, self._now()), self._slave)

    # ---- effects

    def _now(self) -> int:
        return self._clock.monotonic_ms()

    def _perform(self, asked: list[Effect], core: object) -> None:
        """Carries out effects, after those that already wait."""
        if asked:
            self._waiting.extend((effect, core) for effect in asked)
            if not self._is_performing:
                self._perform_waiting()

    def _perform_waiting(self) -> None:
        self._is_performing = True
        try:
            while self._waiting and (self._on_disk is None or self._withdraw_beginning()):
                effect, core = self._waiting.popleft()
                if isinstance(effect, DiskEffect):
                    self._perform_on_disk(effect, core)
                else:
                    self._carriers[type(effect)](effect, core)
        finally:
            self._is_performing = False

    def _withdraw_beginning(self) -> bool:
        """The state with which a slave begins anew comes from its master, which may be gone. A replica that no longer
        follows it, or becomes master, stops waiting for the state. The log is unchanged."""
        assert self._on_disk is not None
        effect, core = self._on_disk
        is_waited_for = isinstance(effect, fx.StartAnew) and any(
            isinstance(after, fx.StopFollowing) for after, _ in self._waiting
        )
        if not is_waited_for or not self._disk.withdraw(effect):
            return False
        assert core is self._slave
        log.warning("not beginning anew: another epoch has begun")
        self._on_disk = None
        self._slave.on_withdrawn()
        return True

    def _perform_on_disk(self, effect: DiskEffect, core: object) -> None:
        self._on_disk, self._retry_ms = (effect, core), None
        try:
            self._disk.perform(effect, self._on_disk_done)
        except StoreNotWriteable as error:
            self._on_no_room(effect, core, error)

    def _on_no_room(self, effect: DiskEffect, core: object, error: StoreNotWriteable) -> None:
        """A slave takes a chunk back. An effect that must be carried out waits for room, and so do all later ones."""
        if not self._lacks_room:
            log.warning(
                "waiting for room on the disk effect=%s log_end=%s why=%s", type(effect).__name__, self.log.end, error
            )
        self._lacks_room = True
        follows = self._slave.on_no_room(effect, self._now()) if core is self._slave else None
        if follows is None:
            self._retry_ms = self._now() + NO_ROOM_RETRY_MS
            return
        self._on_disk = None
        self._waiting.extend((after, core) for after in follows)

    def _perform_again(self) -> None:
        assert self._on_disk is not None
        self._is_performing = True
        try:
            self._perform_on_disk(*self._on_disk)
        finally:
            self._is_performing = False
        self._perform_waiting()

    def _on_disk_done(self) -> None:
        assert self._on_disk is not None
        (effect, core), self._on_disk = self._on_disk, None
        self._lacks_room = False
        self.log.on_position(*self._disk.position())
        found = self._slave.on_done(effect, self._now()) if core is self._slave else self._role.on_done(effect)
        self._waiting.extend((follows, core) for follows in found)
        if not self._is_performing:
            self._perform_waiting()

    def _send_frame(self, effect: fx.SendFrame, core: object) -> None:
        if core is not self._slave:
            if not self.port.send_to_slave(effect.peer, effect.frame):
                self._on_unreachable(effect.peer, effect.frame.session)
        elif isinstance(effect.frame, Ack):
            self._ack = effect.frame
        else:
            self.port.send_to_master(effect.frame)

    def _send_ack(self) -> None:
        """Of several acks together the last one is enough; an ack of a session that has ended is dropped."""
        ack, self._ack = self._ack, None
        if ack is not None:
            self.port.send_to_master(ack)

    def _close_session(self, effect: fx.CloseSession, core: object) -> None:
        if core is self._slave:
            self._ack = None
            self.port.close_dealer()
        else:
            self.port.forget(effect.peer, effect.session)

    def _send_chunk(self, effect: fx.SendChunk, _core: object) -> None:
        peer, chunk = effect.peer, effect.chunk
        try:
            sealed, payload = self._chunk_encoder.seal(chunk)
        except CorruptRecordError as error:  # the store has reported where: `on_damaged`
            log.warning("a slave waits before damage replica=%s begin=%s error=%s", peer, chunk.begin, error)
            if self.master is not None:
                self.master.on_unsent(peer, chunk.session, chunk.begin)
            return
        except RemoteProtocolError as error:
            log.error("a slave's session ends replica=%s error=%s", peer, error)
            if self.master is not None:
                self._perform(self.master.on_bad_frame(peer, chunk.session), self.master)
            return
        except OffsetOutOfRange as error:
            log.warning("cannot send to a slave replica=%s begin=%s error=%s", peer, chunk.begin, error)
            self._on_unreachable(peer, chunk.session)
            return
        if not self.port.send_to_slave(peer, sealed, (payload,)):
            self._on_unreachable(peer, chunk.session)

    def _on_unreachable(self, peer: str, session: int) -> None:
        if self.master is not None:
            self._perform(self.master.on_unreachable(peer, session, self._now()), self.master)

    def _open_session(self, effect: fx.OpenSession, _core: object) -> None:
        known = self._role.known
        replica = None if known is None else known.node.replica(effect.peer)
        if replica is None:
            log.warning("the master is not among the replicas master=%s", effect.peer)
            return
        self.port.open_dealer(replica.replication_address, effect.session)

    def _propose(self, effect: fx.ProposeInSync, _core: object) -> None:
        log.info("in-sync set proposed version=%s names=%s", effect.version, effect.names)
        self.controller.propose_in_sync(effect.version, effect.names)

    def _report(self, effect: fx.TellMasterGone, _core: object) -> None:
        log.warning("the master's end closed our session master=%s epoch=%s", effect.peer, effect.epoch)
        self.controller.report_master_gone(effect.peer, effect.epoch)

    def _ask(self, _effect: fx.AskController, _core: object) -> None:
        self.controller.ask()

    def _confirm(self, effect: fx.ConfirmMoved, _core: object) -> None:
        self.host.on_confirmed(effect.offset)

    def _acknowledge(self, _effect: fx.Acknowledge, _core: object) -> None:
        self.host.on_acknowledged()

    def _allow_writes(self, effect: fx.WritesAllowed, _core: object) -> None:
        tell(log, WRITES_TAKEN if effect.allowed else WRITES_REFUSED, epoch=self.epoch)

    def _halt(self, effect: fx.Halt, _core: object) -> None:
        reason = str(effect.reason)
        if reason != self.halted:
            tell(log, REPLICATION_HALTED, epoch=self.epoch, why=reason)
        self.halted = reason

    def _lead(self, effect: fx.Lead, _core: object) -> None:
        known = self._role.known
        assert known is not None
        self.halted = None
        cut_at: CutAt = self._disk.cut_at
        self.master = MasterState(
            self._identity.name,
            group_key=self._identity.group,
            group=known,
            log=self.log,
            segment_bytes=self._segment_bytes,
            cut_at=cut_at,
            now_ms=self._now(),
        )
        log.warning("leading epoch=%s start=%s in_sync=%s", effect.epoch, effect.start, known.node.in_sync)
        self.host.on_role(Role.MASTER, effect.epoch)
        self._perform(self.master.on_turn(self._now()), self.master)

    def _stop_leading(self, _effect: fx.StopLeading, _core: object) -> None:
        log.warning("leading no more epoch=%s", self.epoch)
        self.master = None
        self.port.forget_all()
        self._chunk_encoder.forget()
        self.host.on_role(Role.CANDIDATE, self.epoch)

    def _follow(self, effect: fx.Follow, _core: object) -> None:
        log.info("following master=%s epoch=%s", effect.master, effect.epoch)
        self.halted = None
        self.host.on_role(Role.SLAVE, effect.epoch)
        self._perform(self._slave.on_master(effect.master, effect.epoch, self._now()), self._slave)

    def _stop_following(self, _effect: fx.StopFollowing, _core: object) -> None:
        self._perform(self._slave.on_stop(), self._slave)

    def _stopped(self, _effect: fx.Stopped, _core: object) -> None:
        self._perform(self._role.on_stopped(), self._role)
