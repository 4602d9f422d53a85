"""The controller process: a request loop, one session with ZooKeeper, and a reign while this controller is the first.

    ZooKeeper's own threads --post--> loop thread --StoreDesk--> one worker that asks ZooKeeper --post--> loop thread

The loop answers brokers and operators and never waits for ZooKeeper. Once connected this controller joins the others;
where it is the first it begins a reign (reign), which ends when the connection is lost or another is the first. Who does
not lead says who does. ZooKeeper away, slow or refusing is waited for; only SIGTERM, a wrong configuration and a fault
of our own end the process: what a callback left half done is not gone on with, and all that counts is in ZooKeeper.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Final, Protocol, Self

from ..model.arena import Arena
from ..model.clock import Clock, SystemClock
from ..model.errors import BrokerBusy, BufferFull, NotLeadingController, ZenitError
from ..model.group import GroupNode
from ..remoting.client import RemotingClient
from ..remoting.commands import (
    AlterInSync,
    ChangeGroup,
    ControllerReply,
    ElectMaster,
    GetController,
    GetGroup,
    RegisterReplica,
    RemoveReplica,
    ReplicaHeartbeat,
    Reply,
    ReportMasterGone,
    Request,
    RestoreGroup,
)
from ..remoting.options import HEADER_BYTES_MAX
from ..remoting.server import Call, RequestLoop
from .config import ControllerConfig
from .detection import Detection
from .flush_round import FlushRound
from .group_store import GroupStore, Listener, Member, MembersTouched, SessionChanged, SessionState, StoreEvent, Touched
from .leadership import Leadership
from .reign import Reign
from .store_desk import StoreDesk
from .zookeeper import ZooKeeperStore

log = logging.getLogger(__name__)

TRY_AGAIN_MS: Final = 500
EXIT_FAULT: Final = 87

_SAID: Final = {
    SessionState.CONNECTED: (logging.INFO, "connected with ZooKeeper again"),
    SessionState.SUSPENDED: (logging.WARNING, "the connection with ZooKeeper is lost, waiting for it"),
    SessionState.LOST: (logging.WARNING, "the session with ZooKeeper has ended, another begins"),
}


class OpenStore(Protocol):
    """How a session begins: `ZooKeeperStore` of the configuration, or a test's model of it."""

    def __call__(self, listener: Listener) -> AbstractContextManager[GroupStore]:
        """The session; entering it raises ZooKeeperUnavailable where none begins in time."""


