"""The bench of queries by key, small, on an engine: its answers are right, and all of its figures are there."""

from __future__ import annotations

from zenitmq import Admin, Producer
from zenitmq.bench import keys
from zenitmq.testing import MemoryCluster


def test_queries_by_key_are_measured() -> None:
    with (
        MemoryCluster() as cluster,
        Admin(cluster.namesrv) as admin,
        Producer(namesrv=cluster.namesrv) as producer,
    ):
        for topic in (keys.TOPIC, keys.OTHER_TOPIC):
            admin.create_topic(topic, queues=2)
        keys.send(producer, 300)
        latency_ms = keys.measure(admin, 300, 20)
        assert latency_ms.keys() == {"one", "none", "page", "deep_page"}
        assert all(0 < found["p50"] <= found["max"] for found in latency_ms.values())
        text = keys.search_text(admin, producer, 0.05)
        assert text["text_messages_per_second"] > 0
