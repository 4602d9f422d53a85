"""A store, its state and the handlers of pop, turn by turn: what is asked in one turn is written at its end.

An answer goes out once the log has its event; where somebody confirms, once that is confirmed. Workers work between two turns.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, Self, cast

from store_kit import StillClock, make_store, message, stage

from zenitmq.broker.acknowledgements import Acknowledgements
from zenitmq.broker.config import BrokerConfig
from zenitmq.broker.filter.condition_cache import ConditionCache
from zenitmq.broker.handlers.parts import Parts
from zenitmq.broker.lite.hand_over import settle_groups
from zenitmq.broker.pop.leases import Leases
from zenitmq.broker.pop.pop_handler import PopHandler
from zenitmq.broker.pop.receipt_handler import ReceiptHandler
from zenitmq.broker.state.producer_table import ProducerTable
from zenitmq.broker.state.state_log import GROUPS, OFFSETS, TOPICS, StateLog
from zenitmq.model.errors import ZenitError
from zenitmq.model.route import TopicConfig
from zenitmq.record.kernel import decode_batch
from zenitmq.remoting import commands
from zenitmq.remoting.commands import Request

BROKER: Final = "broker-a"
TICK_MS: Final = 100
NEVER: Final = 1 << 62


@dataclass(eq=False)
class Asked:
    """A request and, once it is answered, what of. `bodies`: of messages that came with it."""

    request: Any
    deadline_ms: int
    reply: Any = None
    bodies: list[bytes] = field(default_factory=list)
    error: ZenitError | None = None

    @property
    def is_answered(self) -> bool:
        return self.reply is not None or self.error is not None


class Loop:
    """The broker's loop, as far as the handlers of pop use it."""

    def __init__(self) -> None:
        self.later: list[Callable[[], None]] = []

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> None:
        self.later.append(callback)

    def reply(self, call: Asked, reply: Any, payload: Any = ()) -> None:
        assert not call.is_answered
        call.reply = reply
        call.bodies = [one.body for one in decode_batch(b"".join(bytes(part) for part in payload))]

    def fail(self, call: Asked, error: ZenitError) -> None:
        assert not call.is_answered
        call.error = error