class Controller:
    """Listens from construction to `__exit__`; serves while `run()` runs. Raises ConfigError where the port is taken."""

    def __init__(
        self, config: ControllerConfig, *, open_store: OpenStore | None = None, clock: Clock | None = None
    ) -> None:
        self._config = config
        self._clock = SystemClock() if clock is None else clock
        self._open_store = open_store or partial(_open_zookeeper, config)
        self._leadership = Leadership()
        self._names: tuple[str, ...] = ()  # groups, as they were listed last while another led
        self._store: GroupStore | None = None
        self._reign: Reign | None = None
        self._attempts = 0  # to begin a session
        self._session_changes = 0  # who took part before the last one says nothing about now
        self._campaigning = self._must_campaign = False
        self._fault: Exception | None = None
        with ExitStack() as opened:
            arena = Arena(drain_bytes=1, frame_bytes_max=HEADER_BYTES_MAX)  # no request of ours has a payload
            bind = f"{config.listen_host or config.host}:{config.port}"
            self._loop = opened.enter_context(RequestLoop(bind=bind, arena=arena, clock=self._clock))
            self.port = self._loop.port
            self.address = f"{config.host}:{self.port}"
            self._session = opened.enter_context(ExitStack())  # the worker enters the session, and it is left last
            worker = ThreadPoolExecutor(1, thread_name_prefix="zenit-zookeeper")
            opened.callback(worker.shutdown, cancel_futures=True)
            self._desk = StoreDesk(worker, self._loop)
            self._client = opened.enter_context(RemotingClient("zenit-controller-io"))
            self._opened = opened.pop_all()
        self._serve()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        if self._fault is None:
            log.info("controller stopped address=%s", self.address)
        else:
            log.critical("controller ended by a fault of its own, start it again; error=%r", self._fault)

    def run(self) -> int:
        """Serves in the calling thread until `stop`; returns the exit status: 0, or 87 after a fault of our own."""
        log.info("controller started address=%s zookeeper=%s", self.address, ",".join(self._config.zookeeper))
        try:
            self._connect()
            self._loop.run()
        except Exception as error:  # of a timer or a posted callback: the top of the thread
            log.exception("a callback failed")
            self._fault = error
            return EXIT_FAULT
        return 0

    def stop(self) -> None:
        """Makes `run` return soon. From any thread or a signal handler."""
        self._loop.stop()

    # ---- requests

    def _serve(self) -> None:
        handle = self._loop.handle
        handle(GetController, self._on_get_controller)
        table: dict[type[Request], Callable[[Reign, Call], Reply | None]] = {
            RegisterReplica: Reign.on_register,
            ReplicaHeartbeat: Reign.on_heartbeat,
            ReportMasterGone: Reign.on_master_gone,
            AlterInSync: Reign.on_alter_in_sync,
            ElectMaster: Reign.on_elect,
            ChangeGroup: partial(Reign.on_change_group, flush=self._flush),
            RemoveReplica: Reign.on_remove_replica,
            RestoreGroup: Reign.on_restore,
            GetGroup: Reign.on_get_group,
        }
        for request_class, handler in table.items():
            handle(request_class, partial(self._while_leading, handler))

    def _while_leading(self, handler: Callable[[Reign, Call], Reply | None], call: Call) -> Reply | None:
        if self._reign is None or not self._reign.is_ready:
            raise NotLeadingController("" if self._reign is not None else self._leadership.leader)
        return handler(self._reign, call)

    def _flush(
        self, node: GroupNode, names: frozenset[str], timeout_ms: int, then: Callable[[frozenset[str]], None]
    ) -> None:
        FlushRound(self._client, self._loop, node, names, then).begin(timeout_ms)

    def _on_get_controller(self, _: Call) -> ControllerReply:
        leads = self._reign is not None and self._reign.is_ready
        leader = self._leadership.leader if leads or not self._leadership.leads else ""
        names = self._reign.broker_names if self._reign is not None and leads else self._names
        return ControllerReply(leader, self._leadership.addresses, names)

    # ---- the session with ZooKeeper

    def _connect(self) -> None:
        """Begins a session; tries again until one begins. From then on the store renews it by itself."""
        self._attempts += 1
        store = self._open_store(partial(self._post_event, self._attempts))
        self._desk.ask(partial(self._session.enter_context, store), self._on_connected)

    def _on_connected(self, result: GroupStore | ZenitError) -> None:
        if isinstance(result, ZenitError):
            self._loop.call_later(TRY_AGAIN_MS, self._connect)
            return
        self._store = result
        self._campaign()

    def _post_event(self, attempt: int, event: StoreEvent) -> None:
        """A thread of ZooKeeper's."""
        try:
            self._loop.post(partial(self._on_event, attempt, event))
        except BufferFull:
            log.critical("an event of ZooKeeper was dropped: the loop is far behind; start this controller anew")

    def _on_event(self, attempt: int, event: StoreEvent) -> None:
        if attempt != self._attempts:
            return  # of a session that never began
        if isinstance(event, SessionChanged):
            if self._store is not None:
                log.log(*_SAID[event.state])
            self._session_changes += 1
            self._leadership = self._leadership.on_session(event.state)
            self._change_reign()
            self._campaign()
        elif isinstance(event, Touched) and self._reign is not None:
            self._reign.on_touched(event.broker_name)
        elif isinstance(event, MembersTouched) or event.broker_name is None:
            self._campaign()

    # ---- who leads

    def _campaign(self) -> None:
        """Takes part, and reads who else does; once more where something changes meanwhile."""
        if self._store is None or not self._leadership.is_connected:
            return
        self._must_campaign = True
        if not self._campaigning:
            self._must_campaign, self._campaigning = False, True
            work = partial(_take_part, self._store, self.address)
            try:
                self._desk.ask(work, partial(self._on_members, self._session_changes))
            except BrokerBusy as error:
                self._on_members(self._session_changes, error)

    def _on_members(
        self, session_changes: int, result: tuple[tuple[Member, ...], tuple[str, ...]] | ZenitError
    ) -> None:
        self._campaigning = False
        if isinstance(result, ZenitError):
            self._loop.call_later(TRY_AGAIN_MS, self._campaign)
            return
        if session_changes == self._session_changes:
            members, self._names = result
            self._leadership = self._leadership.on_members(members)
            self._change_reign()
        if self._must_campaign:
            self._campaign()
        elif not self._leadership.has_joined:
            self._loop.call_later(TRY_AGAIN_MS, self._campaign)

    def _change_reign(self) -> None:
        """A reign begins or ends, where who leads has changed."""
        if self._reign is not None and not self._leadership.leads:
            log.warning("leading no more leader=%s", self._leadership.leader or "unknown")
            self._reign.end()
            self._reign = None
        if self._reign is None and self._leadership.leads and self._store is not None:
            log.info("leading controllers=%s", ",".join(self._leadership.addresses))
            config = self._config
            self._reign = Reign(
                self._store,
                self._desk,
                self._loop,
                self._clock,
                detection=Detection(dead_after_ms=config.dead_after_ms, probe_timeout_ms=config.probe_timeout_ms),
                new_group=config.new_group.settings,
            )
            self._reign.begin()


def _take_part(store: GroupStore, address: str) -> tuple[tuple[Member, ...], tuple[str, ...]]:
    """Worker thread: joins, and reads who takes part and which groups there are. Raises ZooKeeperUnavailable."""
    store.join(address)
    return store.members(), store.broker_names()


def _open_zookeeper(config: ControllerConfig, listener: Listener) -> ZooKeeperStore:
    return ZooKeeperStore(
        ",".join(config.zookeeper),
        cluster=config.cluster,
        listener=listener,
        session_timeout_ms=config.session_timeout_ms,
    )
