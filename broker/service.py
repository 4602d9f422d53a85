"""One broker: opens the store, binds the port, wires the handlers, serves until told to stop.

Threads: `run` is the data loop in the calling thread; the store brings its flush, allocator and checkpoint threads,
the client its I/O thread for name servers, and two workers read for queries. All state belongs to the loop.
"""

from __future__ import annotations

import gc
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType, TracebackType
from typing import Final, Self

from ..metrics.endpoint import MetricsEndpoint
from ..model.clock import Clock, SystemClock, monotonic_ns, thread_cpu_ns
from ..model.config import describe_config
from ..model.errors import BufferFull, NotMaster, StorePoisoned
from ..model.events.table import BROKER_STARTED, BROKER_STOPPED, DISK_FAILED, STORE_EVENT
from ..model.events.telling import kept_by, tell
from ..model.groups.group_limits import AUTO
from ..model.ids import HostAddress
from ..model.names import AUDIT_TOPIC, HALF_TOPIC, VERSION
from ..model.queue import QueueOffset
from ..remoting import commands
from ..remoting.addresses import own_address
from ..remoting.client import RemotingClient
from ..remoting.commands import Request
from ..remoting.examination.examiner import Examiner
from ..remoting.loop_times import LoopTimes
from ..remoting.reloading import Reloading
from ..remoting.request_rows import Row, check_rows, row
from ..remoting.security.opened_security import open_security
from ..remoting.server import Call, RequestLoop
from ..store.compaction.compacted_expiry import Keeping
from ..store.config import parse_delay_levels
from ..store.message_store import MessageStore, request_arena
from ..store.opening.small_file import needs_room
from ..store.worker_threads import WorkerThreads
from .acknowledgements import Acknowledgements
from .audit.audit_writer import AuditWriter, rows_without_audit
from .config import BrokerConfig
from .delay.delays import Delays
from .delay.pace import Pace
from .delay.timer_index import open_timer_index
from .delay.timing import DelayRules
from .event_file import EventFile
from .group.alone import prepare_alone
from .group.cluster_file import ClusterFile
from .group.cluster_membership import ClusterMembership
from .group.group_part import GroupPart, PartGround
from .group.in_group import prepare_in_group
from .handlers.parts import Parts
from .handlers.registry import Handlers
from .json_reply import reply_json
from .lite.hand_over import settle_groups
from .metrics.broker_reader import BrokerParts, BrokerReader
from .metrics.flows import Flows
from .metrics.lag_survey import LagSurvey
from .registration import BrokerIdentity, NameServerRegistration
from .repair.scrub import Scrub
from .security.row_spreading import RowSpreading
from .stage_clock import StageClock
from .state.admission import queue_count
from .state.client_registry import ClientRegistry
from .state.producer_table import ProducerTable
from .state.state_log import StateLog
from .state.unconsumed import Unconsumed
from .statistics import kernel_kind
from .steady_time import SteadyTime
from .transaction.half_index import Halves, open_half_index
from .transaction.half_rules import HalfRules
from .transaction.transaction_handler import Asking
from .transaction.transactions import Transactions
from .worker_pool import WorkerPool

_log = logging.getLogger(__name__)

EXIT_POISONED: Final = 86
EXIT_FATAL: Final = 87
SWITCH_INTERVAL_S: Final = 0.0005
FAST_TICK_MS: Final = 100
SLOW_TICK_MS: Final = 1000
UPKEEP_PAUSE_MS: Final = 10  # between two parts of the store's upkeep, of about 1 ms each
FINISH_MS: Final = 2000  # how long a stop waits for unflushed acknowledgements


