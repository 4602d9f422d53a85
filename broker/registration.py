"""Registers this broker and its topics with every name server, and keeps the registration alive.

    at the start, when one does not know us or these topics, and now and then    RegisterBroker, RegisterTopics ...
    when topics have changed                                                     UpdateTopics
    in between, each second                                                      BrokerHeartbeat

Many topics go in pieces, one after the other. Nothing blocks: requests go out from the loop, answers come back to it. An
unreachable name server is tried again at each heartbeat. One of an older release knows no UpdateTopics: it gets all topics.
"""

from __future__ import annotations

import logging
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from itertools import takewhile
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal

from ..model.clock import Clock
from ..model.errors import BufferFull, UnknownRequest, WrongCluster, ZenitError
from ..model.plain_dataclass import dataclass
from ..model.route import MASTER_ID
from ..remoting.client import RemotingClient
from ..remoting.commands import (
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    RegisterBroker,
    RegisterTopics,
    Reply,
    RequestFor,
    UnregisterBroker,
    UpdateTopics,
)
from ..remoting.server import RequestLoop

_log = logging.getLogger(__name__)

TIMEOUT_MS: Final = 2000
UNREGISTER_MS: Final = 500
GIVE_UP_MS: Final = 2 * TIMEOUT_MS  # an answer that has not even failed by then is lost
PIECE_TOPICS: Final = 4096  # of one request: with the longest names half of what a header may have
CHANGES_MAX: Final = 65_536
VERSION_BITS: Final = 48

Topic = tuple[str, int, int, int, int]
"""(name, read queues, write queues, permission, incarnation)."""


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """What to register. `address`: "host:port" for clients. `broker_id`: 0 = master; None = not to be registered (yet).
    `cluster_id`: "" = not known yet, and then nothing is registered either. `open_address`: for clients without a key."""

    cluster: str
    broker_name: str
    address: str
    epoch: int
    broker_id: int | None = MASTER_ID
    replication_address: str = ""
    cluster_id: str = ""
    open_address: str = ""

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
    pieces: deque[tuple[Topic, ...]] = field(default_factory=deque)  # of a registration that is under way
    piece: int = 0  # how many of them are there
    coming_version: int = 0  # once they are
    takes_updates: bool = True

    def next_request(
        self, now_ms: int, *, version: int, changes_since: int, register_interval_ms: int
    ) -> Literal["register", "piece", "update", "heartbeat"] | None:
        """What to send now; None while an answer is awaited. `changes_since`: what changed after this version is known."""
        if self.asked_at_ms is not None and now_ms - self.asked_at_ms < GIVE_UP_MS:
            return None
        self.asked_at_ms = now_ms
        if self.pieces:
            return "piece"
        if not self.known_version or now_ms - self.registered_at_ms >= register_interval_ms:
            return "register"
        if self.known_version == version:
            return "heartbeat"
        return "update" if self.takes_updates and self.known_version >= changes_since else "register"

    def on_registered(self, now_ms: int, version: int, pieces: Sequence[tuple[Topic, ...]] = ()) -> None:
        """It accepted our registration with this version of the topics, or its beginning: the pieces are to come."""
        self.asked_at_ms = None
        self.pieces, self.piece, self.coming_version = deque(pieces), 0, version
        self.known_version = 0 if pieces else version
        self.registered_at_ms = now_ms

    def on_piece(self, *, known: bool) -> None:
        """It has taken the next piece, or knows nothing of it."""
        self.asked_at_ms = None
        if not known or not self.pieces:  # none: we are somebody else meanwhile
            self.on_failed()
            return
        self.piece += 1
        self.pieces.popleft()
        self.known_version = 0 if self.pieces else self.coming_version

    def on_heard(self, *, known: bool) -> None:
        """It answered a heartbeat and says whether it knows us."""
        self.asked_at_ms = None
        if not known:
            self.known_version = 0

    def on_updated(self, version: int, *, known: bool) -> None:
        """It answered an update, and says whether it knew what that changes."""
        self.asked_at_ms = None
        self.known_version = version if known else 0

    def on_unknown(self) -> None:
        """It knows no such request: it is told all topics at once."""
        self.on_failed()
        self.takes_updates = False

    def on_failed(self) -> None:
        """No answer: it may have restarted, so that we register again."""
        self.asked_at_ms = None
        self.known_version = 0
        self.pieces.clear()
        self.takes_updates = True


class TopicChanges:
    """Which topics have changed since when. Pure. `version`: grows with each change; another process begins elsewhere."""

    def __init__(self, first_version: int) -> None:
        self.version = self.complete_since = first_version
        self._at: dict[str, int] = {}  # topic -> version of its last change, the latest last

    def on_changed(self, topic: str) -> None:
        """It was made, changed or deleted."""
        self.version += 1
        self._at.pop(topic, None)
        self._at[topic] = self.version
        if len(self._at) > CHANGES_MAX:
            self.complete_since = self._at.pop(next(iter(self._at)))

    def restart(self) -> None:
        """Whoever knows less than all that is must be told all."""
        self.version += 1
        self.complete_since = self.version
        self._at.clear()

    def at(self, topic: str) -> int:
        """The version of its last change."""
        return self._at[topic]

    def since(self, version: int) -> list[str]:
        """What has changed after a version that is not below `complete_since`."""
        names = list(takewhile(lambda name: self._at[name] > version, reversed(self._at)))
        return names[::-1]


