"""Measures delayed messages: `python -m zenitmq.bench.delays [--pending N] [--rate N] [--seconds S] [--burst N]`.

Starts a name server and a broker, each in a process. Prints JSON:

- `pending`: with this many messages waiting for years, the broker's memory (without file pages) before and after;
- `rate`: this many a second, each delayed by 2 s; how late they reach their queue (store time minus requested time);
- `burst`: this many due within one second; how long until all are delivered, and the latency of other sends meanwhile.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import numpy as np

from ..client.admin import Admin
from ..client.consuming.start_from import FIRST
from ..client.producer import Producer
from ..client.pull_consumer import PullConsumer
from ..model.clock import datetime_of_ms, monotonic_ms, monotonic_ns, now_ms, sleep_ms
from ..model.message import Message
from ..model.properties import TIMER_OUT_MS
from ..remoting.client import RemotingClient
from ..remoting.commands import GetBrokerStatistics
from .environment import environment
from .own_cluster import LogFiles, OwnCluster, store_settings
from .percentiles import Nanoseconds, latency_us

BATCH: Final = 500
BODY: Final = bytes(128)
PROBE_MS: Final = 5
TOPICS: Final = ("bench-pending", "bench-rate", "bench-burst", "bench-others")


class DelayBench:
    """One run against one broker. One thread."""

    def __init__(self, cluster: OwnCluster) -> None:
        self._cluster = cluster
        self._client = RemotingClient()
        self._producer = Producer("bench", namesrv=cluster.namesrv, timeout=60)
        with Admin(cluster.namesrv) as admin:
            for topic in TOPICS:
                admin.create_topic(topic, queues=4)

    def close(self) -> None:
        """Releases the cluster."""
        self._producer.close()
        self._client.close()

    def _statistics(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(
            self._client.call(self._cluster.address, GetBrokerStatistics(), timeout_ms=30_000)[1]
        )
        return document

    def pending(self, count: int) -> dict[str, Any]:
        """The cost of this many waiting messages."""
        before = self._statistics()["memory_bytes"]
        began_ms = monotonic_ms()
        message = Message(TOPICS[0], BODY, delay=timedelta(days=3000))
        for _ in range(count // BATCH):
            self._producer.send_batch([message] * BATCH)
        seconds = (monotonic_ms() - began_ms) / 1000
        sleep_ms(5000)
        after = self._statistics()
        return {
            "waiting": after["delays"]["waiting"],
            "memory_bytes_before": before,
            "memory_bytes": after["memory_bytes"],
            "sent_per_second": round(count / seconds),
        }

    def rate(self, per_second: int, seconds: int) -> dict[str, Any]:
        """How late messages arrive that are sent and due at a steady rate."""
        delay = timedelta(seconds=2)
        cpu = self._statistics()["cpu_seconds"]
        began_ms = monotonic_ms()
        count = per_second * seconds
        for n in range(count):
            if n % 50 == 0:
                early_ms = began_ms + n * 1000 / per_second - monotonic_ms()
                if early_ms > 0:
                    sleep_ms(early_ms)
            self._producer.send_async(Message(TOPICS[1], BODY, delay=delay))
        self._producer.flush()
        sent_seconds = (monotonic_ms() - began_ms) / 1000
        late = np.array([stored - due for stored, due in self._arrived(TOPICS[1], count)], dtype=np.int64)
        return {
            "messages": len(late),
            "sent_per_second": round(count / sent_seconds),
            "broker_cpu_us_per_message": self._cpu_us(cpu, count),
            "late_ms": _percentiles_ms(late * 1_000_000),
        }

    def burst(self, count: int) -> dict[str, Any]:
        """How long the delivery of messages that are due in one second takes."""
        begin_ms = now_ms() + max(20_000, count // 2)
        step = 1000 / count
        for first in range(0, count, BATCH):
            self._producer.send_batch(
                [
                    Message(TOPICS[2], BODY, deliver_at=datetime_of_ms(begin_ms + int((first + n) * step)))
                    for n in range(min(BATCH, count - first))
                ]
            )
        left_ms = begin_ms - now_ms()
        quiet = self._others(max(1000, left_ms))
        cpu = self._statistics()["cpu_seconds"]
        busy = self._others(6000)
        while self._statistics()["delays"]["waiting"]:
            sleep_ms(100)
        used = self._cpu_us(cpu, count)
        arrived = list(self._arrived(TOPICS[2], count))
        return {
            "messages": len(arrived),
            "waited_ms_before": left_ms,
            "broker_cpu_us_per_message": used,
            "drained_ms": max(stored for stored, _ in arrived) - begin_ms,
            "other_sends_before_ms": _percentiles_ms(quiet),
            "other_sends_meanwhile_ms": _percentiles_ms(busy),
        }

    def _cpu_us(self, before: float, count: int) -> float:
        used: float = self._statistics()["cpu_seconds"] - before
        return round(used * 1e6 / count, 1)

    def _others(self, duration_ms: int) -> Nanoseconds:
        """The latencies of single sends, one each 5 ms."""
        found: list[int] = []
        message = Message(TOPICS[3], BODY)
        deadline_ms = monotonic_ms() + duration_ms
        while monotonic_ms() < deadline_ms:
            begun = monotonic_ns()
            self._producer.send(message)
            found.append(monotonic_ns() - begun)
            sleep_ms(PROBE_MS)
        return np.array(found, dtype=np.int64)

    def _arrived(self, topic: str, count: int) -> Iterator[tuple[int, int]]:
        """(store time, requested time) of each message, ms."""
        found = 0
        deadline_ms = monotonic_ms() + 120_000
        with PullConsumer(f"bench-{topic}", namesrv=self._cluster.namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(topic)
            while found < count and monotonic_ms() < deadline_ms:
                for message in consumer.poll(4096, timeout=0.5):
                    found += 1
                    yield message.stored_at_ms, int(message.properties[TIMER_OUT_MS])


def _percentiles_ms(values_ns: Nanoseconds) -> dict[str, float]:
    return {name: round(value / 1000, 2) for name, value in (latency_us(values_ns) or {}).items()}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m zenitmq.bench.delays", description=__doc__.partition("\n")[0])
    parser.add_argument("--pending", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--rate", type=int, default=5000, metavar="N")
    parser.add_argument("--seconds", type=int, default=20, metavar="S")
    parser.add_argument("--burst", type=int, default=100_000, metavar="N")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zenit-bench-") as directory, OwnCluster(directory, LogFiles()) as cluster:
        cluster.start_broker(store_settings(LogFiles(), flush="async", index=True, pages="fresh"))
        bench = DelayBench(cluster)
        document: dict[str, Any] = {"environment": environment(directory)}
        if options.rate:
            document["rate"] = bench.rate(options.rate, options.seconds)
        if options.burst:
            document["burst"] = bench.burst(options.burst)
        if options.pending:
            document["pending"] = bench.pending(options.pending)
        bench.close()
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
