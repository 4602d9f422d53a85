"""A group under shipped controllers in which nothing fails but what a story says: for rules of when to elect, and whom."""

from __future__ import annotations

from collections.abc import Callable

from zenitmq.model.groups.group import FlushMode, GroupSettings

from .broker import GROUP, node_of
from .ledger import Violation
from .schedule import MS
from .simulation import Simulation
from .swarm import Swarm

SETTLES_MS = 20_000


class CalmGroup(Simulation):
    """Whole, and under load, when it is made."""

    def __init__(self, names: str = "abc", *, minimum: int = 2, sync: bool = False, followers: str = "") -> None:
        """`followers`: those of the names that only copy."""
        mode = FlushMode.SYNC if sync else FlushMode.ASYNC
        settings = GroupSettings(min_in_sync=minimum, flush_mode=mode)
        super().__init__(0, swarm=Swarm.calm(names, settings, followers))
        counting = tuple(name for name in names if name not in followers)
        self.run_until(lambda: self.in_sync == counting and len(self.told) > 50)
        self.run_ms(1000)

    # ---- time

    def run_ms(self, duration_ms: int) -> None:
        """Time passes."""
        self.schedule.run(self.schedule.now_us + duration_ms * MS)

    def run_until(self, condition: Callable[[], bool], within_ms: int = SETTLES_MS) -> None:
        """Until it is so; at each event it is looked at."""
        self.schedule.run(self.schedule.now_us + within_ms * MS, stop=condition, stop_every=1)
        if not condition():
            raise Violation(f"I5: it does not come about\n{self.picture()}")

    # ---- what ZooKeeper holds

    @property
    def in_sync(self) -> tuple[str, ...]:
        """Who is in sync."""
        return () if GROUP not in self.zookeeper.groups else node_of(self.zookeeper.groups[GROUP].data).in_sync

    @property
    def master(self) -> str:
        """Who was elected last, whether it knows or not."""
        return node_of(self.zookeeper.groups[GROUP].data).master or ""

    @property
    def epoch(self) -> int:
        """Of that election."""
        return node_of(self.zookeeper.groups[GROUP].data).epoch

    # ---- faults

    def part(self, name: str, others: str) -> None:
        """Nothing gets through between a replica and others; the controller reaches them all."""
        self.network.cuts |= {pair for other in others for pair in ((name, other), (other, name))}

    def controller_dies(self) -> None:
        """The only one, and its session with it."""
        controller = self.controllers[0]
        controller.end()
        if controller.store is not None:
            self.zookeeper.expire(controller.store)

    def power_fails(self) -> None:
        """All brokers at once."""
        for name in list(self.brokers):
            self.faults.dark.add(name)
            self.end_broker(name, quietly=True)

    def power_comes_back(self) -> None:
        """One broker after another, so that their heartbeats do not come together; the one that led last is the first."""
        self.faults.dark.clear()
        for name in sorted(self.swarm.names, key=lambda name: name != self.master):
            self.start_broker(name)
            self.run_ms(150)

    # ---- what must hold

    def writes_go_on(self, within_ms: int) -> None:
        """Messages are acknowledged again, and go on being so."""
        count = len(self.told)
        self.run_until(lambda: len(self.told) >= count + 20, within_ms)

    def whole(self) -> None:
        """All faults end, and all comes right again."""
        self._heal()
        self._check_end()