class Broker:
    """A context manager: entered, the broker is open and bound (`address`); `run` serves."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock | None = None,
        new_loop: Callable[..., RequestLoop] = RequestLoop,
        metrics: MetricsEndpoint | None = None,
        drains: bool = False,
    ) -> None:
        """`new_loop`: makes the loop; an engine has one without sockets. `metrics`: where it is measured; it outlives the
        broker. `drains`: it is not to lead its group."""
        if config.host == AUTO:
            config = replace(config, host=own_address())
        self._config = config
        self._metrics = metrics
        self._new_loop = new_loop
        self._clock = clock or SystemClock()
        self._running = ExitStack()
        self._poisoned: StorePoisoned | None = None
        self._stages = StageClock()
        self._upkeep_goes_on = False
        self._steady = SteadyTime()
        self._deleted: list[tuple[str, int]] = []  # topics whose deletion was applied in this turn, and where that ends
        self._on_disk_failed: Callable[[], None] = _tell_nobody  # until the part in the group exists
        self._is_failing = False
        self._events = EventFile(config.store_dir, node=config.node, group=config.group)
        self.is_reopening = False  # the store must be closed and reopened
        self._begins_draining = drains

    @property
    def address(self) -> str:
        """ "host:port" that clients connect to."""
        return self._identity.address

    def __enter__(self) -> Self:
        """Raises ConfigError (port), StoreInGroup, StoreLocked, StoreFormatError, StoreNotWriteable."""
        config = self._config
        with ExitStack() as started, needs_room():
            started.enter_context(kept_by(self._events.keep))
            make_part: Callable[[PartGround], GroupPart]
            make_part = prepare_in_group(config) if config.has_group else prepare_alone(config)
            self._bind(started)
            store_closed = started.enter_context(ExitStack())
            self._open_store(started)
            self._part = part = make_part(self._ground(started))
            started.callback(part.close)
            store_closed.callback(self._mark_clean)
            self._on_disk_failed = part.on_disk_failed
            self._identity = self._first_identity()
            self._wire(started)
            if self._metrics is not None:
                self._begin_metrics(self._metrics, started)
            self._running = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._state.is_closing = self._timers.is_closing = self._half_index.is_closing = True
        self._running.close()

    def run(self) -> int:
        """Serves until `stop`; returns the exit status: 0, or 86 if the disk failed."""
        self._cluster.start()
        self._registration.start()
        self._part.start()
        if self._begins_draining:
            self._part.drain(ends=False)
        self._loop.run()
        self._part.stop()
        self._registration.stop()
        deadline_ms = self._clock.monotonic_ms() + FINISH_MS
        while self._acknowledgements.waiting_count and self._clock.monotonic_ms() < deadline_ms:
            self._loop.turn(FAST_TICK_MS)
        if self._poisoned is not None:
            return EXIT_POISONED
        if self._is_failing:
            return EXIT_FATAL
        tell(_log, BROKER_STOPPED, written=self._store.written)
        return 0

    def reload(self, config: BrokerConfig) -> None:
        """Goes on with another configuration that differs in online keys only. Any thread, or a signal handler."""
        try:
            self._loop.post(partial(self._on_reloaded, config))
        except BufferFull:
            _log.error("too busy to take the reloaded configuration: send SIGHUP again")

    def _on_reloaded(self, config: BrokerConfig) -> None:
        self._config = config
        self._store.set_limits(config.store)

    def stop(self) -> None:
        """Ends `run`. Any thread, or a signal handler."""
        self._loop.stop()

    def drain(self) -> None:
        """Hands over to another replica, if there is one, then ends `run`: within 20 s. Any thread, or a signal handler."""
        try:
            self._loop.post(partial(self._part.drain, ends=True))
        except BufferFull:
            self._loop.stop()

    @property
    def drains(self) -> bool:
        """It was told to hand over, and to stay."""
        return self._part.drains

    # ---- starting

    def _bind(self, started: ExitStack) -> None:
        """Before the store is opened: records contain the port, which may be a free one that the system chose."""
        config = self._config
        self._arena = request_arena(config.store)
        bound = config.listen_host or config.host
        self._secured = open_security(config.security, self._clock, started, host=bound, wanted=config.binding)
        self._loop = self._new_loop(
            bind=f"{bound}:{config.port}",
            arena=self._arena,
            clock=self._clock,
            on_turn_end=self._on_turn_end,
            on_replied=self._on_replied,
            door=self._secured.door if self._secured is not None else None,
        )
        started.enter_context(self._loop)
        self._store_host = HostAddress.parse(config.host, self._loop.told_port)

    def _open_store(self, started: ExitStack) -> None:
        """Opens the log, and the state derived from it."""
        config = self._config
        self._state = StateLog(
            config.store_dir,
            clock=self._clock,
            persist_interval_ms=config.state_persist_ms,
            lock_lease_ms=config.queue_lock_lease_ms,
            producers=ProducerTable(
                retention_ms=config.producer_state_retention_ms, entries_max=config.producer_states_max
            ),
            cpu_ns=thread_cpu_ns,
        )
        self._delay_rules = DelayRules(parse_delay_levels(config.store.delay_levels), config.timer_delay_ms_max)
        timers = open_timer_index(
            config.store_dir, self._delay_rules, clock=self._clock, buffer_bytes=config.store.timer_buffer_bytes
        )
        self._timers = started.enter_context(closing(timers))
        self._half_rules = HalfRules(
            config.transaction_timeout_ms, config.transaction_check_interval_ms, config.transaction_checks_max
        )
        self._halves = Halves(self._half_rules, config.store_dir)
        half_index = open_half_index(
            config.store_dir, self._halves, clock=self._clock, buffer_bytes=config.store.timer_buffer_bytes
        )
        self._half_index = started.enter_context(closing(half_index))
        self._store = MessageStore(
            config.store_dir,
            config.store,
            store_host=self._store_host,
            clock=self._clock,
            on_flushed=self._on_flushed,
            on_poisoned=self._on_poisoned,
            dispatchers=(self._state, self._timers, self._half_index),
            arena=self._arena,
        )
        self._state.on_topic_deleted = self._store.delete_topic
        self._state.on_lite_collected = self._store.delete_light_queues
        self._state.on_taken_over = partial(settle_groups, self._store, self._state)
        started.enter_context(self._store)
        self._state.on_opened(self._store.written, lambda: self._store.flushed)
        self._halves.locate = lambda place: self._store.position_of(HALF_TOPIC, place[0], QueueOffset(place[1]))
        for index in (self._timers, self._half_index):
            index.on_opened(lambda: self._store.flushed)
        keeping = {AUDIT_TOPIC: Keeping(self._config.audit_retention_ms, self._config.audit_bytes_max)}
        self._store.compaction.begin(self._state.topic_table.compacted_queues, keeping)
        self._store.protect(Unconsumed(self._state.offset_table, self._state.topic_table.configs))

    def _ground(self, started: ExitStack) -> PartGround:
        """What this broker's part in its group uses."""
        config = self._config
        address = config.address_at(self._loop.told_port)
        keys = self._secured.keys if self._secured is not None else None
        self._client = started.enter_context(RemotingClient(keys=keys))
        self._cluster = ClusterMembership(
            ClusterFile.open(config.store_dir, pinned=config.cluster_id),
            self._client,
            self._loop,
            self._clock,
            cluster=config.cluster,
            name_servers=config.namesrv,
            ask_ms=config.namesrv_heartbeat_ms,
            on_known=self._on_cluster_known,
            is_told=config.has_group and config.static_master != address,
        )
        return PartGround(
            config=config,
            loop=self._loop,
            clock=self._clock,
            store=self._store,
            client=self._client,
            cluster=self._cluster,
            host=self,
            address=address,
            secured=self._secured,
        )

    def _first_identity(self) -> BrokerIdentity:
        broker_id, epoch = self._part.first_role
        return BrokerIdentity(
            self._config.cluster,
            self._config.name,
            self._config.address_at(self._loop.told_port),
            epoch,
            broker_id,
            replication_address=self._part.replication_address,
            open_address=self._open_address(),
        )

    def _open_address(self) -> str:
        """Where clients without a key connect to; "" = nowhere."""
        port = self._loop.open_address.rpartition(":")[2]
        return self._config.address_at(int(port)) if port else ""

    def _wire(self, started: ExitStack) -> None:
        config, loop, clock, part = self._config, self._loop, self._clock, self._part
        threads = WorkerThreads(config.worker_threads, "zenit-worker")
        started.callback(threads.shutdown, cancel_futures=True)
        self._workers = WorkerPool(threads, loop, clock, waiting_max=config.worker_queue_max, check=part.check)
        self._acknowledgements = Acknowledgements(
            loop, promised=part.promised, timeout_ms=config.store.sync_flush_timeout_ms, late=part.late
        )
        registry = ClientRegistry(heartbeat_ms=config.heartbeat_ms, clients_max=config.clients_max)
        delays, transactions = self._new_delays(), self._new_transactions(registry)
        self._registry, self._delays, self._transactions = registry, delays, transactions
        self._flows = None if self._metrics is None else Flows(self._state.group_table.documents)
        self._store.keep_waiting(delays.clear_below, transactions.clear_below)
        self._handlers = Handlers(
            Parts(
                config=config,
                loop=loop,
                clock=clock,
                store=self._store,
                state=self._state,
                acknowledgements=self._acknowledgements,
                registry=registry,
                workers=self._workers,
                stages=self._stages,
                store_host=self._store_host,
                delays=delays,
                transactions=transactions,
                leads=part.leads,
                read_from=part.read_from,
                flows=self._flows,
            )
        )
        self._audit: AuditWriter | None = None
        if self._secured is not None:
            self._handlers.security.guard(self._secured, loop)
            loop.on_access = self._handlers.on_access
            self._audit = self._new_audit()
            self._audit.begin(self._secured.door)
            started.callback(self._audit.end)
        self._registration = self._new_registration()
        self._state.on_topic_changed = self._registration.on_topic_changed
        self._state.on_topic_deleted = self._on_topic_deleted
        self._state.on_lite_collected = self._on_lite_collected
        self._scrub = Scrub(self._store, loop, clock, self._workers, config)
        self._serve(part.serve_replicas(self._workers, self._handlers.pulls.look_again))
        self._scrub.start()
        RowSpreading(
            self._handlers.security,
            self._client,
            loop,
            clock,
            servers=(*config.namesrv, *config.controllers),
            leads=part.leads,
        ).start()
        delays.start()
        transactions.start()
        loop.every(FAST_TICK_MS, self._on_fast_tick)
        loop.every(SLOW_TICK_MS, self._on_slow_tick)

    def _begin_metrics(self, metrics: MetricsEndpoint, started: ExitStack) -> None:
        """From now on a scrape reads this opening of the store."""
        assert self._flows is not None
        loop, delays, transactions = self._loop, self._delays, self._transactions
        loop.times = LoopTimes()
        survey = LagSurvey(
            self._store,
            self._state,
            leads=self._part.leads,
            dues=lambda: (transactions.next_due_ms, delays.next_due_ms),
        )
        loop.every(FAST_TICK_MS, survey.on_tick)
        reader = BrokerReader(
            BrokerParts(
                config=self._config,
                loop=loop,
                clock=self._clock,
                store=self._store,
                state=self._state,
                registry=self._registry,
                acknowledgements=self._acknowledgements,
                handlers=self._handlers,
                delays=delays,
                transactions=transactions,
                part=self._part,
                flows=self._flows,
                survey=survey,
            )
        )
        metrics.serve(reader)
        started.callback(metrics.serve, None)

    def _new_delays(self) -> Delays:
        config, topics = self._config, self._state.topic_table
        return Delays(
            self._store,
            self._timers,
            self._loop,
            self._clock,
            self._delay_rules,
            leads=self._part.leads,
            on_damaged=self._on_timers_damaged,
            queues_of=lambda topic: queue_count(topics, topic),
            made_at=topics.made_at,
            pace=Pace(per_second=config.timer_deliver_per_second, per_turn=config.timer_deliver_per_turn),
            store_host_bytes=len(self._store_host.encode()),
        )

    def _new_transactions(self, registry: ClientRegistry) -> Transactions:
        topics = self._state.topic_table
        return Transactions(
            self._store,
            self._half_index,
            self._halves,
            self._loop,
            self._clock,
            self._half_rules,
            leads=self._part.leads,
            on_damaged=self._on_timers_damaged,
            queues_of=lambda topic: queue_count(topics, topic),
            made_at=topics.made_at,
            ask=Asking(self._loop, registry, self._acknowledgements).ask,
            settle_ms=min(self._config.heartbeat_ms, self._config.transaction_timeout_ms),
            broker_name=self._config.name,
            store_host_bytes=len(self._store_host.encode()),
        )

    def _new_audit(self) -> AuditWriter:
        return AuditWriter(
            self._store,
            self._state,
            self._loop,
            self._clock,
            self._client,
            broker_name=self._config.name,
            replica=self._config.replica_name,
            leads=self._part.leads,
            master=self._part.master_address,
        )

    def _new_registration(self) -> NameServerRegistration:
        config, topics = self._config, self._state.topic_table
        return NameServerRegistration(
            self._client,
            self._loop,
            self._clock,
            addresses=config.namesrv,
            identity=self._identity,
            topics=topics.registered,
            topic=topics.registered_one,
            register_interval_ms=config.register_interval_ms,
            heartbeat_ms=config.namesrv_heartbeat_ms,
            takes_writes=lambda: self._store.refusal is None,
            on_answer=self._cluster.on_registration,
        )

    def _serve(self, rows_of_replicas: list[Row]) -> None:
        """The table of requests, each after the check that this replica may answer it."""
        rows = [
            *self._handlers.rows(),
            *rows_of_replicas,
            row(commands.GetBrokerStatistics, self._on_statistics),
            row(commands.GetBrokerConfig, self._on_config),
            row(commands.GetBrokerEvents, self._on_get_events),
            row(commands.ScrubLog, self._scrub.on_scrub),
            *self._examiner().rows(),
            *(rows_without_audit() if self._audit is None else self._audit.rows()),
        ]
        check_rows(rows, commands.SERVED_BY_BROKERS)
        audit = self._audit
        for one in rows:
            handler = self._part.guarded(one)
            self._loop.handle(one.request_class, handler if audit is None else audit.watched(one, handler))

    def _mark_clean(self) -> None:
        """Called last, after the store is closed."""
        if self._poisoned is None:
            self._part.mark_clean()

    # ---- the loop's events

    def _on_turn_end(self) -> None:
        """Writes the staged batches and answers them: from here on the log holds them, whatever happens later."""
        if self._poisoned is not None:
            self._acknowledgements.on_poisoned()
            return
        stages = self._stages
        begun = monotonic_ns() if stages.is_sampling else 0
        try:
            self._store.append()
        except StorePoisoned as error:
            self._on_poisoned(error)
            self._acknowledgements.on_poisoned()
            return
        written = monotonic_ns() if begun else 0
        if self._acknowledgements.staged or self._acknowledgements.callbacks:
            self._acknowledgements.on_committed(self._clock.monotonic_ms())
        self._part.on_turn()
        if begun:
            stages.on_answered(begun, written, monotonic_ns())

    def _on_replied(self) -> None:
        """Brings queues, index and state up to date with the log, and wakes waiting readers."""
        if self._poisoned is not None:
            return
        stages = self._stages
        begun = monotonic_ns() if stages.is_sampling else 0
        try:
            self._store.dispatch()
        except StorePoisoned as error:
            self._on_poisoned(error)
            return
        if begun:
            stages.on_dispatched(begun, monotonic_ns())
        if self._deleted:
            self._delete_topics()
        arrivals = self._store.take_arrivals()
        if arrivals:
            self._handlers.on_arrivals(arrivals)
        stages.next_turn()

    def _on_fast_tick(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._handlers.on_fast_tick(now_ms)
        self._acknowledgements.on_tick(now_ms)
        if self._audit is not None:
            self._audit.on_tick()

    def _on_slow_tick(self) -> None:
        self._handlers.on_slow_tick(self._clock.monotonic_ms())
        if not self._upkeep_goes_on:
            self._on_upkeep()

    def _on_upkeep(self) -> None:
        """The store does a small part of its upkeep each time; the rest does not wait for the next second."""
        now_ms = self._steady.at(now_ms=self._clock.now_ms(), monotonic_ms=self._clock.monotonic_ms())
        for event in self._store.on_tick(now_ms):
            tell(_log, STORE_EVENT, what=event)
        self._upkeep_goes_on = self._store.has_upkeep_left
        if self._upkeep_goes_on:
            self._loop.call_later(UPKEEP_PAUSE_MS, self._on_upkeep)

    def _on_topic_deleted(self, topic: str, at: int) -> None:
        """A slave's store deletes at once, because the rest of the same chunk may create the topic's queues again; in a
        turn of our own nothing follows."""
        if not self._part.is_master:
            self._store.delete_topic(topic, at)
        self._deleted.append((topic, at))

    def _on_lite_collected(self, queues: list[str], at: int) -> None:
        """A slave's store follows. A master removed them before it wrote the event, and what is there by now is new."""
        if not self._part.is_master:
            self._store.delete_light_queues(queues, at)

    def _delete_topics(self) -> None:
        """The store's part of topic deletions, which it cannot do while it dispatches their events."""
        for topic, at in self._deleted:
            if self._part.is_master:
                self._store.delete_topic(topic, at)
            self._handlers.on_topic_deleted(topic)
        self._deleted.clear()

    def _on_flushed(self) -> None:
        """Called by the flush thread, which runs as soon as the store is open: before part and acknowledgements exist."""
        if self._config.has_group or self._config.store.flush_mode == "sync":
            self._loop.post(self._tell_flushed)

    def _tell_flushed(self) -> None:
        self._part.on_flushed()

    def _on_poisoned(self, error: StorePoisoned) -> None:
        """The disk failed, in any thread: nothing more is acknowledged, and the process ends."""
        if self._poisoned is None:
            self._poisoned = error
            tell(_log, DISK_FAILED, why=error.what)
            self._on_disk_failed()
            self._loop.stop()

    def _on_cluster_known(self, cluster_id: str) -> None:
        """The id of our cluster, or ("") it is no longer known."""
        self._identity = replace(self._identity, cluster_id=cluster_id)
        self._registration.on_role(self._identity)

    # ---- from the part in a group

    def on_role(self, broker_id: int | None, epoch: int) -> None:
        """Our broker id from now on; name servers are told at once."""
        self._identity = replace(self._identity, broker_id=broker_id, epoch=epoch)
        self._registration.on_role(self._identity)

    def on_acknowledged(self) -> None:
        """More may be answered."""
        self._acknowledgements.on_promised()

    def on_deposed(self) -> None:
        """We are no longer master: nobody here will acknowledge the waiting sends; their senders ask the new master."""
        self._handlers.on_deposed()
        self._transactions.on_deposed()
        self._acknowledgements.fail_all(NotMaster(self._config.name, self._identity.epoch))

    def on_handed_over(self) -> None:
        """Another replica leads: waiting reads are answered, and their senders ask it from now on."""
        self._handlers.answer_waiting()

    def on_drained(self) -> None:
        """Nothing is left to hand over: the loop ends once the last answers have left."""
        self._handlers.answer_waiting()
        self._loop.post(self._loop.stop)

    def on_reopen_needed(self) -> None:
        """The next step needs a closed store."""
        self.is_reopening = True
        self._loop.stop()

    def _on_timers_damaged(self) -> None:
        """The index of waiting messages must be rebuilt from the log, which only an opening of the store does."""
        _log.error("the index of waiting records is damaged: the store is opened again, and the index is rebuilt")
        self.on_reopen_needed()

    def on_fatal(self) -> None:
        """We were sent bytes that cannot be ours: an operator must check."""
        self._is_failing = True
        self._loop.stop()

    # ---- requests about the broker itself

    def _examiner(self) -> Examiner:
        config = self._config
        name_servers = [("name server", address) for address in config.namesrv]
        return Examiner(
            self._loop,
            self._clock,
            role="broker",
            node=config.node,
            peers=lambda: [*name_servers, *self._part.peers()],
            store_dir=config.store_dir,
        )

    def _on_statistics(self, call: Call[Request]) -> None:
        waits = {"flush": self._acknowledgements.waiting_count, "workers": self._workers.waiting}
        document = self._handlers.statistics.document(self._identity, waits)
        document["scrub"] = self._scrub.document()
        document.update(self._part.document())
        reply_json(self._loop, call, document)

    def _on_get_events(self, call: Call[commands.GetBrokerEvents]) -> None:
        reply_json(self._loop, call, self._events.document(call.request.since_ms))

    def _on_config(self, call: Call[Request]) -> None:
        reply_json(self._loop, call, describe_config(self._config))


def _tell_nobody() -> None:
    """The disk failed while the store was opened."""


Reread = Callable[[BrokerConfig], BrokerConfig]
"""The configuration as its sources have it now, with what needs a restart unchanged."""


def _unchanged(config: BrokerConfig) -> BrokerConfig:
    return config


def run(config: BrokerConfig, reread: Reread = _unchanged) -> int:
    """The broker as a process; returns the exit status. Main thread only.

    SIGTERM makes it hand over to another replica first, if there is one; SIGINT, or a second signal, ends it at once.
    SIGHUP: it goes on with what `reread` returns.
    """
    reloading = Reloading(config, reread)
    reloading.listen()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    life_so_far = _LifeSoFar()
    with ExitStack() as life:
        life.callback(gc.enable)
        metrics: MetricsEndpoint | None = None
        if config.metrics.bind:
            metrics = life.enter_context(MetricsEndpoint(config.metrics, version=VERSION, kernel=kernel_kind()))
        while (status := _serve(reloading, life_so_far, metrics)) is None:
            gc.unfreeze()
            gc.collect()  # its parts refer to each other: uncollected, it would need as much memory as the next one
    return status


@dataclass(slots=True)
class _LifeSoFar:
    """What a process keeps when it opens its store anew. `signalled`: signals that came, perhaps while there was no broker
    to be told. `drains`: it is not to lead."""

    signalled: list[int] = field(default_factory=list)
    drains: bool = False


def _serve(reloading: Reloading[BrokerConfig], so_far: _LifeSoFar, metrics: MetricsEndpoint | None) -> int | None:
    """One opening of the store, to its end; None if it must be reopened. Nothing refers to the broker then."""
    gc.disable()  # what is read at a start stays: to look through it again and again takes a third of the time
    signalled, opened = so_far.signalled, reloading.present
    with Broker(opened, metrics=metrics, drains=so_far.drains) as broker:

        def on_signal(number: int, _frame: object) -> None:
            signalled.append(number)
            if number == signal.SIGTERM and len(signalled) == 1:
                broker.drain()
            else:
                broker.stop()

        _on_signals(on_signal)
        reloading.on_reloaded = broker.reload
        if reloading.present is not opened:  # it was read again while the store recovered
            broker.reload(reloading.present)
        if signalled:
            return 0
        _log.info("settings config=%s", describe_config(reloading.present))
        tell(_log, BROKER_STARTED, peer=broker.address, kernel=kernel_kind())
        gc.collect()
        gc.freeze()
        gc.enable()
        status = broker.run()
    so_far.drains = broker.drains
    _on_signals(lambda number, _frame: signalled.append(number))
    reloading.on_reloaded = None
    return status if signalled or not broker.is_reopening else None


def _on_signals(handle: Callable[[int, FrameType | None], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
