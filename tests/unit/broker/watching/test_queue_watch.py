"""Watched queues: what is told to whom, and what is forgotten."""

import random

import pytest

from zenitmq.broker.watching.queue_watch import FORGET_MS, QueueWatches
from zenitmq.model.errors import BrokerBusy

A, B, C = ("t", 0), ("t", 1), ("u", 0)


@pytest.fixture
def watches() -> QueueWatches[str]:
    return QueueWatches(queues_max=100)


def test_an_arrival_is_told_once_to_each_that_watches(watches) -> None:
    for name in ("x", "y"):
        assert watches.follow(name, 1, 0)
        watches.add(name, A, is_ready=False)
        watches.add(name, B, is_ready=False)
    assert watches.park("x", "call", 100) is None
    assert watches.on_arrivals([A, C]) == ["x"]
    assert watches.unpark("x") == "call"
    assert [watches.take_ready(name, 9) for name in ("x", "y", "y")] == [[A], [A], []]
    assert watches.on_arrivals([A]) == []
    assert watches.count == 2


def test_what_is_ready_at_once_is_not_watched(watches) -> None:
    watches.follow("x", 1, 0)
    watches.add("x", A, is_ready=False)
    watches.add("x", A, is_ready=True)
    watches.add("x", B, is_ready=True)
    assert watches.count == 0
    assert watches.take_ready("x", 1) == [A]
    assert watches.take_ready("x", 1) == [B]


def test_a_request_that_did_not_come_is_missed(watches) -> None:
    assert not watches.follow("x", 2, 0)
    assert watches.follow("x", 1, 0)
    watches.add("x", A, is_ready=False)
    assert watches.follow("x", 2, 0)
    assert not watches.follow("x", 2, 0)
    assert not watches.follow("x", 4, 0)
    assert watches.follow("x", 1, 0), "it begins anew"
    assert watches.count == 0


def test_the_next_request_takes_the_place_of_the_one_that_waits(watches) -> None:
    watches.follow("x", 1, 0)
    assert watches.park("x", "one", 100) is None
    assert watches.park("x", "two", 200) == "one"
    assert watches.expired(150) == []
    assert watches.expired(200) == ["two"]
    assert watches.unpark("x") is None


def test_nobody_asks_and_it_is_forgotten(watches) -> None:
    watches.follow("x", 1, 0)
    watches.add("x", A, is_ready=False)
    watches.park("x", "one", FORGET_MS)
    assert watches.expired(FORGET_MS) == ["one"]
    assert watches.expired(2 * FORGET_MS - 1) == []
    assert watches.count == 1
    watches.expired(2 * FORGET_MS)
    assert (watches.count, watches.watches, watches.follow("x", 2, 0)) == (0, 0, False)


def test_limits() -> None:
    watches: QueueWatches[str] = QueueWatches(queues_max=1, watches_max=1)
    watches.follow("x", 1, 0)
    watches.add("x", A, is_ready=False)
    watches.add("x", A, is_ready=False)
    with pytest.raises(BrokerBusy):
        watches.add("x", B, is_ready=False)
    with pytest.raises(BrokerBusy):
        watches.follow("y", 1, 0)


def test_the_queues_of_a_deleted_topic_are_told(watches) -> None:
    watches.follow("x", 1, 0)
    for key in (A, B, C):
        watches.add("x", key, is_ready=False)
    watches.park("x", "call", 9)
    assert watches.on_topic_deleted("t") == ["x"]
    assert sorted(watches.take_ready("x", 9)) == [A, B]


def test_those_of_a_forgotten_watch_go_in_parts(watches) -> None:
    keys = [("t", number) for number in range(10)]
    watches.follow("x", 1, 0)
    for key in keys:
        watches.add("x", key, is_ready=False)
    watches.expired(FORGET_MS)
    assert watches.count == 0
    assert watches.clear(4)
    assert watches.on_arrivals(keys[:2]) == []
    watches.follow("x", 1, 0)
    watches.add("x", keys[1], is_ready=False)
    assert not watches.clear(100)
    assert watches.on_topic_deleted("t") == []
    assert watches.take_ready("x", 9) == [keys[1]], "the next watch of the same name has it"
    assert watches._watchers == {}


@pytest.mark.parametrize("seed", range(20))
def test_nothing_that_came_is_forgotten(seed: int) -> None:
    """Random consumers over random queues, against sets: each hears of each queue that it watches, and of no other."""
    chance = random.Random(seed)
    watches: QueueWatches[int] = QueueWatches(queues_max=10_000)
    queues = [(f"t{number % 3}", number) for number in range(20)]
    watched: dict[str, set[tuple[str, int]]] = {}
    due: dict[str, set[tuple[str, int]]] = {}
    numbers: dict[str, int] = {}
    for step in range(400):
        name = f"w{chance.randrange(4)}"
        if name not in numbers or chance.random() < 0.02:
            numbers[name] = 1
            assert watches.follow(name, 1, step)
            watched[name], due[name] = set(), set()
        if chance.random() < 0.5:
            numbers[name] += 1
            assert watches.follow(name, numbers[name], step)
            for key in chance.sample(queues, chance.randrange(5)):
                is_ready = chance.random() < 0.2
                watches.add(name, key, is_ready=is_ready)
                watched[name].discard(key)
                due[name].discard(key)
                (due if is_ready else watched)[name].add(key)
        else:
            came = chance.sample(queues, 3)
            watches.on_arrivals(came)
            for each, keys in watched.items():
                due[each] |= keys & set(came)
                keys -= set(came)
        if chance.random() < 0.2:
            key = chance.choice(queues)
            watches.remove(name, key)
            watched[name].discard(key)
            due[name].discard(key)
        if chance.random() < 0.2:
            watches.clear(2)
        if chance.random() < 0.3:
            told = watches.take_ready(name, chance.randrange(1, 6))
            assert set(told) <= due[name]
            due[name] -= set(told)
        assert watches.count == sum(map(len, watched.values()))
    for name, keys in due.items():
        assert set(watches.take_ready(name, 100)) == keys
    while watches.clear(100):
        pass
    watches.on_arrivals(queues)
    assert (watches.count, watches._watchers) == (0, {})
