"""The members of a group as an operator sees them, and topics that only some of them want. Real name server and broker."""

from __future__ import annotations

import os
import socket

import pytest
from integration.client.consuming.push_kit import Seen, fill

from zenitmq import (
    FIRST,
    Admin,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    by_configuration,
    consistent_hash,
)
from zenitmq.model.errors import AllocationConflict

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


def test_members_that_share_in_another_way_wait_until_the_others_have_gone(
    admin: Admin, producer: Producer, namesrv: str
) -> None:
    """The queues stay whole: nobody's is also another's, and none is nobody's."""
    sent = fill(producer, TOPIC, 20)
    seen = Seen()
    pushing = PushConsumer("g", namesrv=namesrv, allocation="averaging_by_circle")
    pushing.subscribe(TOPIC)
    pushing.on_message(seen)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit=False) as old:
        old.subscribe(TOPIC)
        old.poll(timeout=5)
        pushing.start()
        with PullConsumer("g", namesrv=namesrv, allocation="averaging_by_circle") as pulling:
            pulling.subscribe(TOPIC)
            with pytest.raises(AllocationConflict, match=r"'averaging' .*'averaging_by_circle'"):
                pulling.poll(timeout=5)
        assert (old.assignment(), pushing.assignment()) == (admin.queues(TOPIC), [])
    with pushing:
        assert set(seen.wait(20)) == sent


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


def test_members_that_pull_and_members_that_push_share_the_queues(
    admin: Admin, producer: Producer, namesrv: str
) -> None:
    seen, pulled = Seen(), list[bytes]()
    pushing = PushConsumer("g", namesrv=namesrv, start_from=FIRST)
    pushing.subscribe(TOPIC)
    pushing.on_message(seen)
    with PullConsumer("g", namesrv=namesrv, start_from=FIRST) as pulling, pushing:
        pulling.subscribe(TOPIC)
        for _ in range(200):
            pulling.poll(timeout=0.05)
            if len(pulling.assignment()) == sum(queue.topic == TOPIC for queue in pushing.assignment()) == 2:
                break
        sent = [b"%d" % number for number in range(100)]
        for body in sent:
            producer.send(Message(TOPIC, body))  # one by one: over all queues
        for _ in range(200):
            pulled += [message.body for message in pulling.poll(timeout=0.05)]
            if len(pulled) + len(seen.bodies) >= len(sent):
                break
        assert sorted(pulled + seen.bodies) == sorted(sent)
        assert pulled
        assert seen.bodies
        described = admin.describe_group("g")
        owners = [row["owner"] for row in described["queues"] if row["topic"] == TOPIC]
        assert sorted(set(owners)) == described["members"]
        assert len(described["members"]) == 2
        assert described["conflicts"] == []


def test_a_member_that_never_commits_gets_all_again_and_is_seen_to_be_behind(
    admin: Admin, producer: Producer, namesrv: str
) -> None:
    sent = fill(producer, TOPIC, 100)
    for _ in range(2):
        with PullConsumer("g", namesrv=namesrv, start_from=FIRST, auto_commit=False) as consumer:
            consumer.subscribe(TOPIC)
            got: list[bytes] = []
            while len(got) < 100:
                batch = consumer.poll(timeout=10)
                assert batch
                got += [message.body for message in batch]
            assert sorted(got) == sorted(sent)
            described = admin.describe_group("g")
            assert described["lag"] == 100
            assert {row["owner"] for row in described["queues"]} == set(described["members"])
            assert all(row["lag_seconds"] >= 0 for row in described["queues"])
