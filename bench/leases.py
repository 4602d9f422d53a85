"""Measures many open leases: `python -m zenitmq.bench.leases [--leases N] [--batch N] [--ending N]`.

Starts a name server and a broker, each in a process. Prints JSON:

- `ending`: this many leases that end at one time; how long until all are to be handed out again, and the latency of other
  sends meanwhile;
- `open`: with this many messages leased, the broker's memory (without file pages) before and after; how long it takes to
  answer again after `kill -9`, and its memory then.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
from typing import Any, Final

import numpy as np

from ..client.admin import Admin
from ..client.producer import Producer
from ..model.clock import monotonic_ms, monotonic_ns, sleep_ms
from ..model.errors import SystemFault, ZenitError
from ..model.message import Message
from ..remoting.client import RemotingClient
from ..remoting.commands import GetBrokerStatistics, GetLeases, PopMessages, PopReply
from .environment import environment
from .own_cluster import LogFiles, OwnCluster, store_settings
from .percentiles import latency_us

QUEUES: Final = 8
BODY: Final = bytes(128)
SENT_AT_ONCE: Final = 512
IN_FLIGHT: Final = 64
OPEN_MS: Final = 12 * 3_600_000
TIMEOUT_MS: Final = 60_000
PROBE_MS: Final = 5
POLL_MS: Final = 250
POPS_PER_MS_MIN: Final = 2  # slower ones would not be done before the first lease ends
SNAPSHOT_MS: Final = 8_000  # the broker writes one each 5 s
TOPICS: Final = ("bench-open", "bench-ending", "bench-others")


class Popping:
    """Pops `count` messages, `batch` at a time and several pops at a time. One thread waits; replies come in another."""

    def __init__(self, client: RemotingClient, address: str, topic: str, batch: int) -> None:
        self._client, self._address = client, address
        self._topic, self._batch = topic, batch
        self._free = threading.Semaphore(IN_FLIGHT)
        self._lock = threading.Lock()
        self._popped = 0
        self._failed: ZenitError | None = None

    def run(self, count: int, until_ms: int) -> None:
        """All leases end at `until_ms` (monotonic). Raises SystemFault."""
        while self._popped < count:
            before = self._popped
            for _ in range(-(-(count - before) // self._batch)):
                self._acquire()
                request = PopMessages("bench", self._topic, self._batch, max(1000, until_ms - monotonic_ms()))
                self._client.send_nowait(self._address, request, None, timeout_ms=TIMEOUT_MS, on_reply=self._on_reply)
            for _ in range(IN_FLIGHT):
                self._acquire()
            for _ in range(IN_FLIGHT):
                self._free.release()
            if self._failed is not None or self._popped == before:
                raise SystemFault(f"bench leases: {self._popped} of {count} messages are popped: {self._failed}")

    def _acquire(self) -> None:
        if not self._free.acquire(timeout=TIMEOUT_MS / 1000):
            raise SystemFault("bench leases: pops are not answered")

    def _on_reply(self, reply: PopReply | None, _body: bytes, error: ZenitError | None) -> None:
        with self._lock:
            if reply is not None:
                self._popped += sum(part[1] for part in reply.parts)
            else:
                self._failed = error
        self._free.release()


class LeaseBench:
    """One run against one broker. One thread."""

    def __init__(self, cluster: OwnCluster, batch: int) -> None:
        self._cluster = cluster
        self._batch = batch
        self._client = RemotingClient()
        self._producer = Producer("bench", namesrv=cluster.namesrv, timeout=60)
        with Admin(cluster.namesrv) as admin:
            for topic in TOPICS:
                admin.create_topic(topic, queues=QUEUES)

    def close(self) -> None:
        """Releases the cluster."""
        self._producer.close()
        self._client.close()

    def open(self, count: int) -> dict[str, Any]:
        """What so many leases cost."""
        self._send(TOPICS[0], count)
        before = self._statistics()["memory_bytes"]
        seconds = self._pop(TOPICS[0], count, monotonic_ms() + OPEN_MS)
        sleep_ms(SNAPSHOT_MS)
        opened, leased = self._statistics()["memory_bytes"], self._sum(TOPICS[0], "leased")
        self._cluster.kill_broker()
        begun_ns = monotonic_ns()
        start_broker(self._cluster)
        restart_ns, restarted = monotonic_ns() - begun_ns, self._statistics()
        kept = self._sum(TOPICS[0], "leased")
        if kept != leased:
            raise SystemFault(f"bench leases: {leased} messages were leased, {kept} are after the restart")
        return {
            "leased": leased,
            "popped_per_second": round(count / seconds),
            "memory_bytes_before": before,
            "memory_bytes": opened,
            "restart_seconds": round(restart_ns / 1e9, 2),
            "restart_cpu_seconds": round(restarted["cpu_seconds"], 2),
            "memory_bytes_after_restart": restarted["memory_bytes"],
        }

    def ending(self, count: int) -> dict[str, Any]:
        """How so many leases end."""
        self._send(TOPICS[1], count)
        until_ms = monotonic_ms() + 5000 + count // POPS_PER_MS_MIN
        self._pop(TOPICS[1], count, until_ms)
        early_ms = until_ms - monotonic_ms()
        if early_ms < 0:
            raise SystemFault(f"bench leases: the first lease was over {-early_ms} ms before the last pop")
        quiet = self._others(until_ms)
        deadline_ms = until_ms + TIMEOUT_MS
        busy = [self._others(monotonic_ms() + POLL_MS)]
        while self._sum(TOPICS[1], "leased"):
            if monotonic_ms() > deadline_ms:
                raise SystemFault("bench leases: leases do not end")
            busy.append(self._others(monotonic_ms() + POLL_MS))
        ended_ms = monotonic_ms()
        with Admin(self._cluster.namesrv) as admin:
            admin.delete_topic(TOPICS[1])  # what is to be handed out again counts as open
        return {
            "leases": count,
            "all_ended_ms": ended_ms - until_ms,
            "other_sends_before_ms": _percentiles_ms(quiet),
            "other_sends_meanwhile_ms": _percentiles_ms([one for some in busy for one in some]),
        }

    def _send(self, topic: str, count: int) -> None:
        for begin in range(0, count, SENT_AT_ONCE):
            self._producer.send_batch([Message(topic, BODY)] * min(SENT_AT_ONCE, count - begin))

    def _pop(self, topic: str, count: int, until_ms: int) -> float:
        """Returns how many seconds it took."""
        begun_ns = monotonic_ns()
        Popping(self._client, self._cluster.address, topic, self._batch).run(count, until_ms)
        return (monotonic_ns() - begun_ns) / 1e9

    def _others(self, until_ms: int) -> list[int]:
        """The latencies of single sends, one each 5 ms."""
        found = []
        message = Message(TOPICS[2], BODY)
        while monotonic_ms() < until_ms:
            begun_ns = monotonic_ns()
            self._producer.send(message)
            found.append(monotonic_ns() - begun_ns)
            sleep_ms(PROBE_MS)
        return found

    def _sum(self, topic: str, name: str) -> int:
        document = self._ask(GetLeases("bench"))
        return sum(int(queue[name]) for queue in document["queues"] if queue["topic"] == topic)

    def _statistics(self) -> dict[str, Any]:
        return self._ask(GetBrokerStatistics())

    def _ask(self, request: GetLeases | GetBrokerStatistics) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(
            self._client.call(self._cluster.address, request, timeout_ms=TIMEOUT_MS)[1]
        )
        return document


def _percentiles_ms(values_ns: list[int]) -> dict[str, float]:
    found = latency_us(np.array(values_ns, dtype=np.int64)) or {}
    return {name: round(value / 1000, 2) for name, value in found.items()}


def start_broker(cluster: OwnCluster) -> None:
    """Starts it, or starts it again."""
    cluster.start_broker(store_settings(LogFiles(), flush="async", index=True, pages="fresh"))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m zenitmq.bench.leases", description=__doc__.partition("\n")[0])
    parser.add_argument("--leases", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--batch", type=int, default=32, metavar="N", help="messages of one pop, 1 to 32")
    parser.add_argument("--ending", type=int, default=100_000, metavar="N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zenit-bench-") as directory, OwnCluster(directory, LogFiles()) as cluster:
        start_broker(cluster)
        bench = LeaseBench(cluster, options.batch)
        document: dict[str, Any] = {"environment": environment(directory), "batch": options.batch}
        if options.ending:
            document["ending"] = bench.ending(options.ending)
        if options.leases:
            document["open"] = bench.open(options.leases)
        bench.close()
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
