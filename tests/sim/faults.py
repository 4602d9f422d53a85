"""Faults by weight, each with its repair. None takes away the last copy of what was acknowledged: that is a documented
window (docs/replication.md), not a failure of the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from zenitmq.broker.replication.frames import Ack
from zenitmq.controller.group.group_state import electable
from zenitmq.model.groups.group import FlushMode
from zenitmq.remoting.commands import ChangeGroup, ElectMaster, RestoreGroup

from .broker import GROUP, node_of
from .controller import Controller
from .disk import Disk
from .ledger import Violation
from .records import RECORD, SEGMENT
from .schedule import MS
from .zookeeper_losses import ZooKeeperLosses

if TYPE_CHECKING:
    from .simulation import Simulation


OPERATOR_WAITS_MS = 5000
FIRST_MS = 1500
"""The group has been founded by then, mostly."""
LONG_SHARE = 0.2
"""Of full and hung disks: long enough for a controller to elect another."""
STEPS = 10
"""Of two small files, or of a cut."""


class Faults:
    """`dark`: machines without power."""

    def __init__(self, simulation: Simulation) -> None:
        self.dark: set[str] = set()
        self.stopped = False
        self._simulation = simulation
        self._schedule = simulation.schedule
        self._rng = simulation.rng
        self._names = [name for name, _ in simulation.swarm.faults]
        self._weights = [weight for _, weight in simulation.swarm.faults]
        self.forced = 0
        self._wipes = 0
        self._copies: dict[str, Disk] = {}  # of disks, as they were some time ago
        self.losses = ZooKeeperLosses(simulation, self.ask)
        self._schedule.after_us(FIRST_MS * MS, self._next)
        self._schedule.after_us(500 * MS, self._watch_over)

    def heal(self) -> None:
        """No more faults; everything that is down comes back."""
        simulation = self._simulation
        self.stopped = True
        self.dark.clear()
        for disk in simulation.disks.values():
            disk.fsync_fails = disk.dies_in = None
            disk.mend()
        for number, controller in enumerate(simulation.controllers):
            controller.worker.loss_rate = 0.0
            simulation.start_controller(number)
            self._resume(controller)
        for name in simulation.swarm.names:
            simulation.start_broker(name)
        for broker in simulation.brokers.values():
            broker.member.drain.undo()

    def _watch_over(self) -> None:
        """An operator sees that nobody can be elected, and forces one who has everything (R10)."""
        simulation = self._simulation
        self._schedule.after_us(500 * MS, self._watch_over)
        content = simulation.zookeeper.groups.get(GROUP)
        if content is None or electable(node := node_of(content.data)) or self.losses.is_restoring:
            return
        ledger, disks = simulation.ledger, simulation.disks
        holders = [name for name in simulation.swarm.names if ledger.is_held(disks[name].log, disks[name].begin)]
        if not holders:
            raise Violation("I1: nobody holds what was acknowledged")
        holders.sort(key=self._has_hole)  # as `zenit controller elect --force` says which log is the best
        self.forced += 1
        simulation.say("an operator forces the election of %s, %s", holders[0], node)
        self.ask(ElectMaster(GROUP, content.version, holders[0], True))

    def _has_hole(self, name: str) -> bool:
        broker = self._simulation.brokers.get(name)
        return broker is not None and bool(broker.replica.log.has_hole)

    def repair_us(self) -> int:
        """How long until what was broken is back."""
        return int(self._simulation.swarm.repair_ms * MS * (0.2 + 2 * self._rng.random() ** 2))

    def _next(self) -> None:
        if self.stopped:
            return
        gap_us = int(self._rng.expovariate(1.0) * self._simulation.swarm.fault_gap_ms * MS)
        self._schedule.after_us(gap_us, self._next)
        fault = self._rng.choices(self._names, self._weights)[0]
        if not self.losses.is_quiet:
            getattr(self, f"_{fault}")()

    def _later(self, repair: Callable[[], object]) -> None:
        self._schedule.after_us(self.repair_us(), repair)

    def _any_broker(self) -> str | None:
        """Masters more often than others."""
        simulation = self._simulation
        names = [name for name in simulation.swarm.names if name in simulation.brokers]
        if not names:
            return None
        masters = [name for name in names if simulation.brokers[name].replica.master is not None]
        return self._rng.choice(masters if masters and self._rng.random() < 0.4 else names)

    # ---- what a machine may lose

    def is_survivable(self, name: str) -> bool:
        """Somebody else of the recorded sets holds all that was acknowledged or seen; where the sets are lost, anybody else."""
        simulation = self._simulation
        content = simulation.zookeeper.groups.get(GROUP)
        recorded = set(simulation.swarm.names)
        if content is not None:
            node = node_of(content.data)
            recorded = {*node.in_sync, *node.eligible}
        return any(self._holds_all(other) for other in recorded - {name})

    def _holds_all(self, name: str) -> bool:
        """Also after its next start."""
        disk = self._simulation.disks[name]
        log = disk.log[: disk.durable] if disk.failed_pages else disk.log
        return not disk.unheard and self._simulation.ledger.is_held(log, disk.begin)

    def _may_end(self, name: str) -> bool:
        """It lives; and if its disk was set back, a controller has heard of that: a documented window."""
        return name in self._simulation.brokers and not self._simulation.disks[name].awaits_hearing

    def _may_forget(self, name: str) -> bool:
        """Whether bytes of this replica count that are perhaps not on its disk."""
        content = self._simulation.zookeeper.groups.get(GROUP)
        settings = self._simulation.swarm.settings if content is None else node_of(content.data).settings
        return settings.flush_mode is FlushMode.ASYNC or self._simulation.disks[name].replica.ran_async

    # ---- faults of brokers

    def _kill(self) -> None:
        name = self._any_broker()
        if name is not None:
            self.kill(name)

    def kill(self, name: str) -> None:
        """kill -9, if it lives; it comes back."""
        if self._may_end(name):
            self._simulation.say("kill -9 of %s", name)
            self._simulation.end_broker(name)
            self._later(partial(self._simulation.start_broker, name))

    def on_died(self, name: str) -> None:
        """A process has ended in the middle of a write, alone or with its machine; it comes back."""
        simulation = self._simulation
        may_forget = self._may_forget(name)
        simulation.end_broker(name, quietly=True)
        if self._rng.random() < 0.5 and (not may_forget or self.is_survivable(name)):
            self._darken(name, may_forget=may_forget)
        else:
            simulation.say("%s ends in the middle of a write", name)
            self._later(partial(simulation.start_broker, name))

    def _darken(self, name: str, *, may_forget: bool) -> None:
        disk, was = self._simulation.disks[name], len(self._simulation.disks[name].log)
        disk.lose_power(self._rng)
        disk.unheard |= may_forget
        self.dark.add(name)
        self._simulation.say("%s loses power, its log ended at %s, now %s", name, was, len(disk.log))
        self._later(partial(self._power_back, name))

    def lose_power(self, name: str, *, may_empty_sets: bool = False) -> None:
        """Where the machine is on, and its group can afford it; it comes back. `may_empty_sets`: nobody might be left
        who could be elected, though nothing was lost."""
        simulation = self._simulation
        disk, may_forget = simulation.disks[name], self._may_forget(name)
        affordable = not may_forget or (may_empty_sets and len(disk.log) == disk.durable) or self.is_survivable(name)
        if not self._may_end(name) or not affordable:
            return
        simulation.end_broker(name, quietly=True)
        self._darken(name, may_forget=may_forget)

    def _power_back(self, name: str) -> None:
        self.dark.discard(name)
        self._simulation.start_broker(name)

    def _power(self) -> None:
        name = self._any_broker()
        if name is not None:
            self.lose_power(name)

    def _all_power(self) -> None:
        """All at once; under async as many as may."""
        if self._rng.random() < 0.7:
            return
        for name in self._simulation.swarm.names:
            self.lose_power(name, may_empty_sets=True)

    def _wipe(self) -> None:
        name = self._any_broker()
        if name is not None and self.is_survivable(name):
            self.wipe(name)

    def wipe(self, name: str) -> None:
        """Its directory is emptied, and it comes back."""
        self._wipes += 1
        self._simulation.end_broker(name)
        self._simulation.disks[name].wipe(f"store-{name}-{self._wipes}")
        self._simulation.disks[name].unheard = True
        self._simulation.say("%s is wiped", name)
        self._later(partial(self._simulation.start_broker, name))

    def _set_back(self) -> None:
        """A disk becomes what it was in an earlier life of its replica; or else a copy of it is taken, for that."""
        name = self._any_broker()
        if name is None:
            return
        simulation = self._simulation
        disk, copy = simulation.disks[name], self._copies.get(name)
        if copy is None or not self._is_of_earlier_life(name, copy):
            if not (disk.failed_pages or disk.undead):
                self._copies[name] = disk.copy()
            return
        if self.is_survivable(name):
            del self._copies[name]
            simulation.end_broker(name)
            simulation.say("%s is set back from %s to %s", name, len(disk.log), len(copy.log))
            self._put_back(copy, disk)
            simulation.disks[name] = copy
            self._later(partial(simulation.start_broker, name))

    @staticmethod
    def _put_back(copy: Disk, disk: Disk) -> None:
        """All of a copy is on the platter; the kernel runs on."""
        copy.boot_id, copy.durable, copy.platter = disk.boot_id, len(copy.log), dict(copy.files)
        copy.unheard = copy.awaits_hearing = True
        copy.unsynced.clear()
        copy.mend()

    def _is_of_earlier_life(self, name: str, copy: Disk) -> bool:
        """The group knows a later life of the same store: else nothing could tell that the disk was set back."""
        content = self._simulation.zookeeper.groups.get(GROUP)
        known = None if content is None else node_of(content.data).replica(name)
        if known is None or known.incarnation.store_id != copy.replica.store_id:
            return False
        return bool(copy.replica.starts < known.incarnation.starts)

    def _fsync(self) -> None:
        name = self._any_broker()
        if name is None:
            return
        simulation = self._simulation

        def fails() -> bool:
            return self._may_end(name) and (not self._may_forget(name) or self.is_survivable(name))

        simulation.disks[name].fsync_fails = fails

    def _mid_write(self) -> None:
        """The process ends at one of the steps of what it does to its disk next; but not between a failed fsync and the note
        of it, which is a documented window."""
        name = self._any_broker()
        if name is None:
            return
        disks = self._simulation.disks  # the one it has then, which may be a copy of this one

        def may_die() -> bool:
            return not disks[name].awaits_hearing and not disks[name].failed_pages

        disks[name].dies_in, disks[name].may_die = self._rng.randrange(STEPS), may_die

    def _full(self) -> None:
        """A disk has no room for a while, perhaps not for a small file either; half of the time the master dies then."""
        name = self._any_broker()
        if name is None:
            return
        simulation = self._simulation
        disk = simulation.disks[name]
        disk.is_full, disk.is_brimful = True, self._rng.random() < 0.3
        simulation.say("the disk of %s is full", name)
        self._mend_later(name)
        masters = [other for other, broker in simulation.brokers.items() if broker.replica.master is not None]
        if masters and self._rng.random() < 0.5:
            self.kill(masters[0])

    def _hang(self) -> None:
        """No fsync of a disk ends for a while."""
        name = self._any_broker()
        if name is not None:
            self._simulation.say("the disk of %s hangs", name)
            self._simulation.disks[name].hangs = True
            self._mend_later(name)

    def _mend_later(self, name: str) -> None:
        """Mostly soon: while it lasts, all there is to do is to wait for it or to elect another, once."""
        times = 4 if self._rng.random() < LONG_SHARE else 1
        self._schedule.after_us(times * self.repair_us(), self._simulation.disks[name].mend)

    def _stop(self) -> None:
        """A clean stop."""
        name = self._any_broker()
        if name is not None:
            self.stop(name)

    def stop(self, name: str) -> None:
        """A clean stop, if it lives; it comes back."""
        simulation = self._simulation
        if not self._may_end(name) or simulation.disks[name].hangs:
            return
        simulation.say("%s is stopped", name)
        simulation.stop_broker(simulation.brokers[name])
        self._later(partial(simulation.start_broker, name))

    def _drain(self) -> None:
        """It hands over, and ends or stays; then that is undone."""
        name = self._any_broker()
        if name is None or not self._may_end(name):
            return
        if self._rng.random() < 0.6:
            self.drain(name, ends=True)
        else:
            self.stay_drained(name)
            broker = self._simulation.brokers[name]
            self._schedule.after_us(4 * self.repair_us(), broker.member.drain.undo, broker)

    def stay_drained(self, name: str) -> None:
        """As an operator asks for it."""
        self.drain(name, ends=False)

    def drain(self, name: str, *, ends: bool) -> None:
        """As SIGTERM does where it ends."""
        self._simulation.say("%s drains, and %s", name, "ends" if ends else "stays")
        self._simulation.brokers[name].member.drain.begin(ends=ends)

    def _pause(self) -> None:
        name = self._any_broker()
        if name is not None:
            pause_us = self.repair_us() * 2
            self._simulation.say("%s is paused for %s ms", name, pause_us // MS)
            self._simulation.brokers[name].pause(pause_us)

    def _expire(self) -> None:
        """A replica's retention: whole segments of what is confirmed and on its disk."""
        name = self._any_broker()
        if name is None:
            return
        broker = self._simulation.brokers[name]
        limit = min(broker.replica.log.confirm, broker.disk.durable)
        begin = self._rng.randint(0, max(0, limit) // SEGMENT) * SEGMENT
        if begin > broker.disk.begin and broker.replica._on_disk is None:
            self._simulation.say("%s expires below %s", name, begin)
            broker.disk.expire(begin)

    def _garbage(self) -> None:
        """A slave says that it holds what it was never sent."""
        simulation = self._simulation
        for broker in list(simulation.brokers.values()):
            if broker.replica.master is None:
                continue
            for member in broker.replica.master.members():
                if member.is_open and self._rng.random() < 0.5:
                    end = member.sent + RECORD
                    ack = Ack(broker.group_key, broker.replica.epoch, member.session, end, end)
                    broker.replica.on_slave_frame(member.name, ack)

    # ---- faults of the network

    def _cut(self) -> None:
        self._separate(both=True)

    def _one_way(self) -> None:
        self._separate(both=False)

    def _split(self) -> None:
        """The master from all other replicas, both ways; controllers reach everybody."""
        simulation = self._simulation
        name = self._any_broker() or simulation.swarm.names[0]
        others = [other for other in simulation.swarm.names if other != name]
        pairs = {pair for other in others for pair in ((name, other), (other, name))}
        simulation.say("split %s from all others", name)
        simulation.network.cuts |= pairs
        self._schedule.after_us(3 * self.repair_us(), partial(simulation.network.cuts.difference_update, pairs))

    def _separate(self, *, both: bool) -> None:
        """One machine from another, or from all."""
        simulation = self._simulation
        name = self._any_broker() or simulation.swarm.names[0]
        everybody = [*simulation.swarm.names, *(controller.name for controller in simulation.controllers)]
        others = [other for other in everybody if other != name]
        if self._rng.random() < 0.5:
            others = [self._rng.choice(others)]
        pairs = {(name, other) for other in others}
        if both:
            pairs |= {(other, name) for other in others}
        elif self._rng.random() < 0.5:
            pairs = {(other, name) for other in others}
        simulation.say("cut %s", sorted(pairs))
        simulation.network.cuts |= pairs
        self._later(partial(simulation.network.cuts.difference_update, pairs))

    # ---- faults of controllers

    def _controller_kill(self) -> None:
        """Its session ends at ZooKeeper a little later."""
        simulation = self._simulation
        number = self._rng.randrange(len(simulation.controllers))
        controller = simulation.controllers[number]
        if not controller.alive:
            return
        simulation.say("%s is killed", controller.name)
        controller.end()
        if (store := controller.store) is not None:
            store.connected = False
            self._later(partial(simulation.zookeeper.expire, store))
        self._later(partial(simulation.start_controller, number))

    def _controller_pause(self) -> None:
        """Longer than its session lasts, perhaps: it may believe that it leads while another does."""
        controller = self._rng.choice(self._simulation.controllers)
        pause_us = self.repair_us() * 2
        controller.pause(pause_us)
        if self._rng.random() < 0.5:
            self._schedule.after_us(pause_us // 2, partial(self._end_session, controller))

    def _end_session(self, controller: Controller) -> None:
        zookeeper, store = self._simulation.zookeeper, controller.store
        if controller.alive and not self.stopped and store is not None and store.connected:
            zookeeper.suspend(store)
            zookeeper.expire(store)
            self._later(partial(self._resume, controller))

    def _session_end(self) -> None:
        self._end_session(self._rng.choice(self._simulation.controllers))

    def _zookeeper_away(self) -> None:
        """Unreachable for all controllers; sessions last."""
        for controller in self._simulation.controllers:
            store = controller.store
            if controller.alive and store is not None and store.connected:
                self._simulation.zookeeper.suspend(store)
                self._later(partial(self._resume, controller))

    def _resume(self, controller: Controller) -> None:
        store = controller.store
        if controller.alive and store is not None and not store.connected:
            self._simulation.zookeeper.resume(store)

    def _operator(self) -> None:
        """Asks for another master; nobody listens to the answer."""
        content = self._simulation.zookeeper.groups.get(GROUP)
        if content is not None:
            self.ask(ElectMaster(GROUP, content.version))

    def _settings(self) -> None:
        """Changes one of the group's settings while it runs."""
        content = self._simulation.zookeeper.groups.get(GROUP)
        if content is not None:
            mode = node_of(content.data).settings.flush_mode
            other = FlushMode.SYNC if mode is FlushMode.ASYNC else FlushMode.ASYNC
            changes = [("min_in_sync", "1"), ("min_in_sync", "2"), ("lag_ms_max", "2000")]
            change = self._rng.choice([("flush_mode", other.value)] * 3 + changes)
            self._simulation.say("an operator sets %s = %s", *change)
            self.ask(ChangeGroup(GROUP, content.version, (change,)))

    def ask(self, request: ElectMaster | ChangeGroup | RestoreGroup) -> None:
        """An operator's wish; nobody listens to the answer."""
        for controller in self._simulation.controllers:
            if controller.alive and not controller.paused_until_us > self._schedule.now_us:
                controller.ask(request, timeout_ms=OPERATOR_WAITS_MS)
