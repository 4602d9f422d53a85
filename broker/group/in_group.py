"""A broker that is one replica of several: its replica, its link to the group's leader, its repairs. Loop thread.

Controllers tell it who is master, or the static master does. If it is the static master itself, it plays the
controllers for its slaves (static_group).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from ...model.errors import ReplicaTimeout, StoreNotWriteable
from ...model.groups.group import FlushMode, GroupSettings, KnownGroup
from ...model.security.principals import ANY
from ...model.security.rights import Action, Resource
from ...remoting.commands import (
    DrainBroker,
    FlushLog,
    GetBeginning,
    GetCompactedFiles,
    GetCompactedRange,
    GetCompactedRecord,
    GetLogRange,
)
from ...remoting.request_rows import Row, row
from ...remoting.security.door import Door
from ...store.opening.small_file import NO_ROOM_RETRY_MS, needs_room
from ...store.opening.store_files import StoreLock
from ..config import BrokerConfig
from ..metrics.replica_status import ReplicaStatus
from ..repair.compacted_copy import CompactedSource
from ..repair.compacted_repairs import CompactedRepairs
from ..repair.repairs import Repairs
from ..replication.replica_files import ReplicaFiles
from ..replication.sockets import ZeroMqSockets
from ..worker_pool import WorkerPool
from .beginning_anew import carry_through_cut
from .controller_link import ControllerLink
from .followed_store import FollowedStore
from .group_member import GroupMember
from .group_membership import check_membership
from .group_part import PartGround
from .held_news import HeldNews
from .static_group import StaticGroup
from .store_directory import DirectoryOnDisk, StoreDirectory

log = logging.getLogger(__name__)


def prepare_in_group(config: BrokerConfig) -> Callable[[PartGround], InGroup]:
    """Before the store is opened: completes what the former process began. Call the result once the store is open.

    Raises StoreInGroup, StoreLocked, StoreFormatError, OSError.
    """
    check_membership(config)
    directory = DirectoryOnDisk(config.store_dir, config.store)
    with StoreLock(config.store_dir):  # another process that has the store open writes these files too
        files = ReplicaFiles.open(config.store_dir)
    carry_through_cut(files, directory)
    return partial(InGroup, files=files, directory=directory)


class InGroup:
    """Its replica (`GroupMember`) decides; this class makes the broker's other parts follow."""

    first_role: tuple[int | None, int] = (None, 0)
    late = ReplicaTimeout

    def __init__(self, ground: PartGround, *, files: ReplicaFiles, directory: StoreDirectory) -> None:
        """Raises ConfigError if the replication port is taken."""
        self._ground = ground
        self._member = member = GroupMember(
            ground.config,
            loop=ground.loop,
            clock=ground.clock,
            store=ground.store,
            files=files,
            directory=directory,
            client=ground.client,
            sockets=ZeroMqSockets(ground.secured, self._admits),
            host=ground.host,
        )
        if ground.secured is not None:
            ground.secured.keys.find = partial(self._keys_at, ground.secured.door)
        self._link = link_to_group(ground, member, on_start_counter_behind=self._on_start_counter_behind)
        self._repairs: Repairs | None = None
        self.replication_address = member.replication_address
        self.promised: Callable[[], int] | None = lambda: member.acknowledged
        self.leads, self.read_from, self.master_address = member.leads, member.read_from, member.master_address
        self.check, self.guarded = member.gate.check, member.gate.guarded
        self.on_turn, self.on_flushed, self.on_disk_failed = member.on_turn, member.on_flushed, member.on_disk_failed
        self.close = member.close

    @property
    def is_master(self) -> bool:
        """We are master."""
        return self._member.is_master

    def serve_replicas(self, workers: WorkerPool, look_again: Callable[[], None]) -> list[Row]:
        """From now on damage here is repaired from other replicas, and their requests are answered."""
        ground, member = self._ground, self._member
        self._repairs = repairs = Repairs(
            ground.store,
            ground.loop,
            ground.clock,
            ground.client,
            workers,
            member,
            wait_ms=ground.config.repair_wait_ms,
            look_again=look_again,
        )
        ground.store.damage.on_change = repairs.on_change
        repairs.start()
        compacted = CompactedRepairs(ground.store, ground.loop, ground.client, workers, member)
        ground.store.compacted.on_damage = compacted.on_damage
        hold = member.beginning_source.hold_longer
        copies = CompactedSource(ground.loop, ground.store, workers, member.check_question, hold)
        return [
            row(DrainBroker, member.drain.on_drain_broker),
            row(FlushLog, member.on_flush_log),
            row(GetBeginning, member.beginning_source.on_get_beginning),
            row(GetCompactedFiles, copies.on_list),
            row(GetCompactedRange, copies.on_range),
            row(GetCompactedRecord, compacted.on_get),
            row(GetLogRange, repairs.on_get_log_range),
        ]

    def start(self) -> None:
        """Registers this incarnation."""
        self._member.start(self._link)
        self._link.start(self._member.life(self._ground.address))

    @property
    def drains(self) -> bool:
        """See GroupPart."""
        return self._member.drain.stays

    def drain(self, *, ends: bool) -> None:
        """See GroupPart."""
        self._member.drain.begin(ends=ends)

    def stop(self) -> None:
        """Stops the heartbeats of this incarnation."""
        self._link.stop()

    def mark_clean(self) -> None:
        """The clean marker: without it the next start treats this process as killed."""
        try:
            self._member.mark_clean()
        except StoreNotWriteable as error:
            log.warning("this stop is not noted as a clean one: %s", error)

    def status(self) -> ReplicaStatus:
        """See GroupPart."""
        return self._member.status(is_linked=self._link.is_linked)

    def peers(self) -> list[tuple[str, str]]:
        """The controllers, and both ports of the other replicas."""
        return [*(("controller", address) for address in self._ground.config.controllers), *self._member.peers()]

    def document(self) -> dict[str, Any]:
        """The replica, and the repair of damage."""
        assert self._repairs is not None
        return {"replication": self._member.document(), "repairs": self._repairs.document()}

    def _admits(self, key: str, replica: str) -> bool:
        """Whether the owner of a key is this replica of the group."""
        if self._ground.secured is None:
            return True
        guard, name = self._ground.secured.door.guard, f"{self._ground.config.name}/{replica}"
        user = guard.user_of(key)
        return user is not None and guard.table.decide(user, Action.SERVE, Resource.REPLICA, name).allowed

    def _keys_at(self, door: Door, address: str) -> tuple[str, ...]:
        """The public keys of the replica that has this address, by the users that are bound to it. Of a static master that
        nobody has told of yet: those of any of the group."""
        table, config = door.guard.table, self._ground.config
        name = ANY if address == config.static_master else None
        return table.server_keys(config.name, self._member.replica_at(address) or name or "")

    def _on_start_counter_behind(self, current: int) -> None:
        """Our disk was set back: we need an incarnation that nobody knows."""
        try:
            with needs_room():
                self._member.files.start_above(current)
        except StoreNotWriteable as error:
            log.warning("cannot raise the start counter yet: %s", error)
            self._ground.loop.call_later(NO_ROOM_RETRY_MS, partial(self._on_start_counter_behind, current))
        else:
            self._ground.host.on_reopen_needed()


