"""One life of a broker: the shipped group member with all below it on a simulated store, and the little of the broker
around it that replication rests on: appends, replies that wait, the end of the process and its next beginning.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final, Protocol, cast

from zenitmq.broker.group.beginning_anew import carry_through_cut
from zenitmq.broker.group.controller_link import HeartbeatFacts, Life
from zenitmq.broker.group.group_member import GroupMember
from zenitmq.broker.replication.replica import SESSION_SHIFT, ReplicaController
from zenitmq.broker.replication.replica_files import ReplicaFiles
from zenitmq.model.errors import NotEnoughReplicas, NotMaster, StoreNotWriteable, StorePoisoned, ZenitError
from zenitmq.model.groups.group import AckMode, GroupNode, KnownGroup
from zenitmq.model.groups.group_codec import decode_node
from zenitmq.model.route import MASTER_ID
from zenitmq.remoting.commands import FlushLog, GetBeginning
from zenitmq.remoting.request_rows import row
from zenitmq.store.opening.small_file import NO_ROOM_RETRY_MS, needs_room

from .disk import Disk
from .ledger import Ledger, Violation
from .records import RECORD, SimulatedRecord
from .schedule import MS, Host
from .small_files import SimulatedDirectory
from .sockets import Harbour, SimulatedSockets
from .store import SimulatedStore
from .wire import SimulatedClient, SimulatedLoop

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

    def new_loop(self, host: Host, address: str) -> SimulatedLoop:
        """For a process that listens there."""

    def living(self, name: str) -> Broker | None:
        """The life of that machine's broker; None where there is none, or it cannot be reached."""

    def on_master(self, broker: Broker, epoch: int) -> None:
        """It begins to lead."""

    def on_exit(self, broker: Broker) -> None:
        """The process ends by itself: an fsync has failed."""

    def on_reopen(self, broker: Broker) -> None:
        """Its store must be closed and opened anew, in another life."""

    def on_drained(self, broker: Broker) -> None:
        """It has handed over, and is to end."""


@dataclass(frozen=True, slots=True)
class MemberConfig:
    """`BrokerConfig`, as far as the group member looks at it."""

    replica_name: str
    replication_lz4: bool
    is_follower: bool = False
    name: str = GROUP
    cluster: str = CLUSTER
    listen_host: str = ""
    replication_port: int = 10912

    @property
    def host(self) -> str:
        """Where it listens."""
        return self.replica_name

    def address_at(self, port: int) -> str:
        """What others are told."""
        return f"{self.host}:{port}"


