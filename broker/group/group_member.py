"""This broker as one replica of a group under controllers: wires the replica to port, disk, controllers and broker.

A slave and a candidate serve reads below the confirm offset. A master takes writes while enough replicas are in sync, and
answers requests about state once the inherited log is confirmed (R3). The decisions are in replication/replica. Loop thread.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, Final

from ...model.clock import Clock
from ...model.errors import BrokerBusy, StoreNotWriteable
from ...model.events.table import ROLE_CHANGED
from ...model.events.telling import tell
from ...model.groups.group import FlushMode, KnownGroup
from ...model.route import MASTER_ID
from ...remoting import commands
from ...remoting.client import RemotingClient
from ...remoting.server import Call, RequestLoop
from ...store.message_store import MessageStore
from ...store.opening.small_file import NO_ROOM_RETRY_MS, needs_room
from ..config import BrokerConfig
from ..draining.drain import Drain
from ..draining.held_calls import HeldCalls
from ..flush_waits import FlushWaits
from ..metrics.replica_status import OtherReplica, ReplicaStatus, reasons_not_ready
from ..replication.disk import StoreDisk
from ..replication.effects import PersistIntent
from ..replication.epochs import EpochList
from ..replication.port import ReplicationPort
from ..replication.replica import TICK_MS, GroupReplica, ReplicaController, ReplicaIdentity
from ..replication.replica_files import ReplicaFiles
from ..replication.replica_log import ReplicaLog
from ..replication.role import Role
from ..replication.sockets import ReplicationSockets
from .beginning_anew import BeginningSearch, BeginningSource
from .controller_link import HeartbeatFacts, Life
from .epoch_file import Epoch, read_epochs
from .group_part import PartHost
from .replica_question import QuestionStamp, check_question, question_stamp_for
from .request_gate import RequestGate
from .store_directory import StoreDirectory

log = logging.getLogger(__name__)

HALTED_RETRY_MS: Final = 10_000


class GroupMember:
    """Made once the store is open."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        loop: RequestLoop,
        clock: Clock,
        store: MessageStore,
        files: ReplicaFiles,
        directory: StoreDirectory,
        client: RemotingClient,
        sockets: ReplicationSockets,
        host: PartHost,
    ) -> None:
        """`sockets`: closed with the member. Raises ConfigError if the replication port is taken."""
        self.files = files
        self.name = config.replica_name
        self._is_follower = config.is_follower
        self._directory = directory
        self._loop = loop
        self._clock = clock
        self._store = store
        self._host = host
        self._role, self._epoch = Role.CANDIDATE, 0
        self._told: tuple[int | None, int] = (None, 0)
        self._full_ms: int | None = None  # since when the disk has no room
        self._settles_at: int | None = None  # once the log is flushed up to here, no unflushed bytes are counted
        self._confirm_heard = store.remembered_confirm
        self._beginning_search = BeginningSearch(
            client,
            loop,
            directory,
            name=self.name,
            store_id=files.incarnation.store_id,
            known=lambda: self._replica.known,
            on_noted=host.on_reopen_needed,
        )
        self._disk = StoreDisk(
            store,
            files,
            directory,
            post=loop.post,
            later=partial(loop.call_later, NO_ROOM_RETRY_MS),
            on_cut_needed=host.on_reopen_needed,
            on_beginning_needed=self._beginning_search.begin,
            withdraw_beginning=self._beginning_search.withdraw,
            on_fatal=host.on_fatal,
        )
        replica_log = self._found_log()
        self._start_facts = files.start_facts(replica_log.end, has_hole=replica_log.has_hole)
        self._replica = GroupReplica(
            ReplicaIdentity.of(config.cluster, config.name, self.name, files.incarnation),
            self._disk,
            clock,
            replica_log=replica_log,
            promised=files.promised,
            segment_bytes=store.segment_bytes,
            wants_lz4=config.replication_lz4,
        )
        held = HeldCalls(loop.fail)
        self.gate = RequestGate(self._replica, config.name, held)
        self.drain = Drain(self._replica, held, clock, host, broker_name=config.name, name=self.name)
        self.beginning_source = BeginningSource(
            loop, store, directory, replica_log=replica_log, check_question=self.check_question
        )
        self._flush_waits = FlushWaits(
            loop, store, broker_name=config.name, name=self.name, incarnation=files.incarnation
        )
        store.confirm(replica_log.confirm)
        store.waits_above_end = True
        store.damage.on_change = self.on_damage
        self._replica.host = self
        self._port = ReplicationPort(
            f"{config.listen_host or config.host}:{config.replication_port}",
            loop,
            self._replica,
            sockets=sockets,
        )
        self._replica.port = self._port
        self.replication_address = config.address_at(int(self._port.address.rpartition(":")[2]))

    def _found_log(self) -> ReplicaLog:
        """The log as recovery left it; without the rows of epochs that have no byte here."""
        store = self._store
        epochs = EpochList(self._read_epochs()).recovered(store.written)
        found = ReplicaLog(begin=store.begin, epochs=epochs, has_hole=self._disk.has_hole)
        found.on_position(*self._disk.position())
        if found.has_hole:
            log.warning("the log has a hole and counts up to it only end=%s written=%s", found.end, store.written)
        found.confirm = min(self._confirm_heard, found.end)
        return found

    def _read_epochs(self) -> tuple[Epoch, ...]:
        return read_epochs(self._directory.path, self._directory.small_files)

    def start(self, controller: ReplicaController) -> None:
        """Completes a cut in progress. The link tells the controller of this replica."""
        self._replica.controller = self.drain.controller = controller
        self.on_damage()
        intent = self.files.intent
        self._replica.start(None if intent is None else PersistIntent(*intent))
        self._loop.every(TICK_MS, self._on_tick)

    def close(self) -> None:
        """Says goodbye and closes the port."""
        self._replica.leave()
        self._beginning_search.close()
        self._port.close()

    def mark_clean(self) -> None:
        """Writes the clean marker, after the store is closed: all that counts is on the disk, up to the first hole if
        there is one.

        Raises StoreNotWriteable if the disk has no room: the next start then treats this process as killed.
        """
        with needs_room():
            self.files.mark_clean(self._disk.position()[0])

    # ---- what the broker asks

    @property
    def is_master(self) -> bool:
        """We are master."""
        return self._replica.master is not None

    def leads(self) -> bool:
        """We are master and the inherited log is confirmed: requests may rely on our state."""
        master = self._replica.master
        return master is not None and master.serves_state

    @property
    def epoch_seen(self) -> int:
        """The highest epoch that this store knows: promised, or its own from when it was alone."""
        return max(self.files.promised, max((row.number for row in self._read_epochs()), default=0))

    @property
    def acknowledged(self) -> int:
        """Sends that end at or below this offset may be answered."""
        return self._replica.acknowledged

    def check_question(self, question: commands.ReplicaQuestion) -> None:
        """Checks a request of another replica to its master. Raises NotMaster, OtherReplicaMeant, StaleEpoch,
        UnknownReplica."""
        known = self._replica.known
        if self._replica.master is None or known is None:
            raise self.gate.refusal()
        check_question(question, known.node, self.files.incarnation.store_id)

    def check_asker(self, question: commands.ReplicaQuestion) -> None:
        """Checks a request of another replica to this one, in any role. Raises OtherReplicaMeant, StaleEpoch, UnknownReplica;
        BrokerBusy if this one is halted, because its log may not be the group's."""
        known = self._replica.known
        if known is None:
            raise self.gate.refusal()
        if self._replica.halted is not None:
            raise BrokerBusy(HALTED_RETRY_MS, "this replica is halted")
        check_question(question, known.node, self.files.incarnation.store_id)

    def others(self) -> dict[str, tuple[str, QuestionStamp]] | None:
        """{name: (address, how a request to it begins)} of the group's other replicas; None while the group is unknown."""
        known = self._replica.known
        if known is None:
            return None
        node, own = known.node, self.files.incarnation.store_id
        return {
            replica.name: (replica.address, question_stamp_for(replica.incarnation, node, own))
            for replica in node.replicas
            if replica.name != self.name
        }

    def master_address(self) -> str:
        """Where the group's master is; "" while that is not known, or it is this broker."""
        known = self._replica.known
        master = None if known is None or known.node.master is None else known.node.replica(known.node.master)
        return "" if master is None or master.name == self.name else master.address

    def peers(self) -> list[tuple[str, str]]:
        """(what it is, address) of both ports of the other replicas."""
        known = self._replica.known
        found = []
        for replica in known.node.replicas if known is not None else ():
            if replica.name != self.name:
                found += [("replica", replica.address), ("replication port", replica.replication_address)]
        return found

    def replica_at(self, address: str) -> str | None:
        """The name of the replica with this address, for clients or for replication; None if the group has none. Any thread."""
        known = self._replica.known
        for replica in known.node.replicas if known is not None else ():
            if address in (replica.address, replica.replication_address):
                return replica.name
        return None

    def life(self, address: str) -> Life:
        """What to register: this incarnation, and the report on the last one."""
        facts = self._start_facts
        return Life(
            address=address,
            replication_address=self.replication_address,
            incarnation=self.files.incarnation,
            clean_marker=facts.has_clean_marker,
            marker_end=facts.marker_end,
            same_boot=facts.same_boot,
            ran_async=facts.ran_async,
            set_back=facts.set_back,
            has_hole=facts.has_hole,
            group_id=self.files.group_id,
            confirm_heard=self._confirm_heard,
            is_follower=self._is_follower,
        )

    def read_from(self, is_cold: bool, queue_id: int) -> int:
        """The broker id to read a queue from next: a slave's if the reader is so far behind that the disk must be read."""
        known = self._replica.known
        if not is_cold or known is None:
            return MASTER_ID
        if self._replica.master is None:
            return self._broker_id(Role.SLAVE) or MASTER_ID
        names = sorted(replica.name for replica in known.node.replicas)
        slaves = [names.index(name) + 1 for name in known.node.in_sync if name != self.name and name in names]
        return slaves[queue_id % len(slaves)] if slaves else MASTER_ID

    def status(self, *, is_linked: bool) -> ReplicaStatus:
        """What this replica is now. `is_linked`: a controller answers. Any thread."""
        replica, now_ms = self._replica, self._clock.monotonic_ms()
        master, known, role = replica.master, replica.known, replica.role
        reasons = reasons_not_ready(
            self.name,
            role.value,
            known,
            is_linked=is_linked,
            halted=replica.halted,
            serves_state=master is not None and master.serves_state,
            takes_writes=master is not None and master.takes_writes,
            drain=self.drain.step,
        )
        if master is None or known is None:
            return ReplicaStatus(role.value, replica.epoch, reasons=reasons)
        end = replica.log.end
        others = tuple(
            OtherReplica(one.name, max(0, end - one.written), max(0, now_ms - one.caught_up_ms))
            for one in master.members()
        )
        node = known.node
        counts = len(node.in_sync), node.settings.min_in_sync, len(node.members)
        return ReplicaStatus(role.value, replica.epoch, *counts, others, reasons)

    def _shown_role(self) -> str:
        role = self._replica.role
        return "follower" if self._is_follower and role is Role.SLAVE else role.value

    def document(self) -> dict[str, Any]:
        """For statistics: role, epoch, positions in bytes, and the in-sync set as far as this replica has heard of it."""
        written, flushed = self._disk.position()
        known = self._replica.known
        facts = self.heartbeat_facts()
        return {
            "replica": self.name,
            "role": self._shown_role(),
            "epoch": self._replica.epoch,
            "written": written,
            "flushed": flushed,
            "confirm": self._replica.log.confirm,
            "hole_at": written if self._replica.log.has_hole else None,
            "halted": self._replica.halted,
            "drain": self.drain.step,
            "group_id": self.files.group_id,
            "in_sync": None if known is None else list(known.node.in_sync),
            "min_in_sync": None if known is None else known.node.settings.min_in_sync,
            "members": None if known is None else [replica.name for replica in known.node.members],
            "newest_epoch": facts.newest_epoch,
            "newest_begin": facts.newest_begin,
            "replication_address": self.replication_address,
        }

    def heartbeat_facts(self) -> HeartbeatFacts:
        """The content of a heartbeat to the controller, each 0.5 s."""
        replica_log = self._replica.log
        rows = replica_log.offered_epochs.rows
        newest_epoch, newest_begin = (rows[-1].number, rows[-1].begin) if rows else (0, 0)
        return HeartbeatFacts(
            self._replica.epoch,
            self._disk.position()[0],
            replica_log.confirm,
            sync_pending_ms=self._store.sync_pending_ms,
            no_room_ms=0 if self._full_ms is None else self._clock.monotonic_ms() - self._full_ms + 1,
            cut_off_ms=self._replica.cut_off_ms,
            newest_epoch=newest_epoch,
            newest_begin=newest_begin,
            drains=self.drain.tells,
        )

    # ---- events

    def on_group(self, known: KnownGroup) -> None:
        """The node was read. Raises StoreNotWriteable if the disk has no room for a record that must come first."""
        is_sync = known.node.settings.flush_mode is FlushMode.SYNC
        with needs_room():
            self.files.note_registered(known.node.group_id)
            if not is_sync:
                self._settles_at = None  # a waiting record must include what is counted from now on
                self.files.note_async()
        self._store.forget_remembered_confirm()
        self._store.is_sync = is_sync
        self._replica.on_group(known)
        self._tell_role()

    def on_turn(self) -> None:
        """The end of a turn of the loop, after the staged batches are in the log."""
        replica = self._replica
        if replica.log.end != self._store.written or (replica.master is not None and replica.master.has_more):
            replica.on_written()
        if replica.master is not None and replica.master.has_more:
            self._loop.call_later(0, _come_back)
        if self.drain.is_under_way:
            self.drain.look()

    def on_damage(self) -> None:
        """The damaged ranges of the log changed: no slave is sent bytes that no checksum confirms."""
        self._replica.on_damaged(self._store.damage.unsendable)

    def on_disk_failed(self) -> None:
        """A write or sync failed, in any thread: the next incarnation must not claim what this one wrote."""
        try:
            self.files.note_disk_failed()
        except OSError as error:
            log.critical(
                "cannot even note that the disk failed: this replica may forget what it acknowledged and not say so; while"
                " another leads its group, start it with an empty directory and keep this one until it has caught up;"
                " error=%s",
                error,
            )

    def on_flushed(self) -> None:
        """More of the log is on the disk."""
        self._disk.on_flushed()
        self._replica.on_flushed()
        self._flush_waits.on_flushed()
        self._note_settled()

    def on_flush_log(self, call: Call[commands.FlushLog]) -> commands.Done | None:
        """FlushLog, in any role. Raises UnknownReplica, IncarnationUnknown."""
        return self._flush_waits.on_flush_log(call, self._clock.monotonic_ms())

    def _on_tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._flush_waits.on_tick(now_ms)
        if self._store.lacks_room != (self._full_ms is not None):
            self._full_ms = now_ms if self._store.lacks_room else None
        if self._replica.log.begin != self._store.begin:
            self._replica.on_log_begin(self._store.begin)
        self._replica.on_tick()
        if self.drain.is_under_way:
            self.drain.look()

    # ---- from the replica

    def on_role(self, role: Role, epoch: int) -> None:
        """The role that we have from now on."""
        tell(log, ROLE_CHANGED, epoch=epoch, replica_role=role.value)
        self._store.waits_above_end = role is not Role.MASTER
        if role is Role.CANDIDATE:
            self._host.on_deposed()
        self._role, self._epoch = role, epoch
        self._settle(role)
        self._tell_role()

    def _settle(self, role: Role) -> None:
        """Under `sync` only flushed bytes count: in such an epoch no byte behind the present end was counted unflushed (R9)."""
        known = self._replica.known
        is_sync = known is not None and known.node.settings.flush_mode is FlushMode.SYNC
        self._settles_at = None
        if is_sync and role is not Role.CANDIDATE and self.files.ran_async:
            self._settles_at = self._store.written
            self._store.request_flush()
            self._note_settled()

    def _note_settled(self) -> None:
        if self._settles_at is None or self._store.flushed < self._settles_at:
            return
        try:
            with needs_room():
                self.files.note_all_flushed()
        except StoreNotWriteable:  # reported as unflushed a little longer
            self._loop.call_later(NO_ROOM_RETRY_MS, self._note_settled)
        else:
            self._settles_at = None

    def _tell_role(self) -> None:
        """Tells clients our broker id if it has changed: a slave's depends on the names in the group."""
        now = (self._broker_id(self._role), self._epoch)
        if now != self._told:
            self._told = now
            self._host.on_role(*now)

    def _broker_id(self, role: Role) -> int | None:
        """0 = master; a slave's is its place among the names of the group."""
        known = self._replica.known
        if role is Role.MASTER:
            return MASTER_ID
        if role is Role.CANDIDATE or known is None:
            return None
        names = sorted(replica.name for replica in known.node.replicas)
        return names.index(self.name) + 1 if self.name in names else None

    def on_confirmed(self, offset: int) -> None:
        """Everything below may be read."""
        self._store.confirm(offset)

    def on_acknowledged(self) -> None:
        """Sends may be answered."""
        self._host.on_acknowledged()


def _come_back() -> None:
    """Sets a timer that is due at once: there is more to send, so another turn must end."""
