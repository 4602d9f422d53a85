"""A replica's link to the leading controller: registers this process, sends heartbeats, answers probes, passes on group
news.

    start -> registering --answered--> linked: heartbeats each 0.5 s; reports, proposals and questions are sent
                  ^                       |
                  '--- another leads, lost, or we are not known: look for the leader (leader_search), register again

Every reply and every push contains the group's node with its version. A node newer than the last one is passed on
(`on_group`): of a later epoch, or a later version of the same one. ZooKeeper may be restored to an older state, with older
versions, but no epoch is given twice. Nothing is passed on before this process was registered: earlier news may be about an
earlier process. Everything uses the client's shared connection, because pushes arrive on the connection of the heartbeats.
The controllers may be away for any time: nothing here raises or blocks, and everything that is still wanted is sent again.

Loop thread; answers and pushes come from the client's threads and are posted to the loop.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from ...model.clock import Clock
from ...model.errors import (
    BrokerBusy,
    BufferFull,
    ConnectionLost,
    GroupNodeDamaged,
    NotGroupMaster,
    NotLeadingController,
    RequestTimeout,
    StaleEpoch,
    StaleGroupVersion,
    StartCounterBehind,
    WrongCluster,
    ZenitError,
)
from ...model.groups.group import NO_VERSION, Incarnation, KnownGroup
from ...model.groups.group_codec import decode_node
from ...remoting.client import RemotingClient
from ...remoting.commands import (
    AlterInSync,
    GetGroup,
    GroupChanged,
    GroupReply,
    ProbeReplica,
    RegisterReplica,
    ReplicaHeartbeat,
    ReportMasterGone,
    RequestFor,
)
from ...remoting.timers import Timer
from .leader_search import LeaderSearch

log = logging.getLogger(__name__)

HEARTBEAT_MS: Final = 500
TIMEOUT_MS: Final = 1500
WRITE_TIMEOUT_MS: Final = 3000
"""Time for the controller's write to ZooKeeper before its answer."""
REPORT_ENDS_MS: Final = 2500
"""A report that the slave has not renewed for this long is not repeated: the slave has a session again."""

Answer = Callable[[GroupReply | None, ZenitError | None], None]


class LinkLoop(Protocol):
    """The request loop, as far as the link uses it."""

    def post(self, callback: Callable[[], None]) -> None:
        """Runs `callback` on the loop soon; from any thread."""

    def call_later(self, delay_ms: int, callback: Callable[[], None]) -> Timer:
        """Runs `callback` once."""

    def every(self, interval_ms: int, callback: Callable[[], None]) -> Timer:
        """Runs `callback` each interval."""


