"""One term of the leading controller: it answers brokers and operators, writes groups, tells replicas. Loop thread.

    begin: read every node -> is_ready -> listen (hearing)
        -> requests, ticks, watches -> Detection and the rules -> writes, probes, pushes
        -> end: another leads, or ZooKeeper is down; all waiting requests are refused

A term begins with only the data in ZooKeeper, and its knowledge ends with it. A written node is adopted, then
pushed to each replica on the connection of its registration or last heartbeat, so that brokers hear of
an election at once. Unreadable nodes are tried again until they can be read. If a replica knows that a node was set
back, only an operator's `restore` writes that node (set_back).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, Protocol, cast

from ..model.clock import Clock
from ..model.cluster_id import check_cluster_id
from ..model.errors import (
    BrokerBusy,
    GroupNodeDamaged,
    NotLeadingController,
    ReplicaGroupNotFound,
    ZenitError,
    ZooKeeperUnavailable,
)
from ..model.events.table import ELECTED, GROUP_DAMAGED, GROUP_STALLED, REPLICA_FORGETFUL
from ..model.events.telling import tell
from ..model.groups.group import NO_VERSION, GroupNode, GroupSettings, KnownGroup, Sighting
from ..model.groups.group_codec import encode_node
from ..remoting.commands import (
    AlterInSync,
    ChangeGroup,
    ElectMaster,
    GetGroup,
    GroupChanged,
    GroupReply,
    ProbeReplica,
    RegisterReplica,
    RemoveReplica,
    ReplicaHeartbeat,
    Reply,
    ReportMasterGone,
    Request,
    RestoreGroup,
)
from ..remoting.server import Call
from ..remoting.timers import Timer
from .cluster_naming import ClusterNaming
from .group.audit_record import encode_forced_election
from .group.detection import Detection, Effect, Probe, Stalled, TellReplicas, WriteGroup
from .group.founding import FOUND_LISTEN_MS, Founding
from .group.group_events import Reasons, events_between
from .group.group_settings import change_settings, must_flush
from .group.group_state import alter_in_sync, remove_replica
from .group.registration import register
from .group.set_back import asserted_sighting, is_set_back, restore, sighting_at_registration, sighting_in_heartbeat
from .group_changes import Attempt, Change, GroupChanges, Write
from .group_store import GroupStore, Stale, Unknown, Written
from .hearing import LISTEN_MS, Hearing
from .node_reader import Found, NodeReader
from .store_worker import StoreWorker

log = logging.getLogger(__name__)

TICK_MS: Final = 50
TRIES: Final = 3
"""How often a change is decided again because the node was written meanwhile."""


Flush = Callable[[GroupNode, frozenset[str], int, Callable[[frozenset[str]], None]], None]
"""Asks the named replicas of a node to flush within so many ms; calls back, on the loop, with those that did."""


class TermLoop(Protocol):
    """The request loop, as far as a term uses it."""

    def reply(self, call: Call[Request], reply: Reply, payload: Sequence[bytes | memoryview] = ()) -> None:
        """Answers a call."""

    def fail(self, call: Call[Request], error: ZenitError) -> None:
        """Answers a call with an error."""

    def send_to(self, identity: bytes, request: Request, payload: Sequence[bytes | memoryview] = ()) -> bool:
        """Pushes to a connection; False if it is gone."""

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Timer:
        """Calls back each interval."""


class LeadershipTerm:
    """Made when this controller is the first; call `end`, then drop it."""

    def __init__(
        self,
        store: GroupStore,
        worker: StoreWorker,
        loop: TermLoop,
        clock: Clock,
        *,
        detection: Detection,
        new_group: GroupSettings,
        listen_ms: int = LISTEN_MS,
        found_listen_ms: int = FOUND_LISTEN_MS,
        new_group_replicas: int = 0,
        naming: ClusterNaming,
        elections: dict[tuple[str, bool], int] | None = None,
    ) -> None:
        """`listen_ms`: for a group that has a node; `found_listen_ms`: before a group is founded.
        `new_group_replicas`: the number of replicas of a new group, 0 = unknown. `elections`: {(group, forced): count},
        counted on in each term."""
        self._elections = {} if elections is None else elections
        self._store = store
        self._worker = worker
        self._naming = naming
        self._founding = Founding(listen_ms=found_listen_ms, replicas=new_group_replicas)
        self._loop = loop
        self._clock = clock
        self._detection = detection
        self._new_group = new_group
        self._changes = GroupChanges(store, worker)
        self._hearing = Hearing(store, worker, listen_ms=listen_ms, on_heard_out=self._on_heard_out)
        self._reader = NodeReader(store, worker, clock, on_found=self._on_found, on_seen=self._hearing.on_seen)
        self._names: set[str] = set()
        self._reasons = Reasons()
        self._damaged: dict[str, GroupNodeDamaged] = {}
        self._connections: dict[
            tuple[str, str], bytes
        ] = {}  # (group, replica) -> the connection on which it was last heard
        self._ticking: Timer | None = None

    # ---- beginning and end

    def begin(self) -> None:
        """Reads everything; `is_ready` once that was answered."""
        self._ticking = self._loop.every(TICK_MS, self._on_tick)
        self._reader.begin()

    def end(self) -> None:
        """Another controller leads, or it is unknown: waiting callers are directed to look for the leader."""
        self._reader.close()
        if self._ticking is not None:
            self._ticking.cancel()
        self._changes.close(NotLeadingController(""))

    @property
    def is_ready(self) -> bool:
        """All nodes were read: it may answer."""
        return self._reader.is_ready

    @property
    def group_names(self) -> frozenset[str]:
        """Groups that have a node. Any thread."""
        return frozenset(self._names.copy())

    @property
    def broker_names(self) -> tuple[str, ...]:
        """All groups, and those that replicas know though ZooKeeper does not; sorted."""
        return tuple(sorted(self._names | self._damaged.keys() | self._hearing.broker_names))

    @property
    def nodes(self) -> dict[str, GroupNode]:
        """The nodes of all groups that can be read, by name."""
        return {name: self._detection.known(name).node for name in sorted(self._names)}

    # ---- what is known

    def on_touched(self, broker_name: str | None) -> None:
        """ZooKeeper says that a node has changed, or (None) the list of them."""
        self._reader.on_touched(broker_name)

    def _on_found(self, name: str, found: Found) -> None:
        """The present content of a node: adopt it, and act."""
        if isinstance(found, KnownGroup):
            if name in self._names and is_set_back(self._detection.known(name), found):
                self._remember_own(self._detection.known(name))
            self._tell_changes(found)
            self._names.add(name)
            self._damaged.pop(name, None)
            now_ms = self._clock.monotonic_ms()
            if not self._reader.is_ready and self._hearing.listen(
                name, (one.name for one in found.node.members), now_ms
            ):
                self._changes.hold(name)
            self._carry_out(self._detection.on_group(found, now_ms))
            return
        if found is None and name in self._names:
            self._remember_own(self._detection.known(name))
        self._names.discard(name)
        self._detection.on_group_missing(name)
        if found is not None and name not in self._damaged:
            tell(log, GROUP_DAMAGED, group=name, why=found)
            self._damaged[name] = found

    def _tell_changes(self, found: KnownGroup, *, is_founded: bool = False) -> None:
        """Tells what is new in a node. `is_founded`: one that was not known before was made now, not found."""
        name = found.node.broker_name
        before = self._detection.known(name) if name in self._names else None
        if found.is_news_after(before) if before is not None else is_founded:
            node = before.node if before is not None else None
            reason = self._reasons.of(found.node)
            for kind, facts in events_between(node, found.node, reason):
                tell(log, kind, **facts)
                if kind is ELECTED:
                    key = name, reason.forced is not None
                    self._elections[key] = self._elections.get(key, 0) + 1

    def _remember_own(self, known: KnownGroup) -> None:
        """A node that this controller has known itself is gone, or was set back."""
        node = known.node
        if node.group_id and node.epoch > 0:
            self._hearing.remember(node.broker_name, Sighting(node.group_id, node.epoch, known.version), has_node=True)

    def _on_heard_out(self, name: str) -> None:
        """All living replicas of the group were heard: changes take their turns, and elections are decided again."""
        self._changes.release(name)
        if name in self._names:
            self._on_found(name, self._detection.known(name))

    def _known(self, name: str) -> KnownGroup | None:
        """The group; None if there is none. Raises GroupNodeDamaged."""
        if name in self._damaged:
            raise self._damaged[name]
        return self._detection.known(name) if name in self._names else None

    def _on_tick(self) -> None:
        self._reader.on_tick()
        if self._reader.is_ready:
            now_ms = self._clock.monotonic_ms()
            self._founding.until_ms(now_ms)  # from when everything was read, and brokers are answered
            self._hearing.on_tick(now_ms)
            self._carry_out(self._detection.on_tick(now_ms))

    # ---- requests of brokers

    def on_register(self, call: Call[RegisterReplica]) -> None:
        """RegisterReplica. If ZooKeeper has no id of the cluster, the first registration makes it. Raises WrongCluster."""
        if self._naming.cluster_id:
            self._register(call)
            return
        known = (self._detection.known(name).node.cluster_id for name in sorted(self._names))
        brought = check_cluster_id(call.request.cluster_id)
        now_ms = self._clock.monotonic_ms()
        may_draw = now_ms >= self._founding.until_ms(now_ms)
        self._naming.settle(
            self._store, self._worker, (*known, brought), partial(self._on_named, call), may_draw=may_draw
        )

    def _on_named(self, call: Call[RegisterReplica], error: ZenitError | None) -> None:
        try:
            if error is not None:
                raise error
            self._register(call)
        except ZenitError as why:
            self._loop.fail(call, why)

    def _register(self, call: Call[RegisterReplica]) -> None:
        request = call.request
        name = request.broker_name
        self._naming.check(request.cluster_id)
        present = self._known(name)
        sighting = sighting_at_registration(request, present)
        if sighting is not None:
            self._hearing.remember(name, sighting, has_node=present is not None)

        def decide() -> Write | None:
            known = self._known(name)
            alive = self._detection.is_alive(name, request.name, self._clock.monotonic_ms())
            node = known.node if known is not None else None
            made = register(
                node,
                request,
                settings=self._new_group,
                present_is_alive=alive,
                confirmed=self._detection.confirmed(name),
            )
            if made.repeated and known is not None:
                self._on_registered(call, known)
                return None
            self._hearing.check(name, known)
            if made.unclean is not None:
                tell(log, REPLICA_FORGETFUL, group=name, replica=request.name, why=made.unclean)
            named = replace(made.node, cluster_id=self._naming.cluster_id)
            return Write(named, known.version if known is not None else NO_VERSION)

        now_ms = self._clock.monotonic_ms()
        self._founding.on_registration(request)
        may_found = self._founding.may_found(name, now_ms)
        if present is None and not may_found:
            self._changes.hold(name)
            self._hearing.listen_to_all(name, self._founding.until_ms(now_ms))
        self._submit(call, name, decide, partial(self._on_registered, call))
        if present is None and may_found:
            self._hearing.end_listening_to_all(name)
        self._hearing.on_heard(name, request.name)

    def on_heartbeat(self, call: Call[ReplicaHeartbeat]) -> GroupReply:
        """ReplicaHeartbeat."""
        request = call.request
        effects = self._detection.on_heartbeat(request, self._clock.monotonic_ms())
        self._connections[request.broker_name, request.name] = call.identity
        known = self._detection.known(request.broker_name)
        sighting = sighting_in_heartbeat(request, known)
        if sighting is not None:  # the node was set back, or another controller wrote it: this one may no longer lead
            self._hearing.remember(request.broker_name, sighting, has_node=True)
            self._reader.read_soon(request.broker_name)
        self._carry_out(effects)
        self._hearing.on_heard(request.broker_name, request.name)
        return self._reply(known, asked=(request.epoch, request.version))

    def on_master_gone(self, call: Call[ReportMasterGone]) -> GroupReply:
        """ReportMasterGone."""
        request = call.request
        self._carry_out(self._detection.on_master_gone(request, self._clock.monotonic_ms()))
        return self._reply(self._detection.known(request.broker_name))

    def on_alter_in_sync(self, call: Call[AlterInSync]) -> None:
        """AlterInSync."""
        request = call.request

        def decide() -> Write:
            known = self._whole(request.broker_name)
            return Write(alter_in_sync(known, request), request.version)

        self._submit(call, request.broker_name, decide, partial(self._on_changed, call))

    # ---- requests of operators

    def on_get_group(self, call: Call[GetGroup]) -> GroupReply:
        """GetGroup."""
        name = call.request.broker_name
        known = self._known(name)
        if known is None:
            self._hearing.check(name, None)
            raise ReplicaGroupNotFound(name)
        return self._reply(known)

    def on_elect(self, call: Call[ElectMaster]) -> None:
        """ElectMaster. The record of a forced election is stored before the election is written."""
        request = call.request

        def decide() -> Write:
            self._whole(request.broker_name)
            choice = self._detection.operator_election(request, self._clock.monotonic_ms())
            log.warning(
                *("%s elects group=%s master=%s epoch=%s forced=%s", _asker(call), request.broker_name),
                *(choice.node.master, choice.node.epoch, choice.record is not None),
            )
            self._reasons.because(choice.node, f"{_asker(call)} asked", choice.record)
            if choice.record is None:
                return Write(choice.node, request.version)
            record = encode_forced_election(replace(choice.record, by=call.user, at_ms=self._clock.now_ms()))
            return Write(choice.node, request.version, record)

        self._submit(call, request.broker_name, decide, partial(self._on_changed, call))

    def on_change_group(self, call: Call[ChangeGroup], flush: Flush, flushed: frozenset[str] | None = None) -> None:
        """ChangeGroup. If replicas must first flush their logs, it asks them when its turn comes, and takes another
        turn with those that did (`flushed`)."""
        request = call.request

        def decide() -> Write | None:
            known = self._whole(request.broker_name)
            asked = must_flush(known, request) if flushed is None else frozenset()
            if not asked:
                seen = self._detection.epoch_seen(request.broker_name)
                node = change_settings(known, request, flushed=flushed or frozenset(), epoch_seen=seen)
                self._reasons.because(node, f"{_asker(call)} changed the flush mode")
                return Write(node, request.version)
            log.info("flushing for a change group=%s replicas=%s", request.broker_name, ",".join(sorted(asked)))
            timeout_ms = max(1, (call.deadline_ms - self._clock.monotonic_ms()) * 2 // 3)  # the rest is for the write
            flush(known.node, asked, timeout_ms, lambda done: self.on_change_group(call, flush, done))
            return None

        self._submit(call, request.broker_name, decide, partial(self._on_changed, call))

    def on_remove_replica(self, call: Call[RemoveReplica]) -> None:
        """RemoveReplica."""
        request = call.request

        def decide() -> Write:
            return Write(remove_replica(self._whole(request.broker_name), request), request.version)

        self._submit(call, request.broker_name, decide, partial(self._on_changed, call))

    def on_restore(self, call: Call[RestoreGroup]) -> None:
        """RestoreGroup. If the sightings cannot be read, the operator's word is stored in their place first."""
        request = call.request
        name = request.broker_name
        if not self._hearing.is_damaged(name):
            self._restore(call, name)
            return
        asserted = asserted_sighting(self._known(name), request, settings=self._new_group)

        def on_renewed(error: ZenitError | None) -> None:
            if error is None:
                self._restore(call, name)
            else:
                self._loop.fail(call, error)

        self._hearing.renew(name, asserted, on_renewed)

    def _restore(self, call: Call[RestoreGroup], name: str) -> None:
        request = call.request

        def decide() -> Write:
            known = self._known(name)
            node = restore(known, request, seen=self._hearing.seen(name), settings=self._new_group)
            log.warning("%s restores group=%s epoch=%s group_id=%s", _asker(call), name, node.epoch, node.group_id)
            self._reasons.because(node, f"{_asker(call)} restored the group")
            return Write(node, request.version)

        self._submit(call, name, decide, partial(self._on_changed, call))

    def _whole(self, name: str) -> KnownGroup:
        """The group, unless a replica knows of a newer node. Raises GroupNodeLost, ReplicaGroupNotFound."""
        self._hearing.check(name, self._known(name))
        return self._detection.known(name)

    # ---- changes

    def _submit(
        self,
        call: Call[Request],
        name: str,
        decide: Callable[[], Write | None],
        on_written: Callable[[KnownGroup], None],
        tries: int = TRIES,
    ) -> None:
        """A change that a caller waits for. Decided again if the node was written meanwhile: the rules then refuse it,
        if it named the earlier version."""

        def settle(attempt: Attempt) -> None:
            if isinstance(attempt.outcome, Written):
                on_written(cast(KnownGroup, attempt.known))
                return
            self._on_attempt(name, attempt)
            if isinstance(attempt.outcome, Stale) and tries > 1 and not isinstance(attempt.known, ZenitError):
                self._submit(call, name, decide, on_written, tries - 1)
            else:
                self._loop.fail(call, _unwritten(name, attempt))

        self._changes.submit(name, Change(decide, settle, partial(self._loop.fail, call)))

    def _on_attempt(self, name: str, attempt: Attempt) -> None:
        """The node after a write, whatever its outcome; read again if that is unknown."""
        if isinstance(attempt.known, ZenitError) and not isinstance(attempt.known, GroupNodeDamaged):
            self._reader.read_soon(name)
        else:
            self._on_found(name, attempt.known)

    def _on_registered(self, call: Call[RegisterReplica], known: KnownGroup) -> None:
        request = call.request
        self._tell_changes(known, is_founded=True)
        self._names.add(request.broker_name)
        self._connections[request.broker_name, request.name] = call.identity
        effects = self._detection.on_registered(known, request, self._clock.monotonic_ms())
        self._loop.reply(call, self._reply(known))
        self._carry_out(effects)

    def _on_changed(self, call: Call[Request], known: KnownGroup) -> None:
        self._on_found(known.node.broker_name, known)
        self._loop.reply(call, self._reply(known))

    # ---- effects

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, WriteGroup):
                self._elect(effect)
            elif isinstance(effect, Probe):
                self._push(effect.broker_name, effect.name, ProbeReplica(effect.broker_name, effect.number))
            elif isinstance(effect, Stalled):
                tell(log, GROUP_STALLED, group=effect.broker_name, why=effect.why)
            else:
                self._tell(effect)

    def _elect(self, effect: WriteGroup) -> None:
        """Detection wants another master; it gets the node after that, whatever the outcome."""
        node, name = effect.node, effect.node.broker_name
        if self._hearing.listens_to(name):
            return  # decided again then

        def decide() -> Write | None:
            if name not in self._names or self._detection.known(name).version != effect.version:
                return None  # written meanwhile, and decided again
            if self._hearing.epoch_seen(name, self._detection.known(name)):
                return None  # until it is restored
            log.info("electing group=%s master=%s epoch=%s why=%s", name, node.master, node.epoch, effect.why)
            self._reasons.because(node, effect.why)
            return Write(node, effect.version)

        def refuse(_: ZenitError) -> None:
            self._reader.read_soon(name)

        self._changes.submit(name, Change(decide, partial(self._on_attempt, name), refuse), first=True)

    def _reply(self, known: KnownGroup, *, asked: tuple[int, int] = (0, NO_VERSION)) -> GroupReply:
        """The node, unless the sender already has it: (epoch, version)."""
        data = b"" if (known.node.epoch, known.version) == asked else encode_node(known.node)
        return GroupReply(known.version, data, self._hearing.epoch_seen(known.node.broker_name, known))

    def _tell(self, effect: TellReplicas) -> None:
        known = effect.known
        news = GroupChanged(known.node.broker_name, known.version, encode_node(known.node))
        for replica in known.node.replicas:
            self._push(known.node.broker_name, replica.name, news)

    def _push(self, broker_name: str, name: str, request: Request) -> None:
        connection = self._connections.get((broker_name, name))
        if connection is not None and not self._loop.send_to(connection, request):
            del self._connections[broker_name, name]


def _asker(call: Call[Request]) -> str:
    """Who asked, for an event: the user's name, where the cluster knows users."""
    return call.user or "an operator"


def _unwritten(name: str, attempt: Attempt) -> ZenitError:
    """Why a change was not made, as far as known."""
    if isinstance(attempt.known, ZenitError):
        return attempt.known
    if isinstance(attempt.outcome, Unknown):
        return ZooKeeperUnavailable(
            f"write group {name}", f"{attempt.outcome.reason}; it is unknown whether the write was carried out"
        )
    return (
        ReplicaGroupNotFound(name)
        if attempt.known is None
        else BrokerBusy(100, f"other controllers keep writing group {name}")
    )
