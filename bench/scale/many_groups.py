"""Measures a name server of a large cluster: `python -m zenitmq.bench.scale.many_groups [--groups N] [--topics N] ...`.

A name server runs in a process of its own; this one takes the part of all brokers and of some clients, over real sockets: it
registers every replica of every group with its topics, keeps them alive for a while, asks for routes, and has clients that
are told of routes that change. `--spread`: in how many groups each topic has queues. Prints JSON:

- `registration`: all replicas, one after the other, as after a restart of the name server: time, its CPU, the bytes of one
  replica's requests, its memory (without file pages) before and after;
- `alive`: the share of a core that it takes for a heartbeat of each replica a second;
- `route`: the bytes of one, and how long it takes to get;
- `change`: a queue is added to a topic: until all clients have heard of it, and until the new route is there.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ...broker.registration import Topic, in_pieces
from ...model.clock import monotonic_ms, monotonic_ns, sleep_ms
from ...model.errors import SystemFault, ZenitError
from ...remoting.client import RemotingClient
from ...remoting.client_socket import ClientContext, Subscriber
from ...remoting.commands import (
    BrokerHeartbeat,
    BrokerHeartbeatReply,
    GetRoute,
    RegisterBroker,
    RegisterReply,
    RegisterTopics,
    RequestFor,
    UpdateTopics,
)
from ...remoting.header import encode_reply, encode_request
from ..environment import environment
from ..own_cluster import USAGE, ServiceJob
from ..percentiles import latency_us
from ..processes import BenchWorker

CLUSTER: Final = "large"
CLUSTER_ID: Final = "large-1"
TIMEOUT_MS: Final = 30_000
READY_S: Final = 60.0
IN_FLIGHT: Final = 64
VERSION: Final = 1
HEARTBEAT_MS: Final = 1_000
SILENT_MS: Final = 60_000  # those who are registered first send no heartbeats until the last one is
ROUTES: Final = 2_000
CHANGES: Final = 50


class Fleet:
    """All replicas of all groups. Topic n has queues in `spread` groups from group n on."""

    def __init__(self, groups: int, replicas: int, topics: int, spread: int, queues: int) -> None:
        self.groups, self.replicas = groups, replicas
        self.topics: list[list[Topic]] = [[] for _ in range(groups)]
        for number in range(topics):
            for step in range(spread):
                self.topics[(number + step) % groups].append((f"orders-{number:07}", queues, queues, 6, number + 1))

    def members(self) -> Iterator[tuple[int, int]]:
        """(group, broker id) of each replica, a group's master first."""
        return ((group, broker_id) for group in range(self.groups) for broker_id in range(self.replicas))

    def name(self, group: int) -> str:
        """Of a group."""
        return f"broker-{group:04}"

    def address(self, group: int, broker_id: int) -> str:
        """Where nobody listens: a name server does not ask back."""
        return f"10.{broker_id}.{group >> 8}.{group & 255}:10911"

    def registration(self, group: int, broker_id: int) -> list[RequestFor[Any]]:
        """The requests that register one replica."""
        first, *others = in_pieces(self.topics[group])
        name, address = self.name(group), self.address(group, broker_id)
        begin = RegisterBroker(
            *(CLUSTER, name, broker_id, address, 1, tuple(row[:4] for row in first), "", CLUSTER_ID),
            tuple(row[4] for row in first),
            VERSION,
            not others,
        )
        more = [
            RegisterTopics(name, broker_id, address, VERSION, piece, rows, piece == len(others))
            for piece, rows in enumerate(others, 1)
        ]
        return [begin, *more]

    def heartbeat(self, group: int, broker_id: int) -> BrokerHeartbeat:
        """Of one replica."""
        name, address = self.name(group), self.address(group, broker_id)
        return BrokerHeartbeat(CLUSTER, name, broker_id, address, 1, CLUSTER_ID, version=VERSION)


