"""One life of a controller: the shipped campaign, term and detection, over a model of ZooKeeper that fails.

Its worker is an executor whose work takes virtual time, and may find the connection gone before or after it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from zenitmq.controller.campaign import Campaign, Ground
from zenitmq.controller.cluster_naming import ClusterNaming
from zenitmq.controller.group.detection import Detection
from zenitmq.controller.group_store import Listener, StoreEvent
from zenitmq.controller.leadership_term import LeadershipTerm
from zenitmq.controller.store_worker import StoreWorker
from zenitmq.model.groups.group import GroupSettings
from zenitmq.remoting.commands import Request

from .model_zookeeper import Loss, ModelStore, ModelZooKeeper
from .schedule import MS, Host, Schedule
from .wire import Call, SimulatedClient, SimulatedLoop

if TYPE_CHECKING:
    from .simulation import Simulation


class SlowZooKeeper(ModelZooKeeper):
    """The model, whose events take their time, and never overtake each other."""

    def __init__(self, schedule: Schedule, delay_ms: float) -> None:
        super().__init__()
        self.delay_ms = delay_ms
        self._schedule = schedule
        self._told_us = 0

    def tell(self, store: ModelStore, event: StoreEvent) -> None:
        """Later."""
        delay_us = int(self._schedule.rng.random() * self.delay_ms * MS)
        self._told_us = max(self._told_us + 1, self._schedule.now_us + delay_us)
        self._schedule.after_us(self._told_us - self._schedule.now_us, lambda: store.listener(event))


class SlowWorker:
    """The executor under a `StoreWorker`, with virtual time: one thing after the other, and what came of it later still."""

    def __init__(self, controller: Controller, zookeeper: SlowZooKeeper) -> None:
        self.loss_rate = 0.0
        self._controller = controller
        self._zookeeper = zookeeper
        self._busy_until_us = 0
        self._answered_us = 0

    def submit(self, work: Callable[..., None], *arguments: Any) -> None:
        """Works once all before it is done."""
        schedule = self._controller.schedule
        begin_us = max(schedule.now_us, self._busy_until_us) + self._latency_us()
        answered_us = self._busy_until_us = begin_us + self._latency_us()

        def work_now() -> None:
            self._answered_us = answered_us
            self._lose_perhaps()
            work(*arguments)

        schedule.after_us(begin_us - schedule.now_us, work_now, self._controller)

    def post(self, callback: Callable[[], None]) -> None:
        """What came of the present work reaches the loop."""
        schedule = self._controller.schedule
        schedule.after_us(max(0, self._answered_us - schedule.now_us), callback, self._controller)

    def _latency_us(self) -> int:
        return int(self._controller.schedule.rng.random() * self._zookeeper.delay_ms * MS)

    def _lose_perhaps(self) -> None:
        store, schedule = self._controller.store, self._controller.schedule
        if store is not None and self.loss_rate and schedule.rng.random() < self.loss_rate:
            store.next_write = schedule.rng.choice((Loss.BEFORE, Loss.AFTER, Loss.LATER))
            schedule.after_us(int(schedule.rng.random() * 1500 * MS), self._zookeeper.carry_out_late)


class Controller(Host):
    """`address`: its name, and a port. `store`: its session with ZooKeeper, once there is one."""

    def __init__(self, simulation: Simulation, number: int, settings: GroupSettings, *, rate: float) -> None:
        super().__init__(simulation.schedule, f"controller-{number}", rate=rate)
        self.store: ModelStore | None = None
        self.worker = SlowWorker(self, simulation.zookeeper)
        self.loop = SimulatedLoop(simulation, self, f"{self.name}:9878")
        self._simulation = simulation
        self._client = SimulatedClient(simulation, self)
        ground = Ground(
            loop=cast(Any, self.loop),
            worker=StoreWorker(cast(Any, self.worker), self.worker, on_dropped=self.end),
            client=self._client,
            clock=self,
            open_store=self._open_store,
            session=ExitStack(),
            on_dropped=self.end,
        )
        self._campaign = Campaign(
            ground,
            address=self.loop.address,
            new_group=settings,
            new_detection=Detection,
            naming=ClusterNaming(cluster="sim"),
            new_group_replicas=len(simulation.swarm.names),
        )
        self._campaign.begin()

    @contextmanager
    def _open_store(self, listener: Listener) -> Iterator[ModelStore]:
        self.store = self._simulation.zookeeper.store(listener)
        yield self.store

    @property
    def term(self) -> LeadershipTerm | None:
        """While this controller leads."""
        return self._campaign._term

    def end(self) -> None:
        """The process is killed."""
        self.alive = False
        self.loop.on_killed()
        self._client.on_killed()

    def ask(self, request: Request, *, timeout_ms: int) -> None:
        """An operator's request; nobody listens to the answer."""
        call = Call(b"operator", request, self.monotonic_ms() + timeout_ms, lambda *_: None)
        self.after_ms(0, partial(self.loop.on_request, call))