class Workers:
    """`jobs`: what they have yet to do."""

    def __init__(self, loop: Loop) -> None:
        self.jobs: list[Callable[[], None]] = []
        self._loop = loop

    def run(self, call: Asked, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        def job() -> None:
            try:
                then(work())
            except ZenitError as error:
                self._loop.fail(call, error)

        self.jobs.append(job)

    def run_aside(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        self.jobs.append(lambda: then(work()))


class Registry:
    """`living`: clients whose heartbeats last."""

    def __init__(self) -> None:
        self.living: set[str] = set()

    def identity_of(self, client_id: str) -> bytes | None:
        return b"i" if client_id in self.living else None

    def member_of_another_kind(self, group: str, kind: str) -> None:
        """Nobody consumes the queues."""


class Scene:
    """`turn`: what the loop does."""

    def __init__(self, directory: Path, clock: StillClock, *, confirms: bool = False, **sizes: int) -> None:
        self.directory, self.clock, self.loop = directory, clock, Loop()
        self.workers, self.registry = Workers(self.loop), Registry()
        self.leads, self.is_open = True, False
        self._deleted: list[tuple[str, int]] = []
        producers = ProducerTable(retention_ms=1 << 40, entries_max=100)
        self.state = StateLog(str(directory), clock=clock, persist_interval_ms=0, producers=producers)
        self.store = make_store(directory, clock, dispatchers=(self.state,), **{"segment_bytes": 1 << 16, **sizes})
        self.state.on_topic_deleted = self._on_topic_deleted
        self.state.on_lite_collected = self.store.delete_light_queues
        self.state.on_taken_over = partial(settle_groups, self.store, self.state)
        with ExitStack() as failed:
            self.store.__enter__()
            failed.callback(self.store.__exit__, None, None, None)
            if confirms:
                self.store.confirm(0)
            self.state.on_opened(self.store.written, lambda: self.store.written)
            failed.pop_all()
        promised = (lambda: int(self.store.confirm_offset)) if confirms else None
        acknowledgements = Acknowledgements(cast(Any, self.loop), promised=promised, timeout_ms=NEVER)
        self.parts = Parts(
            **cast(
                Any,
                {
                    "config": BrokerConfig(store_dir=str(directory), name=BROKER, namesrv=("127.0.0.1:1",)),
                    "loop": self.loop,
                    "clock": clock,
                    "store": self.store,
                    "state": self.state,
                    "acknowledgements": acknowledgements,
                    "registry": self.registry,
                    "workers": self.workers,
                    "stages": None,
                    "store_host": None,
                    "delays": None,
                    "transactions": None,
                    "leads": lambda: self.leads,
                    "read_from": None,
                },
            )
        )
        self.leases = Leases(self.parts)
        self.pops = PopHandler(self.parts, ConditionCache(), self.leases)
        self.receipts = ReceiptHandler(self.parts, self.leases)
        self.leases.on_available = self.pops.on_available
        self.is_open = True
        self._handlers: dict[type, Callable[[Any], Any]] = {
            commands.PopMessages: self.pops.on_pop,
            commands.CancelPop: self.pops.on_cancel,
            commands.AckMessages: self.receipts.on_ack,
            commands.ReleaseMessages: self.receipts.on_release,
            commands.ChangeInvisible: self.receipts.on_change,
            commands.ForwardDeadLetter: self.receipts.on_forward,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.__exit__(None, None, None)

    def _on_topic_deleted(self, topic: str, at: int) -> None:
        if self.is_open:
            self._deleted.append((topic, at))
        else:
            self.store.delete_topic(topic, at)

    # ---- what clients ask

    def ask(self, request: Request) -> Asked:
        """In this turn."""
        asked = Asked(request, NEVER)
        try:
            done = self._handlers[type(request)](asked)
        except ZenitError as error:
            asked.error = error
        else:
            asked.reply = done if done is not None else asked.reply
        return asked

    def pop(
        self, count: int = 32, *, group: str = "g", topic: str = "t", invisible_ms: int = 30_000, **more: Any
    ) -> Asked:
        return self.ask(commands.PopMessages(group, topic, count, invisible_ms, **more))

    def ack(self, *acks: tuple[str, int], group: str = "g", topic: str = "t") -> Asked:
        return self.ask(commands.AckMessages(group, topic, acks))

    def release(self, *acks: tuple[str, int], group: str = "g", topic: str = "t") -> Asked:
        return self.ask(commands.ReleaseMessages(group, topic, acks))

    def change(self, handle: str, index: int, invisible_ms: int, *, group: str = "g", topic: str = "t") -> Asked:
        return self.ask(commands.ChangeInvisible(group, topic, handle, index, invisible_ms))

    def forward(self, handle: str, index: int, *, group: str = "g", topic: str = "t") -> Asked:
        return self.ask(commands.ForwardDeadLetter(group, topic, handle, index))

    # ---- what else is staged in this turn

    def create(self, topic: str = "t", queues: int = 1) -> None:
        config = TopicConfig(topic, read_queues=queues, write_queues=queues)
        self.state.stage(self.store, TOPICS, self.state.topic_table.event_set(config))

    def delete(self, topic: str = "t") -> None:
        self.pops.on_deleted(int(self.state.stage(self.store, TOPICS, self.state.topic_table.event_deleted(topic))))

    def delete_group(self, group: str = "g") -> None:
        self.pops.on_deleted(int(self.state.stage(self.store, GROUPS, self.state.group_table.event_deleted(group))))

    def allow(self, retries: int, group: str = "g") -> None:
        event = self.state.group_table.event_set(group, (("retryMaxTimes", str(retries)),))
        self.state.stage(self.store, GROUPS, event)

    def reset(self, offset: int, *, group: str = "g", topic: str = "t", queue_id: int = 0) -> None:
        event, _ = self.state.offset_table.event_reset(group, [(topic, queue_id, offset)], self.clock.now_ms())
        end = self.state.stage(self.store, OFFSETS, event)
        self.pops.on_moved({topic}, int(end))

    def send(self, *bodies: bytes, topic: str = "t", queue_id: int = 0, **fields: str) -> None:
        stage(self.store, topic, queue_id, *(message(topic, body, **fields) for body in bodies))

    # ---- time

    def turn(self, *, works: bool = True) -> None:
        """The end of a turn, and the next ones, until there is nothing more to do now."""
        self._commit()
        for _ in range(20):
            later, self.loop.later = self.loop.later, []
            jobs = []
            if works:
                jobs, self.workers.jobs = self.workers.jobs, []
            for callback in (*later, *jobs):
                callback()
            self._commit()
            if not self.loop.later and not (works and self.workers.jobs):
                return

    def _commit(self) -> None:
        self.store.commit()
        deleted, self._deleted = self._deleted, []
        for topic, at in deleted:
            self.store.delete_topic(topic, at)
            self.pops.on_topic_deleted(topic)
        arrivals = self.store.take_arrivals()
        self.parts.acknowledgements.on_committed(self.clock.monotonic_ms())
        self.parts.acknowledgements.on_promised()
        if arrivals:
            self._on_arrivals(arrivals)

    def _on_arrivals(self, queues: list[tuple[str, int]]) -> None:
        self.pops.on_arrivals(queues)

    def pass_ms(self, ms: int) -> None:
        """So much later, with a look at the clock ten times a second."""
        while ms > 0:
            step_ms = min(ms, TICK_MS)
            self.clock.time_ms += step_ms
            ms -= step_ms
            self.pops.on_tick(self.clock.time_ms)
            self.leases.on_tick(self.clock.time_ms)
            self.turn()
