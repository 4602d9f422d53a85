"""A group of three keeps the newest message of each key through a loss of its log's begin and a change of master."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zenitmq import Admin, Message, MessageQueue, Producer, PullConsumer
from zenitmq.testing import LocalCluster

from .test_drill_runs import needs_zookeeper
from .test_forced_past_retention import GROUP, SETTINGS, await_that, put, started_what_is_down, store_begin, zenit

KEYS = 30


def send(cluster: LocalCluster, values: dict[str, bytes]) -> None:
    with Producer(namesrv=cluster.namesrv) as producer:
        for key, body in values.items():
            producer.send(Message("state", body, keys=[key]))


def present(cluster: LocalCluster) -> dict[str, bytes]:
    """What a new consumer from the first offset on has at the end."""
    state: dict[str, bytes] = {}
    with Admin(cluster.namesrv) as admin, PullConsumer("reader", namesrv=cluster.namesrv) as consumer:
        (queue,) = admin.queues("state")
        assert isinstance(queue, MessageQueue)
        end = admin.max_offset(queue)
        consumer.assign([queue])
        consumer.seek(queue, 0)
        reached = 0
        while reached < end:
            for message in consumer.poll(max_messages=100, timeout=5.0):
                state[message.keys[0]] = message.body
                reached = message.queue_offset + 1
    return {key: body for key, body in state.items() if body}


def in_sync(cluster: LocalCluster) -> Callable[[], Any]:
    return lambda: len(cluster.group()["in_sync"]) == 3


@needs_zookeeper
@pytest.mark.timeout(300)
def test_a_replica_that_began_anew_leads_with_the_newest_of_each_key() -> None:
    settings = (*SETTINGS, "store.compaction_interval_ms=1000", "store.compaction_tombstone_ms=600000")
    with LocalCluster(replicas=3, settings=settings) as cluster:
        with Admin(cluster.namesrv) as admin:
            admin.create_topic("state", queues=1, attributes={"cleanup.policy": "COMPACTION"})
        cluster.create_topic("other", queues=1)
        values = {f"k{n}": b"1" for n in range(KEYS)}
        send(cluster, values)
        behind = next(name for name in cluster.brokers if name != cluster.master)
        others = [name for name in cluster.brokers if name != behind]
        cluster.kill(behind)
        newer = {f"k{n}": b"2" for n in range(0, KEYS, 2)} | {"k1": b""}
        send(cluster, newer)
        put(cluster, "other", range(60))
        await_that(lambda: all(store_begin(cluster, name) > 65536 for name in others), cluster)
        values |= newer
        wanted = {key: body for key, body in values.items() if body}
        assert present(cluster) == wanted
        started_what_is_down(cluster)
        await_that(in_sync(cluster), cluster)
        assert store_begin(cluster, behind) > 0
        zenit(cluster, "elect", GROUP, "--replica", behind)
        await_that(lambda: cluster.group()["master"] == behind, cluster)
        for name in others:
            cluster.kill(name)
        zenit(cluster, "settings", GROUP, "--min-in-sync", "1")
        assert present(cluster) == wanted
