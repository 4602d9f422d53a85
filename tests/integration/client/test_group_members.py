"""The members of a group as an operator sees them, and topics that only some of them want. Real name server and broker."""

from __future__ import annotations

import os
import socket

from zenitmq import FIRST, Admin, MessageQueue, Producer, PullConsumer, by_configuration, consistent_hash

TOPIC, OTHER = "trades", "orders"


def settle(admin: Admin, *consumers: PullConsumer) -> list[str | None]:
    """Polls until the members' queues are all there are, each once; returns whose they are by `describe_group`."""
    for _ in range(100):
        held: list[MessageQueue] = []
        for consumer in consumers:
            consumer.poll(timeout=0.05)
            held += consumer.assignment()
        if sorted(held) == sorted(queue for topic in {queue.topic for queue in held} for queue in admin.queues(topic)):
            break
    return [row["owner"] for row in admin.describe_group("g")["queues"]]


def test_members_are_told_of_with_their_process_and_how_they_share(
    admin: Admin, producer: Producer, namesrv: str
) -> None:
    with (
        PullConsumer("g", namesrv=namesrv, start_from=FIRST) as first,
        PullConsumer("g", namesrv=namesrv, start_from=FIRST) as second,
    ):
        for consumer in (first, second):
            consumer.subscribe(TOPIC)
        owners = settle(admin, first, second)
        clients = admin.group_clients("g")["clients"]
        assert {(client["host"], client["pid"]) for client in clients} == {(socket.gethostname(), os.getpid())}
        assert {client["allocation"] for client in clients} == {"averaging"}
        assert [client["client_id"] for client in clients] == sorted({owner for owner in owners if owner})
        assert None not in owners


def test_owners_are_unknown_where_members_share_by_a_rule_of_their_own(
    admin: Admin, producer: Producer, namesrv: str
) -> None:
    queues = admin.queues(TOPIC)
    with PullConsumer("g", namesrv=namesrv, allocation=by_configuration(queues)) as consumer:
        consumer.subscribe(TOPIC)
        assert set(settle(admin, consumer)) == {None}
    with PullConsumer("g", namesrv=namesrv, allocation="consistent_hash") as consumer:
        consumer.subscribe(TOPIC)
        assert None not in settle(admin, consumer)
    with PullConsumer("g", namesrv=namesrv, allocation=consistent_hash(100)) as consumer:
        consumer.subscribe(TOPIC)
        assert consumer.assignment() == queues


def test_a_topic_that_some_members_want_is_theirs_alone(admin: Admin, producer: Producer, namesrv: str) -> None:
    """No queue of it goes to a member that does not read it, where nobody would."""
    admin.create_topic(OTHER, queues=3)
    producer.send_bodies(OTHER, [b"x"] * 3)
    with (
        PullConsumer("g", namesrv=namesrv, start_from=FIRST) as trades,
        PullConsumer("g", namesrv=namesrv, start_from=FIRST) as orders,
    ):
        trades.subscribe(TOPIC)
        orders.subscribe(OTHER)
        settle(admin, trades, orders)
        assert trades.assignment() == admin.queues(TOPIC)
        assert orders.assignment() == admin.queues(OTHER)
