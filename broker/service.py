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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from types import FrameType, TracebackType
from typing import Final, NoReturn, Self

from ..model.clock import Clock, SystemClock, monotonic_ns
from ..model.config import describe_config
from ..model.errors import FlushTimeout, NotMaster, ReplicaTimeout, StoreNotWriteable, StorePoisoned, UnknownRequest
from ..model.ids import HostAddress
from ..model.route import MASTER_ID
from ..remoting import commands
from ..remoting.client import RemotingClient
from ..remoting.commands import Request
from ..remoting.request_rows import check_rows, row
from ..remoting.server import Call, RequestLoop
from ..store.config import parse_delay_levels
from ..store.message_store import MessageStore, request_arena
from ..store.opening.small_file import NO_ROOM_RETRY_MS, needs_room
from ..store.opening.store_files import StoreLock
from .acknowledgements import Acknowledgements
from .config import BrokerConfig
from .delay.delays import Delays
from .delay.pace import Pace
from .delay.timer_index import TimerIndex
from .delay.timing import DelayRules
from .group.cluster_file import ClusterFile
from .group.cluster_membership import ClusterMembership
from .group.epoch_file import begin_epoch
from .group.group_link import link_to_group
from .group.group_member import GroupMember, carry_through_cut
from .group.group_membership import check_membership
from .group.store_directory import DirectoryOnDisk
from .handlers.parts import Parts
from .handlers.registry import Handlers
from .json_reply import reply_json
from .registration import BrokerIdentity, Registration
from .repair.repairs import Repairs
from .repair.scrub import Scrub
from .replication.replica_files import ReplicaFiles
from .replication.sockets import ZeroMqSockets
from .stage_clock import StageClock
from .state.admission import queue_count
from .state.client_registry import ClientRegistry
from .state.producer_table import ProducerTable
from .state.state_log import StateLog
from .state.unconsumed import Unconsumed
from .statistics import kernel_kind
from .steady_time import SteadyTime
from .worker_desk import WorkerDesk

_log = logging.getLogger(__name__)

EXIT_POISONED: Final = 86
EXIT_FATAL: Final = 87
SWITCH_INTERVAL_S: Final = 0.0005
FAST_TICK_MS: Final = 100
SLOW_TICK_MS: Final = 1000
UPKEEP_PAUSE_MS: Final = 10  # between two parts of the store's upkeep, of about 1 ms each
FINISH_MS: Final = 2000  # what unflushed acknowledgements may take at a stop


