"""The embedded engine: the broker's handlers over one log a queue, in the threads of their callers.

Two threads of its own: one runs timers (waiting pulls, leases, failed messages that come again), the other makes durable what
was written, each FLUSH_MS. So what was acknowledged survives the end of the process, however it ends; a loss of power may take
what was written since the last flush.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Self, cast

from ...broker.acknowledgements import Acknowledgements
from ...broker.config import BrokerConfig
from ...broker.delay.delays import Delays
from ...broker.delay.timing import DelayRules
from ...broker.handlers.parts import Parts
from ...broker.stage_clock import StageClock
from ...broker.state.client_registry import ClientRegistry
from ...broker.state.producer_table import ProducerTable
from ...broker.state.state_log import StateLog
from ...broker.state.unconsumed import Unconsumed
from ...broker.transaction.transactions import Transactions
from ...broker.worker_pool import WorkerPool
from ...model.clock import Clock, SystemClock
from ...model.errors import StorePoisoned, ZenitError
from ...model.ids import HostAddress
from ...record.kernel import MessageBatch, decode_batch
from ...remoting.commands import Request
from ...remoting.server import Call
from ...store.config import StoreConfig, parse_delay_levels
from ...store.message_store import MessageStore, request_arena
from ..direct_client import DirectClient
from ..own_host import CLUSTER, new_host
from ..turns import Turns
from .directory_handler import DirectoryHandler
from .embedded_handlers import EmbeddedHandlers
from .log_store import Appended, LogStore
from .queue_logs import QueueLogs
from .refusals import refusal
from .waiting_log import WaitingLog

log = logging.getLogger(__name__)

BROKER: Final = "embedded"
FLUSH_MS: Final = 100
FAST_TICK_MS: Final = 100
SLOW_TICK_MS: Final = 1000
EXPIRY_MS: Final = 60_000
STOP_S: Final = 30.0
PORT: Final = 3
SETTINGS: Final = StoreConfig()

OnAppended = Callable[[MessageBatch], None]
"""Takes messages of one queue that were just appended."""


class EmbeddedEngine:
    """A context manager: entered, clients may come (`new_client`). `address`: what routes name."""

    def __init__(self, directory: str, *, clock: Clock | None = None) -> None:
        host = new_host()
        self.address = f"{host}:{PORT}"
        self._clock = clock or SystemClock()
        self._config = BrokerConfig(
            cluster=CLUSTER,
            name=BROKER,
            host=host,
            port=PORT,
            namesrv=(self.address,),
            store_dir=directory,
            store=SETTINGS,
        )
        self._host = HostAddress.parse(host, PORT)
        self._flushing = threading.Event()  # set: it ends
        self._interceptors: tuple[OnAppended, ...] = ()
        self._appended: deque[Appended] = deque()
        self._telling = threading.RLock()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        """Raises StoreLocked, StoreFormatError, StoreNotWriteable, OSError."""
        config, arena = self._config, request_arena(SETTINGS)
        self._logs = QueueLogs(config.store_dir)
        try:
            self._state = state = StateLog(
                config.store_dir,
                clock=self._clock,
                persist_interval_ms=config.state_persist_ms,
                lock_lease_ms=config.queue_lock_lease_ms,
                producers=ProducerTable(
                    retention_ms=config.producer_state_retention_ms, entries_max=config.producer_states_max
                ),
            )
            self._turns = turns = Turns(
                bind=self.address, arena=arena, clock=self._clock, on_turn_end=self._on_turn_end
            )
            self._store = LogStore(self._logs, state, SETTINGS, host=self._host, clock=self._clock, arena=arena)
            self._store.replay(state.reflected())
            state.on_opened(self._store.written, lambda: self._logs.state.synced)
            self._wire(turns)
        except BaseException:
            self._logs.close()
            raise
        self._threads = [
            threading.Thread(target=turns.run, name="zenit-embedded", daemon=True),
            threading.Thread(target=self._flush, name="zenit-flush", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._turns.close()
        self._flushing.set()
        for thread in self._threads:
            thread.join(STOP_S)
            if thread.is_alive():
                log.error("a thread of an engine does not end thread=%s", thread.name)
        self._state.is_closing = True
        try:
            if self._logs.poisoned is None:
                self._logs.sync()
                self._state.persist()
        except OSError as error:  # the next opening reads the state's log from the snapshots before
            log.warning("the state cannot be written error=%s", error)
        finally:
            self._logs.close()

    def new_client(self) -> DirectClient:
        """A client of this engine. Raises ConnectionLost."""
        return DirectClient(lambda: self._turns, self._tell_appended)

    # ---- interceptors

    def intercept(self, on_appended: OnAppended) -> Callable[[], None]:
        """Calls `on_appended` after each append from now on. Returns a function that ends it."""
        self._interceptors = (*self._interceptors, on_appended)
        self._store.is_watched = True
        return partial(self._leave_alone, on_appended)

    def _leave_alone(self, on_appended: OnAppended) -> None:
        self._interceptors = tuple(known for known in self._interceptors if known is not on_appended)
        self._store.is_watched = bool(self._interceptors)

    def _tell_appended(self, *, waits: bool = False) -> None:
        """In the sender's thread, or its client's, without the lock of the turns: an interceptor may send. `waits`: for one
        that runs; a client's I/O thread may be what that one waits for."""
        if not self._appended or not self._telling.acquire(blocking=waits):
            return
        try:
            while self._appended:
                batch = decode_batch(self._appended.popleft().records, BROKER)
                for on_appended in self._interceptors:
                    try:
                        on_appended(batch)
                    except Exception:
                        log.exception("an interceptor failed; the messages are stored all the same")
        finally:
            self._telling.release()

    # ---- wiring

    def _wire(self, turns: Turns) -> None:
        config, clock = self._config, self._clock
        self._acknowledgements = Acknowledgements(turns, promised=None, timeout_ms=SETTINGS.sync_flush_timeout_ms)
        rules = DelayRules(parse_delay_levels(SETTINGS.delay_levels), config.timer_delay_ms_max)
        self._waiting = WaitingLog(self._logs, self._store, rules, clock, host_bytes=len(self._host.encode()))
        # The handlers use a part of these classes, which ours have; the contract suite runs every handler over them.
        store, delays = cast("MessageStore", self._store), cast("Delays", self._waiting)
        parts = Parts(
            config=config,
            loop=turns,
            clock=clock,
            store=store,
            state=self._state,
            acknowledgements=self._acknowledgements,
            registry=ClientRegistry(heartbeat_ms=config.heartbeat_ms, clients_max=config.clients_max),
            workers=cast("WorkerPool", InPlace(turns)),
            stages=StageClock(),
            store_host=self._host,
            delays=delays,
            transactions=cast("Transactions", None),  # the handlers that use them are not here
            leads=lambda: True,
            read_from=lambda _is_cold, _queue_id: 0,
        )
        self._handlers = handlers = EmbeddedHandlers(parts)
        directory = DirectoryHandler(config, self._state.topic_table, self._logs, turns)
        self._deleted: list[str] = []
        self._state.on_topic_deleted = lambda topic, _end: self._deleted.append(topic)
        self._state.on_topic_changed = self._publish
        turns.refuse = refusal
        turns.on_run = self._tell_appended
        for one in (*handlers.rows(), *directory.rows()):
            turns.handle(one.request_class, one.handler)
        turns.every(FAST_TICK_MS, self._on_fast_tick)
        turns.every(EXPIRY_MS, self._expire)
        turns.every(SLOW_TICK_MS, lambda: handlers.on_slow_tick(clock.monotonic_ms()))

    def _on_turn_end(self) -> None:
        """Under the lock: answers what was staged, applies the events, wakes who waits for messages."""
        acknowledgements, store = self._acknowledgements, self._store
        if acknowledgements.staged or acknowledgements.callbacks:
            acknowledgements.on_committed(self._clock.monotonic_ms())
        store.dispatch()
        while self._deleted:
            topic = self._deleted.pop()
            self._logs.delete_topic(topic)
            self._handlers.on_topic_deleted(topic)
        arrivals = store.take_arrivals()
        if arrivals:
            self._handlers.on_arrivals(arrivals)
        if store.is_watched:
            self._appended.extend(store.take_appended())

    def _on_fast_tick(self) -> None:
        self._waiting.deliver_due()
        self._handlers.on_fast_tick(self._clock.monotonic_ms())

    def _expire(self) -> None:
        state = self._state
        needs = Unconsumed(state.offset_table, state.topic_table.configs)
        self._logs.expire(self._clock.now_ms() - SETTINGS.retention_ms, needs.first)

    def _publish(self, topic: str) -> None:
        for link in self._turns.links():
            cast("DirectClient", link).publish(topic)

    # ---- the flush thread

    def _flush(self) -> None:
        while not self._flushing.wait(FLUSH_MS / 1000):
            try:
                self._logs.sync()
                self._turns.do(self._logs.close_descriptors)
                reflected = self._state.persist()
                self._turns.do(partial(self._logs.state.drop_files_below, reflected))
            except StorePoisoned:
                return
            except (OSError, ZenitError) as error:
                log.warning("the state cannot be written error=%s", error)


class InPlace:
    """What a broker leaves to its workers is done at once: the caller's thread is not a loop for which others wait."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def run(self, call: Call[Request], work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """As `WorkerPool.run`; raises what `work` and `then` do."""
        del call
        then(work())

    def run_aside(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """As `WorkerPool.run_aside`; after the present handler."""
        self._turns.call_later(0, lambda: then(work()))
