"""A real name server and a real broker of it, and brokers that a test can make fail.

Brokers and clients are imported when they are first wanted: this file is read before it is chosen which kernel the tests use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zenitmq.namesrv.config import NameServerConfig
from zenitmq.namesrv.service import NameServer

if TYPE_CHECKING:
    from integration.client.real_broker import RealBroker

    from zenitmq import Admin, Producer
    from zenitmq.broker.service import Broker

TOPIC = "trades"


@pytest.fixture
def namesrv() -> Iterator[str]:
    """The address of a name server that runs."""
    with NameServer(NameServerConfig(host="127.0.0.1", port=0, listen_ms=0)) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server.address
        finally:
            server.stop()
            thread.join(5)


@pytest.fixture
def new_broker(namesrv: str) -> Iterator[Callable]:
    """Starts a broker: new_broker(name, topic=queues, ...). One that takes the place of another has the next epoch."""
    from integration.client.fake_broker import FakeBroker

    with ExitStack() as running:

        def start(name: str, epoch: int = 1, **topics: int) -> FakeBroker:
            broker = FakeBroker(name, namesrv, topics, epoch)
            running.callback(broker.stop)
            broker.start()
            return broker

        yield start


@pytest.fixture
def broker(namesrv: str, tmp_path: Path) -> Iterator[Broker]:
    """A broker of the name server, in a thread."""
    from zenitmq.broker.config import BrokerConfig
    from zenitmq.broker.service import Broker
    from zenitmq.store.config import StoreConfig

    store = StoreConfig(segment_bytes=1 << 20, preallocate_segments=0, index_slots=1000, index_entries=4000)
    config = BrokerConfig(port=0, namesrv=(namesrv,), store_dir=str(tmp_path / "store"), store=store)
    with Broker(config) as running:
        thread = threading.Thread(target=running.run)
        thread.start()
        try:
            yield running
        finally:
            running.stop()
            thread.join(10)


@pytest.fixture
def admin(namesrv: str, broker: Broker) -> Iterator[Admin]:
    """An admin of it; topic "trades" is there."""
    from zenitmq import Admin

    with Admin(namesrv) as made:
        for _ in range(200):  # until the broker has registered
            if made.cluster()["brokers"]:
                break
            threading.Event().wait(0.02)
        made.create_topic(TOPIC, queues=4, attributes={"note": "x"})
        yield made


@pytest.fixture
def producer(namesrv: str, admin: Admin) -> Iterator[Producer]:
    """A producer of it."""
    from zenitmq import Producer

    with Producer("p", namesrv=namesrv) as made:
        yield made


@pytest.fixture
def real_broker(namesrv: str, tmp_path: Path) -> Iterator[RealBroker]:
    """A broker with a store, registered; its topics are made by the test."""
    from integration.client.real_broker import RealBroker

    broker = RealBroker(namesrv, tmp_path)
    try:
        yield broker
    finally:
        broker.stop()
