"""A group whose replicas are known by a name, while what they write into records is an address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from zenitmq import FIRST, Admin, Message, Producer, PullConsumer
from zenitmq.model.ids import parse_offset_message_id
from zenitmq.remoting.client import RemotingClient
from zenitmq.remoting.commands import GetRoute
from zenitmq.testing import LocalCluster
from zenitmq.testing.local_cluster import SMALL_STORE

STAMPED = "127.0.0.1"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    settings = (*SMALL_STORE, "advertised_host=localhost")
    with LocalCluster(replicas=2, settings=settings, secure=False) as running:
        yield running


def test_others_are_told_names_and_records_hold_an_address(cluster: LocalCluster) -> None:
    topic = cluster.create_topic("named")
    with RemotingClient() as remoting:
        route, _ = remoting.call(cluster.namesrv, GetRoute(topic), timeout_ms=5000)
        addresses = [address for _, address in route.brokers[0][2]]
        assert len(addresses) == 2
        assert all(address.startswith("localhost:") for address in addresses)
    with Admin(namesrv=cluster.namesrv) as admin, Producer(namesrv=cluster.namesrv) as producer:
        sent = producer.send(Message(topic, b"one"))
        assert str(parse_offset_message_id(sent.offset_message_id)[0]).partition(":")[0] == STAMPED
        assert admin.view_message(sent.offset_message_id).body == b"one"


def test_a_replica_takes_over_behind_its_name(cluster: LocalCluster) -> None:
    topic = cluster.create_topic("taken-over", queues=1)
    with Admin(namesrv=cluster.namesrv) as admin, Producer(namesrv=cluster.namesrv) as producer:
        first = producer.send(Message(topic, b"one"))
        cluster.kill(cluster.master)
        cluster.restart()
        second = producer.send(Message(topic, b"two"), timeout=30)
        assert [admin.view_message(sent.offset_message_id).body for sent in (first, second)] == [b"one", b"two"]
        with PullConsumer("readers", namesrv=cluster.namesrv, start_from=FIRST) as consumer:
            consumer.subscribe(topic)
            got: list[bytes] = []
            while len(got) < 2:
                batch = consumer.poll(max_messages=2, timeout=20)
                assert batch
                got += [message.body for message in batch]
            assert got == [b"one", b"two"]
