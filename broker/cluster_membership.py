"""Which cluster this broker belongs to: from its store, from whoever knows, or made here; and what follows from it.

    no id --controllers or a static master let us in, their group names it--> settled
    no id --name servers, asked in order: the first that answers--> unsettled --a name server took our registration--> settled
      ^                                                                 |
      '-------- refused there: a cluster of our name is older ----------'

Where there are neither name servers nor a group, the id is drawn here and settled. Until an id is known nothing is registered,
and every request that names a cluster is refused: its sender means another one. Loop thread; answers of name servers come
from the client's threads and are posted to the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ..model.clock import Clock
from ..model.errors import BufferFull, StoreNotWriteable, WrongCluster, ZenitError
from ..model.new_cluster import new_cluster_id
from ..remoting.client import RemotingClient
from ..remoting.commands import ClaimClusterId, ClusterIdReply, Reply, Request
from ..remoting.server import RequestLoop
from ..remoting.timers import Timer
from .cluster_file import ClusterFile

_log = logging.getLogger(__name__)

TIMEOUT_MS: Final = 2000
GIVE_UP_MS: Final = 2 * TIMEOUT_MS  # an answer that has not even failed by then is lost


class ClusterMembership:
    """`on_known(cluster_id)`: the id is known from now on, or ("") not any more. Owned by the loop thread."""

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
    ) -> None:
        """`name_servers`: none where a group tells the id. `ask_ms`: how often one is asked."""
        self._file = file
        self._client = client
        self._loop = loop
        self._clock = clock
        self._cluster = cluster
        self._name_servers = name_servers
        self._ask_ms = ask_ms
        self._on_known = on_known
        self._turn = 0
        self._asked_at_ms: int | None = None
        self._asking: Timer | None = None
        self._refused: str | None = None  # by whom, as the log was told
        loop.on_other_cluster = self._refuse

    @property
    def cluster_id(self) -> str:
        """ "" = not known yet."""
        return self._loop.cluster_id

    def start(self, *, has_group: bool) -> None:
        """Before anything is served: the store's id, else goes and finds one. `has_group`: whoever lets us in will tell it."""
        if self._file.is_settled:
            self._tell(self._file.cluster_id)
        elif has_group:
            return
        elif not self._name_servers:
            self._adopt(self._offered())
            self._file.settle()
        else:
            self._asking = self._loop.every(self._ask_ms, self._ask)
            self._ask()

    def on_told(self, cluster_id: str) -> bool:
        """The group that let us in is of that cluster; False where our store is another one's: then we are not of the group."""
        if not cluster_id:
            return self._file.is_settled
        if self._file.is_settled:
            if cluster_id != self.cluster_id:
                self.on_refused("the group", WrongCluster(self._cluster, cluster_id, self.cluster_id))
            return cluster_id == self.cluster_id
        self._adopt(cluster_id)
        self._file.settle()
        return True

    def on_accepted(self) -> None:
        """A name server took our registration."""
        self._refused = None
        if self.cluster_id:
            with suppress(StoreNotWriteable):  # a full disk: at the next one
                self._file.settle()

    def on_refused(self, asked: str, error: WrongCluster) -> None:
        """Whoever was asked to let us in knows another cluster of our name."""
        if not self._file.is_settled and self._asking is None:
            _log.info("another cluster of our name was quicker asked=%s cluster_id=%s", asked, error.cluster_id)
            self._tell("")
            self._asking = self._loop.every(self._ask_ms, self._ask)
        elif self._refused != asked:
            self._refused = asked
            _log.error(
                "refused by %s: another cluster named %s lives there, with the id %s; this store's is %s. Give one of the two"
                " another name (`cluster`), or this broker the addresses of its own, or an empty store_dir to join that one",
                *(asked, self._cluster, error.cluster_id, self._file.cluster_id),
            )

    # ---- asking name servers

    def _ask(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if self.cluster_id or (self._asked_at_ms is not None and now_ms - self._asked_at_ms < GIVE_UP_MS):
            return
        self._asked_at_ms = now_ms
        address = self._name_servers[self._turn % len(self._name_servers)]
        try:
            request = ClaimClusterId(self._cluster, self._offered())
            self._client.send_nowait(
                address, request, None, timeout_ms=TIMEOUT_MS, on_reply=partial(self._post, address)
            )
        except ZenitError as error:
            self._on_answer(address, None, error)

    def _post(self, address: str, reply: Reply | None, _: bytes, error: ZenitError | None) -> None:
        """Any thread: brings an answer to the loop."""
        try:
            self._loop.post(partial(self._on_answer, address, reply, error))
        except BufferFull:
            _log.warning("a name server's answer was dropped: the loop is behind")

    def _on_answer(self, address: str, reply: Reply | None, error: ZenitError | None) -> None:
        self._asked_at_ms = None
        if self.cluster_id:
            return
        if isinstance(reply, ClusterIdReply):
            _log.info("cluster id from namesrv=%s cluster=%s cluster_id=%s", address, self._cluster, reply.cluster_id)
            with suppress(StoreNotWriteable):  # a full disk: asked again
                self._adopt(reply.cluster_id)
        else:
            _log.info("no cluster id from namesrv=%s error=%s", address, error)
            self._turn += 1

    # ---- effects

    def _offered(self) -> str:
        """What we would be called: what the store was called when it was not let in yet, or a new id, kept from then on."""
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
        self._loop.cluster_id = cluster_id
        self._client.name_cluster(cluster_id)
        self._on_known(cluster_id)

    def _refuse(self, _: Request, asked_id: str) -> None:
        raise WrongCluster(self._cluster, self.cluster_id, asked_id)
