"""Messages that were taken back come again exactly once though the master is killed meanwhile, and so do dead letters."""

from __future__ import annotations

from typing import Any

import pytest
from client_kit import remoting_of

from zenitmq import Admin, Message, Producer
from zenitmq.model.clock import monotonic_ms, now_ms, sleep_ms
from zenitmq.model.errors import NotEnoughReplicas, ReplicaTimeout, RequestTimeout, ZenitError
from zenitmq.record.kernel import decode_batch
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import PullMessages, PullReply, Request, SendBack
from zenitmq.testing import LocalCluster

COUNT = 40
WAIT_MS = 6000
SETTINGS = {
    "retryMaxTimes": "1",
    "groupRetryPolicy": f'{{"type": "CUSTOMIZED", "customizedRetryPolicy": {{"next": [{WAIT_MS}]}}}}',
}


class Hand:
    """A consumer by hand: asks the master of a topic, whoever that is by now."""

    def __init__(self, cluster: LocalCluster, client: RemotingClient, admin: Admin) -> None:
        self.cluster, self.client, self.admin = cluster, client, admin

    def ask(self, topic: str, request: Request) -> tuple[Any, bytes]:
        deadline_ms = monotonic_ms() + 60_000
        while True:
            try:
                address = self.admin.route(topic).brokers[0].master_address
                if address is not None:
                    return self.client.call(address, request, timeout_ms=5000)
            except ZenitError:
                if monotonic_ms() > deadline_ms:
                    raise
            sleep_ms(100)

    def read(self, topic: str, count: int) -> list[Any]:
        """The first `count` messages of queue 0, as soon as they are there, and what came after them by then."""
        deadline_ms = monotonic_ms() + 60_000
        while monotonic_ms() < deadline_ms:
            reply, payload = self.ask(topic, PullMessages("g", topic, 0, 0, 1000, 1 << 20, 1000))
            assert isinstance(reply, PullReply)
            if reply.count >= count:
                return list(decode_batch(payload))  # type: ignore[call-overload]
            sleep_ms(50)
        raise AssertionError(f"fewer than {count} messages in {topic}")

    def is_refused_in_the_end(self, request: SendBack) -> bool:
        """Whether the master says that too few replicas have what is sent back, once it knows that they are too few."""
        address = self.admin.route(request.topic).brokers[0].master_address
        assert address is not None
        for _ in range(30):
            try:
                self.client.call(address, request, timeout_ms=5000)
            except NotEnoughReplicas:
                return True
            except (ReplicaTimeout, RequestTimeout):
                pass  # it still counts on them
            sleep_ms(500)
        return False

    def send_back(self, messages: list[Any]) -> None:
        for message in messages:
            self.ask(message.topic, SendBack("g", message.topic, message.physical_offset, reason="why"))


def is_slave(cluster: LocalCluster, name: str) -> bool:
    return any(replica["name"] == name and replica["role"] == "slave" for replica in cluster.group()["replicas"])


def ids(messages: list[Any]) -> list[str]:
    return sorted(message.message_id for message in messages)


@pytest.mark.timeout(240)
def test_retries_and_dead_letters_outlive_their_master() -> None:
    with LocalCluster(replicas=3) as cluster, remoting_of(cluster.namesrv) as client, Admin(cluster.namesrv) as admin:
        cluster.create_topic("trades", queues=1)
        admin.create_group("g", SETTINGS)
        hand = Hand(cluster, client, admin)
        with Producer(namesrv=cluster.namesrv) as producer:
            producer.send_batch([Message("trades", b"%d" % number) for number in range(COUNT)])
        sent = hand.read("trades", COUNT)
        due_ms = now_ms() + WAIT_MS
        hand.send_back(sent)

        cluster.kill(cluster.master)
        again = hand.read("%RETRY%g", COUNT)
        assert min(message.stored_at_ms for message in again) >= due_ms
        assert {message.reconsume_times for message in again} == {1}
        sleep_ms(1000)
        again = hand.read("%RETRY%g", COUNT)
        assert ids(again) == ids(sent)

        cluster.restart()
        hand.send_back(again)
        cluster.kill(cluster.master)
        letters = hand.read("%DLQ%g", COUNT)
        assert ids(letters) == ids(sent)
        assert {message.properties["DLQ_REASON"] for message in letters} == {"why"}
        hand.ask("trades", PullMessages("g", "trades", 0, 0, 1, 1))
        assert admin.redrive_dead_letters("g", timeout=30)["redriven"] == COUNT
        assert ids(hand.read("trades", 2 * COUNT)[COUNT:]) == ids(sent)

        (slave,) = [name for name in cluster.brokers if is_slave(cluster, name)]
        cluster.kill(slave)
        assert hand.is_refused_in_the_end(SendBack("g", "trades", sent[0].physical_offset))
