"""Decides who is alive, and when a group needs which other master, from what the leading controller hears. Pure.

Events in, effects out; the service carries effects out and comes back with what it read. A term of leadership begins
with a new `Detection`: a leader trusts the nodes and what it hears itself, and restores nothing from memory.

    on_group       a node was read or written          -> TellReplicas, and perhaps WriteGroup (an election)
    on_registered  an incarnation was registered       -> the same
    on_heartbeat   a heartbeat, each 0.5 s             -> perhaps WriteGroup, or Stalled
    on_master_gone a slave's master closed its socket  -> Probe
    on_tick        time has passed                     -> perhaps WriteGroup, or Stalled

A group needs another master in these cases: it has none; its master's process was restarted (an incarnation never resumes
an epoch); the master was silent for the dead time; every other living member of the in-sync set says that the master closed
its socket, and a probe stays unanswered; the master stalls the group (stalls); or it drains. Suspicion may be
wrong at no cost but a change of master: whoever is elected holds all that was acknowledged, so all this is a matter of
speed.

candidates chooses the master among those heard within the last second. So after the begin of a term nobody is elected
before all candidates had that long to be heard. Nobody is elected while a replica reports a later epoch than the
node has: then ZooKeeper's data was set back, and an operator restores it.

Times are monotonic milliseconds. Owned by one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from ...model.errors import (
    NotElectable,
    NotGroupMaster,
    ReplicaDrains,
    ReplicaGroupNotFound,
    ReplicaNotAlive,
    StaleEpoch,
)
from ...model.groups.group import NO_VERSION, GroupNode, Incarnation, KnownGroup
from ...model.plain_dataclass import dataclass
from ...remoting.commands import ElectMaster, RegisterReplica, ReplicaHeartbeat, ReportMasterGone
from .audit_record import ForcedElection
from .candidates import HEARD_MS, Candidates, Sign
from .forcing import force_election
from .group_state import check_life, check_version, elect, electable, known_replica
from .stalls import Stall, stall
from .suspicion import Suspicion

DEAD_AFTER_MS: Final = 2000
PROBE_TIMEOUT_MS: Final = 300


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Write this node on condition of this version; then `on_group` gets the present node, whatever the outcome."""

    node: GroupNode
    version: int
    why: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask this replica for a heartbeat with this number."""

    broker_name: str
    name: str
    number: int


@dataclass(frozen=True, slots=True)
class TellReplicas:
    """Push this node to every replica it names."""

    known: KnownGroup


@dataclass(frozen=True, slots=True)
class Stalled:
    """The master does not do its work and nobody else could take over: for people, once for each reason in an epoch."""

    broker_name: str
    why: str


Effect = WriteGroup | Probe | TellReplicas | Stalled


@dataclass(frozen=True, slots=True)
class Choice:
    """The result of an operator's election. `record`: what a forced one may lose; to be written before the node."""

    node: GroupNode
    record: ForcedElection | None = None


@dataclass(slots=True)
class _WatchedGroup:
    known: KnownGroup
    since_ms: int  # if nothing was heard, silence counts from here
    term_began_ms: int  # since when the master has had time to promise
    candidates: Candidates = field(default_factory=Candidates)
    suspicion: Suspicion | None = None
    writing: int = NO_VERSION  # the version on which the present election was built
    stalled: tuple[int, str] | None = None  # the last reported epoch and reason
    confirmed: int = 0  # as masters have reported: every electable replica holds it


