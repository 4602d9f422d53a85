"""One life of a broker: the shipped replica and its cores on a simulated disk and port, and the little of the broker
around them that replication rests on: appends, replies that wait, what is said to the controller.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Protocol, cast

from zenitmq.broker.controller_link import HeartbeatFacts, Life
from zenitmq.broker.flush_waits import FlushWaits
from zenitmq.broker.replication.port import ReplicationPort
from zenitmq.broker.replication.replica import SESSION_SHIFT, TICK_MS, ControllerCalls, Replica, ReplicaIdentity
from zenitmq.broker.replication.replica_log import ReplicaLog
from zenitmq.broker.replication.role import Role
from zenitmq.broker.replication.slave import Phase
from zenitmq.model.errors import NotEnoughReplicas, NotMaster, StoreNotWriteable, ZenitError
from zenitmq.model.group import AckMode, FlushMode, GroupNode, Incarnation, KnownGroup
from zenitmq.model.group_codec import decode_node
from zenitmq.remoting.commands import Done, FlushLog

from .disk import NO_END, Disk, DiskShell
from .ledger import Ledger, Violation
from .records import RECORD, SEGMENT, SimulatedRecord, decode
from .schedule import Host
from .sockets import Harbour, SimulatedSockets
from .wire import Call, SimulatedClient, SimulatedLoop

CLUSTER: Final = "sim"
CHECKPOINT_MS: Final = 1000
GROUP: Final = "broker-a"
assert SESSION_SHIFT == 32

Answer = Callable[[int | ZenitError], None]
"""Told the physical offset of a message that was acknowledged, or why it was not."""


@lru_cache(maxsize=64)
def node_of(data: bytes) -> GroupNode:
    """A node's bytes, which many look at."""
    return decode_node(data, GROUP)


class World(Harbour, Protocol):
    """What a broker finds around it."""

    ledger: Ledger
    disk_latency_ms: float
    is_forced: bool
    """An election was forced, so that messages are lost: who holds them halts."""

    def living(self, name: str) -> Broker | None:
        """The life of that machine's broker; None where there is none, or it cannot be reached."""

    def on_master(self, broker: Broker, epoch: int) -> None:
        """It begins to lead."""

    def on_exit(self, broker: Broker) -> None:
        """The process ends by itself: an fsync has failed."""


