"""Measures lite topics written and read: `python -m zenitmq.bench.scale.lite_topics`.

A broker in a process of its own; the producer and the consumer are this process. First all messages are sent, each to a
lite topic in turn, by `send_async`; then one LiteConsumer that subscribes to all of them receives and acknowledges them.
CPU times are per message: of the broker, and of this process.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from typing import Any, Final

from ...client.admin import Admin
from ...client.lite_consumer import LiteConsumer
from ...client.producer import Producer
from ...model.clock import monotonic_ns, process_cpu_ns
from ...model.errors import SystemFault
from ...model.message import Message
from ...model.topics.lite_settings import CLIENT_QUOTA
from ..environment import environment
from ..own_cluster import LogFiles, OwnCluster, store_settings

PARENT: Final = "lite-bench"
GROUP: Final = "lite-bench"
FLUSH_S: Final = 600.0
RECEIVE_MAX: Final = 4096
SUBSCRIBE_AT_ONCE: Final = 4096
IDLE_S: Final = 20.0


class _Clock:
    """What has been used since it began."""

    def __init__(self, cluster: OwnCluster) -> None:
        self._cluster = cluster
        self._begin = self._now()

    def _now(self) -> tuple[float, float, float]:
        return monotonic_ns() / 1e9, process_cpu_ns() / 1e9, float(self._cluster.usage()["cpu_seconds"])

    def figures(self, count: int) -> dict[str, float]:
        seconds, own, broker = (end - begin for begin, end in zip(self._begin, self._now(), strict=True))
        return {
            "seconds": round(seconds, 3),
            "messages_per_second": round(count / seconds),
            "client_cpu_us_per_message": round(own / count * 1e6, 2),
            "broker_cpu_us_per_message": round(broker / count * 1e6, 2),
        }


def main() -> None:
    """Prints one JSON document."""
    parser = argparse.ArgumentParser(prog="python -m zenitmq.bench.scale.lite_topics", description=__doc__)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of a body")
    parser.add_argument("--engine", choices=("file", "rocksdb"), default="rocksdb")
    options = parser.parse_args()
    files = LogFiles()
    with tempfile.TemporaryDirectory() as directory, OwnCluster(directory, files) as cluster:
        cluster.start_broker(store_settings(files, flush="async", index=True, pages="fresh", engine=options.engine))
        document = {
            "topics": options.topics,
            "messages": options.messages,
            "engine": options.engine,
            **_measure(cluster, options.topics, options.messages, b"x" * options.size),
            "environment": environment("."),
        }
    print(json.dumps(document, indent=1))


def _measure(cluster: OwnCluster, topics: int, messages: int, body: bytes) -> dict[str, Any]:
    names = [f"session-{number}" for number in range(topics)]
    with Admin(cluster.namesrv) as admin:
        admin.create_topic(PARENT, attributes={"message.type": "LITE"})
        admin.create_group(GROUP, {CLIENT_QUOTA: str(topics)})
    written = _write(cluster, names, messages, body)
    with LiteConsumer(GROUP, namesrv=cluster.namesrv, invisible=600.0) as consumer:
        clock = _Clock(cluster)
        for begin in range(0, topics, SUBSCRIBE_AT_ONCE):
            consumer.subscribe(PARENT, names[begin : begin + SUBSCRIBE_AT_ONCE])
        subscribed = clock.figures(topics)
        read = _read(cluster, consumer, messages)
    memory = cluster.usage()["memory_bytes"]
    return {"written": written, "subscribed": subscribed, "read": read, "broker_memory_bytes": memory}


def _write(cluster: OwnCluster, names: list[str], messages: int, body: bytes) -> dict[str, float]:
    with Producer(namesrv=cluster.namesrv) as producer:
        clock = _Clock(cluster)
        for number in range(messages):
            producer.send_async(Message(PARENT, body, lite_topic=names[number % len(names)]))
        producer.flush(FLUSH_S)
        return clock.figures(messages)


def _read(cluster: OwnCluster, consumer: LiteConsumer, messages: int) -> dict[str, float]:
    clock, count, receives = _Clock(cluster), 0, 0
    while count < messages:
        found = consumer.receive(RECEIVE_MAX, wait=IDLE_S)
        if not found:
            raise SystemFault(f"bench: {count} of {messages} messages were received")
        consumer.ack_batch(found)
        count += len(found)
        receives += 1
    consumer.close(FLUSH_S)
    acknowledged = consumer.statistics().acknowledged
    if acknowledged != messages:
        raise SystemFault(f"bench: {acknowledged} of {messages} messages were acknowledged")
    return {**clock.figures(messages), "messages_per_receive": round(messages / receives, 1)}


if __name__ == "__main__":
    main()
