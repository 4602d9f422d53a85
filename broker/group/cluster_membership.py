"""Finds the id of this broker's cluster: in its store, from its group or name servers, or by founding a cluster.

    no id --controllers or a static master let us in, and their group names it--> settled
    no id --all name servers answered (cluster_choice)--> unsettled --they accept our registration, none refuses--> settled
      ^                                                         |
      '-------- refused there: a cluster of our name lives -----'

If there are neither name servers nor a group, a random id is settled at once. Until an id is known nothing is registered,
and every request that names a cluster is refused: its sender means another one. Loop thread; answers of name servers come
from the client's threads and are posted to the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ...model.clock import Clock
from ...model.errors import BufferFull, StoreNotWriteable, WrongCluster, ZenitError
from ...model.new_cluster import new_cluster_id
from ...remoting.client import RemotingClient
from ...remoting.commands import ClaimClusterId, ClusterIdReply, Request
from ...remoting.server import RequestLoop
from ...remoting.timers import Timer
from .cluster_choice import Belongs, ClusterDisagreement, choose
from .cluster_file import ClusterFile

_log = logging.getLogger(__name__)

TIMEOUT_MS: Final = 2000
GIVE_UP_MS: Final = 2 * TIMEOUT_MS  # answers that have not even failed by then are lost
REFUSED: Final = (
    "refused by %s: another cluster named %s lives there, with the id %s; this store's is %s. Give this broker the addresses of"
    " its own cluster, or one of the two clusters another name (`cluster`); or stop this broker and say that its store belongs"
    " there: zenit store cluster %s --id ID (docs/operate.md)"
)
REFUSED_REPLICA: Final = (
    "refused by %s: another cluster named %s lives there, with the id %s; this broker's group is of the one with %s. Give this"
    " broker the name servers of its own cluster, or one of the two clusters another name (`cluster`); or, to have one cluster,"
    " stop the brokers of %s and say that their stores belong to this one: zenit store cluster DIR --id %s (docs/operate.md)"
)
DISAGREEMENT: Final = (
    "name servers know different clusters named %s: %s. This broker has no cluster yet and joins neither: set `cluster_id` to"
    " the id of the one that is meant (docs/operate.md)"
)
UNKNOWN: Final = "no cluster id yet cluster=%s reason=%s; to go on without an answer, set `cluster_id`"


class ClusterMembership:
    """`on_known(cluster_id)`: the id is known from now on, or ("") no longer. Owned by the loop thread."""

    def __init__(
        self,
        file: ClusterFile,
        client: RemotingClient,
        loop: RequestLoop,
        clock: Clock,
        *,
        cluster: str,
        name_servers: tuple[str, ...],
        ask_ms: int,
        on_known: Callable[[str], None],
        is_told: bool = False,
    ) -> None:
        """`ask_ms`: how often name servers are asked; never with `is_told`, because then the group tells the id."""
        self._file = file
        self._client = client
        self._loop = loop
        self._clock = clock
        self._cluster = cluster
        self._registers_at = name_servers
        self._name_servers = () if is_told else name_servers
        self._is_told = is_told
        self._ask_ms = ask_ms
        self._on_known = on_known
        self._round = 0  # grows whenever all are asked again: answers of an earlier round are ignored
        self._began_ms: int | None = None  # the present round
        self._answers: dict[str, ClusterIdReply | None] = {}  # of this round; None = the request failed
        self._asking: Timer | None = None
        self._unheard: set[str] = set()  # name servers that have not answered our registration under this id
        self._is_accepted = False  # one of them accepted it
        self._said: tuple[str, ...] = ()  # the last log line about a search that goes on
        self._refusals: dict[str, str] = {}  # who refuses us -> the cluster there, as logged
        loop.on_other_cluster = self._refuse

    @property
    def cluster_id(self) -> str:
        """ "" = not known yet."""
        return self._loop.cluster_id

    @property
    def settled_id(self) -> str:
        """The store's for good, so that others may be told; "" = none yet."""
        return self._file.cluster_id if self._file.is_settled else ""

    def start(self) -> None:
        """Before anything is served: uses the store's id, or starts the search."""
        if self._file.is_settled:
            self._tell(self._file.cluster_id)
        elif self._is_told:
            return
        elif not self._name_servers:
            self._adopt(self._offered())
            self._file.settle()
        else:
            self._look()

    def on_told(self, cluster_id: str) -> bool:
        """The group that let us in belongs to that cluster; False if our store belongs to another: then we leave the
        group alone."""
        if not cluster_id:
            return self._file.is_settled
        if self._file.is_settled:
            if cluster_id != self.cluster_id:
                self.on_refused("the group", WrongCluster(self._cluster, cluster_id, self.cluster_id))
            return cluster_id == self.cluster_id
        self._adopt(cluster_id)
        self._file.settle()
        return True

    def on_registration(self, name_server: str, cluster_id: str, error: ZenitError | None) -> None:
        """A name server accepted our registration with that id (`error` None), refused it, or was not reached.

        The id is settled once all have been asked and none refused: one that refuses knows another cluster.
        """
        if cluster_id != self.cluster_id:
            return
        if isinstance(error, WrongCluster):
            self.on_refused(name_server, error)
            return
        if error is None:
            self._is_accepted = True
            self._refusals.pop(name_server, None)
        self._unheard.discard(name_server)
        if self._is_accepted and not self._unheard:
            with suppress(StoreNotWriteable):  # a full disk: settled at the next registration
                self._file.settle()

    def on_refused(self, asked: str, error: WrongCluster) -> None:
        """The server that was to let us in knows another cluster of our name."""
        if self._file.is_settled:
            if self._refusals.get(asked) != error.cluster_id:
                self._refusals[asked] = error.cluster_id
                self._say_refused(asked, error.cluster_id)
        elif self._name_servers and self._asking is None:
            _log.info("another cluster of our name was quicker asked=%s cluster_id=%s", asked, error.cluster_id)
            self._tell("")
            self._look()

    def _say_refused(self, asked: str, other_id: str) -> None:
        """A replica's id is that of its group, also at its controllers: if only it changed here, they would refuse us."""
        named = (asked, self._cluster, other_id, self._file.cluster_id)
        if self._is_told and asked in self._registers_at:
            _log.error(REFUSED_REPLICA, *named, other_id, self._file.cluster_id)
        else:
            _log.error(REFUSED, *named, self._file.directory)

    # ---- asking name servers

    def _look(self) -> None:
        self._asking = self._loop.every(self._ask_ms, self._ask)
        self._ask()

    def _ask(self) -> None:
        """Asks all name servers, unless answers are awaited."""
        now_ms = self._clock.monotonic_ms()
        if self.cluster_id or (self._began_ms is not None and now_ms - self._began_ms < GIVE_UP_MS):
            return
        try:
            request = ClaimClusterId(self._cluster, self._offered())
        except StoreNotWriteable:  # a full disk: asked at the next tick
            return
        self._began_ms = now_ms
        self._round += 1
        self._answers = {}
        for address in self._name_servers:
            on_reply = partial(self._post, self._round, address)
            try:
                self._client.send_nowait(address, request, None, timeout_ms=TIMEOUT_MS, on_reply=on_reply)
            except ZenitError as error:
                self._on_answer(self._round, address, None, error)

    def _post(self, asked: int, address: str, reply: ClusterIdReply | None, _: bytes, error: ZenitError | None) -> None:
        """Any thread: passes an answer to the loop."""
        try:
            self._loop.post(partial(self._on_answer, asked, address, reply, error))
        except BufferFull:
            _log.warning("a name server's answer was dropped: the loop is behind")

    def _on_answer(self, asked: int, address: str, reply: ClusterIdReply | None, error: ZenitError | None) -> None:
        if asked != self._round or self.cluster_id:
            return
        if reply is None:
            _log.debug("no cluster id from namesrv=%s error=%s", address, error)
        self._answers[address] = reply
        if self._answers.keys() >= set(self._name_servers):
            self._began_ms = None
            self._on_all_answered()

    def _on_all_answered(self) -> None:
        replies = {address: reply for address, reply in self._answers.items() if reply is not None}
        choice = choose(self._name_servers, replies)
        if isinstance(choice, Belongs):
            _log.info("cluster id from name servers cluster=%s cluster_id=%s", self._cluster, choice.cluster_id)
            with suppress(StoreNotWriteable):  # a full disk: asked again
                self._adopt(choice.cluster_id)
        elif isinstance(choice, ClusterDisagreement):
            self._say_once(logging.ERROR, DISAGREEMENT, str(choice))
        else:
            self._say_once(logging.INFO, UNKNOWN, choice.reason)

    # ---- effects

    def _offered(self) -> str:
        """The id to offer: the store's unsettled one, or a new random one, which is stored from then on."""
        if not self._file.cluster_id:
            self._file.adopt(new_cluster_id())
        return self._file.cluster_id

    def _adopt(self, cluster_id: str) -> None:
        self._file.adopt(cluster_id)
        self._tell(cluster_id)

    def _tell(self, cluster_id: str) -> None:
        if cluster_id and self._asking is not None:
            self._asking.cancel()
            self._asking = None
        self._unheard, self._is_accepted = set(self._name_servers), False
        self._loop.cluster_id = cluster_id
        self._client.name_cluster(cluster_id)
        self._on_known(cluster_id)

    def _say_once(self, level: int, text: str, what: str) -> None:
        if self._said != (text, what):
            self._said = (text, what)
            _log.log(level, text, self._cluster, what)

    def _refuse(self, _: Request, asked_id: str) -> None:
        raise WrongCluster(self._cluster, self.cluster_id, asked_id)