class Broker:
    """A context manager: entered, the broker is open and bound (`address`); `run` serves."""

    def __init__(self, config: BrokerConfig, *, clock: Clock | None = None) -> None:
        self._config = config
        self._clock = clock or SystemClock()
        self._running = ExitStack()
        self._poisoned: StorePoisoned | None = None
        self._stages = StageClock()
        self._upkeep_goes_on = False
        self._steady = SteadyTime()
        self._deleted: list[tuple[str, int]] = []  # topics whose deletion was applied in this turn, and where that ends
        self._member: GroupMember | None = None  # where the group has more than this one
        self._is_failing = False
        self.is_reopening = False  # the store must be closed and opened anew

    @property
    def address(self) -> str:
        """ "host:port" that clients connect to."""
        return self._identity.address

    def __enter__(self) -> Self:
        """Raises ConfigError (port), StoreInGroup, StoreLocked, StoreFormatError, StoreNotWriteable."""
        with ExitStack() as started, needs_room():
            self._open(started)
            self._wire(started)
            self._running = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._state.is_closing = self._timers.is_closing = True
        self._running.close()

    def run(self) -> int:
        """Serves until `stop`; returns the exit status: 0, or 86 where the disk failed."""
        self._cluster.start()
        self._registration.start()
        if self._member is not None:
            self._member.start()
            self._link.start(self._member.life(self._identity.address))
        self._loop.run()
        if self._member is not None:
            self._link.stop()
        self._registration.stop()
        deadline_ms = self._clock.monotonic_ms() + FINISH_MS
        while self._acknowledgements.waiting_count and self._clock.monotonic_ms() < deadline_ms:
            self._loop.turn(FAST_TICK_MS)
        if self._poisoned is not None:
            return EXIT_POISONED
        if self._is_failing:
            return EXIT_FATAL
        _log.info("broker stopped name=%s written=%s", self._config.name, self._store.written)
        return 0

    def stop(self) -> None:
        """Ends `run`. Any thread, or a signal handler."""
        self._loop.stop()

    # ---- starting

    def _open(self, started: ExitStack) -> None:
        """Binds, then opens the store: records tell the port, which may be a free one that the system chose."""
        config = self._config
        directory = DirectoryOnDisk(config.store_dir, config.store)
        left_epoch = check_membership(config)
        with StoreLock(config.store_dir):  # another process that has the store writes these files too
            files = ReplicaFiles.open(config.store_dir) if config.has_group else None
        if files is not None:
            carry_through_cut(files, directory)
            started.callback(self._mark_clean)
        arena = request_arena(config.store)
        bind = f"{config.listen_host or config.host}:{config.port}"
        self._loop = RequestLoop(
            bind=bind, arena=arena, clock=self._clock, on_turn_end=self._on_turn_end, on_replied=self._on_replied
        )
        started.enter_context(self._loop)
        self._store_host = HostAddress.parse(config.host, self._loop.port)
        self._state = StateLog(
            config.store_dir,
            clock=self._clock,
            persist_interval_ms=config.state_persist_ms,
            lock_lease_ms=config.queue_lock_lease_ms,
            producers=ProducerTable(
                retention_ms=config.producer_state_retention_ms, entries_max=config.producer_states_max
            ),
        )
        rules = DelayRules(parse_delay_levels(config.store.delay_levels), config.timer_delay_ms_max)
        timers = TimerIndex(config.store_dir, rules, clock=self._clock, buffer_bytes=config.store.timer_buffer_bytes)
        self._timers = started.enter_context(closing(timers))
        self._store = MessageStore(
            config.store_dir,
            config.store,
            store_host=self._store_host,
            clock=self._clock,
            on_flushed=self._on_flushed,
            on_poisoned=self._on_poisoned,
            dispatchers=(self._state, self._timers),
            arena=arena,
        )
        self._state.on_topic_deleted = self._store.delete_topic
        started.enter_context(self._store)
        self._state.on_opened(self._store.written, lambda: self._store.flushed)
        self._timers.on_opened(lambda: self._store.flushed)
        self._store.protect(Unconsumed(self._state.offset_table, self._state.topic_table.configs))
        self._identity = BrokerIdentity(config.cluster, config.name, str(self._store_host), 0, None)
        self._client = started.enter_context(RemotingClient())
        self._cluster = ClusterMembership(
            ClusterFile.open(config.store_dir, pinned=config.cluster_id),
            self._client,
            self._loop,
            self._clock,
            cluster=config.cluster,
            name_servers=config.namesrv,
            ask_ms=config.namesrv_heartbeat_ms,
            on_known=self._on_cluster_known,
            is_told=config.has_group and config.static_master != self._identity.address,
        )
        if not config.has_group:
            self._store.damage.take_holes()
            epoch = begin_epoch(config.store_dir, self._store.begin, self._store.written, above=left_epoch)
            self._identity = replace(self._identity, epoch=epoch.number, broker_id=MASTER_ID)
            return
        assert files is not None
        member = self._member = GroupMember(
            config,
            loop=self._loop,
            clock=self._clock,
            store=self._store,
            files=files,
            directory=directory,
            sockets=ZeroMqSockets(),
            client=self._client,
            host=self,
        )
        started.callback(member.close)
        self._identity = replace(self._identity, replication_address=member.replication_address)

    def _wire(self, started: ExitStack) -> None:
        config, loop, clock, state, member = self._config, self._loop, self._clock, self._state, self._member
        workers = ThreadPoolExecutor(config.worker_threads, thread_name_prefix="zenit-worker")
        started.callback(workers.shutdown, cancel_futures=True)
        check = _nothing_against if member is None else member.gate.check
        self._desk = WorkerDesk(workers, loop, clock, waiting_max=config.worker_queue_max, check=check)
        self._acknowledgements = Acknowledgements(
            loop,
            promised=self._promise(),
            timeout_ms=config.store.sync_flush_timeout_ms,
            late=FlushTimeout if member is None else ReplicaTimeout,
        )
        leads = _always if member is None else member.leads
        delays = Delays(
            self._store,
            self._timers,
            loop,
            clock,
            leads=leads,
            on_damaged=self._on_timers_damaged,
            queues_of=lambda topic: queue_count(state.topic_table, topic),
            made_at=state.topic_table.made_at,
            pace=Pace(per_second=config.timer_deliver_per_second, per_turn=config.timer_deliver_per_turn),
            store_host_bytes=len(self._store_host.encode()),
        )
        self._store.keep_waiting(delays.clear_below)
        self._handlers = Handlers(
            Parts(
                config=config,
                loop=loop,
                clock=clock,
                store=self._store,
                state=state,
                acknowledgements=self._acknowledgements,
                registry=ClientRegistry(heartbeat_ms=config.heartbeat_ms, clients_max=config.clients_max),
                desk=self._desk,
                stages=self._stages,
                store_host=self._store_host,
                delays=delays,
                leads=leads,
            )
        )
        self._registration = Registration(
            self._client,
            loop,
            clock,
            addresses=config.namesrv,
            identity=self._identity,
            topics=state.topic_table.registered,
            incarnations=state.topic_table.incarnations,
            register_interval_ms=config.register_interval_ms,
            heartbeat_ms=config.namesrv_heartbeat_ms,
            takes_writes=lambda: self._store.refusal is None,
            on_answer=self._cluster.on_registration,
        )
        state.on_topics_changed = self._registration.on_topics_changed
        state.on_topic_deleted = self._on_topic_deleted
        self._scrub = Scrub(self._store, loop, clock, self._desk, config)
        if member is not None:
            self._repairs = Repairs(
                self._store,
                loop,
                clock,
                self._client,
                self._desk,
                member,
                wait_ms=config.repair_wait_ms,
                look_again=self._handlers.pulls.look_again,
            )
            self._store.damage.on_change = self._repairs.on_change
            self._repairs.start()
        self._scrub.start()
        self._handle()
        delays.start()
        loop.every(FAST_TICK_MS, self._on_fast_tick)
        loop.every(SLOW_TICK_MS, self._on_slow_tick)
        if member is not None:
            self._link = member.controller = link_to_group(
                config,
                member,
                self._client,
                loop,
                clock,
                own_address=self._identity.address,
                is_empty=self._store.written == 0,
                on_start_counter_behind=self._on_start_counter_behind,
                cluster=self._cluster,
            )
            self._handlers.pulls.suggest(member.read_from)

    def _mark_clean(self) -> None:
        """Last of all, once the store is closed. Without it the next life is one that was killed."""
        if self._member is not None and self._poisoned is None:
            try:
                self._member.mark_clean()
            except StoreNotWriteable as error:
                _log.warning("this stop is not noted as a clean one: %s", error)

    def _promise(self) -> Callable[[], int] | None:
        """What an acknowledgement waits for."""
        member, store = self._member, self._store
        if member is not None:
            return lambda: member.acknowledged
        return (lambda: store.flushed) if self._config.store.flush_mode == "sync" else None

    def _handle(self) -> None:
        """The table of requests, each behind the question whether this replica may answer it."""
        member = self._member
        rows = [
            *self._handlers.rows(),
            row(commands.GetBrokerStatistics, self._on_statistics),
            row(commands.GetBrokerConfig, self._on_config),
            row(commands.ScrubLog, self._scrub.on_scrub),
        ]
        if member is None:
            rows += [row(asked, _refuse) for asked in (commands.GetLogRange, commands.GetBeginning, commands.FlushLog)]
        else:
            rows += [
                row(commands.GetLogRange, self._repairs.on_get_log_range),
                row(commands.GetBeginning, member.on_get_beginning),
                row(commands.FlushLog, member.on_flush_log),
            ]
        check_rows(rows, commands.SERVED_BY_BROKERS)
        for one in rows:
            self._loop.handle(one.request_class, one.handler if member is None else member.gate.guarded(one))

    # ---- the loop's events

    def _on_turn_end(self) -> None:
        """Writes what the turn staged and answers it: what the log holds is never lost, whatever comes after."""
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
        if self._member is not None:
            self._member.on_turn()
        if begun:
            stages.on_answered(begun, written, monotonic_ns())

    def _on_replied(self) -> None:
        """Makes queues, index and state follow what was written, and looks at who waits for it."""
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

    def _on_slow_tick(self) -> None:
        self._handlers.on_slow_tick(self._clock.monotonic_ms())
        if not self._upkeep_goes_on:
            self._on_upkeep()

    def _on_upkeep(self) -> None:
        """The store does a little at a time; what is left of it does not wait for the next second."""
        now_ms = self._steady.at(now_ms=self._clock.now_ms(), monotonic_ms=self._clock.monotonic_ms())
        for event in self._store.on_tick(now_ms):
            _log.warning("store event=%s", event)
        self._upkeep_goes_on = self._store.has_upkeep_left
        if self._upkeep_goes_on:
            self._loop.call_later(UPKEEP_PAUSE_MS, self._on_upkeep)

    def _on_topic_deleted(self, topic: str, at: int) -> None:
        """A slave's store deletes at once, since what follows in the same chunk may make the topic's queues anew; in a
        turn of our own nothing follows."""
        if self._member is not None and not self._member.is_master:
            self._store.delete_topic(topic, at)
        self._deleted.append((topic, at))

    def _delete_topics(self) -> None:
        """The store's part of deletions, which it cannot do while it dispatches the events that tell of them."""
        for topic, at in self._deleted:
            if self._member is None or self._member.is_master:
                self._store.delete_topic(topic, at)
            self._handlers.on_topic_deleted(topic)
        self._deleted.clear()

    def _on_flushed(self) -> None:
        """The flush thread's, which runs as soon as the store is open: before there is a member or an acknowledgement."""
        if self._config.has_group or self._config.store.flush_mode == "sync":
            self._loop.post(self._tell_flushed)

    def _tell_flushed(self) -> None:
        if self._member is not None:
            self._member.on_flushed()
        else:
            self._acknowledgements.on_promised()

    def _on_poisoned(self, error: StorePoisoned) -> None:
        """Whoever met the failure: nothing is acknowledged from here on, and the process ends."""
        if self._poisoned is None:
            self._poisoned = error
            _log.critical("the disk failed, stopping: nothing is acknowledged any more; reason=%s", error.what)
            if self._member is not None:
                self._member.on_disk_failed()
            self._loop.stop()

    def _on_cluster_known(self, cluster_id: str) -> None:
        """Which cluster is ours, or ("") that it is not known any more."""
        self._identity = replace(self._identity, cluster_id=cluster_id)
        self._registration.on_role(self._identity)

    # ---- from the group member

    def on_role(self, broker_id: int | None, epoch: int) -> None:
        """What we are to clients from now on; name servers are told at once."""
        self._identity = replace(self._identity, broker_id=broker_id, epoch=epoch)
        self._registration.on_role(self._identity)

    def on_acknowledged(self) -> None:
        """More may be answered."""
        self._acknowledgements.on_promised()

    def on_deposed(self) -> None:
        """We lead no more: nobody will acknowledge what waits; its senders ask the new master."""
        self._handlers.on_deposed()
        self._acknowledgements.fail_all(NotMaster(self._config.name, self._identity.epoch))

    def on_reopen_needed(self) -> None:
        """Something must be done to a closed store."""
        self.is_reopening = True
        self._loop.stop()

    def _on_timers_damaged(self) -> None:
        """What waits is told by the log, but only while the store is opened."""
        _log.error("the index of what waits is damaged: the store is opened again, and the index made anew")
        self.on_reopen_needed()

    def on_fatal(self) -> None:
        """What we were sent cannot be ours: somebody must look."""
        self._is_failing = True
        self._loop.stop()

    def _on_start_counter_behind(self, current: int) -> None:
        """Our disk was set back: we need a life that nobody knows."""
        assert self._member is not None
        try:
            with needs_room():
                self._member.files.start_above(current)
        except StoreNotWriteable as error:
            _log.warning("cannot raise the start counter yet: %s", error)
            self._loop.call_later(NO_ROOM_RETRY_MS, partial(self._on_start_counter_behind, current))
        else:
            self.on_reopen_needed()

    # ---- requests about the broker itself

    def _on_statistics(self, call: Call[Request]) -> None:
        waits = {"flush": self._acknowledgements.waiting_count, "workers": self._desk.waiting}
        document = self._handlers.statistics.document(self._identity, waits)
        document["scrub"] = self._scrub.document()
        if self._member is not None:
            document["replication"] = self._member.document()
            document["repairs"] = self._repairs.document()
        reply_json(self._loop, call, document)

    def _on_config(self, call: Call[Request]) -> None:
        reply_json(self._loop, call, describe_config(self._config))


