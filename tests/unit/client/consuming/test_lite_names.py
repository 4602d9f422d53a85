"""What brokers are told of the lite topics that a consumer wants: against a broker that obeys, forgets and evicts."""

from __future__ import annotations

import random

import pytest

from zenitmq.client.consuming.lite.lite_names import NAMES_MAX, LiteChange, LiteNames
from zenitmq.client.consuming.simple.division import PopTarget

ONE = PopTarget("chats", "broker-a")
TWO = PopTarget("chats", "broker-b")


class Broker:
    """`names`: None = it does not know the consumer."""

    def __init__(self) -> None:
        self.names: set[str] | None = None
        self.version = self.evictions = 0
        self.evicted: dict[str, int] = {}

    def told(self, change: LiteChange) -> bool:
        if change.action != "all" and (self.names is None or self.version not in (change.before, change.version)):
            return False
        if change.action == "all":
            self.names, self.evicted = set(change.names), {}
        elif change.action == "add":
            assert self.names is not None
            self.names |= set(change.names)
        else:
            assert self.names is not None
            self.names -= set(change.names)
        for name in change.names:
            self.evicted.pop(name, None)
        self.version = change.version
        return True

    def forget(self) -> None:
        self.names, self.version, self.evictions, self.evicted = None, 0, 0, {}

    def evict(self, name: str) -> None:
        if self.names is not None and name in self.names:
            self.names.remove(name)
            self.evictions += 1
            self.evicted[name] = self.evictions


def tell(wanted: LiteNames, target: PopTarget, broker: Broker) -> list[LiteChange]:
    told = []
    while (change := wanted.next_change(target)) is not None:
        told.append(change)
        wanted.on_answer(target, change, is_known=broker.told(change))
    return told


def test_only_changes_travel() -> None:
    wanted, broker = LiteNames(), Broker()
    wanted.keep([ONE])
    assert wanted.add("chats", ["a", "b", "a"]) == ["a", "b"]
    assert [change.action for change in tell(wanted, ONE, broker)] == ["all"]
    assert wanted.add("chats", ["b", "c"]) == ["c"]
    wanted.remove("chats", ["a"])
    assert [(change.action, change.names) for change in tell(wanted, ONE, broker)] == [
        ("add", ("c",)),
        ("remove", ("a",)),
    ]
    assert broker.names == {"b", "c"} == wanted.subscription()["chats"]
    assert tell(wanted, ONE, broker) == []


def test_many_names_travel_in_several_changes() -> None:
    wanted, broker = LiteNames(), Broker()
    names = [f"s-{number}" for number in range(2 * NAMES_MAX + 1)]
    wanted.add("chats", names)
    wanted.keep([ONE])
    assert [(change.action, len(change.names)) for change in tell(wanted, ONE, broker)] == [
        ("all", NAMES_MAX),
        ("add", NAMES_MAX),
        ("add", 1),
    ]
    assert broker.names == set(names)


def test_a_change_whose_answer_is_lost_is_sent_again_and_counts_once() -> None:
    wanted, broker = LiteNames(), Broker()
    wanted.keep([ONE])
    wanted.add("chats", ["a"])
    tell(wanted, ONE, broker)
    wanted.add("chats", ["b"])
    change = wanted.next_change(ONE)
    assert change is not None
    assert wanted.next_change(ONE) is None
    assert broker.told(change)
    wanted.on_failure(ONE, change)
    assert wanted.next_change(ONE) is change
    wanted.on_answer(ONE, change, is_known=broker.told(change))
    assert wanted.confirmed(ONE) == (change.version, 0)
    assert broker.names == {"a", "b"}


def test_a_refused_change_is_not_sent_again() -> None:
    wanted, broker = LiteNames(), Broker()
    wanted.keep([ONE])
    wanted.add("chats", ["a"])
    tell(wanted, ONE, broker)
    wanted.add("chats", ["b"])
    change = wanted.next_change(ONE)
    assert change is not None
    wanted.on_refused(ONE, change)
    wanted.remove("chats", ["b"])
    tell(wanted, ONE, broker)
    assert broker.names == {"a"}


def test_who_is_evicted_wants_it_no_more_anywhere() -> None:
    wanted, one, two = LiteNames(), Broker(), Broker()
    wanted.keep([ONE, TWO])
    wanted.add("chats", ["a", "b"])
    tell(wanted, ONE, one)
    tell(wanted, TWO, two)
    one.evict("a")
    assert wanted.on_evicted(ONE, ["a"], 1) == ["a"]
    assert wanted.on_evicted(ONE, ["a"], 1) == []
    assert wanted.confirmed(ONE)[1] == 1
    tell(wanted, TWO, two)
    assert (one.names, two.names, wanted.subscription()["chats"]) == ({"b"}, {"b"}, {"b"})


@pytest.mark.parametrize("seed", range(300))
def test_brokers_come_to_know_what_is_wanted(seed: int) -> None:
    random_ = random.Random(seed)
    wanted, brokers = LiteNames(), {ONE: Broker(), TWO: Broker()}
    expected: set[str] = set()
    here: list[PopTarget] = []
    under_way: dict[PopTarget, LiteChange] = {}
    for _ in range(60):
        name = random_.choice("abcdef")
        target = random_.choice([ONE, TWO])
        match random_.randrange(9):
            case 0 | 1:
                wanted.add("chats", [name])
                expected.add(name)
            case 2:
                wanted.remove("chats", [name])
                expected.discard(name)
            case 3:
                wanted.keep(here := random_.choice([[ONE], [ONE, TWO], [TWO], []]))
                under_way = {target: change for target, change in under_way.items() if target in here}
            case 4 | 5:
                change = wanted.next_change(target)
                if change is not None:
                    assert target not in under_way
                    under_way[target] = change
            case 6 if target in under_way:
                change = under_way.pop(target)
                is_known = brokers[target].told(change) if random_.random() < 0.7 else None
                if is_known is None or random_.random() < 0.3:
                    wanted.on_failure(target, change)
                else:
                    wanted.on_answer(target, change, is_known=is_known)
            case 7:
                brokers[target].forget()
            case 8:
                version, heard = wanted.confirmed(target)
                broker = brokers[target]
                if version and (broker.names is None or broker.version < version):
                    wanted.on_unknown(target)
                elif version and target not in under_way:
                    broker.evict(name)
                    lost = wanted.on_evicted(
                        target, [one for one, at in broker.evicted.items() if at > heard], broker.evictions
                    )
                    expected -= set(lost)
    wanted.keep([ONE, TWO])
    for target, broker in brokers.items():
        if target in under_way:
            wanted.on_failure(target, under_way[target])
        tell(wanted, target, broker)
        if broker.names is None or broker.version < wanted.confirmed(target)[0]:
            wanted.on_unknown(target)
            tell(wanted, target, broker)
        assert broker.names == expected
    assert wanted.subscription().get("chats", frozenset()) == expected
