"""Filters at a real broker: tags and conditions, on slaves too, and what a selective one leaves to others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest
from integration.broker.test_static_master import StaticGroup, await_that, in_sync, replication

from zenitmq.model.errors import InvalidParameter, SqlSyntaxError
from zenitmq.model.get_status import GetStatus
from zenitmq.model.properties import encode_properties
from zenitmq.model.tag_hash import java_hash
from zenitmq.record.kernel import encode_record
from zenitmq.remoting import commands

TOPIC = "trades"


def trade(number: int, region: str = "eu", tags: str = "buy") -> bytes:
    properties = {"TAGS": tags, "amount": str(number), "region": region}
    return encode_record(topic=TOPIC.encode(), body=b"%d" % number, properties=encode_properties(properties))


def pulled(broker: Any, *, until: int, **options: Any) -> list[int]:
    """The numbers of the messages that pass, by as many pulls as it takes to come so far."""
    offset, found = 0, []
    while offset < until:
        reply, messages = broker.pull(TOPIC, offset, **options)
        assert reply.next_offset > offset
        assert reply.count == len(messages)
        found += [int(message.body) for message in messages]
        offset = reply.next_offset
    return found


@pytest.mark.parametrize("suspend_ms", [0, 5000])
def test_a_condition_lets_pass_what_meets_it(broker: Any, suspend_ms: int) -> None:
    broker.create(TOPIC)
    for begin in range(0, 3000, 500):
        broker.send(TOPIC, *(trade(n, "eu" if n % 3 else "us") for n in range(begin, begin + 500)))
    wanted = "amount BETWEEN 700 AND 2000 AND region <> 'eu' OR amount = 2999"
    found = pulled(broker, until=3000, sql=wanted, suspend_ms=suspend_ms)
    assert found == [*(n for n in range(700, 2001) if n % 3 == 0), 2999]
    statistics = broker.ask(commands.GetBrokerStatistics())["pulls"]
    assert statistics["scanned"] >= 3000
    assert statistics["scan_us_max"] > 0


def test_a_condition_waits_for_a_message_that_meets_it(broker: Any) -> None:
    broker.create(TOPIC)
    broker.send(TOPIC, trade(1), trade(2))
    got: list[Any] = []
    reply, messages = broker.pull(TOPIC, 0, sql="amount > 100", suspend_ms=20_000)
    assert (reply.status, reply.next_offset, messages) == (GetStatus.NO_MATCHED_MESSAGE, 2, []), "told at once"
    puller = threading.Thread(target=lambda: got.append(broker.pull(TOPIC, 2, sql="amount > 100", suspend_ms=20_000)))
    puller.start()
    await_that(lambda: broker.ask(commands.GetBrokerStatistics())["pulls"]["parked"] == 1)
    broker.send(TOPIC, trade(3))
    broker.send(TOPIC, trade(400), trade(5))
    puller.join(20)
    ((reply, messages),) = got
    assert [message.body for message in messages] == [b"400"]
    assert reply.next_offset == 5


def test_at_its_time_a_pull_says_how_far_nothing_passed(broker: Any) -> None:
    broker.create(TOPIC)
    broker.send(TOPIC, *(trade(n) for n in range(100)))
    for suspend_ms in (300, 0):
        reply, messages = broker.pull(TOPIC, 0, sql="amount > 100", suspend_ms=suspend_ms)
        assert (reply.status, reply.next_offset, messages) == (GetStatus.NO_MATCHED_MESSAGE, 100, [])
    reply, messages = broker.pull(TOPIC, 100, sql="amount > 100", suspend_ms=300)
    assert (reply.status, reply.next_offset, messages) == (GetStatus.OFFSET_OVERFLOW_ONE, 100, [])


@pytest.mark.parametrize(
    ("sql", "position"),
    [("amount >", 9), ("amount > 'ten'", 10), ("abs(amount) > 5", 4), ("a = '\x00'", 5), ("(" * 100 + "a", 33)],
)
def test_a_broken_condition_is_refused_with_its_place(broker: Any, sql: str, position: int) -> None:
    broker.create(TOPIC)
    member = commands.Heartbeat("c", (), (("g", "CLUSTERING", ((TOPIC, "SQL92", sql),)),))
    for refused in (lambda: broker.pull(TOPIC, sql=sql), lambda: broker.call(member)):
        with pytest.raises(SqlSyntaxError) as raised:
            refused()
        assert raised.value.position == position
    assert broker.ask(commands.GetGroups())["groups"] == []


@pytest.mark.parametrize("size", [5_000, 900_000])
def test_a_huge_condition_is_refused(broker: Any, size: int) -> None:
    broker.create(TOPIC)
    with pytest.raises(SqlSyntaxError, match=f"{size} characters"):
        broker.pull(TOPIC, sql="a" * size)
    with pytest.raises(InvalidParameter, match="at most 4096"):
        broker.pull(TOPIC, tag_codes=tuple(range(5000)))


def test_a_selective_filter_leaves_the_loop_to_others(broker: Any) -> None:
    """While a slow condition looks through a long queue, plain pulls of another are answered between its turns."""
    broker.create(TOPIC)
    for begin in range(0, 20_000, 1000):
        broker.send(TOPIC, *(trade(n) for n in range(begin, begin + 1000)))
    broker.send(TOPIC, trade(7), queue_id=1)
    slow = " OR ".join(f"amount = {number} AND region = 'us'" for number in range(60))
    got: list[Any] = []
    puller = threading.Thread(target=lambda: got.append(broker.pull(TOPIC, 0, sql=slow, suspend_ms=30_000)))
    seen: set[int] = set()
    puller.start()
    while not seen or max(seen) < 20_000:
        assert len(broker.pull(TOPIC, 0, queue_id=1)[1]) == 1
        statistics = broker.ask(commands.GetBrokerStatistics())
        seen.add(statistics["pulls"]["scanned"])
    assert len(seen) > 10, "it was done in one go"
    puller.join(20)
    assert got[0][0].next_offset == 20_000


def test_a_selective_tag_is_looked_for_in_one_pull(serve: Callable[..., Any]) -> None:
    broker = serve(store={"pull_units_max": 100})
    broker.create(TOPIC)
    for begin in range(0, 3000, 500):
        broker.send(TOPIC, *(trade(n, tags="sell" if n == 2900 else "buy") for n in range(begin, begin + 500)))
    reply, messages = broker.pull(TOPIC, 0, tag_codes=(java_hash("sell"),), suspend_ms=5000)
    assert [message.body for message in messages] == [b"2900"]
    reply, messages = broker.pull(TOPIC, 0, tag_codes=(java_hash("sell"),))
    assert (reply.status, reply.next_offset, messages) == (GetStatus.NO_MATCHED_MESSAGE, 100, [])


def test_slaves_filter_as_their_master_does(serve: Callable[..., Any], record: Callable[..., bytes]) -> None:
    group = StaticGroup(serve, record)
    master, slave = group.serve("m"), group.serve("a")
    await_that(lambda: in_sync(group) == ("a", "m"))
    master.create(TOPIC)
    master.send(TOPIC, *(trade(n, tags="sell" if n % 10 == 3 else "buy") for n in range(200)))
    await_that(lambda: replication(slave)["confirm"] == replication(master)["written"])
    for broker in (master, slave):
        assert pulled(broker, until=200, sql="amount > 190", suspend_ms=1000) == list(range(191, 200))
        assert pulled(broker, until=200, tag_codes=(java_hash("sell"),)) == list(range(3, 200, 10))
    with pytest.raises(SqlSyntaxError):
        slave.pull(TOPIC, sql="amount >")


def member(client_id: str, kind: str, expression: str) -> commands.Heartbeat:
    return commands.Heartbeat(client_id, (), (("g", "CLUSTERING", ((TOPIC, kind, expression),)),))


def test_members_who_subscribe_differently_are_told(broker: Any, caplog: pytest.LogCaptureFixture) -> None:
    broker.create(TOPIC)
    caplog.set_level(logging.WARNING)
    assert broker.call(member("a", "TAG", "buy || sell"))[0].conflicts == ()
    assert broker.call(member("b", "TAG", "sell||buy"))[0].conflicts == ()
    assert "subscribe differently" not in caplog.text
    assert broker.call(member("c", "SQL92", "amount > 10"))[0].conflicts == (("g", TOPIC, "a"),)
    assert broker.call(member("a", "TAG", "buy || sell"))[0].conflicts == (("g", TOPIC, "c"),)
    assert caplog.text.count("members of a group subscribe differently group=g topic=trades") == 1
    (conflict,) = broker.ask(commands.GetConsumeStatistics("g"))["conflicts"]
    assert conflict == {
        "topic": TOPIC,
        "subscriptions": [
            {"kind": "TAG", "expression": "buy || sell", "members": ["a", "b"]},
            {"kind": "SQL92", "expression": "amount > 10", "members": ["c"]},
        ],
    }
    broker.call(commands.UnregisterClient("c"))
    assert broker.call(member("a", "TAG", "buy || sell"))[0].conflicts == ()
    assert broker.ask(commands.GetConsumeStatistics("g"))["conflicts"] == []


@pytest.mark.parametrize(("kind", "expression"), [("XPATH", "a"), ("TAG", "a\x00"), ("TAG", "a" * 20_000)])
def test_what_is_no_subscription_is_refused(broker: Any, kind: str, expression: str) -> None:
    with pytest.raises(InvalidParameter):
        broker.call(member("a", kind, expression))
