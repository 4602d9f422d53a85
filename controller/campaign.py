"""One controller's campaign to lead: it joins the members in ZooKeeper, and leads while it is the first of them.

    connected --join, read the members--> follows (names the leader) --first--> term --lost, or another is first--> ...

Once it has a session with ZooKeeper, the controller joins the others. If it is the first it begins a term (leadership_term),
which ends when the connection is lost or another is the first. It waits while ZooKeeper is down, slow or refuses.

Loop thread. Its environment (loop, worker, client, clock, how a session begins) is passed in: the process's own
(service), or a simulation's.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from ..model.clock import Clock
from ..model.errors import BrokerBusy, BufferFull, NotLeadingController, ReplicaGroupNotFound, ZenitError
from ..model.events.event import Event, whole_lines
from ..model.events.event_ring import EventRing, events_document
from ..model.events.table import CONTROLLER_LEADS, CONTROLLER_YIELDS, ZOOKEEPER_BACK, ZOOKEEPER_LOST
from ..model.events.telling import tell
from ..model.groups.group import GroupNode, GroupSettings
from ..model.security.access_rows import AccessRows
from ..remoting.commands import (
    AlterInSync,
    ChangeGroup,
    ControllerReply,
    ElectMaster,
    GetController,
    GetControllerEvents,
    GetGroup,
    GetGroupEvents,
    JsonReply,
    RegisterReplica,
    RemoveReplica,
    ReplicaHeartbeat,
    Reply,
    ReportMasterGone,
    Request,
    RestoreGroup,
    ServedBy,
)
from ..remoting.examination.examiner import Examiner
from ..remoting.request_rows import check_rows, row
from ..remoting.security.door import is_open
from ..remoting.security.rows_handler import RowsHandler
from ..remoting.server import Call, Handler
from ..remoting.timers import Timer
from .cluster_naming import ClusterNaming
from .flush_round import Asker, FlushRound
from .group.detection import Detection
from .group.leadership import Leadership
from .group_history import TICK_MS, GroupHistory
from .group_store import (
    ControllerMember,
    GroupStore,
    Listener,
    MembersTouched,
    SessionChanged,
    SessionState,
    StoreEvent,
    Touched,
)
from .leadership_term import LeadershipTerm, TermLoop
from .store_worker import StoreWorker

log = logging.getLogger(__name__)

TRY_AGAIN_MS: Final = 500

_R = TypeVar("_R", bound=Request)

_LOST: Final = {
    SessionState.SUSPENDED: "the connection is lost, waiting for it",
    SessionState.LOST: "the session has ended, another begins",
}


class OpenStore(Protocol):
    """How a session begins: `ZooKeeperStore` of the configuration, or a test's model of it."""

    def __call__(self, listener: Listener) -> AbstractContextManager[GroupStore]:
        """The session; entering it raises ZooKeeperUnavailable if none begins in time."""


