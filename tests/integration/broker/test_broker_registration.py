"""A broker and real name servers: topics appear, changes follow, a restarted name server is told again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from zenitmq.model.errors import NoRoute, TopicNotFound, ZenitError
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.namesrv.service import NameServer
from zenitmq.remoting import commands


class Names:
    """A name server in a thread."""

    def __init__(self, port: int = 0) -> None:
        self.server = NameServer(NameServerConfig(host="127.0.0.1", port=port, listen_ms=0))
        self.port = self.server.port
        self.address = f"127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        with self.server:
            self.server.run()

    def stop(self) -> None:
        if self.thread.is_alive():
            self.server.stop()
            self.thread.join(10)


@pytest.fixture
def names() -> Iterator[Callable[..., Names]]:
    started: list[Names] = []

    def start(port: int = 0) -> Names:
        started.append(Names(port))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def wait_route(broker: Any, address: str, topic: str) -> Any:
    deadline = time.monotonic() + 10
    while True:
        try:
            return broker.client.call(address, commands.GetRoute(topic), None, timeout_ms=2000)[0]
        except ZenitError:
            assert time.monotonic() < deadline, f"no route to {topic}"
            time.sleep(0.02)


def wait_no_route(broker: Any, address: str, topic: str) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            broker.client.call(address, commands.GetRoute(topic), None, timeout_ms=2000)
        except TopicNotFound:
            return
        assert time.monotonic() < deadline, f"still a route to {topic}"
        time.sleep(0.02)


def test_every_name_server_knows_topics_soon_after_they_change(
    serve: Callable[..., Any], names: Callable[..., Names]
) -> None:
    first, second = names(), names()
    broker = serve(namesrv=(first.address, second.address), namesrv_heartbeat_ms=5000)
    broker.create("trades", queues=4)
    for one in (first, second):
        route = wait_route(broker, one.address, "trades")
        assert route.queues == (("broker-a", 4, 4, 6),)
        assert route.brokers == (("zenit", "broker-a", ((0, broker.address),)),)
    broker.call(commands.DeleteTopic("trades"))
    wait_no_route(broker, first.address, "trades")


def test_a_restarted_name_server_is_told_again(serve: Callable[..., Any], names: Callable[..., Names]) -> None:
    one = names()
    broker = serve(namesrv=(one.address,), namesrv_heartbeat_ms=100)
    broker.create("trades")
    wait_route(broker, one.address, "trades")
    one.stop()
    again = names(one.port)
    wait_route(broker, again.address, "trades")


def test_a_stopped_broker_leaves_at_once(serve: Callable[..., Any], names: Callable[..., Names]) -> None:
    one = names()
    broker = serve(namesrv=(one.address,))
    broker.create("trades")
    wait_route(broker, one.address, "trades")
    broker.stop()
    with pytest.raises(NoRoute):
        broker.client.call(one.address, commands.GetRoute("trades"), None, timeout_ms=2000)


def test_without_any_name_server_the_broker_serves_and_stops(serve: Callable[..., Any]) -> None:
    broker = serve(namesrv=("127.0.0.1:1",), namesrv_heartbeat_ms=100)
    broker.create("trades")
    began = time.monotonic()
    broker.stop()
    assert time.monotonic() - began < 5
