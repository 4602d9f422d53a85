"""A real name server, and brokers that a test can make fail.

The fake broker is imported when it is first wanted: this file is read before it is chosen which kernel the tests use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from zenitmq.namesrv.config import NameServerConfig
from zenitmq.namesrv.service import NameServer


@pytest.fixture
def namesrv() -> Iterator[str]:
    """The address of a name server that runs."""
    with NameServer(NameServerConfig(host="127.0.0.1", port=0)) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server.address
        finally:
            server.stop()
            thread.join(5)


@pytest.fixture
def new_broker(namesrv: str) -> Iterator[Callable]:
    """Starts a broker: new_broker(name, topic=queues, ...)."""
    from integration.client.fake_broker import FakeBroker

    with ExitStack() as running:

        def start(name: str, **topics: int) -> FakeBroker:
            broker = FakeBroker(name, namesrv, topics)
            running.callback(broker.stop)
            broker.start()
            return broker

        yield start