def _always() -> bool:
    return True


def _refuse(call: Call[Request]) -> NoReturn:
    """There are no other replicas that could ask this."""
    raise UnknownRequest(call.request.code)


def _nothing_against(_request_class: type[Request]) -> None:
    """Without replicas every request is ours to answer."""


def run(config: BrokerConfig) -> int:
    """The broker as a process: serves until SIGTERM or SIGINT; returns the exit status. Main thread only."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    signalled: list[int] = []  # it may come while a broker is opened anew, when there is none to be told
    while (status := _serve(config, signalled)) is None:
        gc.unfreeze()
        gc.collect()  # its parts know one another: the next one would take as much memory beside them
    return status


def _serve(config: BrokerConfig, signalled: list[int]) -> int | None:
    """One opening of the store, to its end; None where it must be opened anew. Nothing refers to the broker then."""
    with Broker(config) as broker:

        def on_signal(number: int, _frame: object) -> None:
            signalled.append(number)
            broker.stop()

        _on_signals(on_signal)
        if signalled:
            return 0
        _log.info(
            "broker started name=%s address=%s kernel=%s config=%s",
            config.name,
            broker.address,
            kernel_kind(),
            describe_config(config),
        )
        gc.collect()
        gc.freeze()
        status = broker.run()
    _on_signals(lambda number, _frame: signalled.append(number))
    return status if signalled or not broker.is_reopening else None


def _on_signals(handle: Callable[[int, FrameType | None], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
