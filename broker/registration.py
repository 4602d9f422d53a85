"""Registers this broker and its topics with every name server, and keeps the registration alive.

It registers with each at the start, when topics change, every `register_interval_ms`, and when one says that it does not
know us; heartbeats in between. Nothing blocks: requests go out from the loop, answers come back to it. An unreachable name
server is tried again at each heartbeat.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from typing import Final

from ..model.clock import Clock
from ..model.errors import BufferFull, WrongCluster, ZenitError
from ..model.route import MASTER_ID
from ..remoting.client import RemotingClient
from ..remoting.commands import BrokerHeartbeat, BrokerHeartbeatReply, RegisterBroker, Reply, UnregisterBroker
from ..remoting.server import RequestLoop

_log = logging.getLogger(__name__)

TIMEOUT_MS: Final = 2000
UNREGISTER_MS: Final = 500
GIVE_UP_MS: Final = 2 * TIMEOUT_MS  # an answer that has not even failed by then is lost


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What to register. `address`: "host:port" for clients. `broker_id`: 0 = master; None = not to be registered (yet).
    `cluster_id`: "" = not known yet, and then nothing is registered either."""

    cluster: str
    broker_name: str
    address: str
    epoch: int
    broker_id: int | None = MASTER_ID
    replication_address: str = ""
    cluster_id: str = ""

    @property
    def may_register(self) -> bool:
        """Everything that a registration needs is known."""
        return self.broker_id is not None and bool(self.cluster_id)


@dataclass(slots=True)
class NameServerLink:
    """Our registration at one name server. Pure; times are monotonic ms."""

    address: str
    known_version: int = 0  # of our topics; 0 = it does not know us
    registered_at_ms: int = 0
    asked_at_ms: int | None = None  # since when an answer is awaited
    is_failing: bool = False

    def next_request(self, now_ms: int, *, version: int, register_interval_ms: int) -> str | None:
        """What to send now: "register", "heartbeat", or None while an answer is awaited."""
        if self.asked_at_ms is not None and now_ms - self.asked_at_ms < GIVE_UP_MS:
            return None
        self.asked_at_ms = now_ms
        is_due = now_ms - self.registered_at_ms >= register_interval_ms
        return "register" if self.known_version != version or is_due else "heartbeat"

    def on_registered(self, now_ms: int, version: int) -> None:
        """It accepted our registration with this version of the topics."""
        self.asked_at_ms = None
        self.known_version = version
        self.registered_at_ms = now_ms

    def on_heard(self, *, known: bool) -> None:
        """It answered a heartbeat and says whether it knows us."""
        self.asked_at_ms = None
        if not known:
            self.known_version = 0

    def on_failed(self) -> None:
        """No answer: it may have restarted, so that we register again."""
        self.asked_at_ms = None
        self.known_version = 0