def in_pieces(topics: Sequence[Topic]) -> list[tuple[Topic, ...]]:
    """At least one; none has more than a request may."""
    begins = range(0, max(1, len(topics)), PIECE_TOPICS)
    return [tuple(topics[begin : begin + PIECE_TOPICS]) for begin in begins]


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
        topics: Callable[[], list[Topic]],
        topic: Callable[[str], Topic | None],
        register_interval_ms: int,
        heartbeat_ms: int,
        takes_writes: Callable[[], bool],
        on_answer: Callable[[str, str, ZenitError | None], None],
    ) -> None:
        """`topics()`: all that clients may find, `topic(name)`: one, None if there is no such one. `takes_writes`: False while
        the disk is full.
        `on_answer(address, cluster_id, error)`: a name server accepted a registration under that id (error None), or
        did not."""
        self._client = client
        self._loop = loop
        self._clock = clock
        self._links = [NameServerLink(address) for address in addresses]
        self._identity = identity
        self._topics = topics
        self._topic = topic
        self._register_interval_ms = register_interval_ms
        self._heartbeat_ms = heartbeat_ms
        self._takes_writes = takes_writes
        self._on_answer = on_answer
        self._changes = TopicChanges(secrets.randbits(VERSION_BITS) + 1)
        self._is_due = False
        self._steps = {
            "register": self._register,
            "piece": self._send_piece,
            "update": self._update,
            "heartbeat": self._heartbeat,
        }

    def start(self) -> None:
        """Registers, and keeps doing so. Called before the loop runs, or on it."""
        self.on_tick()
        self._loop.every(self._heartbeat_ms, self.on_tick)

    def on_role(self, identity: BrokerIdentity) -> None:
        """Our identity has changed: all name servers are told at once."""
        if identity.cluster_id != self._identity.cluster_id:
            self._withdraw()
        self._identity = identity
        self._changes.restart()
        for link in self._links:
            link.pieces.clear()  # of who we were
        self._tick_soon()

    def on_topic_changed(self, topic: str) -> None:
        """Tells all of them soon; changes of one turn go out together."""
        self._changes.on_changed(topic)
        self._tick_soon()

    def _tick_soon(self) -> None:
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
            step = link.next_request(
                now_ms,
                version=self._changes.version,
                changes_since=self._changes.complete_since,
                register_interval_ms=self._register_interval_ms,
            )
            if step is not None:
                self._steps[step](link)

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
        topics = self._topics()
        pieces = in_pieces(topics) if link.takes_updates else [tuple(topics)]
        request = RegisterBroker(
            who.cluster,
            who.broker_name,
            who.broker_id,
            who.address,
            who.epoch,
            tuple(row[:4] for row in pieces[0]),
            who.replication_address,
            who.cluster_id,
            tuple(row[4] for row in pieces[0]),
            self._changes.version,
            len(pieces) == 1,
            who.open_address,
        )
        self._send(link, request, partial(self._on_registered, link, self._changes.version, who.cluster_id, pieces[1:]))

    def _send_piece(self, link: NameServerLink) -> None:
        who = self._identity
        assert who.broker_id is not None
        request = RegisterTopics(
            *(who.broker_name, who.broker_id, who.address, link.coming_version, link.piece + 1),
            link.pieces[0],
            len(link.pieces) == 1,
        )
        self._send(link, request, partial(self._on_taken, link, lambda known: link.on_piece(known=known)))

    def _update(self, link: NameServerLink) -> None:
        who = self._identity
        assert who.broker_id is not None
        names = self._changes.since(link.known_version)[:PIECE_TOPICS]
        now = {name: self._topic(name) for name in names}
        version = self._changes.at(names[-1])
        request = UpdateTopics(
            *(who.broker_name, who.broker_id, who.address, link.known_version, version),
            tuple(topic for topic in now.values() if topic is not None),
            tuple(name for name, topic in now.items() if topic is None),
        )
        self._send(link, request, partial(self._on_taken, link, lambda known: link.on_updated(version, known=known)))

    def _heartbeat(self, link: NameServerLink) -> None:
        who = self._identity
        assert who.broker_id is not None
        request = BrokerHeartbeat(
            *(who.cluster, who.broker_name, who.broker_id, who.address, who.epoch, who.cluster_id),
            self._takes_writes(),
            link.known_version,
        )
        self._send(link, request, partial(self._on_taken, link, lambda known: link.on_heard(known=known)))

    def _send(
        self, link: NameServerLink, request: RequestFor[Any], then: Callable[[Reply | None, ZenitError | None], None]
    ) -> None:
        try:
            self._client.send_nowait(
                link.address, request, None, timeout_ms=TIMEOUT_MS, on_reply=partial(self._post, then)
            )
        except ZenitError as error:
            then(None, error)

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
        self,
        link: NameServerLink,
        version: int,
        cluster_id: str,
        pieces: list[tuple[Topic, ...]],
        reply: Reply | None,
        error: ZenitError | None,
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
        link.on_registered(self._clock.monotonic_ms(), version, pieces)
        self._on_answer(link.address, cluster_id, None)
        self._go_on(link)

    def _on_taken(
        self,
        link: NameServerLink,
        note: Callable[[bool], None],
        reply: BrokerHeartbeatReply | None,
        error: ZenitError | None,
    ) -> None:
        if reply is None:
            if isinstance(error, UnknownRequest):
                link.on_unknown()
                self.on_tick()
            else:
                self._on_failed(link, error)
            return
        note(reply.known)
        self._go_on(link)

    def _go_on(self, link: NameServerLink) -> None:
        if link.known_version != self._changes.version:
            self.on_tick()

    def _on_failed(self, link: NameServerLink, error: ZenitError | None) -> None:
        if not link.is_failing and not isinstance(error, WrongCluster):  # the callback logs it
            _log.warning("name server does not answer namesrv=%s error=%s", link.address, error)
        link.is_failing = True
        link.on_failed()