class NameServerLoad:
    """What the fleet and its clients ask one name server. One thread; answers come in another."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = RemotingClient()
        self._free = threading.Semaphore(IN_FLIGHT)
        self._failed: ZenitError | None = None
        self._unknown = 0

    def close(self) -> None:
        """Ends the connections."""
        self._client.close()

    def call(self, request: RequestFor[Any]) -> Any:
        """The reply to one request."""
        return self._client.call(self._address, request, timeout_ms=TIMEOUT_MS)[0]

    def heartbeats(self, fleet: Fleet) -> None:
        """One of each replica, several at a time. Raises SystemFault if one is not known, or not answered."""
        for member in fleet.members():
            self._acquire()
            self._client.send_nowait(
                self._address, fleet.heartbeat(*member), None, timeout_ms=TIMEOUT_MS, on_reply=self._on_reply
            )
        for _ in range(IN_FLIGHT):
            self._acquire()
        for _ in range(IN_FLIGHT):
            self._free.release()
        if self._failed is not None or self._unknown:
            raise SystemFault(f"bench many_groups: {self._unknown} replicas are not known: {self._failed}")

    def _acquire(self) -> None:
        if not self._free.acquire(timeout=TIMEOUT_MS / 1000):
            raise SystemFault("bench many_groups: the name server does not answer")

    def _on_reply(self, reply: BrokerHeartbeatReply | None, _payload: bytes, error: ZenitError | None) -> None:
        if reply is None:
            self._failed = error
        elif not reply.known:
            self._unknown += 1
        self._free.release()


class GroupsBench:
    """One run. `usage()`: what the name server has used so far."""

    def __init__(self, fleet: Fleet, load: NameServerLoad, usage: Callable[[], dict[str, Any]]) -> None:
        self._fleet = fleet
        self._load = load
        self._usage = usage
        self._publish_port = 0

    def register(self) -> dict[str, Any]:
        """All of them."""
        before, begun_ns, size_bytes = self._usage(), monotonic_ns(), 0
        for group, broker_id in self._fleet.members():
            requests = self._fleet.registration(group, broker_id)
            if not size_bytes:
                size_bytes = sum(len(encode_request(request, 1, timeout_ms=TIMEOUT_MS)) for request in requests)
            for request in requests:
                reply = self._load.call(request)
                if isinstance(reply, RegisterReply):
                    self._publish_port = reply.publish_port
        seconds, after = (monotonic_ns() - begun_ns) / 1e9, self._usage()
        return {
            "seconds": round(seconds, 2),
            "cpu_seconds": round(after["cpu_seconds"] - before["cpu_seconds"], 2),
            "bytes_of_one": size_bytes,
            "memory_bytes_before": before["memory_bytes"],
            "memory_bytes": after["memory_bytes"],
        }

    def keep_alive(self, seconds: int) -> dict[str, Any]:
        """Heartbeats, as brokers send them."""
        before, begun_ns = self._usage(), monotonic_ns()
        for second in range(seconds):
            self._load.heartbeats(self._fleet)
            sleep_ms(max(0, (second + 1) * HEARTBEAT_MS - (monotonic_ns() - begun_ns) // 1_000_000))
        took = (monotonic_ns() - begun_ns) / 1e9
        used = self._usage()["cpu_seconds"] - before["cpu_seconds"]
        return {
            "heartbeats_per_second": round(self._fleet.groups * self._fleet.replicas * seconds / took),
            "cpu_share": round(used / took, 3),
        }

    def route(self) -> dict[str, Any]:
        """Of topics here and there."""
        topics = [topic for rows in self._fleet.topics for topic, *_ in rows[:1]]
        took = []
        for number in range(ROUTES):
            begun_ns = monotonic_ns()
            reply = self._load.call(GetRoute(topics[number % len(topics)]))
            took.append(monotonic_ns() - begun_ns)
        return {"bytes": len(encode_reply(reply, 1)), "latency_us": _latency(took)}

    def change(self, namesrv: str, clients: int) -> dict[str, Any]:
        """The first group's first topic gets queues, again and again."""
        context = ClientContext()
        publisher = f"{namesrv.rpartition(':')[0]}:{self._publish_port}"
        listeners = [context.subscriber(publisher) for _ in range(clients)]
        heard, there = [], []
        try:
            sleep_ms(1_000)  # until all are connected
            topic, queues, _, permission, incarnation = self._fleet.topics[0][0]
            for number in range(CHANGES):
                count = queues + 1 + number
                row = (topic, count, count, permission, incarnation)
                name, address = self._fleet.name(0), self._fleet.address(0, 0)
                begun_ns = monotonic_ns()
                update = UpdateTopics(name, 0, address, VERSION + number, VERSION + number + 1, (row,), ())
                if not self._load.call(update).known:
                    raise SystemFault("bench many_groups: the name server knows another version of the topics")
                _await_all(listeners)
                heard.append(monotonic_ns() - begun_ns)
                route = self._load.call(GetRoute(topic))
                there.append(monotonic_ns() - begun_ns)
                if count not in {row[1] for row in route.queues}:
                    raise SystemFault("bench many_groups: a route is old after its change was told")
        finally:
            for listener in listeners:
                listener.close()
        return {"clients": clients, "heard_us": _latency(heard), "route_us": _latency(there)}


def _await_all(listeners: list[Subscriber]) -> None:
    """Until each has heard something."""
    deadline_ms = monotonic_ms() + TIMEOUT_MS
    for listener in listeners:
        while listener.receive_nowait() is None:
            if monotonic_ms() > deadline_ms:
                raise SystemFault("bench many_groups: a client does not hear of a change")


def _latency(took_ns: list[int]) -> dict[str, float] | None:
    return latency_us(np.array(took_ns, dtype=np.int64))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m zenitmq.bench.scale.many_groups", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--groups", type=int, default=500, metavar="N")
    parser.add_argument("--replicas", type=int, default=3, metavar="N", help="of each group")
    parser.add_argument("--topics", type=int, default=100_000, metavar="N")
    parser.add_argument("--spread", type=int, default=1, metavar="N", help="groups that have queues of a topic")
    parser.add_argument("--queues", type=int, default=10, metavar="N", help="of a topic in each of its groups")
    parser.add_argument("--seconds", type=int, default=10, metavar="N", help="how long heartbeats are measured")
    parser.add_argument("--clients", type=int, default=500, metavar="N", help="that are told of changes")
    options = parser.parse_args()
    fleet = Fleet(options.groups, options.replicas, options.topics, options.spread, options.queues)
    with tempfile.TemporaryDirectory() as directory:
        settings = {"port": 0, "listen_ms": 0, "heartbeat_timeout_ms": SILENT_MS}
        job = ServiceJob(settings=settings, log_path=os.path.join(directory, "namesrv.log"))
        with BenchWorker("namesrv", job) as server:
            namesrv = str(server.wait_ready(READY_S)["address"])
            server.go()
            load = NameServerLoad(namesrv)
            try:
                bench = GroupsBench(fleet, load, lambda: server.ask(USAGE, READY_S))
                document = {
                    "environment": environment(directory),
                    **{name: getattr(options, name) for name in ("groups", "replicas", "topics", "spread", "queues")},
                    "registration": bench.register(),
                    "alive": bench.keep_alive(options.seconds),
                    "route": bench.route(),
                    "change": bench.change(namesrv, options.clients),
                }
            finally:
                load.close()
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