class Detection:
    """One term of a leading controller over all its groups."""

    def __init__(self, *, dead_after_ms: int = DEAD_AFTER_MS, probe_timeout_ms: int = PROBE_TIMEOUT_MS) -> None:
        self._dead_after_ms = dead_after_ms
        self._probe_timeout_ms = probe_timeout_ms
        self._groups: dict[str, _WatchedGroup] = {}
        self._probes = 0
        self._ticked_ms: int | None = None

    # ---- events

    def on_group(self, known: KnownGroup, now_ms: int) -> list[Effect]:
        """A node that was just read or written. One older than the known one is ignored."""
        told = self._adopt(known, now_ms)
        return [*told, *self._decide(self._group(known.node.broker_name), now_ms)]

    def on_group_missing(self, broker_name: str) -> None:
        """There is no such node, or its content is invalid: nobody is elected."""
        self._groups.pop(broker_name, None)

    def on_registered(self, known: KnownGroup, request: RegisterReplica, now_ms: int) -> list[Effect]:
        """An incarnation was registered by the write of this node; instead of `on_group`, so that it may be elected."""
        told = self._adopt(known, now_ms)
        group = self._group(request.broker_name)
        group.candidates.hear(request.name, Sign.of_registration(request, now_ms))
        return [*told, *self._decide(group, now_ms)]

    def on_heartbeat(self, request: ReplicaHeartbeat, now_ms: int) -> list[Effect]:
        """A heartbeat. Raises ReplicaGroupNotFound, UnknownReplica, IncarnationUnknown: it must register."""
        group = self._group(request.broker_name)
        check_life(group.known.node, request.name, Incarnation(request.store_id, request.starts))
        group.candidates.hear(request.name, Sign.of(request, now_ms))
        if (request.name, request.epoch) == (group.known.node.master, group.known.node.epoch):
            group.confirmed = max(group.confirmed, request.confirm_offset)
        suspicion = group.suspicion
        if suspicion is not None and request.name == group.known.node.master and request.probe == suspicion.probe:
            group.suspicion = None
        return list(self._decide(group, now_ms))

    def on_master_gone(self, request: ReportMasterGone, now_ms: int) -> list[Effect]:
        """A slave's session ended because its master closed it.

        Raises StaleEpoch, NotGroupMaster for reports of an earlier master, and what `on_heartbeat` raises.
        """
        group = self._group(request.broker_name)
        node = group.known.node
        check_life(node, request.name, Incarnation(request.store_id, request.starts))
        if request.epoch != node.epoch:
            raise StaleEpoch(node.broker_name, request.epoch, node.epoch)
        if request.master != node.master or request.name == node.master:
            raise NotGroupMaster(node.broker_name, request.master, node.master or "")
        probes: list[Effect] = []
        suspicion = self._standing(group, now_ms)
        if suspicion is None:
            self._probes += 1
            suspicion = group.suspicion = Suspicion(node.epoch, self._probes, now_ms)
            probes.append(Probe(node.broker_name, request.master, self._probes))
        suspicion.report(request.name, now_ms)
        return [*probes, *self._decide(group, now_ms)]

    def on_tick(self, now_ms: int) -> list[Effect]:
        """Time has passed. If this process itself was stopped meanwhile, the silence was its own."""
        away_ms = 0 if self._ticked_ms is None else now_ms - self._ticked_ms
        self._ticked_ms = now_ms
        if away_ms >= self._dead_after_ms // 2:
            for group in self._groups.values():
                group.since_ms = group.term_began_ms = now_ms
                group.suspicion = None
        return [effect for group in self._groups.values() for effect in self._decide(group, now_ms)]

    def operator_election(self, request: ElectMaster, now_ms: int) -> Choice:
        """An operator's request: a named replica, or the best except the present master; with `force` also by force.

        Raises ReplicaGroupNotFound, StaleGroupVersion, UnknownReplica, ReplicaNotAlive, ReplicaDrains, NotElectable,
        MasterStillAlive, GroupNodeLost.
        """
        group = self._group(request.broker_name)
        node = check_version(group.known, request.version)
        heard, seen = group.candidates, group.candidates.epoch_seen
        name = request.candidate or heard.best(node, now_ms, but=node.master) or self._best(group, now_ms)
        if name is None and electable(node):
            raise ReplicaNotAlive(node.broker_name, " or ".join(sorted(electable(node))))
        if name is None:
            raise NotElectable(node.broker_name, node.last or "", "")
        known_replica(node, name)
        if not self._alive(group, name, now_ms):
            raise ReplicaNotAlive(node.broker_name, name)
        if heard.drains(node, name) and not request.force:
            raise ReplicaDrains(node.broker_name, name)
        dead = not self._alive(group, node.master, now_ms)
        if name in electable(node) or not request.force:
            return Choice(elect(node, name, old_master_is_dead=dead, epoch_seen=seen))
        logs = heard.reaches()
        forced, record = force_election(
            node,
            logs[name],
            logs.values(),
            wait_ms=self._force_waits_ms(group, now_ms),
            epoch_seen=seen,
            now_ms=now_ms,
        )
        return Choice(forced, record)

    # ---- questions

    def known(self, broker_name: str) -> KnownGroup:
        """The known group; raises ReplicaGroupNotFound."""
        return self._group(broker_name).known

    def epoch_seen(self, broker_name: str) -> int:
        """The highest epoch that a replica of the group reports; raises ReplicaGroupNotFound."""
        return self._group(broker_name).candidates.epoch_seen

    def confirmed(self, broker_name: str) -> int:
        """A lower limit of the group's confirm offset; 0 if nobody has reported it."""
        group = self._groups.get(broker_name)
        return 0 if group is None else group.confirmed

    def is_alive(self, broker_name: str, name: str, now_ms: int) -> bool:
        """True if a replica's registered incarnation was heard within the dead time. False for an unknown one."""
        group = self._groups.get(broker_name)
        return group is not None and self._alive(group, name, now_ms)

    # ---- deciding

    def _adopt(self, known: KnownGroup, now_ms: int) -> list[Effect]:
        group = self._groups.get(known.node.broker_name)
        if group is not None and known.version < group.known.version:
            return []
        news = group is None or known.version > group.known.version
        if group is None:
            group = self._groups[known.node.broker_name] = _WatchedGroup(known, now_ms, now_ms)
        elif known.node.epoch != group.known.node.epoch:
            group.term_began_ms = now_ms
            if known.node.master not in electable(group.known.node):  # by force: its own log counts as confirmed
                group.confirmed = 0
        group.known, group.writing = known, NO_VERSION
        return [TellReplicas(known)] if news else []

    def _decide(self, group: _WatchedGroup, now_ms: int) -> Iterator[Effect]:
        """An election, if one is needed and possible."""
        node, version, heard = group.known.node, group.known.version, group.candidates
        if group.writing == version or node.epoch < heard.epoch_seen:
            return
        why = self._need(group, now_ms)
        name = self._best(group, now_ms) if why is not None and self._has_listened(group, now_ms) else None
        dead = not self._alive(group, node.master, now_ms)
        found = self._stall(group, now_ms) if why is None else None
        if found is not None and node.master is not None:
            if found.others_would_serve:
                name = heard.best(node, now_ms, but=node.master, only_clear=True)
            if name is None:
                yield from self._tell_stalled(group, found.why)
                return
            hold_ms = heard.pass_over(node, node.master, now_ms)
            why, dead = f"{found.why}; it is passed over for {hold_ms} ms", True
        elif why is None and (name := heard.successor(node, now_ms)) is not None:
            why = f"master {node.master} drains"  # it stays in sync, and goes on as a slave
        if why is None or name is None:
            return
        group.writing = version
        yield WriteGroup(elect(node, name, old_master_is_dead=dead, epoch_seen=heard.epoch_seen), version, why)

    def _stall(self, group: _WatchedGroup, now_ms: int) -> Stall | None:
        """Why the living master does not do its work; None if it does."""
        times = {"term_began_ms": group.term_began_ms, "dead_after_ms": self._dead_after_ms, "now_ms": now_ms}
        return stall(group.known.node, group.candidates, **times)

    @staticmethod
    def _tell_stalled(group: _WatchedGroup, why: str) -> Iterator[Stalled]:
        node = group.known.node
        if group.stalled != (node.epoch, why):
            group.stalled = (node.epoch, why)
            yield Stalled(node.broker_name, why)

    def _has_listened(self, group: _WatchedGroup, now_ms: int) -> bool:
        """True if all candidates were heard, or had the time to be."""
        node = group.known.node
        if now_ms - group.since_ms >= HEARD_MS:
            return True
        return all(group.candidates.is_heard(node, name, now_ms) for name in electable(node))

    def _need(self, group: _WatchedGroup, now_ms: int) -> str | None:
        """Why the group needs another master; None if it does not."""
        node = group.known.node
        if node.master is None:
            return "it has no master"
        if known_replica(node, node.master).incarnation != node.master_incarnation:
            return f"master {node.master} was started anew"
        if self._dead_time_left_ms(group, now_ms) == 0:
            return f"master {node.master} was silent for {self._dead_after_ms} ms"
        if self._is_gone(group, now_ms):
            return f"master {node.master} closed its sockets and answers no probe"
        return None

    def _best(self, group: _WatchedGroup, now_ms: int) -> str | None:
        """The replica to elect, apart from a master that is gone."""
        node = group.known.node
        is_gone = self._is_elected_life(node) and self._is_gone(group, now_ms)
        return group.candidates.best(node, now_ms, but=node.master if is_gone else None)

    def _alive(self, group: _WatchedGroup, name: str | None, now_ms: int) -> bool:
        """True if the registered incarnation was heard within the dead time, and is not known to be gone."""
        node = group.known.node
        if not group.candidates.is_heard(node, name, now_ms, self._dead_after_ms):
            return False
        return not (name == node.master and self._is_elected_life(node) and self._is_gone(group, now_ms))

    @staticmethod
    def _is_elected_life(node: GroupNode) -> bool:
        """True if the master's present incarnation is the elected one."""
        replica = node.replica(node.master) if node.master is not None else None
        return replica is not None and replica.incarnation == node.master_incarnation

    def _is_gone(self, group: _WatchedGroup, now_ms: int) -> bool:
        """True if the slaves' reports and the unanswered probe show that the master is dead."""
        node, suspicion = group.known.node, self._standing(group, now_ms)
        if suspicion is None or now_ms - suspicion.probed_ms < self._probe_timeout_ms:
            return False
        reporters = suspicion.reporters(now_ms)
        others = {name for name in node.in_sync if name != node.master and self._alive(group, name, now_ms)}
        return others <= reporters and bool(reporters & electable(node))

    @staticmethod
    def _standing(group: _WatchedGroup, now_ms: int) -> Suspicion | None:
        """The suspicion, while it is of this epoch and some report still counts."""
        found = group.suspicion
        return found if found and found.epoch == group.known.node.epoch and found.reporters(now_ms) else None

    def _dead_time_left_ms(self, group: _WatchedGroup, now_ms: int) -> int:
        """How long until the elected incarnation of the master counts as dead by its silence; 0 if it does."""
        node = group.known.node
        if not self._is_elected_life(node):
            return 0
        sign = group.candidates.sign(node, node.master)
        heard_ms = group.since_ms if sign is None else max(group.since_ms, sign.heard_ms)
        return max(0, heard_ms + self._dead_after_ms - now_ms)

    def _force_waits_ms(self, group: _WatchedGroup, now_ms: int) -> int:
        """How long a forced election waits for the former master's silence. A restored group does not know that master: any
        replica that has not promised the epoch of the restore may still lead an earlier one, so all have one dead time."""
        node = group.known.node
        if node.master is not None:
            return self._dead_time_left_ms(group, now_ms)
        late = [
            self._dead_after_ms
            for replica in node.replicas
            if (sign := group.candidates.sign(node, replica.name)) is not None
            and sign.epoch < node.epoch
            and now_ms - sign.heard_ms < self._dead_after_ms
        ]
        return max([0, group.term_began_ms + self._dead_after_ms - now_ms, *late])

    def _group(self, broker_name: str) -> _WatchedGroup:
        group = self._groups.get(broker_name)
        if group is None:
            raise ReplicaGroupNotFound(broker_name)
        return group
