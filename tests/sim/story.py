"""A stage for stories: replicas whose every message, write and fault happens when the story says so.

    stage = Stage("abc", in_sync="ab")      a is master of epoch 1, b has an open session, c has heard nothing yet
    stage.append("a")                       a record; its chunks wait in the network
    stage.carry("a", "b")                   what waits between the two, both ways, until nothing does
    stage.shrink("b")                       the controller writes what the master proposed; nobody has heard of it yet
    stage.hear("a")                         a reads the node

The replicas are the simulation's (shipped cores and shell), the node is changed by the shipped rules, and the ledger
checks the same invariants. A story ends with `stage.whole()` where all must come right again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final, cast

from zenitmq.broker.replication.epochs import EpochList
from zenitmq.broker.replication.frame_codec import decode
from zenitmq.broker.replication.frames import Frame
from zenitmq.controller.group import forcing, group_settings, group_state, registration, set_back
from zenitmq.model.errors import (
    ForeignLog,
    ForeignReplica,
    GroupNodeLost,
    RemoteProtocolError,
    StartCounterBehind,
    ZenitError,
)
from zenitmq.model.groups.group import NO_VERSION, FlushMode, GroupNode, GroupSettings, KnownGroup, Seen, Sighting
from zenitmq.model.groups.log_reach import LogReach, best_log
from zenitmq.remoting.commands import AlterInSync, ChangeGroup, RegisterReplica, ReplicaHeartbeat, RestoreGroup

from .broker import GROUP, Broker, World
from .disk import REPLICA_FILE, Disk
from .ledger import Ledger, Violation
from .records import RECORD, SimulatedRecord
from .schedule import MS, Host, Schedule, SimulatedTimer
from .sockets import SimulatedRouter
from .wire import SimulatedLoop

REOPENINGS_MAX: Final = 20


class Held:
    """A message that waits to be delivered."""

    __slots__ = ("deliver", "dst", "host", "src", "what")

    def __init__(self, src: str, dst: str, host: Host, deliver: Callable[[], None], what: object) -> None:
        self.src, self.dst, self.host, self.deliver, self.what = src, dst, host, deliver, what


class HeldNetwork:
    """Nothing arrives by itself."""

    def __init__(self) -> None:
        self.held: list[Held] = []

    def is_cut(self, src: str, dst: str) -> bool:
        """Never: what is not to arrive is not carried."""
        return False

    def send(self, src: str, dst: str, host: Host, deliver: Callable[[], None], what: object) -> None:
        """Waits."""
        if isinstance(what, tuple):
            side, header = what
            with suppress(RemoteProtocolError):  # a rule that is gone may make frames that no decoder takes
                what = decode(header, side)
        self.held.append(Held(src, dst, host, deliver, what))


class StageCalls:
    """`ReplicaController` of one replica: what it proposes is kept for the story."""

    def __init__(self) -> None:
        self.proposals: list[AlterInSync] = []
        self.broker: Broker | None = None

    is_linked = elects = True

    def beat(self) -> None:
        """Nobody listens."""

    def propose_in_sync(self, version: int, names: tuple[str, ...]) -> None:
        """Kept."""
        assert self.broker is not None
        life = self.broker.incarnation
        proposal = AlterInSync(
            GROUP, version, self.broker.replica.epoch, self.broker.name, life.store_id, life.starts, names
        )
        self.proposals.append(proposal)

    def report_master_gone(self, master: str, epoch: int) -> None:
        """Nobody listens."""

    def ask(self) -> None:
        """Stories tell replicas of the node themselves."""


class StageLoop(SimulatedLoop):
    """What is done again and again happens when the story says so."""

    def every(self, interval_ms: int, callback: Callable[[], None]) -> SimulatedTimer:
        """Not by itself."""
        return SimulatedTimer()


class Stage(World):
    """See above. Epoch 1 has been led by the first of `names` since before the story."""

    def __init__(self, names: str = "abc", *, in_sync: str = "abc", minimum: int = 2, sync: bool = False) -> None:
        self.schedule = Schedule(0)
        self.network = HeldNetwork()
        self.ledger = Ledger()
        self.is_forced = False
        self.damage_rate = self.disk_latency_ms = 0.0
        mode = FlushMode.SYNC if sync else FlushMode.ASYNC
        self.settings = GroupSettings(min_in_sync=minimum, flush_mode=mode)
        self.disks = {name: Disk(name, f"store-{name}") for name in names}
        self.brokers: dict[str, Broker] = {}
        self.calls: dict[str, StageCalls] = {}
        self.history: list[KnownGroup] = []
        self._to_reopen: list[Broker] = []
        self.seen = Seen(GROUP)
        self._number = 0
        self._write(GroupNode(broker_name=GROUP, group_id="group-1", settings=self.settings))
        for name in names:
            self.start(name)
            self.register(name)
        self._write(replace(self.node, in_sync=tuple(in_sync)))
        self.elect(names[0])
        for name in in_sync:
            self.hear(name)
        self.carry_all()

    # ---- what the world is asked

    def new_loop(self, host: Host, address: str) -> SimulatedLoop:
        """Of a broker."""
        return StageLoop(self, host, address)

    def listener(self, address: str) -> SimulatedLoop | None:
        """The broker at an address: stories have neither controllers nor clients."""
        broker = self.living(address)
        return None if broker is None else broker.loop

    def router(self, address: str) -> SimulatedRouter | None:
        """Where the broker at an address listens for slaves."""
        broker = self.living(address)
        return None if broker is None else broker.sockets.bound

    def living(self, address: str) -> Broker | None:
        """The broker at an address."""
        return self.brokers.get(address.partition(":")[0])

    def is_reachable(self, src: str, dst: str) -> bool:
        """Nobody is refused: who is dead is silent."""
        return False

    def next_number(self) -> int:
        """Of a record."""
        self._number += 1
        return self._number

    def on_master(self, broker: Broker, epoch: int) -> None:
        """No name servers here."""

    def on_exit(self, broker: Broker) -> None:
        """An fsync has failed."""
        self.kill(broker.name)

    def on_reopen(self, broker: Broker) -> None:
        """At the end of the step."""
        self._to_reopen.append(broker)

    def on_drained(self, broker: Broker) -> None:
        """It stops in an orderly way."""
        broker.stop()
        self.kill(broker.name)

    def settle(self) -> None:
        """What is due by now happens; stores are opened anew, and their replicas register and hear the node."""
        self.schedule.run(self.schedule.now_us)
        for _ in range(REOPENINGS_MAX):
            if not self._to_reopen:
                return
            broker = self._to_reopen.pop()
            if broker.alive:
                self.stop(broker.name)
                self.start(broker.name)
                if self.register(broker.name):
                    self._tell_leader()
                    self.hear(broker.name)
        raise Violation("I5: a store is opened anew for ever")

    def _tell_leader(self) -> None:
        """Who leads hears of another life of its slave at once."""
        for name in sorted(self.brokers):
            replica = self.brokers[name].replica
            if replica.master is not None and replica.epoch == self.node.epoch:
                self.hear(name)

    # ---- the node

    @property
    def known(self) -> KnownGroup | None:
        """The node and its version at the controller; None where ZooKeeper was emptied."""
        return self.history[-1] if self.history else None

    @property
    def node(self) -> GroupNode:
        """As it is at the controller."""
        return self.history[-1].node

    def _write(self, node: GroupNode) -> None:
        self.history.append(KnownGroup(node, len(self.history)))

    def elect(self, name: str, *, old_is_dead: bool = False, epoch_seen: int = 0) -> bool:
        """The controller elects; False where its rules refuse. `epoch_seen`: the highest that a heartbeat has told of."""
        if set_back.newest_epoch_seen(self.seen, self.known):
            return False
        try:
            self._write(group_state.elect(self.node, name, old_master_is_dead=old_is_dead, epoch_seen=epoch_seen))
        except ZenitError:
            return False
        return True

    def force(self, name: str) -> None:
        """An operator makes master of somebody who may lack what was acknowledged; the old one was silent for long. What
        was acknowledged and seen so far is given up."""
        self.is_forced, self.ledger = True, Ledger()
        reaches = self.reaches()
        elected = next(reach for reach in reaches if reach.name == name)
        forced, _ = forcing.force_election(self.node, elected, reaches, wait_ms=0, epoch_seen=self.node.epoch, now_ms=0)
        self._write(forced)

    def shrink(self, name: str) -> None:
        """The controller writes that a member has left, as its master had proposed."""
        self._write(group_state.with_in_sync(self.node, set(self.node.in_sync) - {name}))

    def proposal(self, name: str, *, last: bool = True) -> AlterInSync | None:
        """What a master has proposed last; None where it has proposed nothing."""
        proposals = self.calls[name].proposals
        return proposals[-1 if last else 0] if proposals else None

    def write_proposal(self, request: AlterInSync | None) -> bool:
        """It reaches the controller; False where it is refused, or there is none."""
        if request is None:
            return False
        try:
            self._check_whole()
            self._write(group_state.alter_in_sync(self.history[-1], request))
        except ZenitError:
            return False
        return True

    def register(self, name: str, *, master_was_heard: bool = False) -> bool:
        """The controller hears of the present life, and its answer arrives; False where it is refused. `master_was_heard`: it
        knows what is confirmed."""
        broker = self.brokers[name]
        life, facts = broker.life(), broker.heartbeat_facts()
        request = RegisterReplica(
            broker_name=GROUP,
            name=name,
            address=life.address,
            replication_address=life.replication_address,
            store_id=life.incarnation.store_id,
            starts=life.incarnation.starts,
            life=broker.token,
            epoch=facts.epoch,
            log_end=facts.log_end,
            clean_marker=life.clean_marker,
            marker_end=life.marker_end,
            same_boot=life.same_boot,
            ran_async=life.ran_async,
            set_back=life.set_back,
            group_id=life.group_id,
            newest_epoch=facts.newest_epoch,
            has_hole=life.has_hole,
            confirm_heard=life.confirm_heard,
        )
        known = self.known
        self._see(set_back.sighting_at_registration(request, known))
        confirmed = self._confirmed() if master_was_heard else 0
        try:
            node = known.node if known is not None else None
            made = registration.register(
                node, request, settings=self.settings, present_is_alive=False, confirmed=confirmed
            )
            self._check_whole()
        except StartCounterBehind as behind:
            broker.member.files.start_above(behind.current)
            self.stop(name)
            self.start(name)
            return self.register(name, master_was_heard=master_was_heard)
        except (GroupNodeLost, ForeignLog, ForeignReplica):
            return False
        self._write(made.node)
        broker.on_registered(self.node.group_id)
        return True

    def _confirmed(self) -> int:
        """As the master has told last."""
        leads = (one.replica for one in self.brokers.values() if one.replica.master is not None)
        return max((one.log.confirm for one in leads if one.epoch == self.node.epoch), default=0)

    # ---- ZooKeeper set back

    def set_back_zookeeper(self, version: int) -> None:
        """The node is again what it was; its next version will be one that was there already."""
        del self.history[version + 1 :]

    def beat(self, name: str) -> None:
        """A registered life's heartbeat reaches the controller."""
        broker = self.brokers[name]
        known, life = broker.replica.known, broker.incarnation
        facts = broker.heartbeat_facts()
        version = NO_VERSION if known is None else known.version
        request = ReplicaHeartbeat(GROUP, name, life.store_id, life.starts, version, *facts[:3])
        self._see(set_back.sighting_in_heartbeat(request, self.history[-1]))

    def _see(self, sighting: Sighting | None) -> None:
        if sighting is not None:
            self.seen = self.seen.with_sighting(sighting)

    def _check_whole(self) -> None:
        set_back.check_not_set_back(GROUP, self.seen, self.known)

    def empty_zookeeper(self) -> None:
        """The node is gone."""
        self.history.clear()

    def restore(self) -> None:
        """An operator restores the group above the highest epoch that any disk has promised; who lives registers again."""
        epoch = max(disk.replica.promised for disk in self.disks.values())
        request = RestoreGroup(GROUP, self.version, epoch)
        self._write(set_back.restore(self.known, request, seen=self.seen, settings=self.settings))
        for name in sorted(self.brokers):
            if self.node.replica(name) is None:
                self.register(name)

    def reaches(self) -> list[LogReach]:
        """How far the logs of all who live reach."""
        found = []
        for name, broker in sorted(self.brokers.items()):
            facts = broker.heartbeat_facts()
            reach = LogReach(
                name=name,
                newest_epoch=facts.newest_epoch,
                newest_begin=facts.newest_begin,
                end=facts.log_end,
                confirm=facts.confirm_offset,
            )
            found.append(reach)
        return found

    def force_the_best(self) -> None:
        """An operator forces whoever has the log that is worth most, once nobody leads an earlier epoch."""
        for name in sorted(self.brokers):
            self.hear(name)
        reaches = self.reaches()
        forced, _ = forcing.force_election(
            self.node, best_log(reaches), reaches, wait_ms=0, epoch_seen=self.node.epoch, now_ms=0
        )
        self._write(forced)

    def be_alone(self, name: str, *, records: int, epoch: int = 1) -> None:
        """The next disk of that name is one of a broker that was alone: it has a log, epochs, and no group."""
        if name in self.brokers:
            self.kill(name)
        disk = self.disks[name] = Disk(name, f"alone-{name}")
        for number in range(records):
            disk.append(SimulatedRecord(self.next_number(), epoch, 9, 9, number, number).encode())
        disk.durable = len(disk.log)
        disk.rewrite_epochs(EpochList.of([(epoch, 0)]))

    def set_flush_mode(self, mode: FlushMode) -> None:
        """An operator changes it; all who may be elected have flushed what they had when they were asked."""
        known = self.history[-1]
        request = ChangeGroup(GROUP, known.version, (("flush_mode", mode.value),))
        flushed = group_state.electable(known.node)
        self._write(group_settings.change_settings(known, request, flushed=flushed, epoch_seen=known.node.epoch))

    def remember(self, name: str) -> None:
        """A checkpoint is written, with the confirm offset in it."""
        self.brokers[name].store.write_checkpoint()

    def hear(self, name: str, version: int | None = None) -> None:
        """A replica reads the node as it is, or as it was; a life that has not registered reads it as well."""
        broker, known = self.brokers[name], self.history[-1 if version is None else version]
        if broker.is_registered:
            broker.on_group(known)
        else:
            broker.store.is_sync = known.node.settings.flush_mode is FlushMode.SYNC
            broker.replica.on_group(known)
        broker.turn()
        self.settle()

    @property
    def version(self) -> int:
        """Of the node now."""
        return self.history[-1].version if self.history else NO_VERSION

    # ---- replicas

    def append(self, name: str) -> None:
        """A producer's message at that replica; nothing where it takes none."""
        self.brokers[name].on_send(0, 0, self._number + 1, lambda _: None)
        self.settle()

    def flush(self, name: str) -> None:
        """An fsync of all that is written."""
        self.brokers[name].store.request_flush()
        self.settle()

    def kill(self, name: str) -> None:
        """kill -9: the page cache stays."""
        self.brokers.pop(name).end(quietly=True)

    def lose_power(self, name: str, *, keep: int | None = None, hole: int | None = None) -> None:
        """What was not synced is gone, or all but `keep` records of it; `hole`: one of those that is lost all the same."""
        if name in self.brokers:
            self.kill(name)
        disk = self.disks[name]
        if disk.undead:
            disk.raise_dead()
        else:
            disk.truncate(disk.durable if keep is None else keep * RECORD)
        if hole is not None:
            disk.lose_page(hole)
        disk.forget_cache()

    def dies(self, name: str, *, power: bool, keeps_names: bool) -> None:
        """Its process has ended in the middle of a write, alone or with its machine. `keeps_names`: what was put in place in a
        folder, which was not synced, is there all the same."""
        if name in self.brokers:
            self.kill(name)
        if keeps_names:
            self.disks[name].sync_names()
        if power:
            self.lose_power(name)

    def wipe(self, name: str) -> None:
        """Another disk."""
        if name in self.brokers:
            self.kill(name)
        self.disks[name].wipe(f"{self.disks[name].new_store_id}-again")

    def set_back(self, name: str, copy: Disk) -> None:
        """The disk becomes the copy."""
        self.kill(name)
        copy.durable, copy.platter = len(copy.log), dict(copy.files)
        self.disks[name] = copy

    def replace_by_copy(self, name: str, of: str) -> None:
        """The disk of `name` becomes a copy of another replica's, as `zenit store copy` makes one."""
        copy, new_store_id = self.disks[of].copy(), f"{self.disks[name].new_store_id}-again"
        promised, group_id = copy.replica.promised, copy.replica.group_id
        copy.name, copy.new_store_id = name, new_store_id
        del copy.files[REPLICA_FILE]
        copy.rewrite_replica(store_id=new_store_id, promised=promised, group_id=group_id)
        self.set_back(name, copy)

    def stop(self, name: str) -> None:
        """A clean stop."""
        broker = self.brokers.pop(name)
        broker.stop()
        broker.end(quietly=True)

    def start(self, name: str) -> None:
        """The next life."""
        broker = Broker(self, name, self.disks[name])
        self.brokers[name] = broker
        broker.store.flushes_appends = False  # a disk is slow until the story says otherwise
        calls = self.calls[name] = StageCalls()
        calls.broker = broker
        broker.begin(calls)

    def tick(self, *names: str, after_ms: int = 0) -> None:
        """Time passes for all, and those named (all, if none is) notice."""
        self.schedule.now_us += after_ms * MS
        for name in names or sorted(self.brokers):
            self.brokers[name].member._on_tick()
            self.brokers[name].turn()
        self.settle()

    def reopen(self, name: str) -> None:
        """A slave's session is broken off; it asks for another."""
        replica = self.brokers[name].replica
        replica.on_master_lost(replica._slave.session)
        self.tick(name, after_ms=60)

    def part(self, master: str, name: str) -> None:
        """The master ends a slave's session; the slave does not know it yet."""
        self.brokers[master].replica.on_bad_slave_frame(name, self.brokers[name].replica._slave.session)

    # ---- the network

    def waiting(self, src: str, dst: str, kind: type[Frame] | None = None) -> list[Held]:
        """What waits on a way, oldest first."""
        return [
            held
            for held in self.network.held
            if (held.src, held.dst) == (src, dst) and (kind is None or isinstance(held.what, kind))
        ]

    def deliver(self, held: Held, *, keep: bool = False) -> None:
        """One message arrives, if who it is for still lives. `keep`: a copy of it stays."""
        if not keep:
            self.network.held.remove(held)
        if held.host.alive:
            held.deliver()
            cast(Broker, held.host).turn()
        self.settle()

    def one(self, src: str, dst: str, kind: type[Frame], *, keep: bool = False) -> Held | None:
        """The oldest message of a kind arrives; None where there is none."""
        found = self.waiting(src, dst, kind)
        if not found:
            return None
        self.deliver(found[0], keep=keep)
        return found[0]

    def carry(self, one: str, other: str) -> None:
        """All that waits between two arrives, and all that follows from it."""
        for _ in range(200):
            found = self.waiting(one, other) + self.waiting(other, one)
            if not found:
                return
            self.deliver(min(found, key=self.network.held.index))
        raise Violation(f"I5: {one} and {other} never come to an end")

    def carry_all(self) -> None:
        """Everything arrives."""
        for _ in range(2000):
            if not self.network.held:
                return
            self.deliver(self.network.held[0])
        raise Violation("I5: the network never comes to rest")

    def drop_all(self) -> None:
        """Everything that waits is lost."""
        self.network.held.clear()

    # ---- the end

    def whole(self) -> None:
        """All faults end: within some seconds of it all logs are one and readable, all are in sync (I5)."""
        for name in self.disks:
            if name not in self.brokers:
                self.start(name)
            replica = self.node.replica(name)
            if replica is None or replica.incarnation != self.brokers[name].incarnation:
                self.register(name)
        self.drop_all()
        for step in range(200):
            self._elect_if_needed(step)
            for name in self.disks:
                self.hear(name)
                self.flush(name)
            self.carry_all()
            for calls in self.calls.values():
                self.write_proposal(calls.proposals.pop() if calls.proposals else None)
            if self._is_whole():
                return
            self.tick(after_ms=50)
            self.carry_all()
        raise Violation(f"I5: no convergence: {self.node}")

    def _elect_if_needed(self, step: int) -> None:
        leads = any(
            broker.replica.master is not None and broker.replica.epoch == self.node.epoch
            for broker in self.brokers.values()
        )
        if not leads and step % 20 == 5:
            names = sorted(group_state.electable(self.node))
            if not names:
                raise Violation("I5: nobody can be elected")
            self.elect(names[0])

    def _is_whole(self) -> bool:
        logs = [broker.replica.log for broker in self.brokers.values()]
        same = len({bytes(disk.log) for disk in self.disks.values()}) == 1
        shown = all(log.confirm == log.end == logs[0].end for log in logs)
        return same and shown and self.node.in_sync == tuple(sorted(self.disks))
