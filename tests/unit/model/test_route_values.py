"""Which queues a route offers for writing and for reading."""

from __future__ import annotations

from zenitmq.model.queue import MessageQueue
from zenitmq.model.route import BrokerData, QueueData, TopicRoute

ROUTE = TopicRoute(
    "orders",
    (QueueData("b", 1, 2, 6), QueueData("a", 2, 1, 6), QueueData("wiped", 1, 1, 4), QueueData("headless", 1, 1, 6)),
    (
        BrokerData("c", "a", {0: "h:1", 1: "h:2"}),
        BrokerData("c", "b", {0: "h:3"}),
        BrokerData("c", "wiped", {0: "h:4"}),
        BrokerData("c", "headless", {1: "h:5"}),
    ),
)


def test_writes_need_permission_and_a_master() -> None:
    assert ROUTE.write_queues() == [
        MessageQueue("orders", "a", 0),
        MessageQueue("orders", "b", 0),
        MessageQueue("orders", "b", 1),
    ]


def test_reads_need_permission_only() -> None:
    assert [str(queue) for queue in ROUTE.read_queues()] == [
        *("orders@a:0", "orders@a:1", "orders@b:0", "orders@headless:0", "orders@wiped:0")
    ]
    assert TopicRoute("t", (QueueData("a", 9, 9, 2),), ROUTE.brokers).read_queues() == []


def test_addresses() -> None:
    assert ROUTE.address_of("a") == "h:1"
    assert ROUTE.address_of("headless") is None
    assert ROUTE.address_of("unknown") is None
