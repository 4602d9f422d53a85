"""Which queue a message goes to."""

from collections import Counter

import pytest

from zenitmq.client.sending.queue_choice import (
    choose_queue,
    interleave,
    lite_topic_queue,
    priority_queues,
    shard_layout,
    shard_queue,
)
from zenitmq.model.queue import MessageQueue
from zenitmq.model.route import BrokerData, QueueData, TopicRoute


def queues(**counts: int) -> list[MessageQueue]:
    return [MessageQueue("t", name, index) for name, count in counts.items() for index in range(count)]


def route(**counts: int) -> TopicRoute:
    return TopicRoute("t", tuple(QueueData(name, n, n, 6) for name, n in counts.items()), ())


def test_neighbours_lie_on_different_brokers() -> None:
    names = [queue.broker_name for queue in interleave(queues(a=3, b=2))]
    assert names == ["a", "b", "a", "b", "a"]


def test_every_queue_comes_in_turn() -> None:
    ring = interleave(queues(a=2, b=2))
    assert [choose_queue(ring, turn) for turn in range(4)] == ring
    assert choose_queue(ring, 4) == ring[0]


def test_failed_broker_is_avoided_while_there_is_another() -> None:
    ring = interleave(queues(a=2, b=2))
    assert {choose_queue(ring, turn, avoid="a").broker_name for turn in range(4)} == {"b"}
    alone = interleave(queues(a=2))
    assert choose_queue(alone, 1, avoid="a") == alone[1]


def test_unfit_brokers_come_last_but_come() -> None:
    ring = interleave(queues(a=1, b=1, c=1))
    assert choose_queue(ring, 0, fit=lambda name: name == "c").broker_name == "c"
    assert choose_queue(ring, 0, avoid="a", fit=lambda name: False).broker_name == "b"


@pytest.mark.parametrize(("priority", "numbers"), [(0, [0, 0]), (1, [1, 1]), (2, [2, 1]), (9, [3, 1])])
def test_a_priority_is_the_number_of_a_queue_or_the_last_one(priority: int, numbers: list[int]) -> None:
    chosen = priority_queues(interleave(queues(b=4, a=2))[::-1], priority)
    assert sorted((queue.broker_name, queue.queue_id) for queue in chosen) == [("a", numbers[1]), ("b", numbers[0])]


@pytest.mark.parametrize(
    ("key", "index"),
    [("a", 97 % 8), ("user-7", 3), ("polygenelubricants", 0)],  # the last one's hash is Integer.MIN_VALUE
)
def test_key_goes_where_rocketmqs_selector_by_hash_sends_it(key: str, index: int) -> None:
    layout = shard_layout(route(a=8))
    value = 0
    for unit in key.encode():
        value = (31 * value + unit) & 0xFFFFFFFF
    signed = value - (1 << 32) if value >> 31 else value
    assert shard_queue(layout, key).queue_id == abs(signed) % 8
    if key != "user-7":
        assert shard_queue(layout, key).queue_id == index


def test_keys_stay_when_a_broker_is_away() -> None:
    layout = shard_layout(route(a=2, b=2))
    assert shard_layout(route(a=2), layout) == layout
    assert shard_layout(route(), layout) == layout
    grown = shard_layout(route(a=2, b=4), layout)
    assert len(grown) == 6


def test_a_broker_that_is_there_has_no_more_queues_than_it_lists() -> None:
    """Its topic was made again with fewer, or is not to be written there any more; who is away keeps what it had."""
    layout = shard_layout(route(a=8, b=2))
    assert shard_layout(route(a=2, b=2), layout) == tuple(queues(a=2, b=2))
    assert shard_layout(route(a=2), layout) == tuple(queues(a=2, b=2))
    wiped = TopicRoute("t", (QueueData("a", 8, 8, 4), QueueData("b", 2, 2, 6)), ())
    assert shard_layout(wiped, layout) == tuple(queues(b=2))
    assert shard_layout(route(a=0), tuple(queues(a=8))) == ()


def test_layout_holds_queues_of_brokers_without_master_but_not_read_only_ones() -> None:
    away = TopicRoute("t", (QueueData("a", 2, 2, 6), QueueData("b", 2, 2, 4)), (BrokerData("c", "a", {1: "slave:1"}),))
    assert shard_layout(away) == (MessageQueue("t", "a", 0), MessageQueue("t", "a", 1))


def lite_layout(*brokers: str, queues: int = 2) -> list[MessageQueue]:
    return [MessageQueue("chats", broker, number) for broker in sorted(brokers) for number in range(queues)]


def test_lite_topics_are_spread_evenly_over_brokers_and_their_queues() -> None:
    names = [f"session-{number}" for number in range(6000)]
    counts = Counter(lite_topic_queue(lite_layout("a", "b", "c"), name) for name in names)
    assert set(counts) == set(lite_layout("a", "b", "c"))
    assert all(800 < count < 1200 for count in counts.values())


def test_a_broker_more_takes_its_share_of_lite_topics_and_moves_no_other() -> None:
    names = [f"session-{number}" for number in range(6000)]
    before = {name: lite_topic_queue(lite_layout("a", "b", "c"), name) for name in names}
    after = {name: lite_topic_queue(lite_layout("a", "b", "c", "d"), name) for name in names}
    moved = [name for name in names if after[name] != before[name]]
    assert {after[name].broker_name for name in moved} == {"d"}
    assert 1300 < len(moved) < 1700


def test_with_one_broker_a_lite_topic_has_one_of_its_queues() -> None:
    found = {lite_topic_queue(lite_layout("a", queues=4), f"s{number}") for number in range(100)}
    assert found == set(lite_layout("a", queues=4))
