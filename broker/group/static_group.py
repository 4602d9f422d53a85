"""A group whose master never changes: the configured broker plays the controller of its own group. No failover.

    the master: elects itself at each start, epoch + 1 (as a broker of one does); grants its own proposals
    slaves:     register and send heartbeats at the master's request port, as at a controller's (controller_link)

The group's node is only in the memory of the master's process: after a start only the master is in
sync until slaves have caught up again. Node versions begin at the shifted epoch, so they also grow over starts.
Nobody else is ever elected, so what the master's log has lost is lost to the group. That must not spread: a store that was
wiped or set back would count its epochs again, and logs of different histories would count as the same. So a slave follows
one store only, and writes it down before its first byte (followed_store). Loop thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from ...model.clock import Clock
from ...model.errors import (
    BrokerBusy,
    IncarnationUnknown,
    InvalidParameter,
    ReplicaGroupNotFound,
    ReplicaNameTaken,
    StaticMasterBehind,
    UnknownReplica,
    WrongCluster,
)
from ...model.groups.group import NO_VERSION, GroupNode, GroupSettings, Incarnation, KnownGroup, Replica
from ...model.groups.group_codec import encode_node
from ...model.groups.group_limits import (
    REPLICAS_MAX,
    check_address,
    check_count,
    check_log_origin,
    check_name,
    check_token,
)
from ...remoting.commands import (
    ControllerReply,
    GetController,
    GetGroup,
    GroupChanged,
    GroupReply,
    RegisterReplica,
    ReplicaHeartbeat,
    ReportMasterGone,
    Request,
)
from ...remoting.request_rows import Row, row
from ...remoting.server import Call
from ...remoting.timers import Timer
from .controller_link import Life

log = logging.getLogger(__name__)

VERSIONS_SHIFT: Final = 24
"""The numbers for changes within one epoch."""
ALIVE_MS: Final = 2000
"""A slave heard within this time keeps its name, against another store and against a copy of its own elsewhere."""
RETRY_MS: Final = 500


class StaticLoop(Protocol):
    """The request loop, as far as the master of a static group uses it."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Once."""

    def send_to(self, identity: bytes, request: Request, payload: Sequence[bytes | memoryview] = ()) -> bool:
        """Pushes to a connection; False if it is gone."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """The last heartbeat of a slave, and its connection."""

    identity: bytes
    heard_ms: int


class StaticGroup:
    """At the master: takes the place of the `ControllerLink`, and of the controller for its slaves."""

    is_linked = True  # it plays the controllers itself
    elects = False

    def __init__(
        self,
        loop: StaticLoop,
        clock: Clock,
        *,
        broker_name: str,
        name: str,
        settings: GroupSettings,
        epoch_seen: int,
        on_group: Callable[[KnownGroup], None],
        cluster_id: Callable[[], str],
    ) -> None:
        """`epoch_seen`: the highest that this store knows. `on_group`: tells this broker's own member. `cluster_id`: of the
        cluster that this broker belongs to for good, since slaves store it; "" = none yet, and then no slave is let in."""
        self._loop = loop
        self._clock = clock
        self._name = name
        self._on_group = on_group
        self._cluster_id = cluster_id
        self._signs: dict[str, _Sign] = {}
        self._stores: set[str] = set()  # slaves that may have this incarnation's epoch from it
        epoch = epoch_seen + 1
        node = GroupNode(broker_name=broker_name, epoch=epoch, master=name, in_sync=(name,), settings=settings)
        self._known = KnownGroup(node, epoch << VERSIONS_SHIFT)

    # ---- what the broker calls, as it calls a link to controllers

    def start(self, life: Life) -> None:
        """This incarnation is the master from now on."""
        own = Replica(self._name, life.address, life.replication_address, life.incarnation)
        self._change(replace(self._known.node, master_incarnation=life.incarnation, replicas=(own,)))

    def stop(self) -> None:
        """Nobody has to be told: slaves see their sessions end."""

    def propose_in_sync(self, version: int, names: tuple[str, ...]) -> None:
        """Granted after the proposer has finished its present work."""
        self._loop.call_later(0, partial(self._grant, version, names))

    def report_master_gone(self, master: str, epoch: int) -> None:
        """Only a slave reports that."""

    def beat(self) -> None:
        """Nobody has to be told."""

    def ask(self) -> None:
        """The master already has the newest node."""

    # ---- requests of slaves

    def rows(self) -> list[Row]:
        """The requests that it answers in a controller's place."""
        return [
            row(RegisterReplica, self.on_register),
            row(ReplicaHeartbeat, self.on_heartbeat),
            row(ReportMasterGone, self.on_master_gone),
            row(GetGroup, self.on_get_group),
            row(GetController, self.on_get_controller),
        ]

    def on_register(self, call: Call[RegisterReplica]) -> GroupReply:
        """RegisterReplica. A new incarnation is not in sync before it has caught up, whatever it may have forgotten.

        Raises BrokerBusy, WrongCluster, StaticMasterBehind, ForeignLog, ReplicaNameTaken, ReplicaGroupNotFound, InvalidName,
        InvalidParameter.
        """
        request = call.request
        node, slave = self._node_of(request.broker_name), _replica_of(request)
        self._check_cluster(node, request)
        if request.epoch > node.epoch or (request.epoch == node.epoch and request.store_id not in self._stores):
            raise StaticMasterBehind(node.broker_name, node.epoch, request.epoch)
        check_log_origin(
            node.broker_name, slave.name, epoch=request.epoch, log_end=check_count("log_end", request.log_end)
        )
        present = node.replica(slave.name)
        if present is None and len(node.replicas) >= REPLICAS_MAX:
            raise InvalidParameter("replicas", len(node.replicas) + 1, f"at most {REPLICAS_MAX}")
        if present is not None and self._is_taken(present, slave):
            raise ReplicaNameTaken(node.broker_name, slave.name, present.address)
        self._hear(slave.name, call)
        self._stores.add(request.store_id)
        if slave != present:
            log.info("replica registered group=%s replica=%s address=%s", node.broker_name, slave.name, slave.address)
            others = [other for other in node.replicas if other.name != slave.name]
            replicas = tuple(sorted([*others, slave], key=lambda one: one.name))
            in_sync = tuple(name for name in node.in_sync if name != slave.name)
            self._change(replace(node, in_sync=in_sync, replicas=replicas))
        return self._reply()

    def on_heartbeat(self, call: Call[ReplicaHeartbeat]) -> GroupReply:
        """ReplicaHeartbeat. Raises ReplicaGroupNotFound, UnknownReplica, IncarnationUnknown: it must register."""
        request = call.request
        self._check_life(request)
        self._hear(request.name, call)
        return self._reply(asked=request.version)

    def on_master_gone(self, call: Call[ReportMasterGone]) -> GroupReply:
        """ReportMasterGone: the answer shows that the master lives. Raises what `on_heartbeat` raises."""
        self._check_life(call.request)
        return self._reply()

    def on_get_group(self, call: Call[GetGroup]) -> GroupReply:
        """GetGroup. Raises ReplicaGroupNotFound."""
        self._node_of(call.request.broker_name)
        return self._reply()

    def on_get_controller(self, _: Call[GetController]) -> ControllerReply:
        """GetController: the master is the only one, of its only group."""
        node = self._known.node
        own = node.replica(self._name)
        address = "" if own is None else own.address
        return ControllerReply(address, (address,), (node.broker_name,))

    # ---- inside

    def _grant(self, version: int, names: tuple[str, ...]) -> None:
        """Grants a proposal on condition of the version, as ZooKeeper does: a slave may have registered again since."""
        if version == self._known.version:
            log.info("in-sync set group=%s members=%s", self._known.node.broker_name, ",".join(names))
            self._change(replace(self._known.node, in_sync=tuple(sorted(names))))

    def _change(self, node: GroupNode) -> None:
        """The next version: adopted here first, then sent."""
        named = replace(node, cluster_id=self._cluster_id())
        self._known = known = KnownGroup(named, self._known.version + 1)
        self._on_group(known)
        news = GroupChanged(node.broker_name, known.version, encode_node(named))
        for name, sign in list(self._signs.items()):
            if not self._loop.send_to(sign.identity, news):
                del self._signs[name]

    def _node_of(self, broker_name: str) -> GroupNode:
        node = self._known.node
        if broker_name != node.broker_name:
            raise ReplicaGroupNotFound(broker_name)
        return node

    def _check_cluster(self, node: GroupNode, request: RegisterReplica) -> None:
        own = self._cluster_id()
        if not own:
            raise BrokerBusy(RETRY_MS, "the cluster's id is not known yet")
        if request.cluster_id and request.cluster_id != own:
            raise WrongCluster(node.broker_name, own, request.cluster_id)

    def _check_life(self, request: ReplicaHeartbeat | ReportMasterGone) -> None:
        slave = self._node_of(request.broker_name).replica(request.name)
        if slave is None:
            raise UnknownReplica(request.broker_name, request.name)
        if slave.incarnation != Incarnation(request.store_id, request.starts):
            raise IncarnationUnknown(request.broker_name, request.name, request.starts, slave.incarnation.starts)

    def _is_taken(self, present: Replica, slave: Replica) -> bool:
        """True if the name is the master's own, or that of a recently heard slave with another store or address."""
        sign = self._signs.get(slave.name)
        is_alive = sign is not None and self._clock.monotonic_ms() - sign.heard_ms < ALIVE_MS
        return slave.name == self._name or (is_alive and not slave.has_place_of(present))

    def _hear(self, name: str, call: Call[Request]) -> None:
        self._signs[name] = _Sign(call.identity, self._clock.monotonic_ms())

    def _reply(self, *, asked: int = NO_VERSION) -> GroupReply:
        """The node, unless the sender already has it."""
        known = self._known
        return GroupReply(known.version, b"" if known.version == asked else encode_node(known.node))


def _replica_of(request: RegisterReplica) -> Replica:
    check_count("epoch", request.epoch)
    incarnation = Incarnation(check_token("store_id", request.store_id), check_count("starts", request.starts, 1))
    return Replica(
        check_name("replica", request.name),
        check_address("address", request.address),
        check_address("replication_address", request.replication_address),
        incarnation,
        check_token("life", request.life),
        request.is_follower,
    )
