"""The routes of topics that this process knows.

The first route fixes the cluster that this process works with: its id is in all later requests, and brokers of
another cluster are left out of every route (WrongCluster if no others are left), whatever their address.

A route is fetched at first use, then every 30 s, when a name server publishes a change, once as soon as it is heard (for what
it published before), and at once when a broker's answer says that it is stale. Routes are immutable: a reader compares
identities to see a change. A light queue has no route of its own (`routed_topic`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, repeat
from typing import Any, Final

from ...model.clock import monotonic_ms
from ...model.errors import BufferFull, HostNotFound, NoRoute, TopicNotFound, WrongCluster, ZenitError
from ...model.route import MASTER_ID, BrokerData, QueueData, TopicRoute
from ...model.topics.light_queues import routed_topic
from ...remoting.client import RemotingClient
from ...remoting.commands import GetRoute, RouteReply
from .name_servers import NameServers
from .waiting import Waits

log = logging.getLogger(__name__)

REFRESH_MS: Final = 30_000
FETCH_TIMEOUT_MS: Final = 3_000
SERVED_LOOK_MS: Final = 200  # between two requests for a topic that no broker serves now


def route_of(topic: str, reply: RouteReply) -> TopicRoute:
    """A route from the reply of a name server."""
    ids = dict(reply.cluster_ids)
    incarnations = chain(reply.incarnations, repeat(0))
    return TopicRoute(
        topic,
        tuple(QueueData(*row, incarnation) for row, incarnation in zip(reply.queues, incarnations, strict=False)),
        tuple(
            BrokerData(cluster, name, dict(members), ids.get(cluster, "")) for cluster, name, members in reply.brokers
        ),
    )


def route_within(route: TopicRoute, cluster_id: str) -> TopicRoute:
    """The brokers of one cluster in a route. Raises WrongCluster if there are none."""
    brokers = tuple(broker for broker in route.brokers if broker.cluster_id == cluster_id)
    if len(brokers) == len(route.brokers):
        return route
    if not brokers:
        raise WrongCluster(route.brokers[0].cluster, route.brokers[0].cluster_id, cluster_id)
    names = {broker.broker_name for broker in brokers}
    return replace(route, queues=tuple(data for data in route.queues if data.broker_name in names), brokers=brokers)


class RouteCache:
    """Routes by topic. Any thread may call; only coroutines wait."""

    def __init__(self, remoting: RemotingClient, servers: NameServers) -> None:
        self._remoting = remoting
        self._servers = servers
        self._routes: dict[str, TopicRoute] = {}
        self._marks: dict[str, str] = {}  # how a secured name server names a topic in public: the topic
        self._fetching: set[str] = set()
        self._listening: dict[str, int] = {}  # publisher: when it was last looked whether it has another address
        self._refused: set[str] = set()  # other clusters that were logged
        self._watchers: list[Callable[[str], None]] = []
        self._lock = threading.Lock()
        self._timer = remoting.every(REFRESH_MS, self._refresh_all)

    def close(self) -> None:
        """Stops refreshing."""
        self._timer.cancel()

    def watch(self, callback: Callable[[str], None]) -> Callable[[], None]:
        """Calls back with the topic when its route changed (in the I/O thread; must not block). Returns a function
        that ends it."""
        with self._lock:
            self._watchers.append(callback)
        return lambda: self._unwatch(callback)

    def _unwatch(self, callback: Callable[[str], None]) -> None:
        with self._lock:
            if callback in self._watchers:
                self._watchers.remove(callback)

    def cached(self, topic: str) -> TopicRoute | None:
        """The last known route, or None."""
        route = self._routes.get(topic)  # nearly always; a light queue's name is never a key here
        return route if route is not None else self._routes.get(routed_topic(topic))

    @property
    def met_other_cluster(self) -> bool:
        """A name server belongs to another cluster than ours, which may have gone."""
        return bool(self._refused)

    async def route(self, topic: str, waits: Waits, *, timeout_ms: int) -> TopicRoute:
        """The route, fetched if unknown. Raises TopicNotFound, NoRoute, or why no name server answered."""
        known = self.cached(topic)
        return known if known is not None else await self.refresh(topic, waits, timeout_ms=timeout_ms)

    async def served_route(self, topic: str, waits: Waits, *, timeout_ms: int) -> TopicRoute:
        """The same, but asks again while no broker is registered for the topic. Raises NoRoute when the time is over."""
        deadline_ms = monotonic_ms() + timeout_ms
        while True:
            try:
                return await self.route(topic, waits, timeout_ms=max(1, deadline_ms - monotonic_ms()))
            except NoRoute:
                if monotonic_ms() + SERVED_LOOK_MS >= deadline_ms:
                    raise
            await waits.sleep(SERVED_LOOK_MS)

    async def refresh(self, topic: str, waits: Waits, *, timeout_ms: int) -> TopicRoute:
        """The route fetched now. Raises like `route`, also WrongCluster."""
        topic = routed_topic(topic)
        try:
            reply, _, address = await self._servers.ask(GetRoute(topic), waits, timeout_ms=timeout_ms)
        except (TopicNotFound, NoRoute):
            self._adopt(topic, None)
            raise
        except WrongCluster as error:
            self._on_other_cluster(self._servers.preferred, error)
            raise
        self._learn(address, topic, reply)
        route = self._ours(route_of(topic, reply))
        self._adopt(topic, route)
        return route

    def refresh_soon(self, topic: str) -> None:
        """Fetches it again without waiting for the answer; not twice at a time for a topic."""
        topic = routed_topic(topic)
        with self._lock:
            if topic in self._fetching:
                return
            self._fetching.add(topic)
        address = self._servers.preferred

        def on_reply(reply: RouteReply | None, _payload: bytes, error: ZenitError | None) -> None:
            with self._lock:
                self._fetching.discard(topic)
            if reply is not None:
                self._learn(address, topic, reply)
                try:
                    self._adopt(topic, self._ours(route_of(topic, reply)))
                except WrongCluster as wrong:
                    self._on_other_cluster(address, wrong)
            elif isinstance(error, WrongCluster):
                self._on_other_cluster(address, error)
            elif isinstance(error, (TopicNotFound, NoRoute)) and len(self._servers.addresses) == 1:
                self._adopt(topic, None)
            else:  # the known route stays: an old one is better than none
                self._servers.on_failed(address)

        try:
            self._remoting.send_nowait(address, GetRoute(topic), None, timeout_ms=FETCH_TIMEOUT_MS, on_reply=on_reply)
        except ZenitError as error:
            on_reply(None, b"", error)

    def address_of(self, topic: str, broker_name: str, broker_id: int = MASTER_ID) -> str:
        """The address of that member of a group for the topic; its master's if the member is missing. Raises NoRoute."""
        route = self.cached(topic)
        address = route.address_of(broker_name, broker_id) if route is not None else None
        if address is None:
            raise NoRoute(topic, f"{broker_name} has no master now")
        return address

    def masters(self) -> dict[str, str]:
        """{broker name: address} of every master seen in any route."""
        return {
            broker.broker_name: broker.master_address
            for route in list(self._routes.values())
            for broker in route.brokers
            if broker.master_address is not None
        }

    def document_of_ours(self, document: dict[str, Any]) -> dict[str, Any]:
        """The document of GetClusterInfo without other clusters; if it has only one cluster, that becomes ours
        from then on."""
        found = {broker["cluster_id"] for broker in document["brokers"]}
        with self._lock:
            if not self._remoting.cluster_id and len(found) == 1:
                self._remoting.name_cluster(*found)
        own = self._remoting.cluster_id
        if not own or found == {own}:
            return document
        brokers = [broker for broker in document["brokers"] if broker["cluster_id"] == own]
        names = {broker["cluster"] for broker in brokers}
        clusters = {name: members for name, members in document["clusters"].items() if name in names}
        return {**document, "clusters": clusters, "brokers": brokers}

    def _ours(self, route: TopicRoute) -> TopicRoute:
        """The first route fixes the cluster; later ones are reduced to that cluster. Raises WrongCluster."""
        with self._lock:
            if not self._remoting.cluster_id and route.brokers:
                self._remoting.name_cluster(route.brokers[0].cluster_id)
        return route_within(route, self._remoting.cluster_id)

    def _on_other_cluster(self, address: str, error: WrongCluster) -> None:
        """The known route stays: our own cluster may come back."""
        self._servers.on_failed(address)
        if error.cluster_id not in self._refused:
            self._refused.add(error.cluster_id)
            log.error("a name server tells of another cluster namesrv=%s: %s", address, error)

    def _adopt(self, topic: str, route: TopicRoute | None) -> None:
        with self._lock:
            if self._routes.get(topic) == route:
                return
            known = topic in self._routes
            if route is None:
                del self._routes[topic]
            else:
                self._routes[topic] = route
            watchers = list(self._watchers)
        if known:
            log.info("route changed topic=%s queues=%s", topic, route.queues if route else ())
        for watcher in watchers:
            watcher(topic)

    def _refresh_all(self) -> None:
        for topic in list(self._routes):
            self.refresh_soon(topic)

    def _learn(self, address: str, topic: str, reply: RouteReply) -> None:
        """What a name server tells beside the route: where it publishes, and the brokers' keys."""
        keys = self._remoting.keys
        if keys is not None:
            keys.learn(reply.server_keys)
            if reply.mark:
                self._marks[reply.mark] = topic
        self._listen(address, reply.publish_port)

    def _listen(self, address: str, publish_port: int) -> None:
        """Subscribes to the changes of the name server that answered. From time to time again: it may have moved."""
        if not publish_port:
            return
        publisher = f"{address.rpartition(':')[0]}:{publish_port}"
        now_ms = monotonic_ms()
        with self._lock:
            if now_ms < self._listening.get(publisher, now_ms - REFRESH_MS) + REFRESH_MS:
                return
            self._listening[publisher] = now_ms
        keys = self._remoting.keys
        if keys is not None:
            keys.fix(publisher, keys.key_of(address))
        try:
            self._remoting.subscribe(publisher, self._on_published, self._refresh_all)
        except (BufferFull, HostNotFound) as error:  # the refresh every 30 s is enough
            log.warning("cannot hear route changes publisher=%s error=%s", publisher, error)

    def _on_published(self, frames: list[bytes]) -> None:
        """First frame: the topic that changed, or nothing for "any of them"."""
        named = frames[0].decode("utf-8", "replace") if frames else ""
        topic = self._marks.get(named, named)
        if topic in self._routes:
            self.refresh_soon(topic)
        elif not topic:
            self._refresh_all()
