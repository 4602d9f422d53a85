"""`zenit up --no-controller`: a group of three whose first replica is the master, always."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from zenitmq import Message, Producer, ZenitError
from zenitmq.deploy.cluster_record import CONTROLLER, ZOOKEEPER, Shape
from zenitmq.deploy.local_cluster import ProcessCluster
from zenitmq.model.clock import monotonic_ms, sleep_ms
from zenitmq.model.errors import InvalidParameter, NotEnoughReplicas
from zenitmq.testing import LocalCluster

from .test_local_cluster_for_tests import bodies

pytestmark = pytest.mark.timeout(240)


def await_that(condition: Callable[[], bool], timeout_ms: int = 20_000) -> None:
    deadline_ms = monotonic_ms() + timeout_ms
    while not condition():
        assert monotonic_ms() < deadline_ms, "did not come true in time"
        sleep_ms(50)


def test_a_static_master_takes_writes_while_enough_are_in_sync_and_nobody_takes_its_place() -> None:
    with LocalCluster(replicas=3, controllers=0) as cluster:
        record = ProcessCluster(cluster.directory).existing()
        assert record.of_role(CONTROLLER) == record.of_role(ZOOKEEPER) == ()
        master, second, third = cluster.brokers
        first = cluster.group()
        assert (first["master"], first["epoch"], first["min_in_sync"]) == (master, 1, 2)
        assert "controller" not in ProcessCluster(cluster.directory).status()
        topic = cluster.create_topic("t", queues=1)
        with Producer(namesrv=cluster.namesrv) as producer:

            def send(number: int, timeout: float = 20) -> None:
                producer.send(Message(topic, b"%03d" % number), timeout=timeout)

            for number in range(50):
                send(number)
            cluster.kill(second)
            for number in range(50, 100):
                send(number)
            assert cluster.group()["in_sync"] == [master, third]
            cluster.kill(third)
            await_that(lambda: cluster.group()["in_sync"] == [master])
            with pytest.raises(NotEnoughReplicas):
                send(999, timeout=2)
            cluster.restart()
            send(100)
            cluster.kill(master)
            assert cluster.group()["master"] is None
            with pytest.raises(ZenitError):
                send(999, timeout=2)
            assert [replica["role"] for replica in cluster.group()["replicas"]] == ["down", "slave", "slave"]
            cluster.restart()
            again = cluster.group()
            assert (again["master"], again["epoch"]) == (master, 2)
            send(101)
        assert bodies(cluster.namesrv, topic, 102) == [b"%03d" % number for number in range(102)]
        with pytest.raises(InvalidParameter, match="0 controllers"):
            ProcessCluster(cluster.directory).up(shape=Shape(replicas=3))
