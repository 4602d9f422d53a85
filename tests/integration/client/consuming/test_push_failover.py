"""Push consumers on a replica group whose master is killed: nothing is lost, ordered queues stay in order."""

from __future__ import annotations

import threading

import pytest
from integration.client.consuming.push_kit import Seen, wait_until

from zenitmq import FIRST, Message, Producer, PushConsumer, StoredMessage, ZenitError
from zenitmq.testing import LocalCluster

pytestmark = pytest.mark.timeout(180)


def produce(cluster: LocalCluster, topic: str, count: int, kill_at: int) -> set[bytes]:
    """Sends one by one, each until it is acknowledged; kills the master in between."""
    acknowledged = set()
    with Producer(namesrv=cluster.namesrv) as producer:
        for index in range(count):
            if index == kill_at:
                cluster.kill(cluster.master)
            body = b"%05d" % index
            for _ in range(30):
                try:
                    producer.send(Message(topic, body), sharding_key=f"k{index % 8}", timeout=3.0)
                except ZenitError:
                    threading.Event().wait(0.2)
                else:
                    acknowledged.add(body)
                    break
    return acknowledged


@pytest.mark.parametrize("is_ordered", [False, True], ids=["concurrent", "ordered"])
def test_nothing_is_lost_when_the_master_is_killed(three_replicas: LocalCluster, is_ordered: bool) -> None:
    topic = three_replicas.create_topic(f"push-{is_ordered}", queues=4)
    seen = Seen()
    fails = threading.Event()

    def handler(messages: list[StoredMessage]) -> None:
        seen(messages)
        if not fails.is_set() and messages[0].queue_offset % 50 == 7 and not messages[0].reconsume_times:
            raise ValueError("once")

    settings = {"ordered": is_ordered, "suspend": 0.05, "start_from": FIRST}
    consumers = [PushConsumer(f"g-{is_ordered}", namesrv=three_replicas.namesrv, **settings) for _ in range(2)]
    for consumer in consumers:
        consumer.subscribe(topic)
        consumer.on_message(handler)
    with consumers[0], consumers[1]:
        acknowledged = produce(three_replicas, topic, 600, kill_at=300)
        assert len(acknowledged) == 600
        wait_until(lambda: acknowledged <= set(seen.bodies), seconds=60)
    if is_ordered:
        first_seen: dict[int, int] = {}
        for message in seen.messages:
            highest = first_seen.get(message.queue_id, -1)
            assert message.queue_offset <= highest + 1
            first_seen[message.queue_id] = max(highest, message.queue_offset)