def link_to_group(
    ground: PartGround, member: GroupMember, *, on_start_counter_behind: Callable[[int], None]
) -> ControllerLink | StaticGroup:
    """The source of the member's news about its group."""
    config, cluster = ground.config, ground.cluster
    if config.static_master == ground.address:
        return _static_group(ground, member)

    def take(known: KnownGroup) -> None:
        if cluster.on_told(known.node.cluster_id):
            member.on_group(known)

    if config.static_master:
        is_empty = ground.store.written == 0
        take = FollowedStore(config.store_dir, is_empty=is_empty, on_group=take).on_group
    return ControllerLink(
        ground.client,
        ground.loop,
        ground.clock,
        addresses=config.controllers or (config.static_master,),
        broker_name=config.name,
        replica_name=member.name,
        on_group=HeldNews(ground.loop, take).on_group,
        heartbeat_facts=member.heartbeat_facts,
        on_start_counter_behind=on_start_counter_behind,
        cluster_id=lambda: cluster.cluster_id,
        on_other_cluster=cluster.on_refused,
    )


def _static_group(ground: PartGround, member: GroupMember) -> StaticGroup:
    """Plays the controllers if this broker is the static master."""
    config, cluster, loop = ground.config, ground.cluster, ground.loop
    group = StaticGroup(
        loop,
        ground.clock,
        broker_name=config.name,
        name=member.name,
        settings=GroupSettings(min_in_sync=config.static_min_in_sync, flush_mode=FlushMode(config.store.flush_mode)),
        epoch_seen=member.epoch_seen,
        on_group=HeldNews(loop, member.on_group).on_group,
        cluster_id=lambda: cluster.settled_id,
    )
    for one in group.rows():
        loop.handle(one.request_class, one.handler)
    return group