class Broker(Host):
    """`member`: the shipped one; `waiting`: (end in the log, answer) of sends that are not acknowledged.

    A process on this disk may end while it starts: raises Died; OSError where there is no room.
    """

    def __init__(
        self,
        world: World,
        name: str,
        disk: Disk,
        *,
        rate: float = 1.0,
        flush_ms: int = 40,
        wants_lz4: bool = False,
        is_follower: bool = False,
    ) -> None:
        super().__init__(world.schedule, name, rate=rate)
        self.world = world
        self.disk = disk
        self.confirm_seen = self.checked = self.acknowledged = 0
        self.waiting: deque[tuple[int, Answer]] = deque()
        self.is_reopening = False
        self._queues: tuple[int, dict[int, int]] = (-1, {})
        self._flush_ms = flush_ms
        self.token = f"life-{name}-{world.next_number()}"
        directory = SimulatedDirectory(disk, self._stand_still)
        files = ReplicaFiles.open(
            directory.path, small_files=directory.small_files, new_store_id=lambda: disk.new_store_id
        )
        carry_through_cut(files, directory)
        self.loop = world.new_loop(self, f"{name}:10911")
        self.loop.on_turn_end = self.turn
        self.client = SimulatedClient(world, self)
        self.sockets = SimulatedSockets(world, self, self.loop)
        self.store = SimulatedStore(
            disk,
            self,
            latency_ms=world.disk_latency_ms,
            on_flushed=lambda: self.loop.post(self.member.on_flushed),
            on_poisoned=self._on_poisoned,
            on_confirmed=self._on_confirmed,
        )
        self.is_started = self.is_registered = False
        self.member = member = GroupMember(
            cast(Any, MemberConfig(name, wants_lz4, is_follower)),
            loop=cast(Any, self.loop),
            clock=self,
            store=cast(Any, self.store),
            files=files,
            directory=directory,
            client=cast(Any, self.client),
            sockets=cast(Any, self.sockets),
            host=self,
        )
        self.incarnation = files.incarnation
        self.replica = member._replica
        self.group_key = self.replica._identity.group
        self.loop.handle(FlushLog, cast(Any, member.on_flush_log))
        self.loop.handle(GetBeginning, member.gate.guarded(row(GetBeginning, member.beginning_source.on_get_beginning)))

    def begin(self, controller: ReplicaController) -> None:
        """Starts the timers."""
        self.is_started = True
        self.member.start(controller)
        self.loop.every(self._flush_ms, self.store.request_flush)
        self.loop.every(CHECKPOINT_MS, self.store.write_checkpoint)

    def end(self, *, quietly: bool = False) -> None:
        """The process is killed; `quietly`: with its machine, so that nobody's socket is closed."""
        if not quietly:
            self.sockets.on_killed()
            self.loop.on_killed()
            self.client.on_killed()
        self.alive = False
        self.world.ledger.on_deposed(self)

    def stop(self) -> None:
        """All that a clean stop does. Raises Died."""
        self.member.close()
        self.store.close()
        with suppress(StoreNotWriteable):
            self.member.mark_clean()

    # ---- events

    def life(self) -> Life:
        """Who registers, and what the last life left."""
        return self.member.life(f"{self.name}:10911")

    def heartbeat_facts(self) -> HeartbeatFacts:
        """As they are told."""
        return self.member.heartbeat_facts()

    def on_group(self, known: KnownGroup) -> None:
        """The node was read: this life is registered by then."""
        self.member.on_group(known)
        self.disk.unheard = self.disk.awaits_hearing = False

    def on_registered(self, group_id: str) -> None:
        """The controller has heard of this life; nobody has told it of the node yet."""
        self.member.files.note_registered(group_id)
        self.store.forget_remembered_confirm()
        self.is_registered = True

    def turn(self) -> None:
        """The end of a turn of the loop: what there is more to send is sent."""
        replica = self.replica
        if replica.halted is not None and not self.world.is_forced:
            raise Violation(f"I6: {self.name} was asked to cut below its guard, {replica.log}")
        master = replica.master
        if replica.log.end != len(self.disk.log) or (master is not None and master.has_more):  # else it does nothing
            self.member.on_turn()

    def _on_poisoned(self, error: StorePoisoned) -> None:
        self.member.on_disk_failed()
        self.world.on_exit(self)

    def _stand_still(self) -> None:
        """The loop waits for the disk."""
        self.pause(int(self.world.disk_latency_ms * self.schedule.rng.random() * MS))

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
        try:
            self.append(producer, queue, sequence)
        except StoreNotWriteable as error:
            answer(error)
            return
        self.waiting.append((len(self.disk.log), answer))
        self.turn()

    def append(self, producer: int, queue: int, sequence: int) -> None:
        """One record, at the end of the log; its queue offset follows from the log alone (R13). Raises StoreNotWriteable."""
        at, ends = self._queues
        if at != len(self.disk.log):
            ends = self.disk.queue_ends(len(self.disk.log))
        offset = ends.get(queue, 0)
        record = SimulatedRecord(self.world.next_number(), self.replica.epoch, producer, queue, sequence, offset)
        self.store.append(record.encode())
        ends[queue] = offset + 1
        self._queues = (len(self.disk.log), ends)

    # ---- from the group member

    def on_role(self, broker_id: int | None, epoch: int) -> None:
        """What it is to clients from now on."""
        self._queues = (-1, {})
        if broker_id == MASTER_ID:
            self.acknowledged = 0
            self.world.ledger.on_master(self, epoch)
            self.world.on_master(self, epoch)

    def on_deposed(self) -> None:
        """Who waits for a deposed master is told to look for another."""
        self.world.ledger.on_deposed(self)
        waiting, self.waiting = self.waiting, deque()
        for _, answer in waiting:
            answer(NotMaster(GROUP, self.replica.epoch))

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

    def on_reopen_needed(self) -> None:
        """Something must be done to a closed store."""
        if not self.is_reopening:
            self.is_reopening = True
            self.world.on_reopen(self)

    def on_handed_over(self) -> None:
        """Nobody waits for messages here."""

    def on_drained(self) -> None:
        """The process is to end."""
        self.world.on_drained(self)

    def on_fatal(self) -> None:
        """What it was sent cannot be its log."""
        raise Violation(f"order: {self.name} was sent what is no part of its log, {self.replica.log}")

    def on_start_counter_behind(self, current: int) -> None:
        """The group knows a later life of this store: the process begins anew above it, once there is room to note that."""
        try:
            with needs_room():
                self.member.files.start_above(current)
        except StoreNotWriteable:
            self.loop.call_later(NO_ROOM_RETRY_MS, partial(self.on_start_counter_behind, current))
        else:
            self.on_reopen_needed()

    # ---- from the store

    def _on_confirmed(self, offset: int) -> None:
        """Everything below may be read."""
        if self.is_started:
            self.world.ledger.on_confirm(self, offset, self.replica.log.end)

    def check(self) -> None:
        """Everything readable here is what was seen; told by who looks at a replica between its events."""
        log = self.replica.log
        end, _ = self.member._disk.position()
        if log.end != end and self.replica._on_disk is None:
            raise Violation(f"{self.name} believes its log ends at {log.end}, it ends at {end}")
        self.world.ledger.on_confirm(self, log.confirm, min(log.end, end))
