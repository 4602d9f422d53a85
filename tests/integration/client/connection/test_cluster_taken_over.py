"""Another cluster takes a broker's address: its names are the same, and no client of the first one takes it for its own."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.client.real_broker import RealBroker

from zenitmq import Admin, Message, Producer, PullConsumer
from zenitmq.model.errors import ConnectionLost, WrongCluster, ZenitError
from zenitmq.namesrv.config import NameServerConfig
from zenitmq.namesrv.service import NameServer

TOPIC = "mix"
GROUP = "readers"


@pytest.fixture
def other_namesrv() -> Iterator[str]:
    with NameServer(NameServerConfig(host="127.0.0.1", port=0, listen_ms=0)) as server:
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield server.address
        finally:
            server.stop()
            thread.join(5)


def die(broker: RealBroker) -> None:
    """As by kill -9: no name server is told."""
    broker.broker._registration.stop = lambda: None
    broker.stop()


def stored(broker: RealBroker) -> int:
    return int(broker.broker._store.written)


@pytest.mark.parametrize("has_topic", [True, False])
def test_a_broker_of_another_cluster_at_the_old_address_is_nobodys(
    namesrv: str, other_namesrv: str, tmp_path: Path, has_topic: bool
) -> None:
    """Nothing is acknowledged, delivered or committed there, nor is the topic said not to exist. Our broker comes back at
    another port, and all go on."""
    ours = [RealBroker(namesrv, tmp_path / "a")]
    try:
        with Admin(namesrv) as admin:
            admin.create_topic(TOPIC, queues=1)
        with (
            Producer("p", namesrv=namesrv, timeout=1) as producer,
            PullConsumer(GROUP, namesrv=namesrv, auto_commit=False) as consumer,
        ):
            consumer.subscribe(TOPIC)
            assert consumer.assignment()
            producer.send(Message(TOPIC, b"a-1"))
            read = [message.body for message in consumer.poll(timeout=10)]
            die(ours[0])
            other = RealBroker(other_namesrv, tmp_path / "b", port=int(ours[0].address.rpartition(":")[2]))
            ours.append(other)
            assert other.address == ours[0].address
            if has_topic:
                with Admin(other_namesrv) as admin:
                    admin.create_topic(TOPIC, queues=1)
            before = stored(other)
            with pytest.raises(WrongCluster) as refused:
                producer.send(Message(TOPIC, b"a-2"))
            assert refused.value.cluster_id == other.broker._identity.cluster_id
            assert refused.value.asked_id == ours[0].broker._identity.cluster_id
            read += [message.body for message in consumer.poll(timeout=1)]
            with pytest.raises(ZenitError):
                consumer.commit(timeout=1)
            assert stored(other) == before
            ours.append(RealBroker(namesrv, tmp_path / "a"))
            assert ours[2].address != other.address
            producer.send(Message(TOPIC, b"a-3"), timeout=10)
            for _ in range(20):
                read += [message.body for message in consumer.poll(timeout=1)]
                if len(read) > 1:
                    break
            assert read == [b"a-1", b"a-3"]
            consumer.commit()
            assert stored(other) == before
    finally:
        for broker in ours:
            broker.stop()


def refusal(producer: Producer, topic: str) -> WrongCluster:
    """How a send ends once the name server has forgotten the old broker, which on a busy machine it is not told of."""
    for _ in range(6):
        with contextlib.suppress(ConnectionLost):
            try:
                producer.send(Message(topic, b"a-2"))
            except WrongCluster as refused:
                return refused
    raise AssertionError("the old broker is still known")


def test_a_client_goes_on_refusing_who_took_its_name_server_over(namesrv: str, tmp_path: Path) -> None:
    """Its own cluster has gone, and another one has registered with the name server that it asks."""
    brokers = [RealBroker(namesrv, tmp_path / "a")]
    try:
        with Admin(namesrv) as admin:
            admin.create_topic(TOPIC, queues=1)
        with Producer("p", namesrv=namesrv, timeout=10) as producer:
            producer.send(Message(TOPIC, b"a-1"))
            brokers[0].stop()
            brokers.append(RealBroker(namesrv, tmp_path / "b", cluster_id="another"))
            for topic in (TOPIC, "unknown-here"):
                refused = refusal(producer, topic)
                assert refused.cluster_id == brokers[1].broker._identity.cluster_id
                assert refused.asked_id == brokers[0].broker._identity.cluster_id
        with Admin(namesrv) as admin, Producer("p", namesrv=namesrv) as producer:  # new ones, once all had been closed
            admin.create_topic(TOPIC, queues=1)
            producer.send(Message(TOPIC, b"b-1"))
    finally:
        for broker in brokers:
            broker.stop()


def test_who_begins_where_no_broker_is_known_yet_works_with_whichever_comes(tmp_path: Path) -> None:
    """A client of the cluster before lives on in this process: its memory is not that of one that begins."""

    def serve(port: int) -> tuple[NameServer, threading.Thread]:
        server = NameServer(NameServerConfig(host="127.0.0.1", port=port, listen_ms=0))
        server.__enter__()
        thread = threading.Thread(target=server.run)
        thread.start()
        return server, thread

    def end(server: NameServer, thread: threading.Thread) -> None:
        server.stop()
        thread.join(5)
        server.__exit__(None, None, None)

    served = serve(0)
    address = served[0].address
    before = RealBroker(address, tmp_path / "a")
    with Admin(address) as living:
        living.create_topic(TOPIC, queues=1)
        before.stop()
        end(*served)
        served = serve(int(address.rpartition(":")[2]))
        try:
            with Admin(address) as fresh:
                after = RealBroker(address, tmp_path / "b")
                try:
                    fresh.create_topic(TOPIC, queues=1)
                    with pytest.raises(WrongCluster):
                        living.create_topic(TOPIC, queues=1)
                finally:
                    after.stop()
        finally:
            end(*served)
