"""What a broker says to its controllers: registers, beats, reports, proposes; finds the leading one and outlives its absence.

The shape is that of the broker's own link; answers of controllers are adopted only once this life is registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zenitmq.model.errors import (
    IncarnationUnknown,
    NotLeadingController,
    StartCounterBehind,
    UnknownReplica,
    ZenitError,
)
from zenitmq.model.group import FlushMode, KnownGroup
from zenitmq.remoting.commands import (
    AlterInSync,
    GroupChanged,
    GroupReply,
    ProbeReplica,
    RegisterReplica,
    ReplicaHeartbeat,
    ReportMasterGone,
    Request,
)

from .broker import GROUP, Broker, node_of
from .disk import NO_END

if TYPE_CHECKING:
    from .simulation import Simulation

HEARTBEAT_MS: Final = 500
REGISTER_AGAIN_MS: Final = 300
CALL_TIMEOUT_MS: Final = 900


class ControllerLink:
    """`ControllerCalls` of one life."""

    def __init__(self, simulation: Simulation, broker: Broker) -> None:
        self.is_registered = False
        self._simulation = simulation
        self.broker = broker
        self._leader = simulation.rng.randrange(len(simulation.controllers))
        self._calls = 0
        self._answered_ms = 0
        self._probe = 0
        self._facts = broker.disk  # of the last registered life, until this one is heard
        broker.every(HEARTBEAT_MS, self._beat)
        self._register()

    # ---- the cores' calls

    def propose_in_sync(self, version: int, names: tuple[str, ...]) -> None:
        """Asks for another in-sync set."""
        self._simulation.ambush.on_proposal(self.broker.name, names)
        life = self.broker.incarnation
        epoch = self.broker.replica.epoch
        self._call(AlterInSync(GROUP, version, epoch, self.broker.name, life.store_id, life.starts, names))

    def report_master_gone(self, master: str, epoch: int) -> None:
        """Says that the master's end closed our session."""
        life = self.broker.incarnation
        self._call(ReportMasterGone(GROUP, self.broker.name, life.store_id, life.starts, epoch, master))

    def ask(self) -> None:
        """Fetches the node."""
        if self.is_registered:
            self._call(self._heartbeat(version=-1))

    # ---- life

    def _register(self) -> None:
        if self.is_registered:
            return
        broker, facts = self.broker, self._facts
        self._call(
            RegisterReplica(
                broker_name=GROUP,
                name=broker.name,
                address=f"{broker.name}:10911",
                replication_address=f"{broker.name}:10912",
                store_id=broker.incarnation.store_id,
                starts=broker.incarnation.starts,
                life=broker.token,
                epoch=facts.promised,
                log_end=broker.replica.log.end,
                clean_marker=facts.is_clean(),
                marker_end=facts.clean_end if facts.is_clean() else NO_END,
                same_boot=facts.noted_boot_id == facts.boot_id,
                ran_async=facts.ran_async,
                set_back=facts.set_back,
            )
        )
        broker.after_ms(REGISTER_AGAIN_MS, self._register)

    def _beat(self) -> None:
        if self.is_registered:
            known = self.broker.replica.known
            self._call(self._heartbeat(version=-1 if known is None else known.version))
        if self.broker.monotonic_ms() - self._answered_ms > CALL_TIMEOUT_MS:
            self._leader = (self._leader + 1) % len(self._simulation.controllers)

    def _heartbeat(self, *, version: int) -> ReplicaHeartbeat:
        broker = self.broker
        life, replica = broker.incarnation, broker.replica
        return ReplicaHeartbeat(
            *(GROUP, broker.name, life.store_id, life.starts, version, replica.epoch),
            *(replica.log.end, replica.log.confirm, self._probe),
        )

    def _call(self, request: Request) -> None:
        simulation = self._simulation
        simulation.call_controller(self.broker, self, self._leader, request)

    # ---- answers, and what controllers say unasked

    def on_reply(self, request: Request, reply: GroupReply | ZenitError) -> None:
        """An answer, however late."""
        self._answered_ms = self.broker.monotonic_ms()
        if isinstance(reply, ZenitError):
            self._on_error(reply)
            return
        if isinstance(request, RegisterReplica) and not self.is_registered:
            self._on_registered(reply)
        self._adopt(reply.version, reply.node)

    def _on_registered(self, reply: GroupReply) -> None:
        broker = self.broker
        node = node_of(reply.node)
        replica = node.replica(broker.name)
        if replica is None or replica.incarnation != broker.incarnation:
            return
        self.is_registered = True
        broker.disk.note_registered()
        if node.settings.flush_mode is FlushMode.ASYNC:
            broker.disk.ran_async = True

    def _on_error(self, error: ZenitError) -> None:
        if isinstance(error, NotLeadingController):
            if error.leader:
                self._leader = int(error.leader.partition(":")[0].removeprefix("controller-"))
            else:
                self._leader = (self._leader + 1) % len(self._simulation.controllers)
        elif isinstance(error, StartCounterBehind):
            self._simulation.start_above(self.broker, error.current)
        elif isinstance(error, IncarnationUnknown | UnknownReplica) and self.is_registered:
            self.is_registered = False
            self._register()

    def on_push(self, request: Request) -> None:
        """News or a probe."""
        if isinstance(request, GroupChanged):
            self._adopt(request.version, request.node)
        elif isinstance(request, ProbeReplica) and self.is_registered:
            self._probe = request.probe
            known = self.broker.replica.known
            self._call(self._heartbeat(version=-1 if known is None else known.version))

    def _adopt(self, version: int, data: bytes) -> None:
        if data and self.is_registered:
            self.broker.on_group(KnownGroup(node_of(data), version))
