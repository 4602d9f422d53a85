"""One life of a controller: the shipped reign, detection and leadership, over a model of ZooKeeper that fails.

What `controller/service` does around them is done here in the same order; its worker is a desk whose work takes time,
and may find the connection gone before or after it was done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from zenitmq.controller.detection import Detection
from zenitmq.controller.flush_round import FlushRound
from zenitmq.controller.group_store import Member, MembersTouched, SessionChanged, StoreEvent, Touched
from zenitmq.controller.leadership import Leadership
from zenitmq.controller.reign import Reign
from zenitmq.model.errors import NotLeadingController, ZenitError
from zenitmq.model.group import GroupNode, GroupSettings
from zenitmq.remoting.commands import (
    AlterInSync,
    ChangeGroup,
    ElectMaster,
    GroupReply,
    RegisterReplica,
    ReplicaHeartbeat,
    Reply,
    ReportMasterGone,
    Request,
)

from .flushing import Asker
from .model_zookeeper import Loss, ModelStore, ModelZooKeeper
from .schedule import MS, Host, Schedule

if TYPE_CHECKING:
    from .simulation import Simulation

TRY_AGAIN_MS: Final = 300

HANDLERS: Final[dict[type[Request], Callable[[Reign, Any], Reply | None]]] = {
    RegisterReplica: Reign.on_register,
    ReplicaHeartbeat: Reign.on_heartbeat,
    ReportMasterGone: Reign.on_master_gone,
    AlterInSync: Reign.on_alter_in_sync,
    ElectMaster: Reign.on_elect,
}


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


class Call:
    """A broker's request that waits for its answer."""

    __slots__ = ("answer", "deadline_ms", "identity", "request")

    def __init__(
        self, identity: bytes, request: Request, answer: Callable[[GroupReply | ZenitError], None], deadline_ms: int = 0
    ) -> None:
        self.identity = identity
        self.request = request
        self.answer = answer
        self.deadline_ms = deadline_ms  # by the controller's clock


class SimulatedDesk:
    """`StoreDesk` with virtual time: one thing after the other; between being done and being told time passes."""

    def __init__(self, controller: Controller, zookeeper: SlowZooKeeper) -> None:
        self.loss_rate = 0.0
        self._controller = controller
        self._zookeeper = zookeeper
        self._busy_until_us = 0

    def ask(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """See `StoreDesk`."""
        schedule = self._controller.schedule
        begin_us = max(schedule.now_us, self._busy_until_us) + self._latency_us()
        answered_us = self._busy_until_us = begin_us + self._latency_us()

        def work_now() -> None:
            result = self._work(work)
            schedule.after_us(max(0, answered_us - schedule.now_us), lambda: then(result), self._controller)

        schedule.after_us(begin_us - schedule.now_us, work_now, self._controller)

    def _latency_us(self) -> int:
        return int(self._controller.schedule.rng.random() * self._zookeeper.delay_ms * MS)

    def _work(self, work: Callable[[], Any]) -> Any:
        store, rng = self._controller.store, self._controller.schedule.rng
        if self.loss_rate and rng.random() < self.loss_rate:
            store.next_write = rng.choice((Loss.BEFORE, Loss.AFTER, Loss.LATER))
            late_us = int(rng.random() * 1500 * MS)
            self._controller.schedule.after_us(late_us, self._zookeeper.carry_out_late)
        try:
            return work()
        except ZenitError as error:
            return error


class Controller(Host):
    """`address`: its name, and a port."""

    def __init__(self, simulation: Simulation, number: int, settings: GroupSettings, *, rate: float) -> None:
        super().__init__(simulation.schedule, f"controller-{number}", rate=rate)
        self.address = f"{self.name}:9878"
        self.leadership = Leadership()
        self.reign: Reign | None = None
        self._simulation = simulation
        self._settings = settings
        self._session_changes = 0
        self._campaigning = self._must_campaign = False
        self.store = simulation.zookeeper.store(self._post_event)
        self.desk = SimulatedDesk(self, simulation.zookeeper)

    def end(self) -> None:
        """The process is killed."""
        self.alive = False
        self.reign = None

    # ---- the session with ZooKeeper

    def _post_event(self, event: StoreEvent) -> None:
        self.schedule.after_us(0, partial(self._on_event, event), self)

    def _on_event(self, event: StoreEvent) -> None:
        if isinstance(event, SessionChanged):
            self._session_changes += 1
            self.leadership = self.leadership.on_session(event.state)
            self._change_reign()
            self._campaign()
        elif isinstance(event, Touched) and self.reign is not None:
            self.reign.on_touched(event.broker_name)
        elif isinstance(event, MembersTouched):
            self._campaign()

    def _campaign(self) -> None:
        if not self.leadership.is_connected:
            return
        self._must_campaign = True
        if not self._campaigning:
            self._must_campaign, self._campaigning = False, True
            self.desk.ask(self._take_part, partial(self._on_members, self._session_changes))

    def _take_part(self) -> tuple[Member, ...]:
        self.store.join(self.address)
        return self.store.members()

    def _on_members(self, session_changes: int, members: tuple[Member, ...] | ZenitError) -> None:
        self._campaigning = False
        if isinstance(members, ZenitError):
            self.after_ms(TRY_AGAIN_MS, self._campaign)
            return
        if session_changes == self._session_changes:
            self.leadership = self.leadership.on_members(members)
            self._change_reign()
        if self._must_campaign:
            self._campaign()
        elif not self.leadership.has_joined:
            self.after_ms(TRY_AGAIN_MS, self._campaign)

    def _change_reign(self) -> None:
        if self.reign is not None and not self.leadership.leads:
            self.reign.end()
            self.reign = None
        if self.reign is None and self.leadership.leads:
            self.reign = Reign(
                self.store,
                cast(Any, self.desk),
                cast(Any, self),
                self,
                detection=Detection(),
                new_group=self._settings,
            )
            self.reign.begin()

    # ---- requests; `ReignLoop`

    def on_request(self, call: Call) -> None:
        """A broker's request has arrived."""
        try:
            if self.reign is None or not self.reign.is_ready:
                raise NotLeadingController("" if self.reign is not None else self.leadership.leader)
            if isinstance(call.request, ChangeGroup):
                reply: Reply | None = self.reign.on_change_group(cast(Any, call), self._flush)
            else:
                reply = HANDLERS[type(call.request)](self.reign, call)
        except ZenitError as error:
            call.answer(error)
            return
        if reply is not None:
            call.answer(cast(GroupReply, reply))

    def _flush(
        self, node: GroupNode, names: frozenset[str], timeout_ms: int, then: Callable[[frozenset[str]], None]
    ) -> None:
        FlushRound(Asker(self._simulation, self), self, node, names, then).begin(timeout_ms)

    def post(self, callback: Callable[[], None]) -> None:
        """Soon."""
        self.schedule.after_us(0, callback, self)

    def reply(self, call: Call, reply: GroupReply, payload: Iterable[bytes] = ()) -> None:
        """Answers a call."""
        call.answer(reply)

    def fail(self, call: Call, error: ZenitError) -> None:
        """Answers a call with an error."""
        call.answer(error)

    def send_to(self, identity: bytes, request: Request, payload: Iterable[bytes] = ()) -> bool:
        """Pushes to a connection; False where its process is gone."""
        return self._simulation.push_to_broker(self, identity, request)