class Broker(Host):
    """`replica`: the shipped shell. `waiting`: (end in the log, answer) of sends that are not acknowledged."""

    def __init__(
        self, world: World, name: str, disk: Disk, *, rate: float = 1.0, flush_ms: int = 40, wants_lz4: bool = False
    ) -> None:
        super().__init__(world.schedule, name, rate=rate)
        self.world = world
        self.disk = disk
        self.confirm_seen = self.checked = self.acknowledged = 0
        self.waiting: deque[tuple[int, Answer]] = deque()
        self.is_sync = False
        self._settles_at: int | None = None
        self._full_ms: int | None = None
        self._queues: tuple[int, dict[int, int]] = (0, {})
        disk.start()
        self._confirm_heard = disk.remembered
        self.incarnation = Incarnation(disk.store_id, disk.starts)
        self.token = f"life-{name}-{world.next_number()}"
        self.loop = SimulatedLoop(world, self, f"{name}:10911")
        self.client = SimulatedClient(world, self)
        self.loop.handle(FlushLog, self._on_flush_log)
        self.flush_waits = FlushWaits(
            cast(Any, self.loop), LogOf(self), broker_name=GROUP, name=name, incarnation=self.incarnation
        )
        self.shell = DiskShell(disk, self, latency_ms=world.disk_latency_ms, on_fsync_failed=self._on_fsync_failed)
        self.shell.on_flush_done = self._on_flush_done
        self.has_hole = bool(disk.behind)
        replica_log = ReplicaLog(begin=disk.begin, epochs=disk.epochs, has_hole=self.has_hole)
        replica_log.on_position(*self.shell.position())
        replica_log.confirm = disk.confirm_at_start()
        identity = ReplicaIdentity.of(CLUSTER, GROUP, name, self.incarnation)
        self.group_key = identity.group
        self.replica = Replica(
            identity,
            self.shell,
            self,
            replica_log=replica_log,
            promised=disk.promised,
            segment_bytes=SEGMENT,
            wants_lz4=wants_lz4,
        )
        self.sockets = SimulatedSockets(world, self, self.loop)
        self.replica.port = ReplicationPort(
            f"{name}:10912", cast(Any, self.loop), self.replica, sockets=cast(Any, self.sockets)
        )
        self.replica.host = self
        self._flush_ms = flush_ms

    def begin(self, controller: ControllerCalls) -> None:
        """Carries an open cut through, and starts the timers."""
        self.replica.controller = controller
        self.replica.start(self.disk.intent)
        self.every(TICK_MS, self.tick)
        self.every(self._flush_ms, self.shell.flush)
        self.every(CHECKPOINT_MS, self.remember)

    def end(self, *, quietly: bool = False) -> None:
        """The process is killed; `quietly`: with its machine, so that nobody's socket is closed."""
        if not quietly:
            self.sockets.on_killed()
            self.loop.on_killed()
            self.client.on_killed()
        self.alive = False
        self.world.ledger.on_deposed(self)

    # ---- events

    def life(self) -> Life:
        """Who registers, and what the last life left."""
        disk = self.disk
        return Life(
            address=f"{self.name}:10911",
            replication_address=f"{self.name}:10912",
            incarnation=self.incarnation,
            clean_marker=disk.is_clean(),
            marker_end=disk.clean_end if disk.is_clean() else NO_END,
            same_boot=disk.noted_boot_id == disk.boot_id,
            ran_async=disk.ran_async,
            set_back=disk.set_back,
            group_id=disk.group_id,
            has_hole=self.has_hole,
            confirm_heard=self._confirm_heard,
        )

    def heartbeat_facts(self) -> HeartbeatFacts:
        """As the broker's own group member says them."""
        replica, now_ms = self.replica, self.monotonic_ms()
        is_full = self.disk.is_full or self.disk.is_brimful
        if is_full != (self._full_ms is not None):
            self._full_ms = now_ms if is_full else None
        rows = replica.log.epochs.rows
        newest_epoch, newest_begin = (rows[-1].number, rows[-1].begin) if rows else (0, 0)
        return HeartbeatFacts(
            replica.epoch,
            replica.log.end,
            replica.log.confirm,
            sync_pending_ms=self.shell.sync_pending_ms,
            no_room_ms=0 if self._full_ms is None else now_ms - self._full_ms + 1,
            cut_off_ms=replica.cut_off_ms,
            newest_epoch=newest_epoch,
            newest_begin=newest_begin,
        )

    def on_group_read(self, known: KnownGroup) -> None:
        """The controllers' link hands on what is new: this life is registered by then."""
        self.disk.note_registered(known.node.group_id)
        self.on_group(known)

    def on_group(self, known: KnownGroup) -> None:
        """The node was read."""
        self.is_sync = known.node.settings.flush_mode is FlushMode.SYNC
        if not self.is_sync:
            self.disk.ran_async = True
        self.replica.on_group(known)
        self.turn()

    def tick(self) -> None:
        """A tick of the replica's."""
        if self.replica.log.begin != self.disk.begin:
            self.replica.on_log_begin(self.disk.begin)
        self.replica.on_tick()
        self.flush_waits.on_tick(self.monotonic_ms())
        self.turn()

    def turn(self) -> None:
        """The end of a turn of the loop: what there is more to send is sent."""
        replica = self.replica
        if replica._slave.phase is Phase.HALTED and not self.world.is_forced:
            raise Violation(f"I6: {self.name} was asked to cut below its guard, {replica.log}")
        while replica.master is not None and replica.master.has_more:
            replica.on_written()

    def remember(self) -> None:
        """A checkpoint."""
        self.disk.remember(self.replica.log.confirm)

    def _on_flush_done(self) -> None:
        self.replica.on_flushed()
        self.flush_waits.on_flushed()
        self._note_settled()
        if self.is_sync and self.shell.position()[1] < len(self.disk.log):
            self.shell.flush()

    def _on_flush_log(self, call: Call) -> Done | None:
        """A controller asks whether the disk has everything."""
        return self.flush_waits.on_flush_log(cast(Any, call), cast(FlushLog, call.request), self.monotonic_ms())

    def _on_fsync_failed(self) -> None:
        self.world.on_exit(self)

    # ---- producers

    def on_send(self, producer: int, queue: int, sequence: int, answer: Answer) -> None:
        """A message; `answer` is called once, now or later, if this life lasts."""
        master = self.replica.master
        if master is None:
            answer(NotMaster(GROUP, self.replica.epoch))
            return
        if not master.takes_writes:
            answer(NotEnoughReplicas(1, 2))
            return
        if self.disk.is_full or self.disk.is_brimful:
            answer(StoreNotWriteable("disk full"))
            return
        self.append(producer, queue, sequence)
        self.waiting.append((len(self.disk.log), answer))
        self.replica.on_written()
        self.turn()
        if self.is_sync:
            self.shell.flush()

    def append(self, producer: int, queue: int, sequence: int) -> None:
        """One record, at the end of the log; its queue offset follows from the log alone (R13)."""
        ends = self._queue_ends()
        offset = ends.get(queue, 0)
        record = SimulatedRecord(self.world.next_number(), self.replica.epoch, producer, queue, sequence, offset)
        self.disk.append(record.encode())
        ends[queue] = offset + 1
        self._queues = (len(self.disk.log), ends)

    def _queue_ends(self) -> dict[int, int]:
        """The end of each queue: kept while only this replica's appends have changed the log."""
        at, ends = self._queues
        log = self.disk.log
        if at != len(log):
            ends = self.world.ledger.queue_ends_at(self.disk.begin)
            for begin in range(self.disk.begin, len(log), RECORD):
                record = decode(log, begin)
                ends[record.queue] = record.queue_offset + 1
        return ends

    # ---- from the replica

    def on_role(self, role: Role, epoch: int) -> None:
        """What it is from now on. Who waits for a deposed master is told to look for another."""
        self._queues = (-1, {})
        self._settle(role)
        if role is Role.MASTER:
            self.acknowledged = 0
            self.world.ledger.on_master(self, epoch)
            self.world.on_master(self, epoch)
            return
        self.world.ledger.on_deposed(self)
        waiting, self.waiting = self.waiting, deque()
        for _, answer in waiting:
            answer(NotMaster(GROUP, epoch))

    def _settle(self, role: Role) -> None:
        """As the broker's own group member does (R9)."""
        self._settles_at = None
        if self.is_sync and role is not Role.CANDIDATE and self.disk.ran_async:
            self._settles_at = len(self.disk.log)
            self.shell.flush()
            self._note_settled()

    def _note_settled(self) -> None:
        if self._settles_at is not None and self.shell.position()[1] >= self._settles_at:
            self._settles_at = None
            self.disk.ran_async = False

    def on_confirmed(self, offset: int) -> None:
        """Everything below may be read."""
        self.world.ledger.on_confirm(self, offset, self.replica.log.end)

    def on_acknowledged(self) -> None:
        """Sends may be answered."""
        replica = self.replica
        master, end = replica.master, replica.acknowledged
        if master is None:
            return
        known = replica.known
        begin = max(master.start, self.acknowledged)
        if end > begin and known is not None and known.node.settings.ack_mode is AckMode.ALL:
            self.world.ledger.on_acknowledged(self, begin, end)
        self.acknowledged = end
        while self.waiting and self.waiting[0][0] <= end:
            at, answer = self.waiting.popleft()
            answer(at - RECORD)

    def check(self) -> None:
        """Everything readable here is what was seen; told by who looks at a replica between its events."""
        log = self.replica.log
        if log.end != len(self.disk.log) and self.replica._on_disk is None:
            raise Violation(f"{self.name} believes its log ends at {log.end}, it ends at {len(self.disk.log)}")
        self.world.ledger.on_confirm(self, log.confirm, min(log.end, len(self.disk.log)))


class LogOf:
    """A replica's log, as `FlushWaits` sees it."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    @property
    def written(self) -> int:
        """The end of the log."""
        return len(self._broker.disk.log)

    @property
    def flushed(self) -> int:
        """Everything below was flushed by this process."""
        return self._broker.shell.position()[1]

    def request_flush(self) -> None:
        """Of all that is written."""
        self._broker.shell.flush()