class HeartbeatFacts(NamedTuple):
    """The content of a heartbeat: the highest persisted epoch, the log's end, the confirm offset (both in bytes), the
    obstacles to this replica's work, in ms, as in `ReplicaHeartbeat`, and the last row of its epoch list, (0, 0) if it
    has none; whether it drains.
    """

    epoch: int
    log_end: int
    confirm_offset: int
    sync_pending_ms: int = 0
    no_room_ms: int = 0
    cut_off_ms: int = 0
    newest_epoch: int = 0
    newest_begin: int = 0
    drains: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What is registered: the addresses of this process, its incarnation, and what the last process left (rule R9)."""

    address: str
    replication_address: str
    incarnation: Incarnation
    clean_marker: bool
    marker_end: int
    same_boot: bool
    ran_async: bool
    set_back: bool = False
    has_hole: bool = False
    group_id: str = ""
    confirm_heard: int = 0
    is_follower: bool = False


class ControllerLink:
    """`is_registered`: this process was registered; `is_linked`: the leading controller has answered and was not lost since."""

    elects = True

    def __init__(
        self,
        client: RemotingClient,
        loop: LinkLoop,
        clock: Clock,
        *,
        addresses: tuple[str, ...],
        broker_name: str,
        replica_name: str,
        on_group: Callable[[KnownGroup], None],
        heartbeat_facts: Callable[[], HeartbeatFacts],
        on_start_counter_behind: Callable[[int], None] | None = None,
        cluster_id: Callable[[], str] = lambda: "",
        on_other_cluster: Callable[[str, WrongCluster], None] = lambda _, __: None,
    ) -> None:
        """`on_start_counter_behind(current)`: the disk was restored to an older state. The callback notes that, raises the
        start counter above `current`, and calls `start` again with the new life; without a callback it is only logged.

        `cluster_id`: of this broker's cluster; "" = not known yet. `on_other_cluster(address, error)`: the controller at
        this address belongs to another cluster and refuses us.
        """
        self.is_registered = False
        self.is_linked = False
        self.known: KnownGroup | None = None
        self._group_id = (
            ""  # of the first group that accepted this process; a group that was restored has none for a while
        )
        self._client = client
        self._loop = loop
        self._clock = clock
        self._search = LeaderSearch(addresses)
        self._broker_name = broker_name
        self._replica_name = replica_name
        self._on_group = on_group
        self._heartbeat_facts = heartbeat_facts
        self._on_start_counter_behind = on_start_counter_behind
        self._cluster_id = cluster_id
        self._on_other_cluster = on_other_cluster
        self._token = secrets.token_hex(8)
        self._life: Life | None = None
        self._try = 0  # grows at each new search for the leader, so that answers to earlier requests are ignored
        self._probe = 0
        self._report: tuple[str, int] | None = None  # master, epoch
        self._report_ends_ms = 0
        self._said: set[type[object]] = set()  # kinds of errors logged since the last leader
        self._beating: Timer | None = None

    # ---- what the broker calls

    def start(self, life: Life) -> None:
        """Registers this process, and continues until `stop`. A second call with another life registers that one instead."""
        self._life = life
        self.is_registered = self.is_linked = False
        if self._beating is None:
            self._client.on_request(GroupChanged, lambda _, news, __: self._post(partial(self._on_pushed, news)))
            self._client.on_request(
                ProbeReplica, lambda address, probe, _: self._post(partial(self._on_probe, address, probe))
            )
            self._beating = self._loop.every(HEARTBEAT_MS, self._on_tick)
        self._register()

    def stop(self) -> None:
        """Sends nothing more, and passes nothing on."""
        self._life = None
        self._try += 1
        self.is_linked = False
        if self._beating is not None:
            self._beating.cancel()

    def propose_in_sync(self, version: int, names: tuple[str, ...]) -> None:
        """Sends the master's proposal. The answer counts only as news of the node.

        Not sent during a search for the leader, or if a newer node is known: the caller proposes again.
        """
        life, known = self._life, self.known
        if life is None or known is None or known.version != version or not self.is_linked:
            return
        who = life.incarnation
        epoch = known.node.epoch
        self._ask(
            AlterInSync(self._broker_name, version, epoch, self._replica_name, who.store_id, who.starts, names),
            WRITE_TIMEOUT_MS,
        )

    def report_master_gone(self, master: str, epoch: int) -> None:
        """Reports it now and each 0.5 s, until it is not renewed for a while, or another epoch is known."""
        self._report = (master, epoch)
        self._report_ends_ms = self._clock.monotonic_ms() + REPORT_ENDS_MS
        self._send_report()

    def beat(self) -> None:
        """Sends a heartbeat now: what it says has changed."""
        if self.is_linked:
            self._beat()

    def ask(self) -> None:
        """Fetches the node."""
        if self.is_linked:
            self._ask(GetGroup(self._broker_name), TIMEOUT_MS)

    # ---- registering

    def _register(self) -> None:
        if self._life is None:
            return
        self._try += 1
        life, who = self._life, self._life.incarnation
        facts = self._heartbeat_facts()
        request = RegisterReplica(
            broker_name=self._broker_name,
            name=self._replica_name,
            address=life.address,
            replication_address=life.replication_address,
            store_id=who.store_id,
            starts=who.starts,
            life=self._token,
            epoch=facts.epoch,
            log_end=facts.log_end,
            clean_marker=life.clean_marker,
            marker_end=life.marker_end,
            same_boot=life.same_boot,
            ran_async=life.ran_async,
            set_back=life.set_back,
            has_hole=life.has_hole,
            group_id=life.group_id or self._group_id,
            version=self._version,
            newest_epoch=facts.newest_epoch,
            newest_begin=facts.newest_begin,
            cluster_id=self._cluster_id(),
            confirm_heard=life.confirm_heard,
            is_follower=life.is_follower,
        )
        self._send(request, WRITE_TIMEOUT_MS, self._on_registered)

    def _on_registered(self, reply: GroupReply | None, error: ZenitError | None) -> None:
        if reply is None:
            self._look_for_leader(error)
            return
        self._search.on_found()
        self._said.clear()
        self.is_registered = self.is_linked = True
        log.info(
            "registered controller=%s replica=%s version=%s", self._search.address, self._replica_name, reply.version
        )
        self._take(reply.version, reply.node)
        self._send_report()

    def _look_for_leader(self, error: ZenitError | None) -> None:
        """Registers again, here or elsewhere: the controller is lost, does not lead, does not know us, or refused us."""
        self.is_linked = False
        self._try += 1
        if isinstance(error, WrongCluster):
            self._on_other_cluster(self._search.address, error)
        elif type(error) not in self._said and not isinstance(error, NotLeadingController):
            log.warning("looking for the leading controller asked=%s error=%s", self._search.address, error)
            self._said.add(type(error))
        if isinstance(error, StartCounterBehind) and self._on_start_counter_behind is not None:
            self._on_start_counter_behind(error.current)
            return
        if isinstance(error, NotLeadingController):
            pause_ms = self._search.on_sent_on(error.leader)
        elif error is None or isinstance(error, ConnectionLost | RequestTimeout | BufferFull):
            pause_ms = self._search.on_unreachable()
        else:
            pause_ms = self._search.on_refused()
        self._loop.call_later(pause_ms, partial(self._register_if, self._try))

    def _register_if(self, this_try: int) -> None:
        if this_try == self._try:
            self._register()

    # ---- signs of life

    def _on_tick(self) -> None:
        if self.is_linked:
            self._beat()
            self._send_report()

    def _beat(self) -> None:
        """Sends the next heartbeat, or one at once for a probe."""
        if self._life is None:
            return
        who = self._life.incarnation
        facts = self._heartbeat_facts()
        request = ReplicaHeartbeat(
            self._broker_name,
            self._replica_name,
            who.store_id,
            who.starts,
            self._version,
            facts.epoch,
            facts.log_end,
            facts.confirm_offset,
            self._probe,
            facts.sync_pending_ms,
            facts.no_room_ms,
            facts.cut_off_ms,
            facts.newest_epoch,
            facts.newest_begin,
            facts.drains,
        )
        self._send(request, TIMEOUT_MS, self._on_heard)

    def _on_heard(self, reply: GroupReply | None, error: ZenitError | None) -> None:
        if reply is not None:
            self._take(reply.version, reply.node)
        elif not isinstance(error, BrokerBusy):
            self._look_for_leader(error)

    def _on_probe(self, address: str, probe: ProbeReplica) -> None:
        if self.is_linked and address == self._search.address and probe.broker_name == self._broker_name:
            self._probe = probe.probe
            self._beat()

    # ---- reports, proposals, questions

    def _send_report(self) -> None:
        if self._report is None or self._life is None or not self.is_linked:
            return
        if self._clock.monotonic_ms() >= self._report_ends_ms:
            self._report = None
            return
        master, epoch = self._report
        who = self._life.incarnation
        self._ask(
            ReportMasterGone(self._broker_name, self._replica_name, who.store_id, who.starts, epoch, master), TIMEOUT_MS
        )

    def _ask(self, request: RequestFor[GroupReply], timeout_ms: int) -> None:
        self._send(request, timeout_ms, self._on_answer)

    def _on_answer(self, reply: GroupReply | None, error: ZenitError | None) -> None:
        """Takes news of the node, or an error that means that there is news. Callers repeat what they still want."""
        if reply is not None:
            self._take(reply.version, reply.node)
        elif isinstance(error, NotLeadingController | ConnectionLost):
            self._look_for_leader(error)
        elif isinstance(error, StaleEpoch | StaleGroupVersion | NotGroupMaster):
            self.ask()
        else:
            log.info("the controller did not do what was asked; error=%s", error)

    # ---- news

    def _on_pushed(self, news: GroupChanged) -> None:
        if self.is_registered and self._life is not None and news.broker_name == self._broker_name:
            self._take(news.version, news.node)

    def _take(self, version: int, data: bytes) -> None:
        """Passes a node on if it is newer than the last one passed on."""
        if not data:
            return
        try:
            told = KnownGroup(decode_node(data, self._broker_name), version)
        except GroupNodeDamaged as error:
            log.error("a controller sent nonsense: %s", error)
            return
        if self.known is not None and not told.is_news_after(self.known):
            return
        self.known = told
        self._group_id = self._group_id or self.known.node.group_id
        if self._report is not None and self._report[1] < self.known.node.epoch:
            self._report = None
        self._on_group(self.known)

    @property
    def _version(self) -> int:
        """The version of the newest node that was passed on."""
        return NO_VERSION if self.known is None else self.known.version

    # ---- sending

    def _send(self, request: RequestFor[GroupReply], timeout_ms: int, on_answer: Answer) -> None:
        """Sends a request; `on_answer` gets the result on the loop, unless a new search for the leader began meanwhile."""
        then = partial(self._on_reply, self._try, on_answer)
        try:
            self._client.send_nowait(
                self._search.address,
                request,
                None,
                timeout_ms=timeout_ms,
                on_reply=lambda reply, _, error: self._post(partial(then, reply, error)),
            )
        except ZenitError as error:
            then(None, error)

    def _on_reply(self, this_try: int, on_answer: Answer, reply: GroupReply | None, error: ZenitError | None) -> None:
        if this_try == self._try:
            on_answer(reply, error)

    def _post(self, callback: Callable[[], None]) -> None:
        """Any thread."""
        try:
            self._loop.post(callback)
        except BufferFull:
            log.warning("news of a controller were dropped: the loop is behind")