class NameServerRegistration:
    """The links to all name servers. Owned by the loop thread."""

    def __init__(
        self,
        client: RemotingClient,
        loop: RequestLoop,
        clock: Clock,
        *,
        addresses: tuple[str, ...],
        identity: BrokerIdentity,
        topics: Callable[[], tuple[tuple[str, int, int, int], ...]],
        incarnations: Callable[[], tuple[int, ...]],
        register_interval_ms: int,
        heartbeat_ms: int,
        takes_writes: Callable[[], bool],
        on_answer: Callable[[str, str, ZenitError | None], None],
    ) -> None:
        """`takes_writes`: False while the disk is full.
        `on_answer(address, cluster_id, error)`: a name server accepted a registration under that id (error None), or
        did not."""
        self._client = client
        self._loop = loop
        self._clock = clock
        self._links = [NameServerLink(address) for address in addresses]
        self._identity = identity
        self._topics = topics
        self._incarnations = incarnations
        self._register_interval_ms = register_interval_ms
        self._heartbeat_ms = heartbeat_ms
        self._takes_writes = takes_writes
        self._on_answer = on_answer
        self._version = 1
        self._is_due = False

    def start(self) -> None:
        """Registers, and keeps doing so. Called before the loop runs, or on it."""
        self.on_tick()
        self._loop.every(self._heartbeat_ms, self.on_tick)

    def on_role(self, identity: BrokerIdentity) -> None:
        """Our identity has changed: all name servers are told at once."""
        if identity.cluster_id != self._identity.cluster_id:
            self._withdraw()
        self._identity = identity
        self.on_topics_changed()

    def on_topics_changed(self) -> None:
        """Registers with all of them soon; changes of one turn go out together."""
        self._version += 1
        if not self._is_due:
            self._is_due = True
            self._loop.call_later(0, self.on_tick)

    def on_tick(self) -> None:
        """Sends each name server what is due."""
        self._is_due = False
        if not self._identity.may_register:
            return
        now_ms = self._clock.monotonic_ms()
        for link in self._links:
            step = link.next_request(now_ms, version=self._version, register_interval_ms=self._register_interval_ms)
            if step == "register":
                self._register(link)
            elif step == "heartbeat":
                self._heartbeat(link)

    def stop(self) -> None:
        """Signs off at all name servers, and waits a moment for their answers. After the loop has ended."""
        request = self._goodbye()
        if request is None:
            return
        answers: SimpleQueue[ZenitError | None] = SimpleQueue()
        for link in self._links:
            try:
                self._client.send_nowait(
                    link.address,
                    request,
                    None,
                    timeout_ms=UNREGISTER_MS,
                    on_reply=lambda _reply, _payload, error: answers.put(error),
                )
            except ZenitError as error:
                answers.put(error)
        for _ in self._links:
            try:
                problem = answers.get(timeout=UNREGISTER_MS / 1000)
            except Empty:
                return
            if problem is not None:
                _log.info("a name server was not told that we leave; error=%s", problem)

    def _goodbye(self) -> UnregisterBroker | None:
        who = self._identity
        if who.broker_id is None or not who.may_register:
            return None
        return UnregisterBroker(who.cluster, who.broker_name, who.broker_id, who.address, who.cluster_id)

    def _withdraw(self) -> None:
        """We were registered in a cluster to which we do not belong: signs off there."""
        request = self._goodbye()
        if request is None:
            return
        for link in self._links:
            if link.known_version:
                link.known_version = 0
                with suppress(ZenitError):  # an unreachable name server forgets us by itself
                    self._client.send_nowait(
                        link.address, request, None, timeout_ms=UNREGISTER_MS, on_reply=lambda *_: None
                    )

    def _register(self, link: NameServerLink) -> None:
        who = self._identity
        assert who.broker_id is not None
        request = RegisterBroker(
            who.cluster,
            who.broker_name,
            who.broker_id,
            who.address,
            who.epoch,
            self._topics(),
            who.replication_address,
            who.cluster_id,
            self._incarnations(),
        )
        then = partial(self._on_registered, link, self._version, who.cluster_id)
        try:
            self._client.send_nowait(
                link.address, request, None, timeout_ms=TIMEOUT_MS, on_reply=partial(self._post, then)
            )
        except ZenitError as error:
            then(None, error)

    def _heartbeat(self, link: NameServerLink) -> None:
        who = self._identity
        assert who.broker_id is not None
        request = BrokerHeartbeat(
            who.cluster,
            who.broker_name,
            who.broker_id,
            who.address,
            who.epoch,
            who.cluster_id,
            self._takes_writes(),
        )
        on_reply = partial(self._post, partial(self._on_heard, link))
        try:
            self._client.send_nowait(link.address, request, None, timeout_ms=TIMEOUT_MS, on_reply=on_reply)
        except ZenitError as error:
            self._on_failed(link, error)

    def _post(
        self,
        callback: Callable[[Reply | None, ZenitError | None], None],
        reply: Reply | None,
        _payload: bytes,
        error: ZenitError | None,
    ) -> None:
        """Any thread: passes an answer to the loop."""
        try:
            self._loop.post(partial(callback, reply, error))
        except BufferFull:
            _log.warning("a name server's answer was dropped: the loop is behind")

    def _on_registered(
        self, link: NameServerLink, version: int, cluster_id: str, reply: Reply | None, error: ZenitError | None
    ) -> None:
        if reply is None:
            self._on_failed(link, error)
            self._on_answer(link.address, cluster_id, error)
            return
        if link.known_version == 0:
            _log.info(
                "registered namesrv=%s address=%s epoch=%s", link.address, self._identity.address, self._identity.epoch
            )
        link.is_failing = False
        link.on_registered(self._clock.monotonic_ms(), version)
        self._on_answer(link.address, cluster_id, None)
        if version != self._version:
            self.on_tick()

    def _on_heard(self, link: NameServerLink, reply: BrokerHeartbeatReply | None, error: ZenitError | None) -> None:
        if reply is None:
            self._on_failed(link, error)
            return
        link.on_heard(known=reply.known)
        if link.known_version != self._version:
            self.on_tick()

    def _on_failed(self, link: NameServerLink, error: ZenitError | None) -> None:
        if not link.is_failing and not isinstance(error, WrongCluster):  # the callback logs it
            _log.warning("name server does not answer namesrv=%s error=%s", link.address, error)
        link.is_failing = True
        link.on_failed()
