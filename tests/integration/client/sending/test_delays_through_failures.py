"""Delayed messages whose broker is killed while they come due: each is delivered once."""

from __future__ import annotations

import time
from collections import Counter
from datetime import timedelta

import pytest

from zenitmq import FIRST, Message, Producer, PullConsumer
from zenitmq.model.clock import monotonic_ms
from zenitmq.model.errors import ZenitError
from zenitmq.testing import LocalCluster

COUNT = 400


def deliveries(namesrv: str, topic: str, count: int) -> Counter[str]:
    """How often each message came, once `count` have, and two seconds longer."""
    found: Counter[str] = Counter()
    deadline_ms = monotonic_ms() + 60_000
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as consumer:
        consumer.subscribe(topic)
        while monotonic_ms() < deadline_ms:
            try:
                found.update(message.message_id for message in consumer.poll(timeout=0.5))
            except ZenitError:  # there is no master yet
                time.sleep(0.2)
            if len(found) >= count:
                deadline_ms = min(deadline_ms, monotonic_ms() + 2000)
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("shape", ["one_broker", "three_replicas"])
def test_a_broker_that_is_killed_while_messages_come_due(shape: str, request: pytest.FixtureRequest) -> None:
    cluster: LocalCluster = request.getfixturevalue(shape)
    topic = cluster.create_topic("later", queues=2)
    with Producer(namesrv=cluster.namesrv) as producer:
        futures = [
            producer.send_async(Message(topic, b"%d" % n, delay=timedelta(milliseconds=4000 + 10 * n)))
            for n in range(COUNT)
        ]
        sent = Counter(future.result(30).message_id for future in futures)
        time.sleep(6)  # they come due for four seconds from four seconds on
        cluster.kill(cluster.master)
        if shape == "one_broker":
            cluster.restart()
        assert deliveries(cluster.namesrv, topic, COUNT) == sent
