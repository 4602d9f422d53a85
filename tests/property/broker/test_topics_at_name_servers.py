"""Whatever is lost between a broker and its name servers: each knows the broker's topics in the end, and soon."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest

from zenitmq.broker import registration
from zenitmq.broker.registration import BrokerIdentity, NameServerRegistration
from zenitmq.model.errors import RequestTimeout, TopicNotFound, UnknownRequest
from zenitmq.namesrv.route_table import RouteTable
from zenitmq.remoting import commands as c

BEAT_MS = 1000
NAMES = [f"t{number}" for number in range(30)]


class NameServer:
    """A route table that answers, or does not. `is_old`: of a release without versions."""

    def __init__(self, *, is_old: bool) -> None:
        self.is_old = is_old
        self.full_registrations = 0
        self.restart()

    def restart(self) -> None:
        self.routes = RouteTable(heartbeat_timeout_ms=10_000, brokers_max=9, topics_max=1000)

    def serve(self, request: Any, now_ms: int) -> Any:
        if self.is_old and isinstance(request, c.RegisterTopics | c.UpdateTopics):
            raise UnknownRequest(9147)
        if isinstance(request, c.RegisterBroker):
            self.full_registrations += 1
            if self.is_old:
                request = c.RegisterBroker(*(getattr(request, name) for name in c.RegisterBroker.__match_args__[:9]))
            self.routes.on_register(request, now_ms)
            return c.RegisterReply(1)
        if isinstance(request, c.BrokerHeartbeat):
            if self.is_old:
                request = c.BrokerHeartbeat(*(getattr(request, name) for name in c.BrokerHeartbeat.__match_args__[:7]))
            return c.BrokerHeartbeatReply(self.routes.on_heartbeat(request, now_ms))
        if isinstance(request, c.RegisterTopics):
            return c.BrokerHeartbeatReply(self.routes.on_more_topics(request, now_ms)[0])
        return c.BrokerHeartbeatReply(self.routes.on_update_topics(request, now_ms)[0])

    def known(self) -> dict[str, int]:
        found = {}
        for name in NAMES:
            try:
                found[name] = self.routes.route(name).queues[0].read_queues
            except TopicNotFound:
                continue
        return found


class World:
    """The broker's clock, loop and client, and its name servers. Some requests or their answers are lost."""

    def __init__(self, seed: int, **servers: NameServer) -> None:
        self.draw = Random(seed)
        self.servers = servers
        self.now_ms = 0
        self.loss = 0.0
        self.soon: list[Callable[[], None]] = []
        self.topics: dict[str, int] = {}
        self.sent: list[Any] = []
        wired: Any = self
        self.registration = NameServerRegistration(
            wired, wired, wired, addresses=tuple(servers),
            identity=BrokerIdentity("c", "b", "b:1", 1, cluster_id="id"),
            topics=lambda: [row for row in map(self.topic, self.topics) if row is not None],
            topic=self.topic, register_interval_ms=600_000, heartbeat_ms=BEAT_MS, takes_writes=lambda: True,
            on_answer=lambda *_: None,
        )  # fmt: skip
        self.registration.start()

    def topic(self, name: str) -> tuple[str, int, int, int, int] | None:
        count = self.topics.get(name)
        return None if count is None else (name, count, count, 6, 0)

    def monotonic_ms(self) -> int:
        return self.now_ms

    def every(self, _interval_ms: int, _callback: Callable[[], None]) -> None:
        """The world itself beats."""

    def call_later(self, _delay_ms: int, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def post(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def send_nowait(self, address: str, request: Any, _payload: Any, *, timeout_ms: int, on_reply: Any) -> None:
        self.sent.append(request)
        if self.draw.random() < self.loss:
            self.soon.append(partial(on_reply, None, b"", RequestTimeout("lost", timeout_ms)))
            return
        try:
            reply, error = self.servers[address].serve(request, self.now_ms), None
        except UnknownRequest as unknown:
            reply, error = None, unknown
        if self.draw.random() < self.loss:
            reply, error = None, RequestTimeout("lost", timeout_ms)
        self.soon.append(partial(on_reply, reply, b"", error))

    def settle(self) -> None:
        while self.soon:
            soon, self.soon = self.soon, []
            for callback in soon:
                callback()

    def beat(self) -> None:
        self.now_ms += BEAT_MS
        self.registration.on_tick()
        self.settle()

    def change(self) -> None:
        for name in self.draw.sample(NAMES, self.draw.randrange(1, 4)):
            if self.draw.random() < 0.3:
                self.topics.pop(name, None)
            else:
                self.topics[name] = self.draw.randrange(1, 9)
            self.registration.on_topic_changed(name)
        if self.draw.random() < 0.8:
            self.settle()


@pytest.mark.parametrize("seed", range(60))
def test_in_the_end_each_knows_all_topics(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(registration, "PIECE_TOPICS", 4)
    monkeypatch.setattr(registration, "CHANGES_MAX", 8)
    world = World(seed, new=NameServer(is_old=False), old=NameServer(is_old=True))
    for _ in range(60):
        world.loss = world.draw.choice((0.0, 0.0, 0.3))
        world.draw.choice((world.change, world.change, world.beat))()
        if world.draw.random() < 0.05:
            world.draw.choice(list(world.servers.values())).restart()
    world.loss = 0.0
    for _ in range(3):
        world.beat()
    for name, server in world.servers.items():
        assert server.known() == world.topics, name


def test_only_what_has_changed_travels() -> None:
    server = NameServer(is_old=False)
    world = World(0, ns=server)
    for name in NAMES:
        world.topics[name] = 1
        world.registration.on_topic_changed(name)
    world.beat()
    before = len(world.sent)
    for number in range(50):
        world.topics[NAMES[3]] = 1 + number % 2
        world.registration.on_topic_changed(NAMES[3])
        world.beat()
    assert server.full_registrations == 1
    assert server.known() == world.topics
    updates = [request for request in world.sent[before:] if not isinstance(request, c.BrokerHeartbeat)]
    assert all(isinstance(request, c.UpdateTopics) and len(request.topics) == 1 for request in updates)
    assert len(updates) == 50
