"""A group with a static master: real brokers in threads of the test, no controllers."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from zenitmq.client.connection.controller_calls import ControllerCalls
from zenitmq.deploy.processes import port_is_free
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import ConnectionLost, NotEnoughReplicas
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetBrokerStatistics

Serve = Callable[..., Any]
GROUP = "broker-a"


class StaticGroup:
    """Brokers "m" (the master), "a" and "b" of one group."""

    def __init__(self, serve: Serve, record: Callable[..., bytes]) -> None:
        start = 29_000 + os.getpid() % 3000
        self.port = next(port for port in range(start, 32_000) if port_is_free(port))
        self._serve = serve
        self._record = record

    def serve(self, name: str, **settings: Any) -> Any:
        port = self.port if name == "m" else 0
        plain = {"replica": name, "port": port, "replication_port": 0, "static_min_in_sync": 2}
        return self._serve(name, static_master=f"127.0.0.1:{self.port}", **{**plain, **settings})

    def send(self, master: Any, *bodies: bytes) -> None:
        """Each in a batch of its own; waits until enough replicas are in sync."""
        for body in bodies:
            await_that(lambda body=body: self._try_send(master, body))

    def _try_send(self, master: Any, body: bytes) -> bool:
        try:
            master.send("t", self._record("t", body))
        except (NotEnoughReplicas, ConnectionLost):  # the first call after a restart may still find the old connection
            return False
        return True


def await_that(condition: Callable[[], bool], timeout_ms: int = 20_000) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    while not condition():
        assert monotonic_ms() < deadline_ms, "did not come true in time"
        sleep_ms(10)


def answers(broker: Any) -> bool:
    """A broker that was started anew: the first call may still find the old connection."""
    try:
        broker.ask(GetBrokerStatistics())
    except ConnectionLost:
        return False
    return True


def replication(broker: Any) -> dict[str, Any]:
    document: dict[str, Any] = broker.ask(GetBrokerStatistics())["replication"]
    return document


def in_sync(group: StaticGroup) -> tuple[str, ...]:
    with RemotingClient() as client:
        calls = ControllerCalls(client, (f"127.0.0.1:{group.port}",))
        assert calls.metadata(timeout_ms=5000).broker_names == (GROUP,)
        return calls.group(GROUP, timeout_ms=5000).node.in_sync
