"""Faults that wait for their moment: chance alone seldom strikes within the few milliseconds in which a rule matters.

They strike when a master proposes an in-sync set (its answers are lost, and so are its bytes on their way to one
member), when a master begins, and when a broker has just started; what follows is an election or a death.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from zenitmq.remoting.commands import ElectMaster

from .broker import GROUP
from .schedule import MS

if TYPE_CHECKING:
    from .simulation import Simulation


class Ambush:
    """`rate`: how often one is laid."""

    def __init__(self, simulation: Simulation, rate: float) -> None:
        self.rate = rate
        self._simulation = simulation
        self._rng = simulation.rng

    def on_proposal(self, name: str, members: tuple[str, ...]) -> None:
        """A master is about to ask for another in-sync set."""
        if not self._strikes():
            return
        simulation, rng = self._simulation, self._rng
        controllers = [controller.name for controller in simulation.controllers]
        victim = rng.choice([other for other in members if other != name] or [name])
        pairs = {(controller, name) for controller in controllers}
        if rng.random() < 0.3:
            pairs |= {(name, controller) for controller in controllers}
        if rng.random() < 0.7:
            pairs.add((name, victim))
        self._cut_later(pairs)
        self._follow(name, victim)

    def on_master(self, name: str) -> None:
        """A master begins."""
        if not self._strikes():
            return
        others = [other for other in self._simulation.swarm.names if other != name]
        chosen = others if self._rng.random() < 0.5 else [self._rng.choice(others)]
        pairs = {(name, other) for other in chosen}
        if self._rng.random() < 0.5:
            pairs |= {(other, name) for other in chosen}
        self._cut_later(pairs)
        self._follow(name, self._rng.choice(others))

    def on_start(self, name: str) -> None:
        """A broker has started."""
        if not self._strikes():
            return
        kind = self._rng.random()
        if kind < 0.4:
            self._soon(partial(self._simulation.faults.lose_power, name), 300)
        elif kind < 0.6:  # whatever it has to say to a controller, it does not
            controllers = {controller.name for controller in self._simulation.controllers}
            self._cut({pair for other in controllers for pair in ((name, other), (other, name))})
            self._simulation.schedule.after_us(400 * MS, partial(self._heal, name, controllers))
            self._soon(partial(self._simulation.faults.stop, name), 100)
        else:
            others = [other for other in self._simulation.swarm.names if other != name]
            self._cut_later({pair for other in others for pair in ((name, other), (other, name))})
        self._soon(partial(self._elect, name), 2500)

    # ---- what happens

    def _strikes(self) -> bool:
        return not self._simulation.healing and self._rng.random() < self.rate

    def _cut_later(self, pairs: set[tuple[str, str]]) -> None:
        simulation, rng = self._simulation, self._rng
        simulation.say("ambush: cut %s", sorted(pairs))
        delay_us = 0 if rng.random() < 0.5 else int(rng.random() ** 2 * 200 * MS)
        if delay_us:
            simulation.schedule.after_us(delay_us, partial(self._cut, pairs))
        else:
            self._cut(pairs)
        lasts_us = delay_us + int((0.2 + 3 * rng.random()) * 1000 * MS)
        simulation.schedule.after_us(lasts_us, partial(simulation.network.cuts.difference_update, pairs))

    def _cut(self, pairs: set[tuple[str, str]]) -> None:
        if not self._simulation.healing:
            self._simulation.network.cuts |= pairs

    def _heal(self, name: str, others: set[str]) -> None:
        self._simulation.network.cuts -= {pair for other in others for pair in ((name, other), (other, name))}

    def _follow(self, master: str, victim: str) -> None:
        """Deaths of the master, elections of the victim."""
        faults = self._simulation.faults
        ends: list[Callable[[], object]] = [
            partial(faults.kill, master),
            partial(faults.lose_power, master),
            partial(self._elect, victim),
            partial(self._elect, victim),
        ]
        for _ in range(self._rng.choice((1, 1, 2, 3))):
            self._soon(self._rng.choice(ends), self._rng.choice((100, 1000, 2500)))

    def _elect(self, candidate: str) -> None:
        """An operator wants this one."""
        simulation = self._simulation
        content = simulation.zookeeper.groups.get(GROUP)
        if content is not None:
            simulation.faults.ask(ElectMaster(GROUP, content.version, candidate))

    def _soon(self, what: Callable[[], object], within_ms: int) -> None:
        delay_us = int(self._rng.random() * within_ms * MS)
        self._simulation.schedule.after_us(delay_us, lambda: None if self._simulation.healing else what())
