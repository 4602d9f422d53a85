"""The name server process: a request loop around the route table, and a socket that publishes changed routes.

One thread does everything: the caller of `run()`. Nothing is stored on disk: after a restart the brokers learn from their
next heartbeat that they are unknown, and register again within a second or so. Until then nobody may begin a cluster with
the name of theirs (cluster_names). Name servers know nothing of each other.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import ExitStack
from typing import Final, Self

from ..metrics.endpoint import MetricsEndpoint
from ..model.arena import Arena
from ..model.clock import Clock, SystemClock
from ..model.errors import ConfigError
from ..model.events.event_ring import EventRing
from ..model.events.table import BROKER_LEFT, BROKER_REGISTERED, BROKER_SILENT
from ..model.events.telling import kept_by, tell
from ..model.route import TopicRoute
from ..model.security.access_rows import AccessRows
from ..model.security.rights import Resource
from ..remoting.commands import (
    AddWritePermission,
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    ClaimClusterId,
    ClusterIdReply,
    CountReply,
    DeleteTopicRoute,
    Done,
    GetClusterInfo,
    GetNameServerEvents,
    GetRoute,
    GetServerKeys,
    GetTopicList,
    JsonReply,
    RegisterBroker,
    RegisterReply,
    RegisterTopics,
    Request,
    RouteReply,
    ServedBy,
    ServerKeysReply,
    TopicListReply,
    UnregisterBroker,
    UpdateTopics,
    WipeWritePermission,
)
from ..remoting.examination.examiner import Examiner
from ..remoting.loop_times import LoopTimes
from ..remoting.options import HEADER_BYTES_MAX
from ..remoting.request_rows import check_rows, row
from ..remoting.security.door import Door
from ..remoting.security.listing import visible
from ..remoting.security.opened_security import open_security
from ..remoting.security.rows_handler import RowsHandler
from ..remoting.server import Call, Publisher, RequestLoop
from .config import NameServerConfig
from .key_directory import KeyDirectory
from .name_server_reader import NameServerReader, RouteCounts
from .route_table import RouteTable

log = logging.getLogger(__name__)

PORT_MAX: Final = 65535
OF_BROKERS: Final = (RegisterBroker, RegisterTopics, UpdateTopics, UnregisterBroker, BrokerHeartbeat, ClaimClusterId)
"""Requests whose cluster the route table checks; with all others a client looks for a cluster."""

_OfReplica = RegisterTopics | UpdateTopics | UnregisterBroker | BrokerHeartbeat


class NameServer:
    """Listens from construction to `__exit__`; serves while `run()` runs. Raises ConfigError if a port is taken."""

    def __init__(
        self, config: NameServerConfig, *, clock: Clock | None = None, metrics: MetricsEndpoint | None = None
    ) -> None:
        """`metrics`: where it is measured; it outlives the name server."""
        self._counts = RouteCounts()
        self._clock = SystemClock() if clock is None else clock
        self._routes = RouteTable(
            heartbeat_timeout_ms=config.heartbeat_timeout_ms,
            brokers_max=config.brokers_max,
            topics_max=config.topics_max,
            listens_until_ms=self._clock.monotonic_ms() + config.listen_ms,
        )
        with ExitStack() as opened:  # if a port is taken, closes what was opened before
            arena = Arena(drain_bytes=1, frame_bytes_max=HEADER_BYTES_MAX)  # no request here has a payload
            secured = open_security(config.security, self._clock, opened, host=config.host)
            door = secured.door if secured is not None else None
            self._loop = RequestLoop(bind=f"{config.host}:{config.port}", arena=arena, clock=self._clock, door=door)
            opened.enter_context(self._loop)
            self._publisher = opened.enter_context(_open_publisher(config, self._loop.port, door))
            self._keys = KeyDirectory(secured.door.security.pair.secret, secured.rows) if secured is not None else None
            self._opened = opened.pop_all()
        self.security = RowsHandler(AccessRows(), self._clock)
        if secured is not None:
            self.security.guard(secured, self._loop, self._keys.on_trusted if self._keys is not None else None)
            self.security.learn()
        self.address = self._loop.address
        self.port = self._loop.port
        self.publish_port = self._publisher.port
        self._ring = EventRing(role="namesrv", node=self.address)
        self._serve()
        if metrics is not None:
            self._loop.times = LoopTimes()
            metrics.serve(NameServerReader(self._loop, self._routes, self._counts, self.address))
            self._opened.callback(metrics.serve, None)
        self._publisher.welcome_in(self._loop)
        self._loop.every(config.scan_interval_ms, self._on_scan)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()
        log.info("name server stopped address=%s", self.address)

    def run(self) -> None:
        """Serves in the calling thread until `stop`."""
        log.info("name server started address=%s publish_port=%s", self.address, self.publish_port)
        with kept_by(self._ring.keep):
            self._loop.run()

    def stop(self) -> None:
        """Makes `run` return soon. From any thread or a signal handler."""
        self._loop.stop()

    # ---- requests

    def _serve(self) -> None:
        self._loop.on_other_cluster = self._on_cluster_named
        rows = (
            row(RegisterBroker, self._on_register),
            row(RegisterTopics, self._on_more_topics),
            row(UpdateTopics, self._on_update_topics),
            row(ClaimClusterId, self._on_claim),
            row(UnregisterBroker, self._on_unregister),
            row(BrokerHeartbeat, self._on_heartbeat),
            row(GetRoute, self._on_get_route),
            row(GetServerKeys, self._on_get_server_keys),
            row(GetTopicList, self._on_get_topic_list),
            row(GetClusterInfo, self._on_get_cluster_info),
            row(WipeWritePermission, self._on_wipe_write_permission),
            row(AddWritePermission, self._on_add_write_permission),
            row(DeleteTopicRoute, self._on_delete_topic),
            row(GetNameServerEvents, self._on_get_events),
            *Examiner(self._loop, self._clock, role="namesrv", node=self.address, peers=self._routes.peers).rows(),
            *self.security.served(),
        )
        check_rows(rows, (ServedBy.NAME_SERVER, ServedBy.EVERY_SERVER))
        for one in rows:
            self._loop.handle(one.request_class, one.handler)

    def _on_cluster_named(self, request: Request, cluster_id: str) -> None:
        """Raises WrongCluster if that cluster is not living here, and others are."""
        if not isinstance(request, OF_BROKERS):
            self._routes.check_lives(cluster_id)

    def _on_claim(self, call: Call[ClaimClusterId]) -> ClusterIdReply:
        request = call.request
        cluster_id, standing = self._routes.on_claim(request, self._clock.monotonic_ms())
        return ClusterIdReply(cluster_id, standing.value)

    def _on_register(self, call: Call[RegisterBroker]) -> RegisterReply:
        request = call.request
        guard = self._loop.guard
        user = guard.user_of(call.key) if guard is not None else None
        if self._keys is not None and user is not None:
            self._keys.check(user, request, self._routes.holds_address)
        was_here = self._routes.holds_address(request.address)
        changed = self._routes.on_register(request, self._clock.monotonic_ms())
        if self._keys is not None and user is not None:
            self._keys.on_register(user.name, call.key, request)
        if changed or not was_here:
            tell(
                log,
                BROKER_REGISTERED,
                group=request.broker_name,
                epoch=request.epoch,
                peer=request.address,
                broker_id=request.broker_id,
                topics=len(request.topics),
            )
        self._publish(changed)
        return RegisterReply(self.publish_port)

    def _check_own(self, call: Call[_OfReplica]) -> None:
        """Raises AccessDenied if the sender is another replica than the one with this address."""
        user = None if self._loop.guard is None else self._loop.guard.user_of(call.key)
        if self._keys is not None and user is not None:
            self._keys.check_own(user, call.request.address)

    def _on_more_topics(self, call: Call[RegisterTopics]) -> BrokerHeartbeatReply:
        self._check_own(call)
        known, changed = self._routes.on_more_topics(call.request, self._clock.monotonic_ms())
        self._publish(changed)
        return BrokerHeartbeatReply(known)

    def _on_update_topics(self, call: Call[UpdateTopics]) -> BrokerHeartbeatReply:
        self._check_own(call)
        known, changed = self._routes.on_update_topics(call.request, self._clock.monotonic_ms())
        self._publish(changed)
        return BrokerHeartbeatReply(known)

    def _on_unregister(self, call: Call[UnregisterBroker]) -> Done:
        self._check_own(call)
        request = call.request
        was_here = self._routes.holds_address(request.address)
        changed = self._routes.on_unregister(request)
        if was_here and not self._routes.holds_address(request.address):
            tell(log, BROKER_LEFT, group=request.broker_name, peer=request.address)
        self._publish(changed)
        return Done()

    def _on_heartbeat(self, call: Call[BrokerHeartbeat]) -> BrokerHeartbeatReply:
        self._check_own(call)
        known = self._routes.on_heartbeat(call.request, self._clock.monotonic_ms())
        return BrokerHeartbeatReply(known)

    def _on_get_route(self, call: Call[GetRoute]) -> RouteReply:
        reply = _route_reply(self._routes.route(call.request.topic), self.publish_port)
        return reply if self._keys is None else self._keys.add_to(reply, call)

    def _on_get_server_keys(self, _: Call[GetServerKeys]) -> ServerKeysReply:
        return ServerKeysReply(self._keys.all() if self._keys is not None else ())

    def _on_get_topic_list(self, call: Call[GetTopicList]) -> TopicListReply:
        is_seen = visible(call, Resource.TOPIC) if self._loop.guard is not None else None
        return TopicListReply(*self._routes.topics_after(call.request.after, call.request.count_max, is_seen))

    def _on_get_events(self, call: Call[GetNameServerEvents]) -> None:
        document = self._ring.document(call.request.since_ms)
        self._loop.reply(call, JsonReply(), [json.dumps(document).encode()])

    def _on_get_cluster_info(self, call: Call[Request]) -> None:
        document = self._routes.cluster_info(self._clock.monotonic_ms())
        if self._keys is not None:
            document = self._keys.seen_by(document, call.key)
        self._loop.reply(call, JsonReply(), [json.dumps(document).encode()])

    def _on_wipe_write_permission(self, call: Call[WipeWritePermission]) -> CountReply:
        name = call.request.broker_name
        changed = self._routes.on_wipe_write_permission(name)
        if changed:
            log.info("write permission wiped broker=%s changed=%s", name, len(changed))
        self._publish(changed)
        return CountReply(len(changed))

    def _on_add_write_permission(self, call: Call[AddWritePermission]) -> CountReply:
        name = call.request.broker_name
        changed = self._routes.on_add_write_permission(name)
        if changed:
            log.info("write permission given back broker=%s changed=%s", name, len(changed))
        self._publish(changed)
        return CountReply(len(changed))

    def _on_delete_topic(self, call: Call[DeleteTopicRoute]) -> Done:
        topic = call.request.topic
        changed = self._routes.on_delete_topic(topic)
        if changed:
            log.info("topic forgotten topic=%s", topic)
        self._publish(changed)
        return Done()

    # ---- effects

    def _on_scan(self) -> None:
        dead, changed = self._routes.on_scan(self._clock.monotonic_ms())
        self._counts.lost += len(dead)
        for name, address in dead:
            tell(log, BROKER_SILENT, group=name, peer=address)
        self._publish(changed)

    def _publish(self, topics: Iterable[str]) -> None:
        for topic in sorted(topics):
            self._counts.published += 1
            self._publisher.publish(topic.encode() if self._keys is None else self._keys.mark_of(topic).encode(), b"")


def _open_publisher(config: NameServerConfig, port: int, door: Door | None) -> Publisher:
    """Opens it on the configured port; else on the one after the request port, or any free one if that is taken."""
    if config.publish_port:
        return Publisher(f"{config.host}:{config.publish_port}", door)
    if port < PORT_MAX:
        try:
            return Publisher(f"{config.host}:{port + 1}", door)
        except ConfigError:
            log.info("the port behind ours is taken, publishing on another one taken=%s", port + 1)
    return Publisher(f"{config.host}:0", door)


def _route_reply(route: TopicRoute, publish_port: int) -> RouteReply:
    return RouteReply(
        tuple((data.broker_name, data.read_queues, data.write_queues, data.permission) for data in route.queues),
        tuple((data.cluster, data.broker_name, tuple(data.addresses.items())) for data in route.brokers),
        publish_port,
        tuple(sorted({(data.cluster, data.cluster_id) for data in route.brokers})),
        tuple(data.incarnation for data in route.queues),
    )