class CampaignLoop(TermLoop, Protocol):
    """The request loop, as far as a controller uses it."""

    def handle(self, request_class: type[Request], handler: Handler) -> None:
        """`handler` answers requests of this class."""

    def post(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the loop soon; from any thread. Raises BufferFull."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The environment of a campaign. `session`: left in the worker when the process ends. `on_dropped`: the loop had no
    room for an answer of ZooKeeper, which is lost, so the process ends; called by any thread. `on_key`: (address, public key)
    of a replica that registers. `zookeeper`: the addresses of its servers."""

    loop: CampaignLoop
    worker: StoreWorker
    client: Asker
    clock: Clock
    open_store: OpenStore
    session: ExitStack
    on_dropped: Callable[[], None]
    on_key: Callable[[str, str], None] | None = None
    zookeeper: tuple[str, ...] = ()


class Campaign:
    """`address`: under which brokers and tools reach this controller. It serves from construction on; `begin` connects."""

    def __init__(
        self,
        ground: Ground,
        *,
        address: str,
        new_group: GroupSettings,
        new_detection: Callable[[], Detection],
        naming: ClusterNaming,
        new_group_replicas: int = 0,
    ) -> None:
        """`new_group_replicas`: how many a new group has, 0 = not known."""
        self.address = address
        self._ground = ground
        self._loop = ground.loop
        self._worker = ground.worker
        self._new_group = new_group
        self._new_detection = new_detection
        self._naming = naming
        self._new_group_replicas = new_group_replicas
        self._leadership = Leadership()
        self._names: tuple[str, ...] = ()  # groups, as last listed while another led
        self._store: GroupStore | None = None
        self._term: LeadershipTerm | None = None
        self._compared: LeadershipTerm | None = None  # the term that has compared histories with nodes
        self._attempts = 0  # to begin a session
        self._session_changes = 0  # the members read before the last change are outdated
        self._campaigning = self._must_campaign = False
        self._history = GroupHistory(ground.worker, ground.clock, node=address)
        self._ring = EventRing(role="controller", node=address)
        self.elections: dict[tuple[str, bool], int] = {}  # {(group, forced): since the start}
        self._examiner = Examiner(self._loop, ground.clock, role="controller", node=address, peers=self._peers)
        self.security = RowsHandler(AccessRows(), ground.clock)
        self._serve()

    # ---- for metrics, from any thread

    @property
    def is_connected(self) -> bool:
        """It has a session with ZooKeeper."""
        return self._store is not None and self._leadership.is_connected

    @property
    def is_leading(self) -> bool:
        """It is the first of the controllers."""
        return self._term is not None

    @property
    def is_serving(self) -> bool:
        """It leads, and knows its groups."""
        term = self._term
        return term is not None and term.is_ready

    @property
    def leader(self) -> str:
        """The address of the one that leads; "" = not known."""
        return self._leadership.leader

    @property
    def group_names(self) -> frozenset[str]:
        """Groups that it watches; none while another leads."""
        term = self._term
        return frozenset() if term is None else term.group_names

    # ---- the start

    def begin(self) -> None:
        """Begins a session with ZooKeeper; the rest follows by itself."""
        self._connect()

    def keep_events(self) -> None:
        """From now on it keeps what `keep` gets: a process does, not a simulation."""
        self._loop.every(TICK_MS, self._on_history_tick)

    def keep(self, event: Event) -> None:
        """Takes an event of this process: one of a group for ZooKeeper, others in memory. Any thread."""
        if event.kind.of_group:
            self._history.keep(event)
        else:
            self._ring.keep(event)

    def _on_history_tick(self) -> None:
        term = self._term
        if term is not None and term.is_ready and term is not self._compared:
            self._compared = term
            self._history.check(lambda: term.nodes if term is self._term else {})
        self._history.on_tick(self._store if self._leadership.is_connected else None)

    # ---- requests

    def _serve(self) -> None:
        rows = (
            row(GetController, self._on_get_controller),
            row(RegisterReplica, self._led(self._on_register)),
            row(ReplicaHeartbeat, self._led(LeadershipTerm.on_heartbeat)),
            row(ReportMasterGone, self._led(LeadershipTerm.on_master_gone)),
            row(AlterInSync, self._led(LeadershipTerm.on_alter_in_sync)),
            row(ElectMaster, self._led(LeadershipTerm.on_elect)),
            row(ChangeGroup, self._led(partial(LeadershipTerm.on_change_group, flush=self._flush))),
            row(RemoveReplica, self._led(LeadershipTerm.on_remove_replica)),
            row(RestoreGroup, self._led(LeadershipTerm.on_restore)),
            row(GetGroup, self._led(LeadershipTerm.on_get_group)),
            row(GetGroupEvents, self._led(self._on_get_group_events)),
            row(GetControllerEvents, self._on_get_events),
            *self._examiner.rows(),
            *self.security.served(),
        )
        check_rows(rows, (ServedBy.CONTROLLER, ServedBy.LEADING_CONTROLLER, ServedBy.EVERY_SERVER))
        for one in rows:
            self._loop.handle(one.request_class, one.handler)

    def _peers(self) -> list[tuple[str, str]]:
        """Whom this controller has to reach: ZooKeeper, and, while it leads, the replicas whose masters it probes."""
        replicas = [
            ("replica", replica.address)
            for node in (self._term.nodes.values() if self._term is not None else ())
            for replica in node.replicas
        ]
        return [*(("ZooKeeper", address) for address in self._ground.zookeeper), *replicas]

    def _led(self, handler: Callable[[LeadershipTerm, Call[_R]], Reply | None]) -> Callable[[Call[_R]], Reply | None]:
        """The handler of the present term; without a term the sender is directed to the leading controller."""

        def while_leading(call: Call[_R]) -> Reply | None:
            if self._term is None or not self._term.is_ready:
                raise NotLeadingController("" if self._term is not None else self._leadership.leader)
            return handler(self._term, call)

        return while_leading

    def _on_register(self, term: LeadershipTerm, call: Call[RegisterReplica]) -> None:
        if self._ground.on_key is not None and call.key and not is_open(call.key):
            self._ground.on_key(call.request.address, call.key)
        term.on_register(call)

    def _flush(
        self, node: GroupNode, names: frozenset[str], timeout_ms: int, then: Callable[[frozenset[str]], None]
    ) -> None:
        FlushRound(self._ground.client, self._loop, node, names, then).begin(timeout_ms)

    def _on_get_controller(self, _: Call[Request]) -> ControllerReply:
        leads = self._term is not None and self._term.is_ready
        leader = self._leadership.leader if leads or not self._leadership.leads else ""
        names = self._term.broker_names if self._term is not None and leads else self._names
        return ControllerReply(leader, self._leadership.addresses, names)

    def _on_get_events(self, call: Call[GetControllerEvents]) -> None:
        self._reply_json(call, self._ring.document(call.request.since_ms))

    def _on_get_group_events(self, term: LeadershipTerm, call: Call[GetGroupEvents]) -> None:
        """Raises ReplicaGroupNotFound."""
        request, store = call.request, self._store
        if request.broker_name not in term.broker_names or store is None:
            raise ReplicaGroupNotFound(request.broker_name)

        def on_read(result: bytes | ZenitError) -> None:
            if isinstance(result, ZenitError):
                self._loop.fail(call, result)
            else:
                self._reply_json(call, events_document(whole_lines(result), request.since_ms))

        self._worker.ask(partial(store.events, request.broker_name), on_read)

    def _reply_json(self, call: Call[Request], document: dict[str, Any]) -> None:
        self._loop.reply(call, JsonReply(), (json.dumps(document).encode(),))

    # ---- the session with ZooKeeper

    def _connect(self) -> None:
        """Begins a session; tries until one begins. From then on the store renews it by itself."""
        self._attempts += 1
        store = self._ground.open_store(partial(self._post_event, self._attempts))
        self._worker.ask(partial(self._ground.session.enter_context, store), self._on_connected)

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
            log.critical("an event of ZooKeeper was dropped: the loop is far behind")
            self._ground.on_dropped()

    def _on_event(self, attempt: int, event: StoreEvent) -> None:
        if attempt != self._attempts:
            return  # of a session that never began
        if isinstance(event, SessionChanged):
            if self._store is not None:
                if event.state is SessionState.CONNECTED:
                    tell(log, ZOOKEEPER_BACK)
                else:
                    tell(log, ZOOKEEPER_LOST, why=_LOST[event.state])
            self._session_changes += 1
            self._leadership = self._leadership.on_session(event.state)
            self._change_term()
            self._campaign()
        elif isinstance(event, Touched) and self._term is not None:
            self._term.on_touched(event.broker_name)
        elif isinstance(event, MembersTouched) or event.broker_name is None:
            self._campaign()

    # ---- who leads

    def _campaign(self) -> None:
        """Joins, and reads the members; again if something changes meanwhile."""
        if self._store is None or not self._leadership.is_connected:
            return
        self._must_campaign = True
        if not self._campaigning:
            self._must_campaign, self._campaigning = False, True
            work = partial(_take_part, self._store, self.address)
            try:
                self._worker.ask(work, partial(self._on_members, self._session_changes))
            except BrokerBusy as error:
                self._on_members(self._session_changes, error)

    def _on_members(
        self, session_changes: int, result: tuple[tuple[ControllerMember, ...], tuple[str, ...], str] | ZenitError
    ) -> None:
        self._campaigning = False
        if isinstance(result, ZenitError):
            self._loop.call_later(TRY_AGAIN_MS, self._campaign)
            return
        if session_changes == self._session_changes:
            members, self._names, cluster_id = result
            self._naming.on_read(cluster_id)
            self._leadership = self._leadership.on_members(members)
            self._change_term()
        if self._must_campaign:
            self._campaign()
        elif not self._leadership.has_joined:
            self._loop.call_later(TRY_AGAIN_MS, self._campaign)

    def _change_term(self) -> None:
        """Begins or ends a term, if the leader has changed."""
        if self._term is not None and not self._leadership.leads:
            tell(log, CONTROLLER_YIELDS, peer=self._leadership.leader)
            self._term.end()
            self._term = None
        if self._term is None and self._leadership.leads and self._store is not None:
            tell(log, CONTROLLER_LEADS, controllers=self._leadership.addresses)
            self._term = LeadershipTerm(
                self._store,
                self._worker,
                self._loop,
                self._ground.clock,
                detection=self._new_detection(),
                new_group=self._new_group,
                new_group_replicas=self._new_group_replicas,
                naming=self._naming,
                elections=self.elections,
            )
            self._term.begin()


def _take_part(store: GroupStore, address: str) -> tuple[tuple[ControllerMember, ...], tuple[str, ...], str]:
    """Worker thread: joins, and reads who takes part, which groups there are, and the cluster's id. Raises
    ZooKeeperUnavailable."""
    store.join(address)
    return store.members(), store.broker_names(), store.cluster_id()
