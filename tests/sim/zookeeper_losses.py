"""ZooKeeper loses its data, or is set back, once in some seeds; and the operator who restores the group then.

All brokers live, are reached and not paused at that moment: a new term hears whoever knows more, as the rule has it. What
only the dead know, or who is not reached, is a documented window. So is who waits for a lost answer where a node is there, to
which a term listens shorter: no link has waited for one for a while when ZooKeeper is set back. Afterwards all faults go on.
The operator restores above the highest epoch of any disk once a controller says that it must be, and forces the replica whose
log is worth most: it must have everything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Final

from zenitmq.controller.group.set_back import newest_epoch_seen
from zenitmq.model.groups.group import NO_VERSION, KnownGroup
from zenitmq.model.groups.group_codec import decode_seen
from zenitmq.model.groups.log_reach import LogReach, best_log
from zenitmq.remoting.commands import ElectMaster, RestoreGroup

from .broker import GROUP, node_of
from .ledger import Violation
from .model_zookeeper import Content
from .network import Weather
from .schedule import MS

if TYPE_CHECKING:
    from .simulation import Simulation

SHARE: Final = 0.25
"""Of all seeds."""
KEPT: Final = 12
"""Versions of the node that it may be set back to."""
CALM_MS: Final = 3500
"""Before it is set back: longer than a link waits for what it asked while it was cut off."""
QUIET_MS: Final = 6000
"""After it: longer than a new leading controller listens."""


class ZooKeeperLosses:
    """Of one seed; `ask`: an operator's request to whoever leads. Its chance is its own: other faults stay as they are."""

    def __init__(self, simulation: Simulation, ask: Callable[[ElectMaster | RestoreGroup], None]) -> None:
        self.happened = self.restored = 0
        self._simulation = simulation
        self._schedule = simulation.schedule
        self._ask = ask
        self._rng = Random(f"zookeeper {simulation.seed}")
        self._history: list[Content] = []
        self._quiet_until_us = 0
        if self._rng.random() < SHARE and simulation.swarm.chaos_ms:
            at_ms = self._rng.uniform(0.2, 0.9) * simulation.swarm.chaos_ms
            self._schedule.after_us(int(at_ms * MS), self._strike)
            self._schedule.after_us(100 * MS, self._look)
            self._schedule.after_us(250 * MS, self._watch_over)

    @property
    def is_quiet(self) -> bool:
        """No other fault happens now."""
        return self._schedule.now_us < self._quiet_until_us

    @property
    def is_restoring(self) -> bool:
        """The group has no master that its node knows of: it was restored, and whom to force is decided here."""
        known = self._known()
        return self.restored > 0 and known is not None and known.node.master is None

    def _look(self) -> None:
        """Keeps the node's versions."""
        self._schedule.after_us(100 * MS, self._look)
        content = self._simulation.zookeeper.groups.get(GROUP)
        if content is not None and not self.happened and (not self._history or content is not self._history[-1]):
            self._history = [*self._history[-KEPT + 1 :], content]

    # ---- the loss

    def _strike(self) -> None:
        simulation = self._simulation
        if simulation.healing:
            return
        if not self.is_quiet:
            is_set_back = len(self._history) > 1 and self._rng.random() < 0.7
            calm_ms = CALM_MS if is_set_back else 0
            self._quiet_until_us = self._schedule.now_us + (calm_ms + QUIET_MS) * MS
            simulation.network.cuts.clear()
            weather, simulation.network.weather = simulation.network.weather, Weather()
            self._schedule.after_us((calm_ms + QUIET_MS) * MS, partial(self._end_quiet, weather))
            self._schedule.after_us(calm_ms * MS, partial(self._lose, is_set_back=is_set_back))

    def _lose(self, *, is_set_back: bool) -> None:
        simulation = self._simulation
        if simulation.healing:
            return
        older = self._rng.choice(self._history[:-1]) if is_set_back else None
        if not self._is_calm() or not self._is_known_better(older):
            self._schedule.after_us(100 * MS, self._strike)
            return
        self.happened += 1
        simulation.say("ZooKeeper is set back to %s", None if older is None else node_of(older.data))
        zookeeper = simulation.zookeeper
        zookeeper.seen.clear()
        zookeeper.drop_late()
        if older is None:
            del zookeeper.groups[GROUP]
        else:
            zookeeper.groups[GROUP] = older
        for controller in simulation.controllers:
            store = controller.store
            if controller.alive and store is not None:
                if store.connected:
                    zookeeper.suspend(store)
                zookeeper.expire(store)
                self._schedule.after_us(int(self._rng.random() * 200 * MS), partial(zookeeper.resume, store))

    def _end_quiet(self, weather: Weather) -> None:
        if not self._simulation.healing:
            self._simulation.network.weather = weather

    def _is_calm(self) -> bool:
        """All live, and nobody is paused."""
        simulation = self._simulation
        hosts = [*simulation.brokers.values(), *simulation.controllers]
        awake = all(host.alive and host.paused_until_us <= self._schedule.now_us for host in hosts)
        return awake and len(simulation.brokers) == len(simulation.swarm.names) and not simulation.faults.dark

    def _is_known_better(self, older: Content | None) -> bool:
        """A registered life knows of a newer node than this one, in the newest epoch that was ever given."""
        simulation = self._simulation
        content = simulation.zookeeper.groups.get(GROUP)
        if content is None:
            return False
        now = KnownGroup(node_of(content.data), content.version)
        then = (0, NO_VERSION) if older is None else (node_of(older.data).epoch, older.version)
        for broker in simulation.brokers.values():
            known = broker.replica.known
            if (
                known is not None
                and broker.replica.epoch == now.node.epoch
                and (known.node.epoch, known.version) > then
            ):
                return (now.node.epoch, now.version) > then
        return False

    # ---- the operator

    def _known(self) -> KnownGroup | None:
        content = self._simulation.zookeeper.groups.get(GROUP)
        return None if content is None else KnownGroup(node_of(content.data), content.version)

    def _watch_over(self) -> None:
        simulation = self._simulation
        self._schedule.after_us(250 * MS, self._watch_over)
        data, known = simulation.zookeeper.seen.get(GROUP), self._known()
        if data is not None and newest_epoch_seen(decode_seen(data, GROUP), known):
            self._restore(known)
        elif self.is_restoring and known is not None:
            self._force(known)
        elif known is not None and self.happened:
            self._clear_away(known)

    def _clear_away(self, known: KnownGroup) -> None:
        """A replica of a group that ZooKeeper lost before it had a master is refused as another group's, and told to have
        its directory moved away."""
        simulation = self._simulation
        for name in tuple(simulation.brokers):
            replica = simulation.disks[name].replica
            is_foreign = replica.group_id not in ("", known.node.group_id) and known.node.replica(name) is None
            if is_foreign and replica.promised == 0:
                simulation.faults.wipe(name)

    def _restore(self, known: KnownGroup | None) -> None:
        simulation = self._simulation
        if not self._start_all():
            return
        self.restored += 1
        epoch = max(disk.replica.promised for disk in simulation.disks.values())
        group_id = simulation.disks[self._best().name].replica.group_id
        simulation.say("an operator restores the group above epoch %s", epoch)
        self._ask(RestoreGroup(GROUP, NO_VERSION if known is None else known.version, epoch, group_id))

    def _force(self, known: KnownGroup) -> None:
        simulation = self._simulation
        if not self._start_all():
            return
        best = self._best()
        disk = simulation.disks[best.name]
        if not simulation.ledger.is_held(disk.log, disk.begin):
            raise Violation(f"I1: the log of {best.name} is worth most, and lacks what was acknowledged or seen")
        simulation.say("an operator forces %s, whose log is worth most", best.name)
        self._ask(ElectMaster(GROUP, known.version, best.name, True))

    def _start_all(self) -> bool:
        """Whether all live, so that their logs can be compared; who does not is started."""
        simulation = self._simulation
        for name in simulation.swarm.names:
            simulation.faults.dark.discard(name)
            simulation.start_broker(name)
        return len(simulation.brokers) == len(simulation.swarm.names)

    def _best(self) -> LogReach:
        reaches = []
        for name, broker in sorted(self._simulation.brokers.items()):
            facts = broker.heartbeat_facts()
            reaches.append(
                LogReach(
                    name=name,
                    newest_epoch=facts.newest_epoch,
                    newest_begin=facts.newest_begin,
                    end=facts.log_end,
                    confirm=facts.confirm_offset,
                )
            )
        return best_log(reaches)
